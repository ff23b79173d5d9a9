-- scripts/commands/model.lua - /model [NAME]: which model answers from the next request on.
local models = require "terret.models"

return {
  description = "shows the model; with a name: uses that one from now on",
  run = function(ctx, args)
    local agent, cfg = ctx.agent, ctx.cfg
    if args == "" then return "the model is " .. cfg.model end
    if args:find("%s") then return "a model's name is one word: /model NAME" end
    local info = models.find(args, cfg.models)
    if cfg.limits and cfg.limits.cost and not info.price then
      return ("the price of '%s' is unknown, and --max-cost is set"):format(args)
    end
    cfg.model = args
    if cfg.window then info.window = cfg.window end
    agent.model_info, agent.max_output = info, cfg.max_output or info.max_output
    return ("the model is %s from now on; the new one has none of the old one's cache"):format(args)
  end,
}

-- scripts/commands/cost.lua - /cost: tokens and money of this run.
local render = require "terret.render"

return {
  description = "tokens and money of this run",
  anytime = true,
  run = function(ctx)
    local spent, usage = ctx.agent.budget.spent, ctx.agent.budget.usage
    local cost = (ctx.agent.model_info.price or spent.cost > 0) and spent.cost or nil
    return ("%d requests · %s%s"):format(spent.steps, render.usage { input = usage.input, cached = usage.cached,
      output = usage.output, cost = cost }, cost and "" or " · the model's price is unknown")
  end,
}

-- scripts/commands/loop.lua - /loop [NAME|FILE]: the agent loop, from the next request on.  While a turn runs, the
-- new loop takes over between two steps, with the same agent.
local registry = require "terret.registry"
local setup = require "terret.setup"

return {
  description = "lists the loops; with a name or a file: uses that one from the next step on",
  anytime = true,
  run = function(ctx, args)
    if args == "" then
      return ("the loop is %s; there are: %s"):format(ctx.cfg.loop or "react",
        table.concat(registry.names("loops"), ", "))
    end
    local loop, message = setup.loop(args)
    if not loop then return message end
    ctx.agent.loop, ctx.cfg.loop = loop, args
    return ("the loop is %s from the next step on"):format(args)
  end,
}

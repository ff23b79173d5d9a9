-- scripts/commands/loop.lua - /loop [NAME|FILE]: the agent loop of the next turns.
local registry = require "terret.registry"
local setup = require "terret.setup"

return {
  description = "lists the loops; with a name or a file: uses that one from the next turn on",
  run = function(ctx, args)
    if args == "" then
      return ("the loop is %s; there are: %s"):format(ctx.cfg.loop or "react",
        table.concat(registry.names("loops"), ", "))
    end
    local loop, message = setup.loop(args)
    if not loop then return message end
    ctx.agent.loop, ctx.cfg.loop = loop, args
    return ("the loop is %s from the next turn on"):format(args)
  end,
}

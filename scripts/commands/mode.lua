-- scripts/commands/mode.lua - /mode [ask|auto|plan|yolo]: who is asked before a call runs.
local MODES = { ask = "follows the rules and asks you", auto = "runs what stays inside the sandbox without asking",
  plan = "reads only, changes nothing", yolo = "never asks; deny rules and the sandbox stay" }
local ORDER = { "ask", "auto", "plan", "yolo" }

return {
  description = "shows the permission mode; with a name: uses that one from now on",
  anytime = true,
  run = function(ctx, args)
    if args == "" then
      local lines = {}
      for i, name in ipairs(ORDER) do
        lines[i] = ("%s %-5s %s"):format(name == ctx.cfg.mode and ">" or " ", name, MODES[name])
      end
      return table.concat(lines, "\n")
    end
    if not MODES[args] then return ("no mode '%s'; there are: %s"):format(args, table.concat(ORDER, ", ")) end
    ctx.agent.permissions:set_mode(args)
    ctx.cfg.mode = args
    return ("mode %s: %s"):format(args, MODES[args])
  end,
}

-- scripts/session/by_number.lua - the arguments that /drop, /pin and /unpin share: N, N-M or "undo".
local hand = require "terret.session.hand"

---@param ctx table of a slash command
---@param args string
---@param name string of the command
---@param act fun(session: terret.session, from: integer, to: integer): string?, string?
---@return string
return function(ctx, args, name, act)
  local session = ctx.agent.session
  if args == "undo" then
    local id, message = hand.undo(session)
    return id and ("taken back (record %d)"):format(id) or message
  end
  local from, to = args:match("^(%d+)%s*%-%s*(%d+)$")
  from = from or args:match("^%d+$")
  if not from or #from > 9 or #(to or "") > 9 then
    return ("/%s N or /%s N-M: the numbers are those of /context; /%s undo takes the last one back"):format(name, name,
      name)
  end
  local done, message = act(session, math.tointeger(from), math.tointeger(to or from))
  return done or message
end

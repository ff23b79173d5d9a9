-- scripts/commands/rewind.lua - /rewind [N]: back to before one of the user's messages.  Nothing is erased, and
-- files stay as they are: only the conversation goes back.
local render = require "terret.render"
local session_mod = require "terret.session"
local text = require "terret.text"

local SHOWN = 20

local function last_words(content)
  return render.line(text.cut((content or ""):match("([^\n]*%S[^\n]*)%s*$") or "", 70))
end

-- The user's messages, newest first.
local function messages(session)
  local list = {}
  for i = #session.entries, 1, -1 do
    local e = session.entries[i]
    if e.role == "user" and e.kind ~= "summary" then list[#list + 1] = e end
  end
  return list
end

local function record_before(session, id)
  for _, r in ipairs(session_mod.read(session.log:path()) or {}) do
    if r.id == id then return r.parent end
  end
end

return {
  description = "lists your messages; with a number: back to before that one (files stay)",
  run = function(ctx, args)
    local session = ctx.agent.session
    local list, lines = messages(session), {}
    if #list == 0 then return "nothing was said yet" end
    if args == "" then
      for i = math.min(SHOWN, #list), 1, -1 do
        lines[#lines + 1] = ("  %2d  %s"):format(i, last_words(list[i].content))
      end
      return table.concat(lines, "\n") .. "\n/rewind N goes back to before message N"
    end
    local entry = list[math.tointeger(tonumber(args)) or 0]
    if not entry then return ("there is no message %s; /rewind lists them"):format(args) end
    local before = record_before(session, entry.id)
    if not before then return "that message is no record of its own any more" end
    local ok, message = session:rewind(before)
    if not ok then return "can't rewind: " .. message end
    ctx.agent.pending = {}
    return "back to before: " .. last_words(entry.content)
  end,
}

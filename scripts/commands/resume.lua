-- scripts/commands/resume.lua - /resume: the last sessions of this project and how to go on with one.
local json = require "terret.json"
local log = require "terret.log"
local render = require "terret.render"
local session = require "terret.session"
local text = require "terret.text"

local SHOWN = 10
local LOOK = 20 -- records that are read for the first words

-- The user's first words; AGENTS.md and the skills stand before them in the same message.
local function first_words(dir)
  local reader = log.read(dir .. "/log.jsonl")
  if not reader then return "(can't be read)" end
  local words = "(nothing was said)"
  for _ = 1, LOOK do
    local line = reader:next()
    local r = line and json.decode(line)
    if not line then break end
    if type(r) == "table" and r.type == "message" and r.role == "user" and type(r.content) == "string" then
      words = r.content:match("([^\n]*%S[^\n]*)%s*$") or words
      break
    end
  end
  reader:close()
  return render.line(text.cut(words, 60))
end

return {
  description = "lists the last sessions of this project",
  anytime = true,
  run = function(ctx)
    local lines, list = {}, session.list(ctx.cfg.state_dir, ctx.cfg.project)
    for i = 1, math.min(SHOWN, #list) do
      local here = list[i].id == ctx.agent.session.id and "  (this one)" or ""
      lines[i] = ("  %s  %s%s"):format(list[i].id, first_words(list[i].dir), here)
    end
    if #lines == 0 then return "there are no sessions of this project" end
    if #list > SHOWN then lines[#lines + 1] = ("  and %d older ones"):format(#list - SHOWN) end
    return table.concat(lines, "\n") .. "\nterret -r ID goes on with one, terret -c with the last"
  end,
}

-- scripts/commands/context.lua - /context [all]: what fills the context, and the numbers that /drop and /pin take.
local context = require "terret.context"
local hand = require "terret.session.hand"
local render = require "terret.render"

local SHOWN = 12

-- A message on one line.
local function row(e, ratio)
  local what = e.role == "tool" and (e.name or "result") .. (e.path and " " .. e.path or "")
    or e.kind == "summary" and "summary" or e.role
  local words = e.role == "user" and (e.content or ""):match("([^\n]*%S[^\n]*)%s*$") or nil
  local marks = (e.pinned and " pinned" or "") .. (e.stub and " stub" or "")
  return ("  %5d  %-28s %8s%s%s"):format(e.id, render.truncate(render.line(what), 28), render.count(e.tokens * ratio),
    marks, words and "  " .. render.truncate(render.line(words), 40) or "")
end

-- The largest messages, or all, in their order.
local function messages(agent, all)
  local list = hand.list(agent.session)
  local largest = table.move(list, 1, #list, 1, {})
  table.sort(largest, function(a, b)
    if a.tokens ~= b.tokens then return a.tokens > b.tokens end
    return a.id < b.id
  end)
  local chosen = {}
  for i = 1, all and #largest or math.min(SHOWN, #largest) do chosen[largest[i]] = true end
  local lines = {}
  for _, e in ipairs(list) do
    if chosen[e] then lines[#lines + 1] = row(e, agent.ratio) end
  end
  if #lines < #list then lines[#lines + 1] = ("  (the %d largest of %d; /context all)"):format(#lines, #list) end
  return lines
end

return {
  description = "what fills the model's context; /context all lists every message",
  anytime = true,
  run = function(ctx, args)
    local agent = ctx.agent
    local size, window = context.size(agent), agent.model_info.window
    local tokens, count = {}, {}
    for _, e in ipairs(agent.session.entries) do
      tokens[e.role] = (tokens[e.role] or 0) + e.tokens * agent.ratio
      count[e.role] = (count[e.role] or 0) + 1
    end
    local lines = { ("%s of %s tokens (%d%%), estimated; profile %s"):format(render.count(size), render.count(window),
      math.floor(100 * size / window + 0.5), agent.cfg.context or "eco") }
    local function total(name, n, of)
      lines[#lines + 1] = ("  %-18s %8s%s"):format(name, render.count(n), of and ("  %d"):format(of) or "")
    end
    total("tools", agent.fixed_tokens * agent.ratio)
    for _, role in ipairs { "system", "user", "assistant", "tool" } do
      if count[role] then total(role .. " messages", tokens[role], count[role]) end
    end
    local rows = messages(agent, args == "all")
    table.move(rows, 1, #rows, #lines + 1, lines)
    return table.concat(lines, "\n")
  end,
}

-- scripts/commands/context.lua - /context: what fills the context.
local context = require "terret.context"
local render = require "terret.render"

return {
  description = "what fills the model's context",
  anytime = true,
  run = function(ctx)
    local agent = ctx.agent
    local size, window = context.size(agent), agent.model_info.window
    local tokens, count = {}, {}
    for _, e in ipairs(agent.session.entries) do
      tokens[e.role] = (tokens[e.role] or 0) + agent.session.store:tokens(e.n) * agent.ratio
      count[e.role] = (count[e.role] or 0) + 1
    end
    local lines = { ("%s of %s tokens (%d%%), estimated"):format(render.count(size), render.count(window),
      math.floor(100 * size / window + 0.5)) }
    local function row(name, n, messages)
      lines[#lines + 1] = ("  %-18s %8s%s"):format(name, render.count(n), messages and ("  %d"):format(messages) or "")
    end
    row("tools", agent.fixed_tokens * agent.ratio)
    for _, role in ipairs { "system", "user", "assistant", "tool" } do
      if count[role] then row(role .. " messages", tokens[role], count[role]) end
    end
    return table.concat(lines, "\n")
  end,
}

-- scripts/commands/todo.lua - /todo: the model's list of steps.
local MARKS = { pending = "[ ]", in_progress = "[>]", done = "[x]" }

return {
  description = "the model's list of steps",
  anytime = true,
  run = function(ctx)
    local lines = {}
    for i, item in ipairs(ctx.agent.session.todos or {}) do
      lines[i] = ("%s %s"):format(MARKS[item.status] or "[?]", tostring(item.text))
    end
    return #lines > 0 and table.concat(lines, "\n") or "the list is empty"
  end,
}

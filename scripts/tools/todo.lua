-- scripts/tools/todo.lua - the tool `todo`: the list of steps, replaced as a whole.
local text = require "terret.text"

local MAX_ITEMS = 100
local MAX_BYTES = 500
local MARKS = { pending = "[ ]", in_progress = "[>]", done = "[x]" }

local function run(args, call)
  if #args.items > MAX_ITEMS then return nil, ("a list has at most %d items"):format(MAX_ITEMS) end
  local items, lines, done = {}, {}, 0
  for i, item in ipairs(args.items) do
    local words = text.clean(item.text):gsub("%s+", " ")
    items[i] = { text = text.cut(words, MAX_BYTES), status = item.status or "pending" }
    lines[i] = ("%s %s"):format(MARKS[items[i].status], items[i].text)
    if items[i].status == "done" then done = done + 1 end
  end
  if call.session then
    local ok, message, code = call.session:set_todos(items)
    if ok == nil and message then return nil, message, code end
  end
  if #items == 0 then return "the list is empty" end
  return ("%d of %d done\n%s"):format(done, #items, table.concat(lines, "\n")), { items = items }
end

return {
  name = "todo",
  description = "Keeps the list of steps of a longer task; each call gives the whole list. Have one item in_progress.",
  permission = "none",
  parameters = {
    items = { "array", "all steps, in order", items = {
      text = { "string", "the step" },
      status = { "string?", "pending if not given", enum = { "pending", "in_progress", "done" } },
    } },
  },
  run = run,
}

-- scripts/context/summary.lua - the words of a compaction: what the model is asked, what stays verbatim, and the
-- message that stands for everything before the tail.
--
-- Kept word for word: the first words of the user, the newest of the others, what is pinned, and the working
-- set (the latest read of the files that were touched last).  The rest is in the model's summary.

local text = require "terret.text"

local M = {}

M.user_text = 12000 -- bytes of the user's own words that stay; what is pinned isn't counted
M.paths = 60 -- names in each list of files

---The question, asked behind the live prefix.
M.ask = [[
The conversation has become long and will be continued from a summary. Write that summary now, for yourself:
the task and the user's wishes, what was done and found, decisions and their reasons, files that matter and what
is in them, what failed and why, what is left to do. Facts, names and numbers exactly. No tool calls. At most
700 words.]]

local CHANGES = { write = true, edit = true }

-- The user's words before an entry; first: what the conversation began with, which is kept whole.
local function users_words(entries, before)
  local first, list = nil, {}
  for i = 2, before - 1 do
    local e = entries[i]
    if e.kind == "summary" then
      first = e.first
      table.move(e.words, 1, #e.words, #list + 1, list)
    elseif e.role == "user" and not first then
      first = e.content
    elseif e.role == "user" and not e.pinned then
      list[#list + 1] = e.content
    end
  end
  local kept, size = {}, 0
  for i = #list, 1, -1 do
    size = size + #list[i]
    if size > M.user_text then
      if #kept == 0 then kept[1] = text.cut(list[i], M.user_text) end
      break
    end
    table.insert(kept, 1, list[i])
  end
  return first, kept
end

-- A list of names, each once, the newest last.
local function add_path(list, path)
  for i, known in ipairs(list) do
    if known == path then table.remove(list, i) end
  end
  list[#list + 1] = path
  if #list > M.paths then table.remove(list, 1) end
end

-- Files that were read and changed before an entry, those of an earlier summary too.
local function files_of(entries, before)
  local files = { read = {}, changed = {} }
  for i = 2, before - 1 do
    local e = entries[i]
    for _, kind in ipairs { "read", "changed" } do
      for _, path in ipairs(e.files and e.files[kind] or {}) do add_path(files[kind], path) end
    end
    for _, call in ipairs(e.calls or {}) do
      if call.path then add_path(CHANGES[call.name] and files.changed or files.read, call.path) end
    end
  end
  return files
end

-- What is pinned before an entry: messages, and what an earlier compaction carried on.
local function pins_of(entries, before, said)
  local pins = {}
  for i = 2, before - 1 do
    local e = entries[i]
    for _, pin in ipairs(e.pins or {}) do pins[#pins + 1] = pin end
    if e.pinned and e.kind ~= "summary" and i > 2 and said[e.id] then
      pins[#pins + 1] = { id = e.id, role = e.role, name = e.name, content = said[e.id] }
    end
  end
  return pins
end

---What a summary says when no model could write one.
---@param entries table[]
---@param before integer
---@param said table<integer, string> contents of records
---@return string
function M.structural(entries, before, said)
  local done, failed = {}, nil
  for i = 2, math.min(before - 1, #entries) do
    for _, call in ipairs(entries[i].calls or {}) do done[#done + 1] = call.name end
    failed = entries[i].failed and entries[i] or failed
  end
  local last = failed and said[failed.id]
  return ("(no summary could be made; so far %d tools were called: %s)%s"):format(#done,
    text.cut(table.concat(done, ", "), 500), last and "\nThe last failure: " .. text.cut(last, 500) or "")
end

---Ids of the records whose contents `compose` and `structural` need.
---@param entries table[]
---@param before integer
---@param set table[]
---@return table<integer, boolean>
function M.wanted(entries, before, set)
  local wanted = {}
  for i = 2, math.min(before - 1, #entries) do
    local e = entries[i]
    if e.pinned or e.failed then wanted[e.id] = true end
  end
  for _, e in ipairs(set) do wanted[e.id] = true end
  return wanted
end

-- Whether a file was changed behind an entry.
local function changed_since(entries, e)
  local behind = false
  for _, x in ipairs(entries) do
    for _, call in ipairs(behind and x.calls or {}) do
      if CHANGES[call.name] and call.path == e.read then return true end
    end
    behind = behind or x == e
  end
  return false
end

local function section(tag, body) return ("<%s>\n%s\n</%s>"):format(tag, body, tag:match("^%S+")) end

local MARKS = { done = "[x]", in_progress = "[>]" }

-- The list of steps as it is now: the call that made it goes.
local function steps(todos)
  local lines = {}
  for i, item in ipairs(todos or {}) do lines[i] = ("%s %s"):format(MARKS[item.status] or "[ ]", item.text) end
  return #lines > 0 and section("todo", table.concat(lines, "\n")) or nil
end

---The record of a compaction: the entries from `before` on stay behind it.
---@param entries table[]
---@param before integer
---@param options {summary: string, said: table<integer, string>, set: table[], todos: table[]?}
---@return table record
function M.compose(entries, before, options)
  local first, words = users_words(entries, before)
  local files, pins = files_of(entries, before), pins_of(entries, before, options.said)
  local parts = { first }
  table.move(words, 1, #words, #parts + 1, parts)
  for _, pin in ipairs(pins) do
    parts[#parts + 1] = section(("pinned role=\"%s\""):format(pin.role), pin.content)
  end
  parts[#parts + 1] = section("summary of the conversation so far", options.summary)
  if #files.read > 0 then parts[#parts + 1] = "Files read: " .. table.concat(files.read, ", ") end
  if #files.changed > 0 then parts[#parts + 1] = "Files changed: " .. table.concat(files.changed, ", ") end
  parts[#parts + 1] = steps(options.todos)
  for _, e in ipairs(options.set) do
    local note = changed_since(entries, e) and " (as it was read; changed since)" or " (as it was read)"
    if options.said[e.id] then parts[#parts + 1] = section("file " .. e.read .. note, options.said[e.id]) end
  end
  local from = entries[before]
  local any = #files.read + #files.changed > 0
  return { type = "compaction", content = table.concat(parts, "\n\n"), first = first,
    words = #words > 0 and words or nil, files = any and files or nil, pins = #pins > 0 and pins or nil,
    from = from and from.id }
end

return M

-- scripts/view.lua - what the model sees, as a pure function of the records of one branch.
--
-- It never fails and it is always a conversation that an endpoint takes, whatever the records say:
-- no two user messages in a row, each call has one result right behind it, no result lacks its
-- call.  A damaged or half-written log gives a shorter view, not a broken one.
--
-- The state lies in the session: store, view, entries (parallel to the view), open (calls that have
-- no result yet), todos, state, header, last.

local json = require "terret.json"
local store = require "terret.store"
local tokens = require "terret.tokens"

local M = {}

local LOST = "the result of this call is lost"

-- The path that a call names, whatever the tool is.
local function path_of(call)
  local raw = type(call.arguments) == "string" and json.slice(call.arguments, "path")
  local path = raw and json.decode(raw)
  return type(path) == "string" and path or nil
end

-- Entries --------------------------------------------------------------------------------------

-- Encodes a message into the store; not yet in the view.  Some dialects ask what stands before it.
local function entry(self, id, message, after)
  local last = self.entries[#self.entries]
  local fragment = self.encode(message, after or last and last.role or nil)
  local calls
  for i, call in ipairs(message.tool_calls or {}) do
    calls = calls or {}
    calls[i] = { id = call.id, name = call.name, path = path_of(call) }
  end
  local count = tokens.estimate(fragment)
  return { id = id, n = self.store:add(fragment, count), tokens = count, role = message.role,
    kind = message.kind, call_id = message.call_id, name = message.name, blob = message.blob, calls = calls,
    size = #(message.content or ""), content = message.role == "user" and message.content or nil,
    failed = message.ok == false or nil, first = message.first, words = message.words, files = message.files,
    pins = message.pins }
end

local function push(self, e)
  self.view:push(e.n)
  self.entries[#self.entries + 1] = e
  for _, call in ipairs(e.calls or {}) do
    self.open[#self.open + 1] = { id = call.id, name = call.name, path = call.path, entry = e.id }
  end
end

-- Takes the last entry back out.
local function pop(self)
  local list = self.view:list()
  list[#list] = nil
  self.view:replace(list)
  self.entries[#self.entries] = nil
end

-- Takes a call out of the open ones; nil: there is none of that id.
local function close_call(open, id)
  for i, call in ipairs(open) do
    if call.id == id then return table.remove(open, i) end
  end
end

-- Two neighbouring user messages as one; strict endpoints refuse two in a row.
local function merge(self, a, content)
  local words = a.words and table.move(a.words, 1, #a.words, 1, {})
  if words then words[#words + 1] = content end
  local e = entry(self, a.id, { role = "user", kind = a.kind, content = a.content .. "\n\n" .. content,
    first = a.first, words = words, files = a.files, pins = a.pins })
  e.pinned = a.pinned
  return e
end

-- The view anew from a list of entries.
local function arrange(self, list)
  self.entries, self.open = {}, {}
  self.epoch = self.epoch + 1
  self.view:replace {}
  for _, e in ipairs(list) do
    local last = self.entries[#self.entries]
    if e.role == "user" and last and last.role == "user" then
      pop(self)
      local pinned = e.pinned
      e = merge(self, last, e.content)
      e.pinned = e.pinned or pinned
    end
    if e.role ~= "tool" or close_call(self.open, e.call_id) then push(self, e) end
  end
end

-- Records --------------------------------------------------------------------------------------

local apply = {}

---Types of records that can be taken back.
M.undoable = { batch = true, compaction = true, pin = true, undo = true }

function apply.session(self, r)
  self.header = r
  push(self, entry(self, r.id, { role = "system", content = r.system }))
end

function apply.message(self, r)
  if r.role == "tool" then
    local call = close_call(self.open, r.call_id)
    if not call then return end
    local e = entry(self, r.id, r)
    e.touched, e.read = call.path, call.name == "read" and call.path or nil
    push(self, e)
    return
  end
  local open = self.open
  self.open = {}
  for _, call in ipairs(open) do
    push(self, entry(self, call.entry, { role = "tool", call_id = call.id, name = call.name, content = LOST }))
  end
  local last = self.entries[#self.entries]
  if r.role == "user" and last and last.role == "user" then
    pop(self)
    push(self, merge(self, last, r.content))
  else
    push(self, entry(self, r.id, r))
  end
end

function apply.batch(self, r)
  local text, gone, list = {}, {}, {}
  for _, x in ipairs(r.replace or {}) do text[x.id] = x.content end
  for _, id in ipairs(r.drop or {}) do gone[id] = true end
  for _, e in ipairs(self.entries) do
    if text[e.id] and e.role == "tool" then
      -- A new entry: a fork may share the old one.
      local old = e
      e = entry(self, e.id, { role = e.role, call_id = e.call_id, name = e.name, blob = e.blob, content = text[e.id] })
      e.stub, e.failed, e.touched, e.read, e.pinned = true, old.failed, old.touched, old.read, old.pinned
    end
    if not gone[e.id] then list[#list + 1] = e end
  end
  arrange(self, list)
end

-- The entries from the one of id r.from stay; by position, since a summary is younger than the
-- messages that stand behind it.
function apply.compaction(self, r)
  local list = { self.entries[1], entry(self, r.id, { role = "user", kind = "summary", content = r.content,
    first = r.first, words = r.words or {}, files = r.files, pins = r.pins }, "system") }
  local kept = false
  for i = 2, #self.entries do
    kept = kept or self.entries[i].id == r.from
    if kept then list[#list + 1] = self.entries[i] end
  end
  arrange(self, list)
end

-- The view's bytes stay; what is pinned is passed over by strip, drop and compaction.
function apply.pin(self, r)
  local wanted = {}
  for _, id in ipairs(r.ids or {}) do wanted[id] = true end
  for i, e in ipairs(self.entries) do
    if wanted[e.id] then
      local copy = {} -- a fork may share the old one
      for key, value in pairs(e) do copy[key] = value end
      copy.pinned = r.on ~= false or nil
      self.entries[i] = copy
    end
  end
end

function apply.todos(self, r) self.todos = r.items end

-- Small facts that must be the same after a resume (what a note last said, and the like).
function apply.state(self, r) self.state[r.key] = r.value end

---@param self terret.session
function M.reset(self)
  self.store = store.new()
  self.view = self.store:view()
  self.entries, self.open, self.todos, self.state, self.last = {}, {}, {}, {}, nil
  self.epoch = (self.epoch or 0) + 1 -- counts what was more than appending
end

---@param self terret.session
---@param record table
function M.apply(self, record)
  self.last = record.id
  if apply[record.type] then apply[record.type](self, record) end
end

---The records from the root to a leaf, in order.  A rewind stands for its target; where a parent
---is missing or makes a circle (a damaged log) the record before it in the file takes its place.
---What a later undo takes back is left out, unless that was taken back too.
---@param records table[]
---@param leaf integer? default: the last record
---@param all boolean? also what was taken back
---@return table[]
function M.branch(records, leaf, all)
  local by_id, before, chain = {}, {}, {}
  for i, r in ipairs(records) do by_id[r.id], before[r] = r, records[i - 1] end
  local r = leaf and by_id[leaf] or not leaf and records[#records] or nil
  local undone = {}
  while r do
    local up
    if r.type == "rewind" then
      up = by_id[r.to]
    else
      if all or not (undone[r.id] and M.undoable[r.type]) then
        chain[#chain + 1] = r
        if r.type == "undo" and math.type(r.of) == "integer" then undone[r.of] = true end
      end
      up = by_id[r.parent]
      if r.parent and not (up and up.id < r.id) then up = before[r] end
    end
    r = up and up.id < r.id and up or nil
  end
  local n = #chain
  for i = 1, n // 2 do chain[i], chain[n + 1 - i] = chain[n + 1 - i], chain[i] end
  return chain
end

return M

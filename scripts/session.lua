-- scripts/session.lua - a session: an append-only JSONL log, and the view that it makes.
--
-- The log is the truth.  Every change goes through append(): one line written, then applied.
-- Resume and rewind read the log and apply the same records, so what the model sees is a pure
-- function of the log.  Nothing is ever edited; rewind, batches and compactions are records.
-- Fails with nil, message, code when the disk refuses; then nothing was applied.
--
-- A session is a directory: STATE/sessions/PROJECT/ID/ with log.jsonl, blobs/, tmp/, agents/.
--
-- Records: {v, id, parent, type, time, ...}; id counts from 1, parent is the record before it in its
-- branch.
--   session     first: model, provider, base_url, project, system and tools (the bytes that are sent)
--   message     role, content, tool_calls, call_id, name, kind, echo, blob
--   batch       replace = {{id, content}}, drop = {id}: strip and drop
--   compaction  content, from (first record kept)
--   rewind      to: the branch goes on from that record
--   usage, permission, warning, todos, state: facts; they don't change the view

local fs = require "terret.fs"
local hash = require "terret.hash"
local json = require "terret.json"
local log = require "terret.log"
local store = require "terret.store"
local tokens = require "terret.tokens"

local M = {}

local VERSION = 1

---@class terret.session
---@field id string
---@field dir string
---@field view terret.store.view
---@field entries table[] parallel to the view: {id, role, kind, call_id, name, blob}
---@field header table the first record
local Session = {}
Session.__index = Session

-- Directories --------------------------------------------------------------------------------

---@param state_dir string
---@param project string
---@return string directory of the sessions of a project
function M.project_dir(state_dir, project)
  return ("%s/sessions/%s"):format(state_dir, hash.sha256(project):sub(1, 16))
end

local function new_id() return os.date("!%Y%m%d-%H%M%S-") .. hash.random(3) end

-- Applying records ---------------------------------------------------------------------------

local function drop_entries(self, keep)
  local kept, list = {}, {}
  for _, e in ipairs(self.entries) do
    if keep(e) then
      kept[#kept + 1] = e
      list[#list + 1] = e.n
    end
  end
  self.entries = kept
  self.view:replace(list)
end

local function push(self, id, message)
  local fragment = self.encode(message)
  local n = self.store:add(fragment, tokens.estimate(fragment))
  self.view:push(n)
  local calls
  for i, call in ipairs(message.tool_calls or {}) do
    calls = calls or {}
    calls[i] = { id = call.id, name = call.name }
  end
  self.entries[#self.entries + 1] = { id = id, n = n, role = message.role, kind = message.kind,
    call_id = message.call_id, name = message.name, blob = message.blob, calls = calls,
    size = #(message.content or ""), content = message.role == "user" and message.content or nil }
end

local apply = {}

function apply.session(self, r)
  self.header = r
  push(self, r.id, { role = "system", content = r.system })
end

-- Neighbouring user messages become one: strict endpoints refuse two in a row.
function apply.message(self, r)
  local last = self.entries[#self.entries]
  if r.role == "user" and last and last.role == "user" then
    self.entries[#self.entries] = nil
    self.view:rewind(self.view:count() - 1)
    push(self, last.id, { role = "user", kind = last.kind, content = last.content .. "\n\n" .. r.content })
    return
  end
  push(self, r.id, r)
end

function apply.batch(self, r)
  local text, gone = {}, {}
  for _, x in ipairs(r.replace or {}) do text[x.id] = x.content end
  for _, id in ipairs(r.drop or {}) do gone[id] = true end
  for i, e in ipairs(self.entries) do
    if text[e.id] then
      local fragment = self.encode { role = e.role, call_id = e.call_id, name = e.name, content = text[e.id] }
      -- A new entry: a fork may share the old one.
      self.entries[i] = { id = e.id, role = e.role, call_id = e.call_id, name = e.name, blob = e.blob,
        n = self.store:add(fragment, tokens.estimate(fragment)), size = #text[e.id], stub = true }
    end
  end
  drop_entries(self, function(e) return not gone[e.id] end)
end

function apply.compaction(self, r)
  local tail = {}
  for _, e in ipairs(self.entries) do
    if e.role ~= "system" and e.id >= r.from then tail[#tail + 1] = e end
  end
  drop_entries(self, function(e) return e.role == "system" end)
  push(self, r.id, { role = "user", kind = "summary", content = r.content })
  for _, e in ipairs(tail) do
    self.view:push(e.n)
    self.entries[#self.entries + 1] = e
  end
end

function apply.todos(self, r) self.todos = r.items end

-- Small facts that must be the same after a resume (what a note last said, and the like).
function apply.state(self, r) self.state[r.key] = r.value end

local function apply_record(self, r)
  self.last = r.id
  if apply[r.type] then apply[r.type](self, r) end
end

-- Reading --------------------------------------------------------------------------------------

---All records of a log that can be read; others are counted.
---@param path string
---@return table[]? records
---@return string|integer message or the count of unreadable lines
---@return string? code
function M.read(path)
  local reader, message, code = log.read(path)
  if not reader then return nil, message, code end
  local list, bad = {}, 0
  for line in function() return reader:next() end do
    local r = json.decode(line)
    if type(r) == "table" and math.type(r.id) == "integer" and type(r.type) == "string" then
      list[#list + 1] = r
    else
      bad = bad + 1
    end
  end
  reader:close()
  return list, bad
end

-- The records from the root to leaf, in order.
local function branch(records, leaf)
  local by_id, chain = {}, {}
  for _, r in ipairs(records) do by_id[r.id] = r end
  local r = by_id[leaf]
  while r do
    table.insert(chain, r)
    r = by_id[r.parent]
  end
  local n = #chain
  for i = 1, n // 2 do chain[i], chain[n + 1 - i] = chain[n + 1 - i], chain[i] end
  return chain
end

local function reset(self)
  self.store = store.new()
  self.view = self.store:view()
  self.entries, self.todos, self.state, self.last = {}, {}, {}, nil
end

-- Rebuilds the view from records up to leaf (default: where the log's last record stands).
local function rebuild(self, records, leaf)
  reset(self)
  local last = records[#records]
  local chain = branch(records, leaf or last and (last.type == "rewind" and last.to or last.id))
  for _, r in ipairs(chain) do apply_record(self, r) end
  self.next_id = last and last.id + 1 or 1
end

-- Opening --------------------------------------------------------------------------------------

local function make(options, dir, id)
  return setmetatable({ id = id, dir = dir, encode = options.encode, blobs = 0,
    ephemeral = options.ephemeral }, Session)
end

local function make_dirs(dir)
  for _, sub in ipairs { "", "/blobs", "/tmp", "/agents" } do
    local ok, message, code = fs.mkdir(dir .. sub, { parents = true, mode = 448 }) -- 0700
    if not ok and code ~= "exists" then return nil, message, code end
  end
  return true
end

---A new session; its first record keeps the bytes of the system prompt and the tools.
---@param options {state_dir: string?, project: string, encode: function, header: table, ephemeral: boolean?, parent: terret.session?}
---@return terret.session?
---@return string? message
---@return string? code
function M.create(options)
  local id = new_id()
  local dir, ok, message, code
  if options.parent then
    dir = options.parent.dir .. "/agents/" .. id
  elseif options.ephemeral then
    dir, message, code = fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-")
    if not dir then return nil, message, code end
  else
    dir = M.project_dir(options.state_dir, options.project) .. "/" .. id
  end
  ok, message, code = make_dirs(dir)
  if not ok then return nil, message, code end
  local self = make(options, dir, id)
  self.log, message, code = log.open(dir .. "/log.jsonl", { create = true })
  if not self.log then return nil, message, code end
  reset(self)
  self.next_id = 1
  local header = { type = "session", session = id, project = options.project }
  for k, v in pairs(options.header) do header[k] = v end
  ok, message, code = self:append(header)
  if not ok then return nil, message, code end
  return self
end

-- Calls that a kill left without a result are answered, never run again.
local function close_orphans(self)
  local open = {}
  for _, e in ipairs(self.entries) do
    for _, call in ipairs(e.calls or {}) do open[#open + 1] = call end
    if e.call_id then
      for i, call in ipairs(open) do
        if call.id == e.call_id then
          table.remove(open, i)
          break
        end
      end
    end
  end
  for _, call in ipairs(open) do
    local ok, message, code = self:append { type = "message", role = "tool", call_id = call.id,
      name = call.name, content = "interrupted: terret ended before this call had a result; it may have run" }
    if not ok then return nil, message, code end
  end
  return #open
end

local function blob_count(dir)
  local most = 0
  for _, e in ipairs(fs.list(dir .. "/blobs") or {}) do
    most = math.max(most, tonumber(e.name:match("^b(%d+)$")) or 0)
  end
  return most
end

---Opens a session again.
---@param options {dir: string, encode: function}
---@return terret.session?
---@return string|string[] message, or a list of what was repaired
---@return string? code
function M.resume(options)
  local path = options.dir .. "/log.jsonl"
  local handle, message, code = log.open(path, { create = false })
  if not handle then return nil, message, code end
  local records, bad = M.read(path)
  if not records then return nil, bad, "io" end
  if not records[1] or records[1].type ~= "session" then
    return nil, path .. " does not begin with a session record", "bad_session"
  end
  local self = make(options, options.dir, records[1].session)
  self.log = handle
  rebuild(self, records)
  self.blobs = blob_count(self.dir)
  local repairs = {}
  if handle:repaired() > 0 then
    repairs[1] = ("%d bytes of a torn last line were cut off (kept in log.jsonl.torn)"):format(handle:repaired())
  end
  if bad > 0 then repairs[#repairs + 1] = bad .. " unreadable lines were left out" end
  local orphans
  orphans, message, code = close_orphans(self)
  if not orphans then return nil, message, code end
  if orphans > 0 then
    repairs[#repairs + 1] = orphans .. " calls without a result were answered as interrupted"
  end
  return self, repairs
end

---Sessions of a project, newest first.
---@param state_dir string
---@param project string
---@return {id: string, dir: string}[]
function M.list(state_dir, project)
  local base, out = M.project_dir(state_dir, project), {}
  for _, e in ipairs(fs.list(base) or {}) do
    if fs.stat(base .. "/" .. e.name .. "/log.jsonl") then
      table.insert(out, 1, { id = e.name, dir = base .. "/" .. e.name })
    end
  end
  return out
end

---A session by its id (or a unique beginning of it), in any project.
---@param state_dir string
---@param id string
---@return string? dir
---@return string? message
---@return string? code
function M.find(state_dir, id)
  local found = {}
  for _, p in ipairs(fs.list(state_dir .. "/sessions") or {}) do
    for _, e in ipairs(fs.list(state_dir .. "/sessions/" .. p.name) or {}) do
      if id ~= "" and e.name:sub(1, #id) == id then
        found[#found + 1] = ("%s/sessions/%s/%s"):format(state_dir, p.name, e.name)
      end
    end
  end
  if #found == 1 then return found[1] end
  if #found == 0 then return nil, "no session '" .. id .. "'", "not_found" end
  return nil, ("'%s' is the beginning of %d sessions"):format(id, #found), "ambiguous"
end

-- Changing -------------------------------------------------------------------------------------

---Writes a record, then applies it.
---@param record table
---@return integer? id
---@return string? message
---@return string? code
function Session:append(record)
  record.v, record.id, record.parent = VERSION, self.next_id, self.last
  record.time = os.date("!%Y-%m-%dT%H:%M:%SZ")
  local ok, message, code = self.log:append(json.encode(record))
  if not ok then return nil, message, code end
  self.next_id = self.next_id + 1
  apply_record(self, record)
  return record.id
end

---Goes back to the state right after a record.  Nothing is erased.
---@param id integer
---@return boolean? ok
---@return string? message
---@return string? code
function Session:rewind(id)
  local records, message, code = M.read(self.log:path())
  if not records then return nil, message, code end
  local known = false
  for _, r in ipairs(records) do known = known or r.id == id end
  if not known then return nil, ("no record %d"):format(id), "not_found" end
  local ok
  ok, message, code = self:append { type = "rewind", to = id }
  if not ok then return nil, message, code end
  local next_id = self.next_id
  rebuild(self, records, id)
  self.next_id = next_id
  return true
end

---A branch of its own in a log of its own; this session stays as it is.
---@return terret.session?
---@return string? message
---@return string? code
function Session:fork()
  local records, message, code = M.read(self.log:path())
  if not records then return nil, message, code end
  local id = new_id()
  local dir = self.dir .. "/agents/" .. id
  local ok
  ok, message, code = make_dirs(dir)
  if not ok then return nil, message, code end
  local copy = make(self, dir, id)
  copy.log, message, code = log.open(dir .. "/log.jsonl", { create = true })
  if not copy.log then return nil, message, code end
  for _, r in ipairs(branch(records, self.last)) do
    if r.type == "session" then
      r.session, r.from = id, { session = self.id, record = self.last }
      copy.header = r
    end
    ok, message, code = copy.log:append(json.encode(r))
    if not ok then return nil, message, code end
  end
  copy.state = {}
  -- The bytes are shared: one store, two views.
  copy.store, copy.view = self.store, self.view:fork()
  copy.entries = table.move(self.entries, 1, #self.entries, 1, {})
  copy.todos, copy.last, copy.next_id = self.todos, self.last, self.last + 1
  copy.blobs = self.blobs
  for k, v in pairs(self.state) do copy.state[k] = v end
  return copy
end

---@param items table[]
---@return integer? id
---@return string? message
---@return string? code
function Session:set_todos(items) return self:append { type = "todos", items = json.array(items) } end

-- Blobs ------------------------------------------------------------------------------------------

---A name for a blob that does not exist yet.
---@return string id
---@return string path
function Session:new_blob()
  self.blobs = self.blobs + 1
  local id = "b" .. self.blobs
  return id, self.dir .. "/blobs/" .. id
end

---@param data string
---@return string? id
---@return string? message
---@return string? code
function Session:save_blob(data)
  local id, path = self:new_blob()
  local ok, message, code = fs.write(path, data, { mode = 384, sync = false })
  if not ok then return nil, message, code end
  return id
end

---@param id string
---@return string? data
---@return string? message
---@return string? code
function Session:read_blob(id)
  if not id:match("^b%d+$") then return nil, ("'%s' is not an id of this session"):format(id), "not_found" end
  local data, message, code = fs.read(self.dir .. "/blobs/" .. id)
  if not data and code == "not_found" and self.header.from then -- a fork: the id is its parent's
    data, message, code = fs.read(self.dir .. "/../../blobs/" .. id)
  end
  if not data then return nil, message, code end
  return data
end

function Session:close()
  if self.log then self.log:close() end
  self.log = nil
  if self.ephemeral then fs.remove(self.dir, { recursive = true }) end
end

return M

-- scripts/session.lua - a session: an append-only JSONL log, and the view that it makes.
--
-- The log is the truth.  Every change goes through append(): one line written, then applied.
-- Resume and rewind read the log and apply the same records, so what the model sees is a pure
-- function of the log (view.lua).  Nothing is ever edited; rewind, batches and compactions are records.
-- Fails with nil, message, code when the disk refuses; then nothing was applied.
--
-- A session is a directory: STATE/sessions/PROJECT/ID/ with log.jsonl, blobs/, tmp/, agents/.
--
-- Records: {v, id, parent, type, time, ...}; id counts from 1, parent is the record before it in its
-- branch.
--   session     first: model, provider, base_url, project, system and tools (the bytes that are sent)
--   message     role, content, tool_calls, call_id, name, kind, echo, blob
--   batch       replace = {{id, content}}, drop = {id}: strip and drop
--   compaction  content, from (first record kept); first, words, files, pins: what is in it
--   pin         ids, on: passed over by strip, drop and compaction
--   undo        of: a batch, compaction, pin or undo that is taken back
--   rewind      to: the branch goes on from that record
--   usage, permission, warning, todos, state: facts; they don't change the view
--   hook        event, handler, file, hash: what an extension changed

local fs = require "terret.fs"
local hash = require "terret.hash"
local json = require "terret.json"
local log = require "terret.log"
local task = require "terret.task"
local view = require "terret.view"

local M = {}

M.lock_attempts = 20 -- a hundredth of a second apart

local VERSION = 1

---@class terret.session
---@field id string
---@field dir string
---@field view terret.store.view
---@field entries table[] parallel to the view: {id, role, kind, call_id, name, blob}
---@field open {id: string, name: string}[] calls that have no result yet
---@field header table the first record
---@field idle number? seconds that it was left alone before this resume
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

-- Reading --------------------------------------------------------------------------------------

---One line as a record.  NUL bytes before it (blocks that a crash left) don't make it worse.
---@param line string
---@return table? record
---@return string? line without them
function M.parse(line)
  if line:byte() == 0 then line = line:match("^%z*(.*)$") end
  local r = json.decode(line)
  if type(r) ~= "table" or math.type(r.id) ~= "integer" or type(r.type) ~= "string" then return nil end
  return r, line
end

---All records of a log that can be read; others are counted.
---@param path string
---@return table[]? records
---@return string|integer message or the count of unreadable lines
---@return string? code
function M.read(path)
  local reader, message, code = log.read(path)
  if not reader then return nil, message, code end
  local list, bad = {}, 0
  local line
  repeat
    line, message, code = reader:next()
    local r = line and M.parse(line)
    if r then
      list[#list + 1] = r
    elseif line then
      bad = bad + 1
    end
  until not line
  reader:close()
  if code then return nil, message, code end
  return list, bad
end

-- Rebuilds the view from records up to leaf (default: where the log's last record stands).
local function rebuild(self, records, leaf)
  view.reset(self)
  for _, r in ipairs(view.branch(records, leaf)) do view.apply(self, r) end
  self.next_id = records[1] and records[#records].id + 1 or 1
end

-- Opening --------------------------------------------------------------------------------------

local function make(options, dir, id)
  return setmetatable({ id = id, dir = dir, encode = options.encode, blobs = 0,
    ephemeral = options.ephemeral }, Session)
end

---The records of the branch that is the present, from the root on.
---@param records table[] of read
---@return table[]
function M.branch(records) return view.branch(records) end

---The state that records make, without their log: nothing is locked, repaired or written.
---@param records table[] of read
---@param encode function
---@return terret.session
function M.replay(records, encode)
  local self = make({ encode = encode }, nil, records[1].session)
  rebuild(self, records)
  return self
end

local function make_dirs(dir)
  for _, sub in ipairs { "", "/blobs", "/tmp", "/agents" } do
    local ok, message, code = fs.mkdir(dir .. sub, { parents = true, mode = 448 }) -- 0700
    if not ok and code ~= "exists" then return nil, message, code end
  end
  return true
end

---A directory for a session, with all that belongs in it.
---@param base string
---@return string? id
---@return string dir or message
---@return string? code
function M.new_dir(base)
  local id = new_id()
  local dir = base .. "/" .. id
  local ok, message, code = make_dirs(dir)
  if not ok then return nil, message, code end
  return id, dir
end

---A new session; its first record keeps the bytes of the system prompt and the tools.
---@param options {state_dir: string?, project: string, encode: function, header: table, ephemeral: boolean?,
---  parent: terret.session?}
---@return terret.session?
---@return string? message
---@return string? code
function M.create(options)
  local base, id, dir, ok, message, code
  if options.ephemeral and not options.parent then
    base, message, code = fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-")
    if not base then return nil, message, code end
    id, dir = new_id(), base
    ok, message, code = make_dirs(dir)
    if not ok then return nil, message, code end
  else
    base = options.parent and options.parent.dir .. "/agents" or M.project_dir(options.state_dir, options.project)
    id, dir, code = M.new_dir(base)
    if not id then return nil, dir, code end
  end
  local self = make(options, dir, id)
  self.log, message, code = log.open(dir .. "/log.jsonl", { create = true })
  if not self.log then return nil, message, code end
  view.reset(self)
  self.next_id = 1
  local header = { type = "session", session = id, project = options.project }
  for k, v in pairs(options.header) do header[k] = v end
  ok, message, code = self:append(header)
  if not ok then
    self:close()
    return nil, message, code
  end
  return self
end

local function blob_count(dir)
  local most = 0
  for _, e in ipairs(fs.list(dir .. "/blobs") or {}) do
    most = math.max(most, tonumber(e.name:match("^b(%d+)$")) or 0)
  end
  return most
end

-- What an opened session is told about its log.
local function repairs_of(self, bad, answered)
  local list = {}
  local torn = self.log:repaired()
  if torn > 0 then list[1] = ("%d bytes of a torn last line were cut off (kept in log.jsonl.torn)"):format(torn) end
  if bad > 0 then list[#list + 1] = bad .. " unreadable lines were left out" end
  if answered > 0 then
    list[#list + 1] = answered .. " calls without a result were answered as interrupted"
  end
  return list
end

-- A command that a killed process was about to start holds its lock until its exec: a moment.
local function open_log(path)
  for attempt = 1, M.lock_attempts do
    local handle, message, code = log.open(path, { create = false })
    if handle or code ~= "locked" or attempt == M.lock_attempts then return handle, message, code end
    task.sleep(0.01)
  end
end

---Opens a session again.  Calls that a kill left without a result are answered, never run again.
---@param options {dir: string, encode: function}
---@return terret.session?
---@return string|string[] message, or a list of what was repaired
---@return string? code
function M.resume(options)
  local path = options.dir .. "/log.jsonl"
  local handle, message, code = open_log(path)
  if not handle then return nil, message, code end
  local info = fs.stat(path)
  local records, bad = M.read(path)
  if not records or not records[1] or records[1].type ~= "session" then
    handle:close()
    if not records then return nil, bad, "io" end
    return nil, path .. " does not begin with a session record", "bad_session"
  end
  local self = make(options, options.dir, records[1].session)
  self.log, self.idle = handle, info and math.max(0, os.time() - info.mtime) or 0
  rebuild(self, records)
  local from = self.header.from
  self.blobs = math.max(blob_count(self.dir), from and from.blobs or 0)
  local answered
  answered, message, code = self:answer_open("interrupted: terret ended before this call had a result; it may have run")
  if not answered then
    self:close()
    return nil, message, code
  end
  return self, repairs_of(self, bad, answered)
end

---Sessions of a project, the last used first.
---@param state_dir string
---@param project string
---@return {id: string, dir: string, used: number}[]
function M.list(state_dir, project)
  local base, out = M.project_dir(state_dir, project), {}
  for _, e in ipairs(fs.list(base) or {}) do
    local info = fs.stat(base .. "/" .. e.name .. "/log.jsonl")
    if info then out[#out + 1] = { id = e.name, dir = base .. "/" .. e.name, used = info.mtime } end
  end
  table.sort(out, function(a, b)
    if a.used ~= b.used then return a.used > b.used end
    return a.id > b.id
  end)
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
  if self.filter and record.type ~= "hook" then record = self.filter(record) end
  record.v, record.id, record.parent = VERSION, self.next_id, self.last
  record.time = os.date("!%Y-%m-%dT%H:%M:%SZ")
  local ok, message, code = self.log:append(json.encode(record))
  if not ok then return nil, "the session log can't be written: " .. message, code end
  self.next_id = self.next_id + 1
  view.apply(self, record)
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
  return self:rebuild(records, id)
end

---The view anew, as it is right after a record.
---@param records table[] of read
---@param id integer
---@return boolean ok
function Session:rebuild(records, id)
  local next_id = self.next_id
  rebuild(self, records, id)
  self.next_id = next_id
  return true
end

---The view anew from the log, after encode has changed what it says.  The log stays as it is.
---@return boolean? ok
---@return string? message
---@return string? code
function Session:reencode()
  local records, message, code = M.read(self.log:path())
  if not records then return nil, message, code end
  local next_id, last = self.next_id, self.last
  rebuild(self, records, last)
  self.next_id, self.last = next_id, last
  return true
end

---A message that is not stored, as it would stand behind the others.
---@param words string of the user's
---@return string fragment
function Session:tail(words)
  local last = self.entries[#self.entries]
  return self.encode({ role = "user", content = words }, last and last.role)
end

---A branch of its own in a log of its own; this session stays as it is.
---@return terret.session?
---@return string? message
---@return string? code
function Session:fork()
  local records, message, code = M.read(self.log:path())
  if not records then return nil, message, code end
  local id, dir, err = M.new_dir(self.dir .. "/agents")
  if not id then return nil, dir, err end
  local ok
  local copy = make(self, dir, id)
  copy.log, message, code = log.open(dir .. "/log.jsonl", { create = true })
  if not copy.log then return nil, message, code end
  for _, r in ipairs(view.branch(records, self.last, true)) do
    if r.type == "session" then
      local dirs = self.header.from and self.header.from.dirs
      r.session, r.from = id, { session = self.id, record = self.last, blobs = self.blobs, dirs = dirs }
      copy.header = r
    end
    ok, message, code = copy.log:append(json.encode(r))
    if not ok then
      copy:close()
      return nil, message, code
    end
  end
  copy.state = {}
  -- The bytes are shared: one store, two views.
  copy.store, copy.view = self.store, self.view:fork()
  copy.entries = table.move(self.entries, 1, #self.entries, 1, {})
  copy.open = table.move(self.open, 1, #self.open, 1, {})
  copy.todos, copy.last, copy.next_id = self.todos, self.last, self.last + 1
  copy.blobs, copy.spoken, copy.epoch = self.blobs, self.spoken, self.epoch
  for k, v in pairs(self.state) do copy.state[k] = v end
  return copy
end

---Gives each call that is open one result: these words.
---@param words string
---@return integer? count
---@return string? message
---@return string? code
function Session:answer_open(words)
  local open = table.move(self.open, 1, #self.open, 1, {})
  for _, call in ipairs(open) do
    local ok, message, code = self:append { type = "message", role = "tool", call_id = call.id, name = call.name,
      ok = false, content = words }
    if not ok then return nil, message, code end
  end
  return #open
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

M.blob_max = 64 * 1048576 -- bytes

---@param data string
---@return string? id
---@return string? message
---@return string? code
function Session:save_blob(data)
  if #data > M.blob_max then
    return nil, ("a blob of %d bytes is over the limit of %d"):format(#data, M.blob_max), "too_large"
  end
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
  local dir = self.header.from and self.dir
  while not data and code == "not_found" and dir do -- a fork: the id may be its parent's
    dir = dir:match("^(.*)/agents/[^/]+/?$")
    if dir then data, message, code = fs.read(dir .. "/blobs/" .. id) end
  end
  -- A fork that stands by itself.
  for _, place in ipairs(self.header.from and self.header.from.dirs or {}) do
    if not data and code == "not_found" then data, message, code = fs.read(place .. "/blobs/" .. id) end
  end
  if not data then return nil, message, code end
  return data
end

function Session:close()
  if self.log and self.on_close then self.on_close() end
  if self.log then self.log:close() end
  self.log = nil
  if self.ephemeral then fs.remove(self.dir, { recursive = true }) end
end

return M

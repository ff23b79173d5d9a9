-- scripts/events.lua - middleware over one table of events (events/list.lua).
--
--     terret.on("tool.policy", function(e, next) ... return next() end, { priority = 10, name = "mine" })
--
-- e is a frozen view.  Code before next() runs before the thing happens, code after it after;
-- next{field = value} passes changes on; not to call next is to answer.  Handlers of the user's files stand outside those of a
-- project; then the higher priority, then the name.  The class of an event says what a handler that
-- fails does.  A handler is on a leash (leash.lua).  Every change is a record of the session.

local failure = require "terret.failure"
local frozen = require "terret.frozen"
local fs = require "terret.fs"
local hash = require "terret.hash"
local leash = require "terret.leash"
local reactor = require "terret.reactor"
local task = require "terret.task"

local M = {}

M.api = 1
M.copy = frozen.copy
M.list = require "terret.events.list"
M.by_name = {}
for _, row in ipairs(M.list) do
  row.name, row.class, row.doc = row[1], row[2], row[3]
  row.may, row.has = row.may or {}, row.has or {}
  M.by_name[row.name] = row
end

---@type table<string, table[]> event -> handlers in their order
M.handlers = {}
---@type table<string, {path: string, hash: string, tier: string}> chunk name -> the file that registers
M.files = {}

-- Registering ----------------------------------------------------------------------------------

-- The user's handlers stand outside; then priority, then name, then as they came.
local function before(a, b)
  if a.tier ~= b.tier then return a.tier == "user" end
  if a.priority ~= b.priority then return a.priority > b.priority end
  if a.name ~= b.name then return a.name < b.name end
  return a.number < b.number
end

-- The file that a chunk came from.
local function file_of(source)
  local file = M.files[source]
  if not file then
    local text = source:sub(1, 1) == "@" and fs.read(source:sub(2)) or nil
    file = { path = source:gsub("^[@=]", ""), hash = text and hash.sha256(text) or nil, tier = "user" }
    M.files[source] = file
  end
  return file
end

local OPTIONS = { priority = "number", name = "string", seconds = "number", wait = "number" }

local function check_options(options)
  for key, value in pairs(options) do
    if not OPTIONS[key] then error(("terret.on: unknown option '%s'"):format(tostring(key)), 4) end
    if type(value) ~= OPTIONS[key] then error(("terret.on: %s must be a %s"):format(key, OPTIONS[key]), 4) end
  end
end

local numbers = 0

---Takes a handler into the table, in its place.
---@param h table of add
function M.adopt(h)
  -- A new list: one that is being gone through stays as it is.
  local old = M.handlers[h.event] or {}
  local list = table.move(old, 1, #old, 1, {})
  list[#list + 1] = h
  table.sort(list, before)
  M.handlers[h.event] = list
end

---Registers a handler for a file that is no script (hooks.json), or in its place.
---@param event string
---@param handler function
---@param options table
---@param file {path: string, hash: string?, tier: string}
---@param where string
---@return table
function M.add(event, handler, options, file, where)
  numbers = numbers + 1
  local h = { event = event, handler = handler, priority = options.priority or 0, number = numbers, file = file,
    tier = file.tier, where = where, name = options.name or file.path:match("([^/]*)$"):gsub("%.lua$", ""),
    seconds = options.seconds, wait = options.wait, calls = 0, failures = 0, changes = 0 }
  M.adopt(h)
  return h
end

local function remove(h)
  local list = {}
  for _, other in ipairs(M.handlers[h.event] or {}) do
    if other ~= h then list[#list + 1] = other end
  end
  M.handlers[h.event] = #list > 0 and list or nil
end

---Registers a handler.
---@param event string
---@param handler fun(e: table, next: fun(changes: table?): any): any, string?
---@param options {priority: number?, name: string?, seconds: number?, wait: number?}?
---@return {off: function} handle
function M.on(event, handler, options)
  if not M.by_name[event] then
    error(("terret.on: no event '%s' (terret hooks lists them)"):format(tostring(event)), 2)
  end
  if type(handler) ~= "function" then error("terret.on: the handler must be a function", 2) end
  check_options(options or {})
  local info = debug.getinfo(2, "Sl")
  local where = ("%s:%d"):format(info.short_src, info.currentline)
  local h = M.add(event, handler, options or {}, file_of(info.source), where)
  return { off = function() remove(h) end }
end

---A guard that denies, in the place of one that could not be loaded.
---@param event string
---@param file table of M.files
---@param why string
function M.deny(event, file, why)
  M.add(event, function() return "deny", why end, { name = "(broken) " .. file.path }, file, file.path)
end

---Runs f with an empty table of handlers.  What it registered, or the old table when it raised.
---@param f function
---@return boolean ok
---@return any error
function M.anew(f)
  local handlers, files = M.handlers, M.files
  M.handlers, M.files = {}, {}
  local ok, err = pcall(f)
  if not ok then M.handlers, M.files = handlers, files end
  return ok, err
end

-- Checking what handlers say ---------------------------------------------------------------------

local function fits(value, want)
  if want == "any" then return true end
  if want:sub(-1) == "?" then return value == nil or type(value) == want:sub(1, -2) end
  return type(value) == want
end

-- Raises unless the fields of a table are of these types; others are refused.
local function check_fields(what, given, want)
  if type(given) ~= "table" then error(("%s must be a table, is a %s"):format(what, type(given)), 0) end
  for key in pairs(given) do
    if not want[key] then error(("%s has no field '%s' that can be set"):format(what, tostring(key)), 0) end
  end
end

local function check_answer(row, answer)
  local want = row.answer or row.may
  if type(want) == "string" then
    if want ~= "any" and type(answer) ~= want then
      error(("%s is answered with a %s, not a %s"):format(row.name, want, type(answer)), 0)
    end
    return answer
  end
  if row.answer then check_fields("the answer of " .. row.name, answer, want) end
  for key, kind in pairs(want) do
    if row.answer and not fits(answer[key], kind) then
      error(("%s: '%s' must be a %s, is a %s"):format(row.name, key, kind, type(answer[key])), 0)
    end
  end
  return answer
end

-- e with the changes of a handler.
local function with(row, e, changes)
  if changes == nil then return e end
  changes = frozen.thaw(changes)
  if changes == e then return e end
  check_fields("next of " .. row.name, changes, row.may)
  local out, changed = {}, {}
  for key, value in pairs(e) do out[key] = value end
  for key, value in pairs(changes) do
    if not fits(value, row.may[key]) then
      error(("%s: '%s' must be a %s, is a %s"):format(row.name, key, row.may[key], type(value)), 0)
    end
    if not frozen.same(value, e[key]) then changed[#changed + 1] = key end
    out[key] = value
  end
  if #changed == 0 then return e end
  table.sort(changed)
  return out, changed
end

local RANK = { allow = 1, ask = 2, deny = 3 }

local function verdict_of(out, reason)
  if type(out) == "string" then out = { verdict = out, reason = reason } end
  if type(out) ~= "table" or not RANK[out.verdict] then return nil end
  if out.reason ~= nil and type(out.reason) ~= "string" then return nil end
  return out
end

-- Firing -----------------------------------------------------------------------------------------

local early = {} -- changes made before there was a session to write them to

---Writes what was changed before the session of this agent was there.
---@param agent terret.agent
function M.settle(agent)
  local list = early
  early = {}
  for _, what in ipairs(list) do agent:must_record(what) end
end

-- A change is a fact of the session, like what the model said.
local function record(run, h, what)
  h.changes = h.changes + 1
  local agent = run.agent
  what.type, what.event, what.handler, what.hash = "hook", run.row.name, h.name, h.file.hash
  what.file = h.file.path
  if not agent then
    early[#early + 1] = what
    return
  end
  if not (agent.session and agent.session.log) then return end
  local ok, message, code = agent.session:append(what)
  if not ok then failure.raise("failed", message, code) end
end

-- Names what failed, once; h.telling keeps a handler from hearing of itself.
local function complain(run, h, message)
  h.failures = h.failures + 1
  local first = message:match("^(.-)\nstack traceback:") or message
  if h.last_failure == first then return first end
  h.last_failure, h.telling = first, true
  local agent = run.agent
  if agent then
    local words = ("handler '%s' of %s (%s) failed: %s"):format(h.name, run.row.name, h.where, first)
    pcall(agent.record, agent, { type = "warning", text = words })
    pcall(agent.emit, agent, "warning", { text = words })
  end
  h.telling = nil
  return first
end

local SAME = setmetatable({}, {}) -- the answer of a handler that returned e itself: it has nothing to say

local from -- (run, i, e) -> what the handlers from the i-th on and the thing itself answer

-- What a handler sees of e.
local function view_of(run, e)
  if run.shown ~= e then
    local agent = run.agent
    local seen = { agent = agent, event = run.row.name, depth = agent and agent.depth or 0 }
    for key, value in pairs(e) do seen[key] = value end
    run.shown, run.view = e, frozen.view(seen)
  end
  return run.view
end

-- One handler.  ok, its answer, its reason, whether it called next and what that gave.
local function call(run, i, e)
  local h, given = run.list[i], view_of(run, e)
  local called, over, raised, inner = false, false, nil, nil
  local function next_(changes)
    if over then error("next is called after its handler has ended", 2) end
    if rawequal(changes, given) then changes = nil end
    local new = e
    if changes ~= nil then
      local ok, changed
      ok, new, changed = pcall(with, run.row, e, changes)
      if not ok then error(new, 2) end
      if changed then record(run, h, { changed = changed }) end
    end
    local ok, out = leash.off(from, run, i + 1, new)
    if not ok then
      raised = out
      error(raised, 0)
    end
    called, inner = true, out
    if type(out) == "table" then return frozen.view(out) end
    return out
  end
  h.calls = h.calls + 1
  local ok, out, reason = leash.run(h, h.handler, given, next_)
  over = true
  if not ok then
    if raised ~= nil then error(raised, 0) end -- the thing itself failed
    if task.is_cancelled(out) or failure.is(out) then error(out, 0) end
    return false, complain(run, h, tostring(out)), nil, called, inner
  end
  if rawequal(out, given) then out = SAME end
  return true, frozen.thaw(out), reason, called, inner
end

local classes = {}

function classes.observe(run, i, e)
  call(run, i, e)
  return from(run, i + 1, e)
end

function classes.transform(run, i, e)
  local row, h = run.row, run.list[i]
  local ok, out, _, called, inner = call(run, i, e)
  if ok and out == nil and not called then complain(run, h, "it returned nothing and did not call next") end
  if ok and out ~= nil and out ~= SAME and not (called and out == inner) then
    local good, answer = pcall(function()
      if not row.answer then return (with(row, called and inner or e, out)) end
      return check_answer(row, out)
    end)
    if good then
      local previous = called and inner or not row.answer and e or nil
      if not frozen.same(answer, previous) then record(run, h, { answered = true, around = called ~= nil }) end
      return answer
    end
    complain(run, h, tostring(answer))
  end
  if called then return inner end
  return from(run, i + 1, e)
end

function classes.supply(run, i, e)
  local h = run.list[i]
  local ok, out, _, called, inner = call(run, i, e)
  if ok and out ~= nil and out ~= SAME and not (called and out == inner) then
    local good, answer = pcall(check_answer, run.row, out)
    -- A project may answer the user's questions only with no.
    if good and h.tier == "project" and run.row.name == "tool.ask" and answer.verdict ~= "deny" then
      good, answer = false, "a project's handler can't allow anything"
    end
    if good then
      record(run, h, { answered = true })
      return answer
    end
    complain(run, h, tostring(answer))
  end
  if called then return inner end
  return from(run, i + 1, e)
end

function classes.guard(run, i, e)
  local h = run.list[i]
  local ok, out, reason, called, inner = call(run, i, e)
  local verdict = ok and verdict_of(out, reason)
  if ok and not verdict then
    out = complain(run, h, out == nil and "it gave no verdict (end it with: return next())"
      or "its answer is no verdict")
  end
  if not verdict then
    verdict = { verdict = "deny", reason = ("the guard '%s' (%s) failed, so it is denied: %s"):format(h.name,
      h.where, out) }
  end
  if h.tier == "project" then -- only stricter
    local rest = called and inner or from(run, i + 1, e)
    if RANK[verdict.verdict] <= RANK[rest.verdict] then return rest end
  end
  if not (called and inner == verdict) then
    record(run, h, { verdict = verdict.verdict, reason = verdict.reason })
  end
  return verdict
end

local function finish(run, e)
  local default = run.default
  if type(default) == "function" then
    default = default(e)
  elseif default == nil then
    default = run.row.class == "guard" and { verdict = "allow" } or e
  end
  return default
end

function from(run, i, e)
  local h = run.list[i]
  if not h then return finish(run, e) end
  if h.telling and run.row.class ~= "guard" then return from(run, i + 1, e) end
  return classes[run.row.class](run, i, e)
end

---Fires an event.  Call it through terret.fire, which costs nothing while nobody listens.
---@param agent terret.agent?
---@param name string
---@param e table
---@param default any
---@return any
function M.fire(agent, name, e, default)
  local row = M.by_name[name] or error("no event " .. name, 2)
  local list = M.handlers[name]
  local run = { agent = agent, row = row, list = list or {}, default = default }
  row.fired, row.last = (row.fired or 0) + 1, reactor.now()
  if not task.current() then return task.run(from, run, 1, e) end -- so that a wait can be ended
  return from(run, 1, e)
end

return M

-- scripts/task.lua - the scheduler: the only file that touches coroutine.* and reactor.poll.
--
-- A task is a coroutine.  It waits for a waitable: anything with :ready() (a C object, another
-- task, an event).  Structured: a task owns the tasks it spawned; when it ends they are cancelled
-- and waited for, and a failure nobody looked at fails the owner.
--
-- Cancelling makes the current wait raise `cancelled`, and each later one, so that <close>
-- variables run; what must wait while cleaning up says task.shield(f).  After 5 seconds the
-- coroutine is closed.
--
-- Outside any task every wait turns the reactor itself, so plain scripts read naturally.  In a
-- task that can't yield (inside table.sort), or in a coroutine that isn't the task's, waiting raises:
-- the first would re-enter the scheduler, the second would hand the waitable to the generator.

local reactor = require "terret.reactor"

local M = {}

local CLOSE_AFTER = 5 -- seconds from cancelling to closing

---@class terret.task
---@field done boolean
---@field traceback string? of the error that ended it
---@field waited number? seconds that it has waited so far
---@field patience number? when its waits end with an error (leash.lua)
local Task = {}
Task.__index = Task

local current ---@type terret.task?
local runnable = {} ---@type terret.task[]
local waiters = {} -- waitable -> list of tasks (a waitable with no waiter has no entry)
local timed = {} -- task -> when its wait, or its patience after cancelling, is over

local Cancelled = { __tostring = function(e) return "cancelled: " .. e.reason end }

---@param err any
---@return boolean true for the error that cancelling raises
function M.is_cancelled(err) return getmetatable(err) == Cancelled end

---@return terret.task? task the one that is running
function M.current() return current end

-- Scheduling --------------------------------------------------------------------------------

local function make_runnable(t)
  if t.waiting_for then
    local list = waiters[t.waiting_for]
    if list then
      for i = #list, 1, -1 do
        if list[i] == t then table.remove(list, i) end
      end
      if #list == 0 then waiters[t.waiting_for] = nil end
    end
    t.waiting_for = nil
  end
  timed[t] = t.close_at
  if not t.queued then
    t.queued = true
    runnable[#runnable + 1] = t
  end
end

-- Wakes whoever waits for x.
local function notify(x)
  local list = waiters[x]
  if not list then return end
  waiters[x] = nil
  for _, t in ipairs(list) do
    t.waiting_for = nil
    make_runnable(t)
  end
end

local function finish(t, ok, ...)
  t.done, t.ok, t.results = true, ok, table.pack(...)
  timed[t] = nil
  notify(t)
  local parent = t.parent
  if not parent then return end
  parent.children[t] = nil
  if not ok and not t.observed and not M.is_cancelled(...) then
    parent.failed_child = parent.failed_child or t
  end
  if parent.scope_wait then notify(parent.scope_wait) end
end

-- The body of a task: f, then the end of its children.
local function body(t, f, ...)
  local result = table.pack(xpcall(f, function(err)
    t.traceback = debug.traceback(tostring(err), 2)
    return err
  end, ...))
  local cancelled = t.cancelled
  t.cancelled = nil -- waiting for the children isn't interrupted: they have 5 seconds themselves
  for child in pairs(t.children) do M.cancel(child) end
  for child in pairs(t.children) do
    child.observed = true
    while not child.done do M.wait(child) end
  end
  t.cancelled = cancelled
  local failed = t.failed_child
  if result[1] and failed and not failed.observed then return false, failed.results[1] end
  return table.unpack(result, 1, result.n)
end

local function resume(t)
  t.queued = false
  if t.done then return end
  local before = current
  current = t
  reactor.running(t.co)
  local ok, state, a = coroutine.resume(t.co)
  current = before
  reactor.running(before and before.co)
  if coroutine.status(t.co) == "suspended" then return end
  if not ok then return finish(t, false, state) end
  local result = a
  finish(t, result[1], table.unpack(result, 2, result.n))
end

-- What nothing could end by asking is closed; its children with it.  A <close> that waits then
-- raises `cancelled`, since t is the current task and no longer shielded.
local function close_by_force(t)
  make_runnable(t)
  local before = current
  current, t.shielded = t, nil
  local ok, err = coroutine.close(t.co)
  current = before
  for child in pairs(t.children) do close_by_force(child) end
  finish(t, false, ok and t.cancelled or err)
end

local function expire(now)
  local over = {}
  for t, when in pairs(timed) do
    if when <= now then over[#over + 1] = t end
  end
  for _, t in ipairs(over) do
    if t.close_at and t.close_at <= now then
      close_by_force(t)
    else
      t.timed_out = true
      make_runnable(t)
    end
  end
end

-- One turn: whoever can run runs, then the reactor waits for what is next.
local function turn()
  local batch = runnable
  runnable = {}
  for _, t in ipairs(batch) do resume(t) end
  local wait
  if #runnable > 0 then
    wait = 0
  else
    local now = reactor.now()
    for _, when in pairs(timed) do wait = math.min(wait or math.huge, math.max(0, when - now)) end
  end
  return wait
end

local function poll(wait)
  for _, x in ipairs(reactor.poll(wait)) do
    if waiters[x] and x:ready() then notify(x) end
  end
  if next(timed) then expire(reactor.now()) end
end

-- Waiting ------------------------------------------------------------------------------------

-- Turns the loop from outside any task until x is ready or the time is over.
local function wait_outside(x, seconds)
  local deadline = seconds and reactor.now() + seconds
  while not x:ready() do
    local left = deadline and deadline - reactor.now()
    if left and left <= 0 then return false end
    local wait = turn()
    if x:ready() then return true end
    if left then wait = math.min(wait or left, left) end
    poll(wait)
  end
  return true
end

-- Waits until x is ready; false when the time is over.  Raises when the task was cancelled.
function M.wait(x, seconds)
  local t = current
  if not t then return wait_outside(x, seconds) end
  if coroutine.running() ~= t.co then
    error("waiting in a coroutine that is not the task's own", 3)
  elseif not coroutine.isyieldable() then
    error("waiting where the task can't yield (inside sort, gsub or a metamethod)", 3)
  end
  if t.cancelled and not t.shielded then error(t.cancelled, 0) end
  if x:ready() then return true end
  if seconds and seconds <= 0 then return false end
  t.waiting_for, t.timed_out = x, nil
  local list = waiters[x]
  if list then list[#list + 1] = t else waiters[x] = { t } end
  local began = reactor.now()
  local deadline = math.min(seconds and began + seconds or math.huge, t.close_at or math.huge, t.patience or math.huge)
  timed[t] = deadline < math.huge and deadline or nil
  coroutine.yield()
  local now = reactor.now()
  t.waited = (t.waited or 0) + now - began -- for those who count computing time only (leash.lua)
  if t.cancelled and not t.shielded then error(t.cancelled, 0) end
  if t.patience and now >= t.patience and not x:ready() then error("waited too long", 2) end
  return not t.timed_out or x:ready()
end

---Waits for x.  A task's results come back, its error is raised again.
---@param x any waitable
---@param seconds number? at most
---@return any ... results of a task; true for another waitable; nil, message, "timeout"
function M.await(x, seconds)
  local is_task = getmetatable(x) == Task
  if is_task then x.observed = true end
  if not M.wait(x, seconds) then return nil, "time is over", "timeout" end
  if not is_task then return true end
  if not x.ok then error(x.results[1], 0) end
  return table.unpack(x.results, 1, x.results.n)
end

-- A waitable that only notify() or the time ends.  Each wait has its own, so that it has one waiter.
local Never = { ready = function() return false end }
Never.__index = Never
local function never() return setmetatable({}, Never) end

---@param seconds number
function M.sleep(seconds) M.wait(never(), seconds) end

-- Tasks --------------------------------------------------------------------------------------

function Task:ready() return self.done end

---Starts f as a child of the current task; it runs at the next turn.
---@param f function
---@param ... any arguments
---@return terret.task
function M.spawn(f, ...)
  local t = setmetatable({ children = {}, parent = current, done = false }, Task)
  local args = table.pack(...)
  t.co = coroutine.create(function()
    return "done", table.pack(body(t, f, table.unpack(args, 1, args.n)))
  end)
  local hook, mask, count = debug.gethook()
  if hook then debug.sethook(t.co, hook, mask, count) end -- what is limited stays so
  if current then
    current.children[t] = true
    -- A child born while its owner is being cancelled doesn't start a new life.
    if current.cancelled and not current.shielded then M.cancel(t, current.cancelled.reason) end
  end
  make_runnable(t)
  return t
end

---Makes the current and each later wait of t raise.  Idempotent.
---@param t terret.task
---@param reason string?
function M.cancel(t, reason)
  if t.done or t.cancelled then return end
  t.cancelled = setmetatable({ reason = reason or "cancelled" }, Cancelled)
  t.close_at = reactor.now() + CLOSE_AFTER
  if t == current then return end
  if t.shielded then
    timed[t] = math.min(timed[t] or math.huge, t.close_at)
  else
    make_runnable(t)
  end
end

---Runs f without being interrupted by cancelling (the 5 seconds still hold).
---@param f function
---@param ... any
---@return any ... results of f
function M.shield(f, ...)
  local t = current
  if not t then return f(...) end
  local before = t.shielded
  t.shielded = true
  local result = table.pack(pcall(f, ...))
  t.shielded = before
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

---Runs f to its end, with all that it spawns.
---@param f function
---@param ... any
---@return any ... results of f; its error is raised
function M.run(f, ...)
  local t = M.spawn(f, ...)
  local ok, err = pcall(M.wait, t)
  if not ok then -- we were cancelled: so is what we wait for
    M.cancel(t, M.is_cancelled(err) and err.reason or nil)
    M.shield(M.wait, t)
    error(err, 0)
  end
  return M.await(t)
end

---@class terret.task.scope
local Scope = {}
Scope.__index = Scope

---@param f function
---@param ... any
---@return terret.task
function Scope:spawn(f, ...)
  local t = M.spawn(f, ...)
  self.tasks[#self.tasks + 1] = t
  return t
end

---Runs f(scope) and waits for all that it spawned; the first error cancels the rest and is raised.
---@param f fun(scope: terret.task.scope)
function M.scope(f)
  local function run_scope()
    local scope = setmetatable({ tasks = {} }, Scope)
    f(scope)
    local me = current
    local i = 1
    while i <= #scope.tasks do
      local t = scope.tasks[i]
      while not t.done do
        local failed = me.failed_child
        if failed and not failed.observed then
          failed.observed = true
          error(failed.results[1], 0) -- the end of this task cancels the others
        end
        me.scope_wait = never() -- finish() of any child notifies it
        M.wait(me.scope_wait)
        me.scope_wait = nil
      end
      M.await(t)
      i = i + 1
    end
  end
  return M.run(run_scope)
end

-- Events -------------------------------------------------------------------------------------

---@class terret.task.event
local Event = {}
Event.__index = Event

---A waitable that becomes ready once.
---@return terret.task.event
function M.event() return setmetatable({}, Event) end
function Event:ready() return self.is_set == true end
---@param value any kept in .value
function Event:set(value)
  self.is_set, self.value = true, value
  notify(self)
end

return M

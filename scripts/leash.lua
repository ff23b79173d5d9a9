-- scripts/leash.lua - runs code of others with a limit: computing time, waiting time, memory.
--
-- An instruction hook on the running coroutine looks at the clock; the time of a wait doesn't count
-- (task.lua tells).  It is sticky: once over, every further instruction raises, so a pcall in a loop does not
-- escape; only run() below is let through.  Tasks and coroutines that the code makes inherit it.
-- What it can't stop is one call of a C function that takes long (a huge string.rep), and what a
-- finalizer does: Lua runs no hook there.

local reactor = require "terret.reactor"
local task = require "terret.task"

local M = {}

local sethook, getinfo = debug.sethook, debug.getinfo

M.seconds = 1 -- of computing
M.wait = 60 -- seconds of waiting
M.memory = 512 * 1024 -- KiB more than at the start
local COUNT = 4000 -- instructions between two looks
local PER_SECOND = 500e6 -- instructions that no machine gets through in a second of budget

local exempt = {} -- functions that a sticky hook lets through: those that take it off
local outside -- the leash of what runs in no task

local function trip(leash, why)
  if not leash.tripped then
    local at = getinfo(4, "Sl")
    leash.tripped = ("%s (at %s:%d)"):format(why, at.short_src, at.currentline)
  end
  sethook(leash.hook, "", 1)
  error(leash.tripped, 0)
end

-- Waiting is no computing: what the task waited since the leash was taken up comes off.
local function computing(leash)
  local waited = leash.task and (leash.task.waited or 0) - leash.waited or 0
  return leash.used + reactor.now() - leash.began - waited
end

local function look(leash)
  if leash.over then return sethook() end
  if leash.tripped then
    if exempt[getinfo(3, "f").func] then return end
    trip(leash)
  end
  leash.ticks = leash.ticks + 1
  if leash.ticks * COUNT > leash.seconds * PER_SECOND then trip(leash, "computed too long") end
  if leash.task == task.current() and not leash.paused and computing(leash) > leash.seconds then
    trip(leash, ("computed longer than %g s without waiting"):format(leash.seconds))
  end
  if collectgarbage("count") > leash.memory then trip(leash, "took too much memory") end
end

local function held()
  local t = task.current()
  if t then return t.leash end
  return outside
end

local function take_up(leash)
  leash.began, leash.paused = reactor.now(), false
  local t = leash.task
  if t then
    leash.waited, leash.before = t.waited or 0, t.patience
    t.patience = leash.began + leash.wait
  end
  sethook(leash.hook, "", COUNT)
end

local function put_down(leash)
  sethook()
  leash.used, leash.paused = computing(leash), true
  local t = leash.task
  if t then
    leash.wait = leash.wait - (t.waited or 0) + leash.waited
    t.patience = leash.before
  end
end

-- What comes after the code on the leash.
local function finish(leash, ok, ...)
  sethook()
  put_down(leash)
  leash.over = true
  local outer, t = leash.outer, leash.task
  if t then t.leash = outer else outside = outer end
  if outer and not leash.was_paused then take_up(outer) end
  if leash.tripped then return false, leash.tripped, true end
  if not ok and leash.wait <= 0 and not task.is_cancelled(...) then return false, "waited too long", true end
  return ok, ...
end

---Runs f(...) on a leash.
---@param options {seconds: number?, wait: number?}
---@param f function
---@param ... any
---@return boolean ok
---@return any ... results; or the error (a string has its traceback) and whether the leash ended it
function M.run(options, f, ...)
  local outer, t = held(), task.current()
  local leash = { seconds = options.seconds or M.seconds, wait = options.wait or M.wait, used = 0, ticks = 0,
    task = t, outer = outer, was_paused = outer and outer.paused, memory = collectgarbage("count") + M.memory,
    began = 0, waited = 0, before = nil, paused = false, over = false, tripped = nil, hook = nil }
  leash.hook = function() look(leash) end
  if outer and not outer.paused then put_down(outer) end
  if t then t.leash = leash else outside = leash end
  take_up(leash)
  return finish(leash, xpcall(f, debug.traceback, ...)) -- traceback is of C: no hook in it
end
exempt[M.run], exempt[finish] = true, true

local function back(leash, ...)
  take_up(leash)
  return ...
end

---Runs f(...) for the code on the leash, whose clock stands still meanwhile.
---@param f function
---@param ... any
---@return boolean ok as pcall
---@return any ...
function M.off(f, ...)
  local leash = held()
  if not leash or leash.paused then return pcall(f, ...) end
  put_down(leash)
  return back(leash, pcall(f, ...))
end

---The coroutine library for scripts: what they make is on the leash that they are on.
---@return table
function M.coroutine()
  local out = setmetatable({}, { __index = coroutine })
  local function leashed(co)
    local leash = held()
    if leash then sethook(co, leash.hook, "", COUNT) end
    return co
  end
  function out.create(f) return leashed(coroutine.create(f)) end
  function out.wrap(f)
    local co = leashed(coroutine.create(f))
    return function(...)
      local result = table.pack(coroutine.resume(co, ...))
      if not result[1] then error(result[2], 0) end
      return table.unpack(result, 2, result.n)
    end
  end
  return out
end

return M

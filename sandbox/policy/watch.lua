-- sandbox/policy/watch.lua - the limits that nothing in the kernel holds: a look at a command's processes
-- every now and then, and the end of the command when they are too many or too large.
--
-- It follows /proc/PID/task/TID/children from process 1 (with a PID namespace of its own, nothing gets
-- away from it).  Resident memory counts shared pages once for each process; so when the sum is
-- over the limit, proportional sizes decide.

local fs = require "terret.fs"
local task = require "terret.task"
local reactor = require "terret.reactor"

local M = {}

local INTERVAL = 0.05 -- seconds between two looks
local FAST = 0.01 -- where processes are counted: a fork takes some 50 microseconds
local SHARE = 50 -- at most 1/SHARE of the time is spent looking

local function slurp(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

---@param pid integer
---@param max integer? stop counting there
---@return integer[] the process and all below it
function M.processes(pid, max)
  local list, i = { pid }, 1
  while list[i] and #list <= (max or math.huge) do
    local dir = "/proc/" .. list[i] .. "/task"
    for _, thread in ipairs(fs.list(dir) or {}) do
      for child in (slurp(dir .. "/" .. thread.name .. "/children") or ""):gmatch("%d+") do
        list[#list + 1] = math.tointeger(tonumber(child))
      end
    end
    i = i + 1
  end
  return list
end

local function resident(list)
  local sum = 0
  for _, pid in ipairs(list) do
    sum = sum + 1024 * (tonumber((slurp("/proc/" .. pid .. "/status") or ""):match("\nVmRSS:%s+(%d+) kB")) or 0)
  end
  return sum
end

local function proportional(list)
  local sum = 0
  for _, pid in ipairs(list) do
    sum = sum + 1024 * (tonumber((slurp("/proc/" .. pid .. "/smaps_rollup") or ""):match("\nPss:%s+(%d+) kB")) or 0)
  end
  return sum
end

---The limit that the processes of a command are over, or nil.
---@param pid integer
---@param limits {nproc: integer?, memory: integer?}
---@return string? name
---@return boolean? many processes, but not too many
function M.over(pid, limits)
  local list = M.processes(pid, limits.nproc)
  if limits.nproc and #list > limits.nproc then return "nproc" end
  if limits.memory and resident(list) > limits.memory and proportional(list) > limits.memory then return "memory" end
  return nil, limits.nproc ~= nil and #list > limits.nproc // 4
end

---Watches a command until it ends; kills it when it is over a limit, and keeps which one in `hit`.
---@param process terret.exec.process
---@param limits {nproc: integer?, memory: integer?}
---@param hit table<string, boolean>
function M.follow(process, limits, hit)
  local pid = process:pid()
  local pause = limits.nproc and FAST or INTERVAL
  while true do
    task.sleep(pause)
    local open, status = pcall(process.status, process)
    if not open or status then return end
    local started = reactor.now()
    local name, many = M.over(pid, limits)
    if name then
      hit[name] = true
      process:kill("KILL")
      return
    end
    pause = many and FAST or math.max(limits.nproc and FAST or INTERVAL, SHARE * (reactor.now() - started))
  end
end

return M

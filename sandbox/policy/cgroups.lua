-- sandbox/policy/cgroups.lua - limits of memory and processes for all commands of a session together.
--
-- A cgroup is a directory that terret makes: below its own one or below one of that's ancestors,
-- wherever it may (root; systemd's delegated part of the tree).  Version 1 has a tree for each
-- controller, version 2 one for all, where the parent must hand the controllers on.  Where none
-- can be made, limits are what watch.lua does, and for ordinary users the kernel's own limit of processes
-- in a user namespace.

local exec = require "terret.exec"
local fs = require "terret.fs"

local M = {}

-- How each version calls what: file of the limit, file of the counter, name of the count in it.
local CONTROLLERS = {
  { name = "pids", limit = "nproc", file = { "pids.max", "pids.max" }, counter = { "pids.events", "pids.events" },
    count = "max" },
  { name = "memory", limit = "memory", file = { "memory.limit_in_bytes", "memory.max" },
    counter = { "memory.oom_control", "memory.events" }, count = "oom_kill",
    swap = { "memory.memsw.limit_in_bytes", "memory.swap.max" } },
}

local function slurp(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

local function put(path, value)
  local file = io.open(path, "w")
  if not file then return false end
  file:setvbuf("no")
  local ok = file:write(value)
  return file:close() and ok ~= nil
end

-- Where cgroups are mounted: {["pids"] = {point, root}, [2] = {point, root}}.
local function mounts(mountinfo)
  local out = {}
  for line in mountinfo:gmatch("[^\n]+") do
    local root, point, kind, options = line:match("^%S+ %S+ %S+ (%S+) (%S+) .- %- (cgroup2?) %S+ (%S+)")
    if kind == "cgroup2" then
      out[2] = { point = point, root = root }
    elseif kind then
      for name in options:gmatch("[^,]+") do out[name] = { point = point, root = root } end
    end
  end
  return out
end

-- Our own directories, each with what it is for.
local function own(lines, mounted)
  local out = {}
  for names, path in lines:gmatch("%d+:([^:\n]*):([^\n]*)") do
    local m = names == "" and mounted[2]
    for name in names:gmatch("[^,]+") do m = m or mounted[name] end
    if m then
      local rest = path:sub(1, #m.root) == m.root and path:sub(#m.root + 1) or path
      local dir = (m.point .. "/" .. rest):gsub("/+", "/"):gsub("(.)/$", "%1")
      if names == "" then out[2] = { dir = dir, top = m.point } end
      for name in names:gmatch("[^,]+") do out[name] = { dir = dir, top = m.point } end
    end
  end
  return out
end

-- An empty directory of a terret that is gone.
local function sweep(dir)
  for _, e in ipairs(fs.list(dir) or {}) do
    local pid = e.name:match("^terret%-(%d+)%-%d+$")
    if pid and not fs.stat("/proc/" .. pid) then os.remove(dir .. "/" .. e.name) end
  end
end

local serial = 0

local function make(place, wanted)
  local dir = place.dir
  while true do
    local handed = not wanted or (slurp(dir .. "/cgroup.subtree_control") or ""):find(wanted, 1, true)
    if handed then
      serial = serial + 1
      local new = ("%s/terret-%d-%d"):format(dir, fs.whoami().pid, serial)
      if fs.mkdir(new) then
        sweep(dir)
        return new
      end
    end
    if dir == place.top or #dir <= #place.top then return nil end
    dir = dir:match("^(.+)/[^/]*$") or place.top
  end
end

---@class terret.sandbox.cgroups
---@field procs string[] for exec.spawn
---@field dirs string[]
---@field counters {path: string, count: string, limit: string, last: integer}[]
local Group = {}
Group.__index = Group

local function count(c)
  return tonumber((slurp(c.path) or ""):match("%f[%w_]" .. c.count .. " (%d+)")) or 0
end

-- Makes one controller's cgroup, or uses the one of version 2 that another made.
local function limit(group, c, places, value)
  local version = places[c.name] and 1 or places[2] and 2
  if not version then return end
  local dir = version == 2 and group.unified
  if not dir then
    dir = make(places[version == 1 and c.name or 2], version == 2 and c.name or nil)
    if not dir then return end
    group.dirs[#group.dirs + 1] = dir
    if version == 2 then group.unified = dir end
  end
  if not put(dir .. "/" .. c.file[version], tostring(value)) then return end
  if c.swap then put(dir .. "/" .. c.swap[version], version == 2 and "0" or tostring(value)) end
  local procs = dir .. "/cgroup.procs"
  if group.procs[#group.procs] ~= procs then group.procs[#group.procs + 1] = procs end
  group.counters[#group.counters + 1] = { path = dir .. "/" .. c.counter[version], count = c.count, limit = c.limit,
    last = 0 }
  group.holds[c.limit] = true
end

---@param limits {nproc: integer, memory: integer}
---@param text {mountinfo: string, own: string}? instead of what /proc says, for tests
---@return terret.sandbox.cgroups holds what could be made: .holds.nproc, .holds.memory
function M.new(limits, text)
  local group = setmetatable({ procs = {}, dirs = {}, counters = {}, holds = {} }, Group)
  local mountinfo = text and text.mountinfo or slurp("/proc/self/mountinfo")
  local lines = text and text.own or slurp("/proc/self/cgroup")
  if not mountinfo or not lines then return group end
  local places = own(lines, mounts(mountinfo))
  for _, c in ipairs(CONTROLLERS) do
    if limits[c.limit] then limit(group, c, places, limits[c.limit]) end
  end
  return group
end

---Cgroups that a command can really be started in.
---@param limits {nproc: integer, memory: integer}
---@return terret.sandbox.cgroups
function M.hold(limits)
  local group = M.new(limits)
  local process <close> = #group.procs > 0
    and exec.spawn { argv = { "/bin/true" }, env = {}, cwd = "/", cgroups = group.procs } or nil
  if not process then group:close() end
  return group
end

---The limits that nothing in the kernel holds.
---@param limits {nproc: integer, memory: integer}
---@param own_count boolean the kernel counts the processes of these commands alone
---@return {nproc: integer?, memory: integer?}
function Group:unheld(limits, own_count)
  local out = {}
  if not self.holds.memory then out.memory = limits.memory end
  if not self.holds.nproc and not own_count then out.nproc = limits.nproc end
  return out
end

---The limits that were hit since the last time.
---@return table<string, boolean> by name
function Group:hit()
  local out = {}
  for _, c in ipairs(self.counters) do
    local now = count(c)
    if now > c.last then out[c.limit] = true end
    c.last = now
  end
  return out
end

---Removes the cgroups; what still runs in one keeps it.
function Group:close()
  for _, dir in ipairs(self.dirs) do os.remove(dir) end
  self.procs, self.dirs, self.counters, self.holds = {}, {}, {}, {}
end
Group.__gc = Group.close
Group.__close = Group.close

return M

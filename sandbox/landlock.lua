-- sandbox/landlock.lua - where bubblewrap can't start (containers, AppArmor): Landlock, a filter of system
-- calls and limits, without namespaces.
--
-- Landlock only allows, and everything below what it allows.  So the places around a secret are
-- listed one by one: what appears beside a secret later can't be read, and a directory that holds one
-- can't be listed.  Sockets are refused altogether, since a path socket of the host can't be told from
-- an own one; pairs of sockets work.
--
-- Not held here: the host's processes can be seen, /tmp is the host's and not writable (TMPDIR is
-- private), and git's hooks and configuration are looked at after the command (as it was before is what
-- comes back).  The README has the whole list.

local fs = require "terret.fs"
local cgroups = require "terret.sandbox.policy.cgroups"
local restore = require "terret.sandbox.policy.restore"
local syscalls = require "terret.sandbox.policy.syscalls"
local exec = require "terret.exec"
local task = require "terret.task"

local M = { name = "landlock", isolated = false }

-- Not readable: other users' files, sockets, sessions.
local NOT_READ = { "/tmp", "/var/tmp", "/dev/shm", "/run", "/dev" }
local DEVICES = { "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom" }
local RUN_KEPT = { "/run/current-system", "/run/wrappers", "/run/opengl-driver" }

local NO_SOCKETS = { { "socket", arg = 0, except = { 16 }, action = "EACCES" } } -- netlink
local NO_TRUNCATE = { NO_SOCKETS[1], "truncate", "ftruncate" } -- Landlock before ABI 3 lets it through

local function landlock()
  local ok, module = pcall(require, "terret.landlock")
  return ok and module or nil
end

local function filter_of(abi) return syscalls.filter(abi < 3 and NO_TRUNCATE or NO_SOCKETS) end

-- Finding out whether it works --------------------------------------------------------------

local probed ---@type {abi: integer?, why: string?}?

local function probe()
  local module = landlock()
  local abi = module and module.abi() or 0
  if abi < 1 then return { why = "this kernel has no Landlock (Linux 5.13, lsm=landlock)" } end
  local filter, message = filter_of(abi)
  if not filter then return { why = message } end
  local ruleset <close>, why = module.ruleset { read = { "/" }, exec = { "/" } }
  if not ruleset then return { why = why } end
  local process <close>, refused = exec.spawn { argv = { "/bin/true" }, env = {}, cwd = "/", drop = true,
    landlock = ruleset:fd(), seccomp = filter }
  if not process then return { why = refused } end
  task.await(process)
  if process:status().code ~= 0 then return { why = "a command under it fails" } end
  return { abi = abi }
end

---@return boolean
---@return string? why
function M.available()
  probed = probed or probe()
  return probed.abi ~= nil, probed.why
end

-- What may be read -----------------------------------------------------------------------------

local function inside(path, dir) return path == dir or path:sub(1, #dir + 1) == dir .. "/" or dir == "/" end

---The places that may be read: all but what is to be left out.  Links are passed by, since a rule for a
---link is one for its target.
---@param leave string[] real paths
---@param top string? only what is below it; default all
---@return string[]
function M.around(leave, top)
  local out = {}
  local function visit(dir)
    local holds = false
    for _, path in ipairs(leave) do
      if inside(dir, path) and not inside(top or "/", path) then return end
      holds = holds or inside(path, dir) and path ~= dir
    end
    if not holds then
      out[#out + 1] = dir
      return
    end
    for _, e in ipairs(fs.list(dir) or {}) do
      local path = (dir == "/" and "" or dir) .. "/" .. e.name
      if e.type == "directory" then
        visit(path)
      elseif e.type ~= "link" then
        local left = false
        for _, l in ipairs(leave) do left = left or l == path end
        if not left then out[#out + 1] = path end
      end
    end
  end
  visit(top or "/")
  return out
end

local function places(policy)
  local leave = { table.unpack(NOT_READ) }
  local read, write = {}, { table.unpack(DEVICES) }
  for _, h in ipairs(policy:hidden()) do
    leave[#leave + 1] = h.path
    if h.keep then read[#read + 1] = h.keep end
  end
  local around = M.around(leave)
  table.move(around, 1, #around, #read + 1, read)
  for _, list in ipairs { DEVICES, RUN_KEPT } do
    for _, path in ipairs(list) do read[#read + 1] = path end
  end
  local own = {}
  for _, list in ipairs { policy.scratch, policy.caches } do
    for _, d in ipairs(list) do
      fs.mkdir(d.host, { parents = true, mode = tonumber("700", 8) })
      own[#own + 1] = d.host
    end
  end
  for _, dir in ipairs(policy.writable_dirs) do -- around a secret in it
    local list = M.around(leave, dir)
    table.move(list, 1, #list, #own + 1, own)
  end
  for _, dir in ipairs(policy:guarded().rw) do own[#own + 1] = dir end
  if policy.readonly then
    local list = M.around(leave, policy.project)
    table.move(list, 1, #list, #read + 1, read)
  end
  for _, path in ipairs(own) do
    read[#read + 1] = path
    write[#write + 1] = path
  end
  return { read = read, exec = read, write = write, net = false }
end

local kept = setmetatable({}, { __mode = "k" }) -- policy -> {list, ruleset, group, watch}

-- The ruleset is made anew when a secret has appeared.
local function prepare(policy)
  local list = policy:hidden()
  local have = kept[policy]
  if have and have.list == list then return have end
  local ruleset, message, code = landlock().ruleset(places(policy))
  if not ruleset then return nil, message, code end
  local group = have and have.group or cgroups.hold(policy.limits)
  kept[policy] = { list = list, ruleset = ruleset, group = group, watch = group:unheld(policy.limits, false) }
  return kept[policy]
end

---@param policy terret.sandbox.policy
function M.close(policy)
  if kept[policy] then
    kept[policy].ruleset:close()
    kept[policy].group:close()
  end
  kept[policy] = nil
end

-- Wrapping ---------------------------------------------------------------------------------------

local function environment(policy, env)
  local vars = {}
  for name, value in pairs(env) do vars[name] = value end
  vars.TMPDIR = policy.tmp
  vars.XDG_CACHE_HOME = policy.caches[1] and policy.caches[1].host or policy.tmp and policy.tmp .. "/.cache"
  vars.npm_config_cache = vars.XDG_CACHE_HOME and vars.XDG_CACHE_HOME .. "/npm"
  return vars
end

---@param policy terret.sandbox.policy
---@param argv string[]
---@param env table<string, string>
---@return table? plan
---@return string? message
---@return terret.code? code
function M.wrap(policy, argv, env)
  local ok, why = M.available()
  if not ok then return nil, why, "no_sandbox" end
  local have, message = prepare(policy)
  if not have then return nil, message, "no_sandbox" end
  local guarded, limits = policy:guarded(), policy.limits
  if guarded.whole[1] then -- nothing can be read-only inside what is writable
    return nil, guarded.whole[1] .. " holds more git directories than can be looked after", "no_sandbox"
  end
  guarded.top = nil -- what was there is put back, into whatever `.git` is then
  local before = restore.snapshot(guarded.ro)
  return { argv = argv, env = environment(policy, env), cwd_is_host = true, drop = true, landlock = have.ruleset:fd(),
    seccomp = filter_of(probed.abi), cgroups = have.group.procs, watch = have.watch,
    rlimits = { core = limits.core, fsize = limits.fsize, nofile = limits.nofile },
    after = function(status, hit)
      for name in pairs(have.group:hit()) do hit[name] = true end
      local notes = policy:settle(guarded)
      for _, list in ipairs { restore.undo(before), policy:limit_notes(status, hit) } do
        table.move(list, 1, #list, #notes + 1, notes)
      end
      return notes
    end }
end

return M

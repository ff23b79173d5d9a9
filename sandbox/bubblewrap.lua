-- sandbox/bubblewrap.lua - namespaces for users, mounts, network, IPC, host name and cgroups that
-- last as long as the policy, made by bwrap at the first command; and for each command its own
-- processes, its own copy of the mounts, no capabilities, no new privileges, a filter of system
-- calls, limits, and no terminal.
--
-- wrap() waits only for the first command of a policy, or when a git directory outside the project
-- became writable or stopped being so.  /tmp is a directory of the host and survives that.
--
-- Unix sockets of the host have no namespace: connecting needs only the path.  What is bound at
-- the start of a command (and is not in a private directory anyway) is covered one by one.

local fs = require "terret.fs"
local exec = require "terret.exec"
local task = require "terret.task"
local cgroups = require "terret.sandbox.policy.cgroups"
local holder = require "terret.sandbox.bubblewrap.holder"
local mounts = require "terret.sandbox.bubblewrap.mounts"
local syscalls = require "terret.sandbox.policy.syscalls"

local M = { name = "bubblewrap", isolated = true, sockets = mounts.sockets }

local PLACES = { "/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin", "/run/wrappers/bin" }

-- Finding out whether it works --------------------------------------------------------------

-- Never through the PATH of a project: this runs outside the sandbox.
local function find()
  for _, dir in ipairs(PLACES) do
    local info = fs.stat(dir .. "/bwrap")
    if info and info.type == "file" then return dir .. "/bwrap" end
  end
end

local function contents(path)
  local file = io.open(path)
  if not file then return nil end
  local text = file:read("l")
  file:close()
  return text
end

-- What the user can do about bwrap's refusal.
local function advice(message)
  if contents("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" then
    return message .. "; AppArmor forbids user namespaces here: install the profile of bwrap "
      .. "(/etc/apparmor.d/bwrap-userns-restrict, package apparmor-profiles), or "
      .. "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
  elseif contents("/proc/sys/kernel/unprivileged_userns_clone") == "0" then
    return message .. "; user namespaces are off: sudo sysctl -w kernel.unprivileged_userns_clone=1"
  elseif contents("/proc/sys/user/max_user_namespaces") == "0" then
    return message .. "; user namespaces are off: sudo sysctl -w user.max_user_namespaces=15000"
  elseif message:find("proc", 1, true) and message:find("mount", 1, true) then
    return message .. "; in a container it needs an unmasked /proc (docker: --security-opt systempaths=unconfined)"
  end
  return message
end

-- Namespaces that hide /tmp, and a command in them under the filter.  Links can be mounted since Linux 5.2.
local function try(path, nested)
  local namespaces <close>, message = holder.open(path, nested,
    { "--perms", "0000", "--tmpfs", "/tmp", "--symlink", "/", "/tmp/link", "--remount-ro", "/tmp" })
  if not namespaces then return nil, message end
  local filter
  filter, message = syscalls.filter()
  if not filter then return nil, message end
  local o = { argv = { "/bin/true" }, env = {}, cwd = "/", join = namespaces, seccomp = filter }
  local process <close>, why = exec.spawn(o)
  if not process then return nil, "its namespaces can't be joined: " .. why end
  task.await(process)
  if process:status().code ~= 0 then return nil, "a command in its namespaces fails" end
  o.mounts = { { "bind-link", "/tmp/link", "/etc/passwd" } }
  local linked <close> = exec.spawn(o)
  return { path = path, nested = nested, links = linked ~= nil }
end

local probed ---@type {path: string?, why: string?, nested: boolean?, links: boolean?}?

local function probe()
  local path = find()
  if not path then
    return { why = "bwrap is not installed (apt install bubblewrap, dnf install bubblewrap)" }
  end
  local found, message = try(path, false)
  return found or try(path, true) or { why = advice(message) }
end

---Runs bwrap once, the first time that it is asked.
---@return boolean
---@return string? why
function M.available()
  probed = probed or probe()
  return probed.path ~= nil, probed.why
end

-- A policy's namespaces --------------------------------------------------------------------------

---@class terret.sandbox.bubblewrap.held
---@field join terret.exec.namespaces? nil: they are being made
---@field waiting table? event of those who wait for them
---@field git string the writable git directories they were made with
---@field covered table<string, string>
---@field group terret.sandbox.cgroups
local held = setmetatable({}, { __mode = "k" }) ---@type table<terret.sandbox.policy, terret.sandbox.bubblewrap.held>

local function open(policy, git_dirs, key)
  local new = { waiting = task.event(), git = key, covered = mounts.covered(policy) }
  held[policy] = new
  local _done <close> = setmetatable({}, { __close = function()
    if not new.join then held[policy] = nil end
    new.waiting:set(true)
    new.waiting = nil
  end })
  local join, message = holder.open(probed.path, probed.nested, mounts.options(mounts.session(policy, git_dirs)))
  if not join then return nil, "bubblewrap: " .. advice(message) end
  new.group = cgroups.hold(policy.limits)
  new.watch = new.group:unheld(policy.limits, fs.whoami().uid ~= 0) -- root has no limit of its own
  new.join = join
  return new
end

local function end_of(have)
  if have.join then have.join:close() end
  if have.group then have.group:close() end
end

-- The old ones, if there are any, live on in the commands that run there.
local function namespaces(policy, git_dirs)
  local key = table.concat(git_dirs, "\0")
  while held[policy] and held[policy].waiting do task.await(held[policy].waiting) end
  local have = held[policy]
  if have and have.git == key then return have end
  if have then end_of(have) end
  return open(policy, git_dirs, key)
end

---Ends what is kept for a policy; commands that run go on.
---@param policy terret.sandbox.policy
function M.close(policy)
  local have = held[policy]
  held[policy] = nil
  if have then end_of(have) end
end

-- Wrapping -------------------------------------------------------------------------------------

---@param policy terret.sandbox.policy
---@param argv string[]
---@param env table<string, string> already filtered
---@param cwd string? inside; default the project
---@return table? plan {argv, env, cwd, join, mounts, seccomp, rlimits, after}
---@return string? message
---@return terret.code? code
function M.wrap(policy, argv, env, cwd)
  local ok, why = M.available()
  if not ok then return nil, why, "no_sandbox" end
  if policy:writable(probed.path) then
    return nil, probed.path .. " is writable for commands, so it can't hold them", "no_sandbox"
  end
  local g = policy:guarded()
  local have, message = namespaces(policy, g.rw)
  if not have then return nil, message, "no_sandbox" end
  local limits, group = policy.limits, have.group
  local copies = probed.links and policy:git_copies()
  local copied = copies and copies:prepare(g.configs) or {}
  return { argv = argv, env = env, cwd = cwd or policy.project, join = have.join, cgroups = group.procs,
    mounts = mounts.command(policy, g, have.covered, copied), seccomp = syscalls.filter(), watch = have.watch,
    rlimits = { core = limits.core, fsize = limits.fsize, nproc = limits.nproc, nofile = limits.nofile },
    after = function(status, hit, alone)
      for name in pairs(group:hit()) do hit[name] = true end
      local notes = policy:settle(g, alone)
      return table.move(policy:limit_notes(status, hit), 1, 9, #notes + 1, notes)
    end }
end

return M

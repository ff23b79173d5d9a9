-- sandbox/init.lua - terret.sandbox: picks a backend and starts commands through it.
--
-- A backend is a file in the directory of backends: {name, available, wrap, close?}.  `auto` takes the first
-- that works, and never `none`: without a sandbox nothing runs unless the user typed
-- `--sandbox none`.

local exec = require "terret.exec"
local task = require "terret.task"

local M = {}

M.policy = require "terret.sandbox.policy"

-- What `auto` tries, in order.  Others that are there are only taken by name.
local AUTO = { "bubblewrap", "landlock", "seatbelt" }

local function names()
  local ok, registry = pcall(require, "terret.registry")
  if ok then return registry.names("sandbox") end
  return { "bubblewrap", "landlock", "none", "seatbelt" }
end

local function load_backend(name)
  if not name:find("^[%w_%-]+$") then return nil, ("'%s' is no name of a backend"):format(name) end
  local ok, backend = pcall(require, "terret.sandbox." .. name)
  if not ok then
    local missing = tostring(backend):find("module 'terret.sandbox." .. name .. "' not found", 1, true)
    if missing then
      return nil, ("there is no sandbox '%s' (there are: %s)"):format(name, table.concat(names(), ", "))
    end
    return nil, ("sandbox '%s' does not load: %s"):format(name, tostring(backend))
  end
  if type(backend) ~= "table" or type(backend.available) ~= "function" or type(backend.wrap) ~= "function" then
    return nil, ("sandbox '%s' must return a table with available and wrap"):format(name)
  end
  return backend
end

-- A backend that raises is one that does not work.
local function works(backend)
  local ran, ok, why = pcall(backend.available)
  if not ran then return false, tostring(ok) end
  return ok == true, why
end

---@return {name: string, ok: boolean, why: string?}[]
function M.backends()
  local list = {}
  for _, name in ipairs(names()) do
    local backend, why = load_backend(name)
    local ok = false
    if backend then ok, why = works(backend) end
    list[#list + 1] = { name = name, ok = ok, why = why }
  end
  return list
end

---@param name string a backend, or "auto"
---@return table? backend
---@return string? message
---@return terret.code? code "no_sandbox"
function M.pick(name)
  if name ~= "auto" then
    local backend, why = load_backend(name)
    if not backend then return nil, why, "no_sandbox" end
    local ok
    ok, why = works(backend)
    if ok then return backend end
    return nil, ("sandbox '%s' does not work here: %s"):format(name, why or "no reason given"), "no_sandbox"
  end
  local reasons, there = {}, {}
  for _, n in ipairs(names()) do there[n] = true end
  for _, candidate in ipairs(AUTO) do
    if there[candidate] then
      local backend, why = load_backend(candidate)
      local ok = false
      if backend then ok, why = works(backend) end
      if ok then return backend end
      reasons[#reasons + 1] = ("%s: %s"):format(candidate, why or "no reason given")
    end
  end
  return nil, "no sandbox works here, so no command runs (--sandbox none is at your own risk); "
    .. table.concat(reasons, "; "), "no_sandbox"
end

-- What is to be done when a process has ended: process -> {policy, after, hit}.
local pending = setmetatable({}, { __mode = "k" })

-- What a plan may set of the options of exec.spawn, beside fds and cwd.
local PLANNED = { "argv", "env", "rlimits", "join", "mounts", "seccomp", "landlock", "drop", "cgroups" }
local TAKEN = { cwd = true, fds = true }
for _, key in ipairs(PLANNED) do TAKEN[key] = true end

-- terret's own environment doesn't change, so a policy's choice of it is made once.
local environments = setmetatable({}, { __mode = "k" })

local function environment(policy)
  environments[policy] = environments[policy] or policy:env(exec.environ())
  local copy = {}
  for name, value in pairs(environments[policy]) do copy[name] = value end
  return copy
end

-- A command that nothing in the kernel bounds is looked at now and then, as long as the current
-- task lives.  Returns the limits that it hit.
local function watch(process, limits)
  local hit = {}
  if limits and next(limits) and task.current() then
    task.spawn(require("terret.sandbox.policy.watch").follow, process, limits, hit)
  end
  return hit
end

---Starts argv in the sandbox.  When the process has ended, call finish(process).
---@param backend table
---@param policy terret.sandbox.policy
---@param argv string[]
---@param options table? of terret.exec.spawn, but argv, env, rlimits; cwd is a directory inside
---@return terret.exec.process?
---@return string? message
---@return terret.code? code
function M.spawn(backend, policy, argv, options)
  options = options or {}
  local plan, message, code = backend.wrap(policy, argv, environment(policy), options.cwd)
  if not plan then return nil, message, code end
  local o = { fds = options.fds or plan.fds and {} }
  for _, key in ipairs(PLANNED) do o[key] = plan[key] end
  for number, fd in pairs(plan.fds or {}) do o.fds[number] = fd end
  o.cwd = plan.cwd or plan.cwd_is_host and (options.cwd or policy.project) or "/"
  for key, value in pairs(options) do
    if not TAKEN[key] then
      o[key] = value
    elseif key ~= "cwd" and key ~= "fds" then
      error(("option '%s' belongs to the backend"):format(key), 2)
    end
  end
  local process
  process, message, code = exec.spawn(o)
  if not process then return nil, message, code end
  pending[process] = { policy = policy, after = plan.after, hit = watch(process, plan.watch) }
  return process
end

---Ends what the backends keep for a policy.  What is not closed ends with terret.
---@param policy terret.sandbox.policy
function M.close(policy)
  for _, name in ipairs(names()) do
    local backend = package.loaded["terret.sandbox." .. name]
    if type(backend) == "table" and backend.close then backend.close(policy) end
  end
end

local function others(policy)
  for _, other in pairs(pending) do
    if other.policy == policy then return true end
  end
  return false
end

---What is due after the end of a process, before it is closed: puts aside what it left in protected
---places.  Idempotent.
---@param process terret.exec.process
---@return string[] notes for the user and the model
function M.finish(process)
  local due = pending[process]
  pending[process] = nil
  if not due or not due.after then return {} end
  local open, status = pcall(process.status, process)
  return due.after(open and status or {}, due.hit, not others(due.policy))
end

return M

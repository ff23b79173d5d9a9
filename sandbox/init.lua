-- sandbox/init.lua - terret.sandbox: picks a backend and starts commands through it.
--
-- A backend is a file in the directory of backends: {name, available, wrap}.  `auto` takes the first
-- that works, and never `none`: without a sandbox nothing runs unless the user typed
-- `--sandbox none`.

local exec = require "terret.exec"

local M = {}

M.policy = require "terret.sandbox.policy"

-- What `auto` tries, in order.  Others that are there are only taken by name.
local AUTO = { "bubblewrap", "landlock", "seatbelt" }

local function names()
  local ok, registry = pcall(require, "terret.registry")
  if ok then return registry.names("sandbox") end
  return { "bubblewrap", "none", "seatbelt" }
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

-- What is to be done when a process has ended: process -> plan.after.
local pending = setmetatable({}, { __mode = "k" })

local TAKEN = { argv = true, env = true, rlimits = true, cwd = true, fds = true }

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
  local plan, message, code = backend.wrap(policy, argv, policy:env(exec.environ()), options.cwd)
  if not plan then return nil, message, code end
  local o = { argv = plan.argv, env = plan.env, rlimits = plan.rlimits }
  o.fds = options.fds or plan.fds and {}
  for number, fd in pairs(plan.fds or {}) do o.fds[number] = fd end
  o.cwd = plan.cwd_is_host and (options.cwd or policy.project) or "/"
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
  pending[process] = plan.after
  return process
end

---What is due after the end of a process: puts aside what it left in protected places.
---Idempotent.
---@param process terret.exec.process
---@return string[] notes for the user and the model
function M.finish(process)
  local after = pending[process]
  pending[process] = nil
  return after and after() or {}
end

return M

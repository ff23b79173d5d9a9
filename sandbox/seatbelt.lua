-- sandbox/seatbelt.lua - macOS: sandbox-exec with a profile made from the policy.
--
-- There are no namespaces: the command sees the host's processes (but can't signal them), its
-- /tmp is a directory of the session that TMPDIR names, and nothing but the process group ends
-- with the call.  What is missing can be protected by name here, so nothing has to be watched.
--
-- The last rule that matches decides: all is denied; what is harmless is allowed; writable
-- places; what is protected in them; and last what is hidden.

local fs = require "terret.fs"

local M = { name = "seatbelt", isolated = false }

local PROGRAM = "/usr/bin/sandbox-exec"

-- What programs need to start: looking up users, preferences, logging.  None of these starts a
-- program or holds a secret.
local SERVICES = { "com.apple.system.opendirectoryd.libinfo", "com.apple.system.opendirectoryd.membership",
  "com.apple.system.notification_center", "com.apple.system.logger", "com.apple.logd",
  "com.apple.diagnosticd", "com.apple.cfprefsd.agent", "com.apple.cfprefsd.daemon",
  "com.apple.PowerManagement.control", "com.apple.bsd.dirhelper" }

local DEVICES = { "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/dev/dtracehelper", "/dev/stdout",
  "/dev/stderr" }

local function quote(s)
  return '"' .. s:gsub('[\\"]', "\\%0") .. '"'
end

local function rule(lines, verdict, operations, filters)
  if #filters == 0 then return end
  lines[#lines + 1] = ("(%s %s\n  %s)"):format(verdict, operations, table.concat(filters, "\n  "))
end

local function filters(kind, list)
  local out = {}
  for i, path in ipairs(list) do out[i] = ("(%s %s)"):format(kind, quote(path)) end
  return out
end

local function harmless(lines)
  for _, text in ipairs {
    "(version 1)", "(deny default)",
    "(allow process-exec process-fork)",
    "(allow signal process-info* (target same-sandbox))",
    "(allow process-info-pidinfo process-info-setcontrol (target self))",
    "(allow file-read* file-map-executable sysctl-read user-preference-read system-info)",
    "(allow ipc-posix-sem ipc-posix-shm pseudo-tty)",
    "(allow file-ioctl (regex #\"^/dev/(ptmx|ttys[0-9]+)$\"))",
    "(allow file-write* (regex #\"^/dev/(ptmx|ttys[0-9]+|fd/[0-9]+)$\"))",
  } do lines[#lines + 1] = text end
  local names = {}
  for i, name in ipairs(SERVICES) do names[i] = ("(global-name %s)"):format(quote(name)) end
  rule(lines, "allow", "mach-lookup", names)
  rule(lines, "allow", "file-write-data file-ioctl", filters("literal", DEVICES))
end

local function guarded(lines, g)
  local paths = { table.unpack(g.ro) }
  for _, w in ipairs(g.watch) do
    if w.kind ~= "repository" then paths[#paths + 1] = w.path end
  end
  rule(lines, "deny", "file-write*", filters("subpath", paths))
  local fixed = { table.unpack(g.pins) }
  for _, path in ipairs(paths) do
    local dir = path:match("^(.+)/[^/]*$")
    if dir then fixed[#fixed + 1] = dir end
  end
  rule(lines, "deny", "file-write-unlink", filters("literal", fixed))
end

-- A hidden place, and its ancestors, can't be renamed either.
local function hidden(lines, policy, list)
  local paths, kept, ancestors, seen = {}, {}, {}, {}
  for i, h in ipairs(list) do
    paths[i] = h.path
    if h.keep then kept[#kept + 1] = h.keep end
    local dir = h.path:match("^(.+)/[^/]*$")
    while dir and policy:writable(dir) and not seen[dir] do
      seen[dir] = true
      ancestors[#ancestors + 1] = dir
      dir = dir:match("^(.+)/[^/]*$")
    end
  end
  rule(lines, "deny", "file-read* file-write*", filters("subpath", paths))
  rule(lines, "allow", "file-read*", filters("subpath", kept))
  rule(lines, "deny", "file-write-unlink", filters("literal", ancestors))
end

---@param policy terret.sandbox.policy
---@return string text of the profile
function M.profile(policy)
  local lines = {}
  harmless(lines)
  local places = { table.unpack(policy.writable_dirs) }
  for _, list in ipairs { policy.scratch, policy.caches } do
    for _, d in ipairs(list) do places[#places + 1] = d.host end
  end
  local g = policy:guarded()
  table.move(g.rw, 1, #g.rw, #places + 1, places)
  rule(lines, "allow", "file-write*", filters("subpath", places))
  guarded(lines, g)
  hidden(lines, policy, policy:hidden())
  return table.concat(lines, "\n") .. "\n"
end

---@return boolean
---@return string? why
function M.available()
  if fs.stat(PROGRAM) then return true end
  return false, "there is no " .. PROGRAM .. " (macOS has it)"
end

---@param policy terret.sandbox.policy
---@param argv string[]
---@param env table<string, string>
---@return table plan
function M.wrap(policy, argv, env)
  local out, vars = { PROGRAM, "-p", M.profile(policy), "--" }, {}
  table.move(argv, 1, #argv, #out + 1, out)
  for name, value in pairs(env) do vars[name] = value end
  for _, list in ipairs { policy.scratch, policy.caches } do
    for _, d in ipairs(list) do fs.mkdir(d.host, { parents = true, mode = tonumber("700", 8) }) end
  end
  if policy.tmp then vars.TMPDIR = policy.tmp end
  if policy.caches[1] then vars.XDG_CACHE_HOME = policy.caches[1].host end
  vars.npm_config_cache = vars.XDG_CACHE_HOME and vars.XDG_CACHE_HOME .. "/npm" or nil
  return { argv = out, env = vars, cwd_is_host = true,
    rlimits = { core = policy.limits.core, fsize = policy.limits.fsize } }
end

return M

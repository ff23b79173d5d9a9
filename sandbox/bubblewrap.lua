-- sandbox/bubblewrap.lua - one bwrap for each command: namespaces of its own for users, mounts,
-- processes, network, IPC, host name and cgroups, no capabilities, no new privileges, a session
-- (terminal) of its own, and it dies with terret.
--
-- wrap() makes an argument list and nothing else: no process, a few stats.  Mounts are in the
-- order of words: everything read-only; the private directories; what is writable, outer before
-- inner; git's protected parts; caches; and last what is hidden, so that nothing uncovers it.
--
-- bwrap makes a mount point where there is none, on the host if the parent is writable.  So no
-- mount here has a destination that doesn't exist, but below the private /tmp.
--
-- Inside, a shell sets the process limit and becomes the command.  Outside, the limit would count
-- everything that the user runs; inside the user namespace it counts the sandbox only.
--
-- Unix sockets of the host have no namespace: connecting needs only the path.  What is bound at
-- the start of a command (and is not in a private directory anyway) is covered one by one.

local fs = require "terret.fs"
local exec = require "terret.exec"
local inside = require("terret.sandbox.policy").inside

local M = { name = "bubblewrap", isolated = true }

local PROBE_TIMEOUT = 10
local MAX_SOCKETS = 64

-- Of /run, which is private: what programs are started through (NixOS).
local RUN_KEPT = { "/run/current-system", "/run/booted-system", "/run/wrappers", "/run/opengl-driver" }
local PLACES = { "/usr/bin", "/usr/local/bin", "/bin", "/run/current-system/sw/bin", "/run/wrappers/bin" }

-- `exec` gives 126 and 127 as env(1) does.  A limit that is lower already stays.
local START = 'ulimit -%s %d 2>/dev/null; exec "$@"'
-- bash and others call the limit -u, dash calls it -p.
local ASK_LIMIT = "(ulimit -u 100) 2>/dev/null && echo u || echo p"

local NAMESPACES = { "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
  "--unshare-cgroup-try", "--new-session", "--die-with-parent", "--cap-drop", "ALL" }

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

-- The letter of the process limit that the shell in there printed.
local function run(argv)
  local p, message = exec.spawn { argv = argv, env = { PATH = "/usr/bin:/bin" }, cwd = "/", timeout = PROBE_TIMEOUT }
  if not p then return nil, message end
  require("terret.task").await(p)
  local status, output = p:status(), p:output()
  p:close()
  if status.timed_out then return nil, "bwrap did not end within " .. PROBE_TIMEOUT .. " s" end
  local line = output.head:match("^[^\n]*") or ""
  if status.code == 0 and (line == "u" or line == "p") then return line end
  return nil, line
end

local probed ---@type {path: string?, why: string?, letter: string?, nested: boolean?}?

local function probe()
  local path = find()
  if not path then
    return { why = "bwrap is not installed (apt install bubblewrap, dnf install bubblewrap)" }
  end
  local argv = { path }
  table.move(NAMESPACES, 1, #NAMESPACES, 2, argv)
  for _, a in ipairs { "--disable-userns", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
    "--perms", "0000", "--tmpfs", "/tmp", "--remount-ro", "/tmp", "--", "/bin/sh", "-c", ASK_LIMIT } do
    argv[#argv + 1] = a
  end
  local letter, message = run(argv)
  if letter then return { path = path, letter = letter, nested = false } end
  for i, a in ipairs(argv) do
    if a == "--disable-userns" then table.remove(argv, i) break end
  end
  letter = run(argv)
  if letter then return { path = path, letter = letter, nested = true } end
  return { why = advice(message ~= "" and message or "bwrap failed") }
end

---Runs bwrap once, the first time that it is asked.
---@return boolean
---@return string? why
function M.available()
  probed = probed or probe()
  return probed.path ~= nil, probed.why
end

-- The parts of the argument list ------------------------------------------------------------

local function add(argv, ...)
  local n = #argv
  for i = 1, select("#", ...) do argv[n + i] = (select(i, ...)) end
end

local function private(argv, policy)
  if #policy.scratch == 0 then add(argv, "--tmpfs", "/tmp", "--tmpfs", "/var/tmp") end
  for _, s in ipairs(policy.scratch) do
    fs.mkdir(s.host, { parents = true, mode = tonumber("700", 8) })
    add(argv, "--bind", s.host, s.inside)
  end
  if not fs.stat("/run") then return end
  add(argv, "--tmpfs", "/run")
  for _, path in ipairs(RUN_KEPT) do
    if fs.stat(path) then add(argv, "--ro-bind", path, path) end
  end
end

-- The kernel asks for root's number there, not for capabilities; bwrap covers the rest of /proc.
local function proc(argv)
  add(argv, "--proc", "/proc")
  if fs.whoami().uid ~= 0 then return end
  for _, path in ipairs { "/proc/sys", "/proc/fs", "/proc/scsi", "/proc/acpi", "/proc/driver", "/proc/mtrr" } do
    if fs.stat(path) then add(argv, "--ro-bind", path, path) end
  end
end

local function writable(argv, policy)
  if policy:masks(policy.home) and fs.stat(policy.home) then add(argv, "--ro-bind", policy.home, policy.home) end
  local dirs = {}
  for _, dir in ipairs(policy.rw) do dirs[#dirs + 1] = { dir, "--bind" } end
  dirs[#dirs + 1] = { policy.project, policy.readonly and "--ro-bind" or "--bind" }
  table.sort(dirs, function(a, b) return a[1] < b[1] end) -- an outer one first
  for _, d in ipairs(dirs) do add(argv, d[2], d[1], d[1]) end
  if fs.stat("/run") then add(argv, "--remount-ro", "/run") end
end

local function caches(argv, policy)
  for _, c in ipairs(policy.caches) do
    fs.mkdir(c.host, { parents = true, mode = tonumber("700", 8) })
    add(argv, "--bind", c.host, c.inside)
  end
end

-- The ancestors of a path below a writable directory become mounts, so that they can't be
-- renamed and a new directory put in their place.
local function pin_ancestors(argv, policy, path, done)
  local chain, dir = {}, path:match("^(.+)/[^/]*$")
  while dir and policy:writable(dir) do
    for _, w in ipairs(policy.writable_dirs) do
      if w == dir then dir = nil break end
    end
    if not dir then break end
    table.insert(chain, 1, dir)
    dir = dir:match("^(.+)/[^/]*$")
  end
  for _, d in ipairs(chain) do
    if not done[d] then
      done[d] = true
      add(argv, "--bind", d, d)
    end
  end
end

local function hidden(argv, policy, list)
  local done = {}
  for _, h in ipairs(list) do
    if policy:writable(h.path) then pin_ancestors(argv, policy, h.path, done) end
  end
  for _, h in ipairs(list) do
    if h.type == "file" then
      add(argv, "--ro-bind", "/dev/null", h.path) -- nodev: it can't be opened
    else
      add(argv, "--perms", h.keep and "0555" or "0000", "--tmpfs", h.path)
      if h.keep then add(argv, "--ro-bind", h.keep, h.keep) end
      add(argv, "--remount-ro", h.path)
    end
  end
end

local function guarded(argv, g)
  for _, dir in ipairs(g.rw) do add(argv, "--bind", dir, dir) end
  for _, dir in ipairs(g.pins) do add(argv, "--bind", dir, dir) end
  for _, path in ipairs(g.ro) do add(argv, "--ro-bind", path, path) end
end

---The sockets of the host that a command could reach by path.
---@param policy terret.sandbox.policy
---@param lines fun(): string? of /proc/net/unix
---@return string[]
function M.sockets(policy, lines)
  local out, seen = {}, {}
  for line in lines do
    local path = line:match("^%x+: %x+ %x+ %x+ %x+ %x+ +%d+ (/.*)$")
    if path and not seen[path] and #out < MAX_SOCKETS then
      seen[path] = true
      local found = policy:visible(path) and fs.realpath(path)
      local info = found and policy:visible(found) and fs.stat(found, { follow = false })
      if info and info.type == "socket" then out[#out + 1] = found end
    end
  end
  return out
end

local function bound_sockets(argv, policy, list)
  local file = io.open("/proc/net/unix")
  if not file then return end
  local paths = M.sockets(policy, file:lines())
  file:close()
  for _, path in ipairs(paths) do
    local covered = false
    for _, h in ipairs(list) do covered = covered or inside(path, h.path) end
    if not covered then add(argv, "--ro-bind", "/dev/null", path) end
  end
end

-- What stays the same from call to call: up to the writable directories, and what is hidden.
local parts = setmetatable({}, { __mode = "k" })

local function fixed_parts(policy)
  local list = policy:hidden()
  local part = parts[policy]
  if part and part.list == list then return part end
  part = { list = list, head = {}, tail = {} }
  local head = part.head
  add(head, table.unpack(NAMESPACES))
  if not probed.nested then add(head, "--disable-userns") end
  add(head, "--ro-bind", "/", "/", "--dev", "/dev")
  proc(head)
  private(head, policy)
  writable(head, policy)
  caches(part.tail, policy)
  hidden(part.tail, policy, list)
  parts[policy] = part
  return part
end

-- Wrapping -------------------------------------------------------------------------------------

---@param policy terret.sandbox.policy
---@param argv string[]
---@param env table<string, string> already filtered
---@param cwd string? inside; default the project
---@return table? plan {argv, env, rlimits, after}
---@return string? message
---@return terret.code? code
function M.wrap(policy, argv, env, cwd)
  local ok, why = M.available()
  if not ok then return nil, why, "no_sandbox" end
  if policy:writable(probed.path) then
    return nil, probed.path .. " is writable for commands, so it can't hold them", "no_sandbox"
  end
  local part, g = fixed_parts(policy), policy:guarded()
  local out = { probed.path }
  table.move(part.head, 1, #part.head, #out + 1, out)
  guarded(out, g)
  table.move(part.tail, 1, #part.tail, #out + 1, out)
  bound_sockets(out, policy, part.list)
  local start = START:format(probed.letter, policy.limits.nproc)
  add(out, "--chdir", cwd or policy.project, "--", "/bin/sh", "-c", start, "sh")
  table.move(argv, 1, #argv, #out + 1, out)
  local limits = { core = policy.limits.core, fsize = policy.limits.fsize }
  return { argv = out, env = env, rlimits = limits, after = function() return policy:settle(g) end }
end

---What bwrap says when it could not even start the command.
---@param status table of the process
---@param output string its beginning
---@return string? message
function M.failure(status, output)
  if status.code == 1 and output:sub(1, 7) == "bwrap: " then return output:match("^[^\n]*") end
end

return M

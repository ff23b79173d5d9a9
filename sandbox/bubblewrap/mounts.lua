-- sandbox/bubblewrap/mounts.lua - what a policy means in mounts, in the words that bwrap and
-- exec.spawn share: {"bind", FROM, TO}, {"ro-bind", FROM, TO}, {"tmpfs", TO, "mode=0000"}, {"remount-ro", PATH}.
--
-- Order: everything read-only; the private directories; what is writable, outer before inner; caches; and
-- last what is hidden, so that nothing uncovers it.  These are the session's.  Each command adds its
-- own: git's protected parts, secrets that are new or were replaced, sockets that were bound.  A
-- mount ends when a host's program renames something over its place, so that what programs
-- replace that way (`git config`, credentials) is looked at for each command.
--
-- A mount point must exist, on the host too, so no mount has a destination that doesn't.  Binds are
-- recursive: what an outer mount hides stays hidden in a bind of it.

local fs = require "terret.fs"
local inside = require("terret.sandbox.policy").inside

local M = {}

local MAX_SOCKETS = 64
local MAX_COPIES = require("terret.sandbox.policy.copies").MAX
local INSIDE = "/run/terret" -- terret's own directory for commands

-- Of /run, which is private: what programs are started through (NixOS).
local RUN_KEPT = { "/run/current-system", "/run/booted-system", "/run/wrappers", "/run/opengl-driver" }

-- What only root's number protects in a new /proc.
local PROC = { "sys", "sysrq-trigger", "irq", "bus", "fs", "scsi", "acpi", "driver", "mtrr" }

local function add(list, ...) list[#list + 1] = { ... } end

-- The session's --------------------------------------------------------------------------------

-- Links to the copies of git's configuration: a command finds one where the file is.
local function copies(list, policy)
  local store = policy:git_copies()
  if not store then return end
  fs.mkdir(store.dir, { parents = true, mode = tonumber("700", 8) })
  add(list, "dir", INSIDE)
  add(list, "bind", store.dir, INSIDE .. "/git")
  for n = 1, MAX_COPIES do add(list, "symlink", ("%s/git/%d/config"):format(INSIDE, n), INSIDE .. "/" .. n) end
end

local function private(list, policy)
  if #policy.scratch == 0 then
    add(list, "tmpfs", "/tmp", "mode=1777")
    add(list, "tmpfs", "/var/tmp", "mode=1777")
  end
  for _, s in ipairs(policy.scratch) do
    fs.mkdir(s.host, { parents = true, mode = tonumber("700", 8) })
    add(list, "bind", s.host, s.inside)
  end
  if not fs.stat("/run") then return end
  add(list, "tmpfs", "/run", "mode=0755")
  for _, path in ipairs(RUN_KEPT) do
    if fs.stat(path) then add(list, "ro-bind", path, path) end
  end
  copies(list, policy)
end

local function writable(list, policy, git_dirs)
  if policy:masks(policy.home) and fs.stat(policy.home) then add(list, "ro-bind", policy.home, policy.home) end
  local dirs = {}
  for _, dir in ipairs(policy.rw) do dirs[#dirs + 1] = { dir, "bind" } end
  dirs[#dirs + 1] = { policy.project, policy.readonly and "ro-bind" or "bind" }
  for _, dir in ipairs(git_dirs) do dirs[#dirs + 1] = { dir, "bind" } end
  table.sort(dirs, function(a, b) return a[1] < b[1] end) -- an outer one first
  for _, d in ipairs(dirs) do add(list, d[2], d[1], d[1]) end
  if fs.stat("/run") then add(list, "remount-ro", "/run") end
end

local function caches(list, policy)
  for _, c in ipairs(policy.caches) do
    fs.mkdir(c.host, { parents = true, mode = tonumber("700", 8) })
    add(list, "bind", c.host, c.inside)
  end
end

-- The ancestors of a path below a writable directory become mounts, so that they can't be
-- renamed and a new directory put in their place.
local function pin_ancestors(list, policy, path, done)
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
      add(list, "bind", d, d)
    end
  end
end

local function hide(list, policy, what)
  local done = {}
  for _, h in ipairs(what) do
    if policy:writable(h.path) then pin_ancestors(list, policy, h.path, done) end
  end
  for _, h in ipairs(what) do
    if h.type == "file" then
      add(list, "ro-bind", "/dev/null", h.path)
    else
      add(list, "tmpfs", h.path, h.keep and "mode=0555" or "mode=0000")
      if h.keep then add(list, "ro-bind", h.keep, h.keep) end
      add(list, "remount-ro", h.path)
    end
  end
end

---The mounts that all commands of a policy share.
---@param policy terret.sandbox.policy
---@param git_dirs string[] git directories outside the project that are writable
---@return string[][]
function M.session(policy, git_dirs)
  local list = {}
  private(list, policy)
  writable(list, policy, git_dirs)
  caches(list, policy)
  hide(list, policy, policy:hidden())
  return list
end

---@param list string[][]
---@return string[] the same as options of bwrap
function M.options(list)
  local out = {}
  for _, m in ipairs(list) do
    if m[1] == "tmpfs" then
      table.move({ "--perms", m[3]:match("%d+"), "--tmpfs", m[2] }, 1, 4, #out + 1, out)
    else
      out[#out + 1] = "--" .. m[1]
      table.move(m, 2, #m, #out + 1, out)
    end
  end
  return out
end

-- A command's ----------------------------------------------------------------------------------

local function identity(path)
  local info = fs.stat(path, { follow = false })
  return info and ("%d:%d"):format(info.dev, info.inode)
end

---What is hidden now, to find out later what was replaced.
---@param policy terret.sandbox.policy
---@return table<string, string>
function M.covered(policy)
  local out = {}
  for _, h in ipairs(policy:hidden()) do out[h.path] = identity(h.path) end
  return out
end

local function new_secrets(list, policy, covered)
  local new = {}
  for _, h in ipairs(policy:hidden()) do
    local now = identity(h.path)
    -- `keep` is behind the old mount, if there was one: it comes back with the next session.
    if now and now ~= covered[h.path] then new[#new + 1] = { path = h.path, type = h.type } end
  end
  hide(list, policy, new)
end

---The sockets of the host that a command could reach by path.
---@param policy terret.sandbox.policy
---@param list string the text of /proc/net/unix
---@return string[]
function M.sockets(policy, list)
  local out, seen = {}, {}
  for path in list:gmatch(" (/[^\n]*)") do
    if not seen[path] and #out < MAX_SOCKETS then
      seen[path] = true
      local found = policy:visible(path) and fs.realpath(path)
      local info = found and policy:visible(found) and fs.stat(found, { follow = false })
      if info and info.type == "socket" then out[#out + 1] = found end
    end
  end
  return out
end

local function bound_sockets(list, policy)
  local file = io.open("/proc/net/unix")
  if not file then return end
  local paths = M.sockets(policy, file:read("a"))
  file:close()
  for _, path in ipairs(paths) do
    local hidden = false
    for _, h in ipairs(policy:hidden()) do hidden = hidden or inside(path, h.path) end
    if not hidden then add(list, "ro-bind-try", "/dev/null", path) end
  end
end

local covers ---@type string[]?

local function proc_covers()
  if covers then return covers end
  covers = {}
  for _, name in ipairs(fs.whoami().uid == 0 and PROC or {}) do
    if fs.stat("/proc/" .. name) then covers[#covers + 1] = "/proc/" .. name end
  end
  return covers
end

---The mounts of one command.
---@param policy terret.sandbox.policy
---@param guarded terret.sandbox.git
---@param covered table<string, string> of covered(), when the session's mounts were made
---@param copied table<string, integer> numbers of the copies of files
---@return string[][]
function M.command(policy, guarded, covered, copied)
  local list = {}
  for _, path in ipairs(proc_covers()) do add(list, "ro-bind", path, path) end
  for _, dir in ipairs(guarded.pins) do add(list, "bind", dir, dir) end
  for _, path in ipairs(guarded.ro) do
    if copied[path] then
      add(list, "bind-link", INSIDE .. "/" .. copied[path], path)
    else
      add(list, "ro-bind", path, path)
    end
  end
  new_secrets(list, policy, covered)
  bound_sockets(list, policy)
  return list
end

return M

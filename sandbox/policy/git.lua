-- sandbox/policy/git.lua - what of a repository a command may change.
--
-- Git runs programs that hooks and configuration name, on the host, the next time the user types
-- `git status`.  So they are read-only, and so is everything that says where they are: `.git`
-- itself (it could be renamed, and a forged one put in its place), `commondir`, a worktree's
-- pointer files.  The rest of `.git` is writable: a command commits, stashes, branches.
--
-- What is missing can't be protected before: a mount needs something to be mounted on.  It is
-- watched: what has appeared when the command ended is put aside (quarantine.lua).  Backends that
-- can give a command its own copy of a configuration file do so (copies.lua).
--
-- Outside the project (linked worktrees, submodules) a git directory is writable only when it
-- names this project itself; else any `.git` file could make another repository writable.
--
-- A repository that a command makes anywhere in the project is its own affair; the README says
-- what follows from that.

local fs = require "terret.fs"

local M = {}

local MAX_NESTED = 64 -- git directories of submodules and worktrees that are protected one by one
local MAX_POINTER = 8192

-- Read-only in every git directory; what is missing is watched.
local GUARDED = { "hooks", "config", "config.worktree", "commondir", "gitdir" }

---@class terret.sandbox.git
---@field pins string[] directories that become mounts, so that they can't be renamed
---@field ro string[] read-only
---@field rw string[] git directories outside the project that are writable
---@field configs string[] of the read-only ones: configuration files
---@field watch {path: string, kind: string, id: string?}[]
---@field nests {path: string, kind: string, depth: integer}[] where submodules' and worktrees' directories are
---@field known table<string, boolean> those that were there

local function lstat(path) return fs.stat(path, { follow = false }) end

local function identity(info)
  return ("%d:%d:%.9f"):format(info.dev, info.inode, info.mtime)
end

M.identity = identity

local function read_line(path)
  local text = fs.read(path, { max = MAX_POINTER })
  return text and text:match("^([^\r\n%z]*)")
end

local function join(dir, path)
  if path:sub(1, 1) == "/" then return path end
  return dir .. "/" .. path
end

local function add(list, value) list[#list + 1] = value end

-- One thing that must stay as it is.
local function guard(state, path, kind)
  local info = lstat(path)
  if not info then
    add(state.watch, { path = path, kind = kind or "absent" })
  elseif info.type == "link" then
    add(state.watch, { path = path, kind = "changed", id = identity(info) })
    local target = fs.realpath(path)
    if target and state.writable(target) then add(state.ro, target) end
  else
    add(state.ro, path)
    return info.type
  end
end
M.guard = guard

local function guard_directory(state, dir)
  for _, name in ipairs(GUARDED) do
    local path = dir .. "/" .. name
    local found = guard(state, path, name == "hooks" and "hooks" or nil)
    if found == "file" and name == "config" then add(state.configs, path) end
  end
end

---The git directories below a directory: those that hold a HEAD, and links.  Names of submodules may
---have slashes, so it looks a few levels down.
---@param dir string
---@param depth integer
---@param each fun(path: string, is_link: boolean)
function M.each_nested(dir, depth, each)
  for _, e in ipairs(fs.list(dir) or {}) do
    local path = dir .. "/" .. e.name
    if e.type == "link" then
      each(path, true)
    elseif e.type == "directory" then
      if lstat(path .. "/HEAD") then
        each(path, false)
      elseif depth > 0 then
        M.each_nested(path, depth - 1, each)
      end
    end
  end
end

-- A directory and those between it and an outer one, once each.
local function pin(state, path, outer)
  if state.pinned[path] then return end
  state.pinned[path] = true
  if path ~= outer then pin(state, path:match("^(.+)/"), outer) end
  add(state.pins, path)
end

local function guard_nested(state, dir, kind, depth)
  add(state.nests, { path = dir, kind = kind, depth = depth })
  M.each_nested(dir, depth, function(path, is_link)
    state.known[path] = true
    if is_link or state.nested >= MAX_NESTED then return end
    state.nested = state.nested + 1
    pin(state, path, dir)
    guard_directory(state, path)
    if kind == "modules" then guard_nested(state, path .. "/modules", kind, depth) end
  end)
end

local function guard_repository(state, dir)
  guard_directory(state, dir)
  guard_nested(state, dir .. "/modules", "modules", 3)
  guard_nested(state, dir .. "/worktrees", "worktrees", 0)
end

-- The value of `key` in the section [core] of a configuration file; no includes, no escapes.
local function core_value(dir, key)
  local text = fs.read(dir .. "/config", { max = 1048576 })
  local section
  for line in (text or ""):gmatch("[^\r\n]+") do
    section = line:match("^%s*%[%s*([^%]]-)%s*%]") or section
    local name, value = line:match("^%s*([%w]+)%s*=%s*(.-)%s*$")
    if name and section and section:lower() == "core" and name:lower() == key then
      return (value:gsub('^"(.*)"$', "%1"))
    end
  end
end

-- The git directory that the file `.git` points to, and the directory shared by all worktrees;
-- nothing unless they name this project.
local function pointed_to(project)
  local target = (read_line(project .. "/.git") or ""):match("^gitdir: (.+)$")
  local dir = target and fs.realpath(join(project, target))
  if not dir then return end
  local back = read_line(dir .. "/gitdir")
  if back then -- a linked worktree
    local common = read_line(dir .. "/commondir")
    common = common and fs.realpath(join(dir, common))
    local inside = common and dir:sub(1, #common + 11) == common .. "/worktrees/"
    if inside and fs.realpath(join(dir, back)) == project .. "/.git" then return dir, common end
    return
  end
  local tree = core_value(dir, "worktree") -- a submodule
  if tree and fs.realpath(join(dir, tree)) == project then return dir, dir end
end

local function inspect_file(state, project)
  add(state.ro, project .. "/.git")
  local dir, common = pointed_to(project)
  if not dir then return end
  if not state.writable(common) then add(state.rw, common) end
  if common ~= dir then guard_directory(state, dir) end
  guard_repository(state, common)
end

---Looks at the project's repository as it is now.
---@param project string
---@param writable fun(path: string): boolean
---@param pinned boolean it was a directory when the session began
---@return terret.sandbox.git
function M.inspect(project, writable, pinned)
  local state = { pins = {}, ro = {}, rw = {}, configs = {}, watch = {}, nests = {}, known = {}, pinned = {},
    nested = 0, writable = writable, project = project }
  local path = project .. "/.git"
  local info = lstat(path)
  if not info then
    add(state.watch, { path = path, kind = "repository" })
  elseif info.type == "directory" then
    -- A directory that appeared during the session isn't mounted writable on itself: another
    -- command could put a link in its place meanwhile.
    if pinned then add(state.pins, path) end
    guard_repository(state, path)
  elseif info.type == "file" then
    inspect_file(state, project)
  elseif info.type == "link" then
    add(state.watch, { path = path, kind = "changed", id = identity(info) })
    local target = fs.realpath(path)
    if target and writable(target) then guard_repository(state, target) end
  end
  return state
end

return M

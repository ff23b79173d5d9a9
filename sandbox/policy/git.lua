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
-- Names are not trusted, and neither is what a command can take away: a submodule's directory is one by
-- any sign of it, stays one for the session, and those that are replaced are new (by device and inode).
--
-- A repository that a command makes anywhere in the project is its own affair; the README says
-- what follows from that.

local fs = require "terret.fs"
local gitlinks = require "terret.sandbox.policy.gitlinks"

local M = {}

-- Git directories of submodules and worktrees that are protected one by one, directories that are looked at
-- to find them; past that the place that holds them is read-only.
M.MAX_NESTED = 128
M.MAX_VISITED = 8192
local MAX_POINTER = 8192

-- Read-only in every git directory; what is missing is watched.
local GUARDED = { "hooks", "config", "config.worktree", "commondir", "gitdir" }

-- A git directory is one that has any of these; the value: a directory of that name is none.
local SIGNS = { HEAD = true, config = true, commondir = true, gitdir = true, hooks = false, objects = false }

-- Git's own in a git directory; a submodule may be called so, and has a configuration then.
local OWN = {}
for _, name in ipairs { "branches", "hooks", "info", "lfs", "logs", "modules", "objects", "refs", "worktrees" } do
  OWN[name] = true
end

---@class terret.sandbox.git
---@field pins string[] directories that become mounts, so that they can't be renamed
---@field ro string[] read-only
---@field rw string[] git directories outside the project that are writable
---@field configs string[] of the read-only ones: configuration files
---@field watch {path: string, kind: string, id: string?}[]
---@field nests {path: string, kind: string, depth: integer}[] where submodules' and worktrees' directories are
---@field known table<string, string> those that were there: path -> which
---@field whole string[] of the read-only ones: nests with too much in them
---@field dir string? the project's git directory
---@field bare boolean? the project itself is a git directory
---@field links table<string, string> the `.git` of submodules in the index -> which
---@field links_failed string? an index that could not be looked at
---@field top {path: string, id: string}? the directory `.git`, to tell when another took its place

local function lstat(path) return fs.stat(path, { follow = false }) end

local function identity(info)
  return ("%d:%d:%.9f"):format(info.dev, info.inode, info.mtime)
end

M.identity = identity

-- The same as long as it isn't replaced, whatever is written in it.
local function which(info) return ("%d:%d"):format(info.dev, info.inode) end
M.which = which

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

local function is_git(path)
  for name, not_directory in pairs(SIGNS) do
    local info = lstat(path .. "/" .. name)
    if info and not (not_directory and info.type == "directory") then return true end
  end
  return false
end

local function is_submodule(path)
  local info = lstat(path .. "/config")
  return info ~= nil and info.type ~= "directory"
end

local function visit(dir, depth, each, inside, budget)
  for _, e in ipairs(fs.list(dir) or {}) do
    local path = dir .. "/" .. e.name
    if inside and OWN[e.name] and not is_submodule(path) then goto continue end
    budget.left = budget.left - 1
    if budget.left < 0 then return end
    if e.type == "link" then
      if not inside then each(path, true) end
    elseif e.type == "directory" then
      local found = is_git(path)
      if found then each(path, false) end
      -- Further down too: "group" may have got a HEAD to hide "group/lib".
      if depth > 0 then visit(path, depth - 1, each, found, budget) end
    end
    ::continue::
  end
end

---The git directories below a directory, and links.  Names of submodules may have slashes, so it looks a
---few levels down.
---@param dir string
---@param depth integer
---@param each fun(path: string, is_link: boolean)
---@return boolean all there were not too many
function M.each_nested(dir, depth, each)
  local budget = { left = M.MAX_VISITED }
  visit(dir, depth, each, false, budget)
  return budget.left >= 0
end

-- A directory and those between it and an outer one, once each.
local function pin(state, path, outer)
  if state.pinned[path] then return end
  state.pinned[path] = true
  if path ~= outer then pin(state, path:match("^(.+)/"), outer) end
  add(state.pins, path)
end

-- What is in a nest, and what was in it earlier in the session and hides now; nil when that is too much.
local function nested_in(state, dir, depth)
  local list, known, seen = {}, {}, {}
  local all = M.each_nested(dir, depth, function(path, is_link)
    local info = lstat(path)
    if not info then return end
    known[path] = which(info)
    if not is_link then add(list, path) end
    seen[path] = true
  end)
  for path, nest in pairs(state.memory) do
    local info = nest == dir and not seen[path] and lstat(path)
    if info and info.type == "directory" then
      known[path] = which(info)
      add(list, path)
    end
  end
  table.sort(list)
  if all and state.nested + #list <= M.MAX_NESTED then return list, known end
end

local guard_nests

local function guard_nested(state, dir, kind, depth)
  local list, known = nested_in(state, dir, depth)
  if not list then
    add(state.ro, dir)
    add(state.whole, dir)
    return
  end
  add(state.nests, { path = dir, kind = kind, depth = depth })
  for path, id in pairs(known) do state.known[path] = id end
  state.nested = state.nested + #list
  for _, path in ipairs(list) do
    state.memory[path] = dir
    pin(state, path, dir)
    guard_directory(state, path)
    guard_nests(state, path, kind)
  end
end

---Where git directories are below one.
---@param dir string
---@param kind string of the directory
---@return {path: string, kind: string, depth: integer}[]
function M.nests(dir, kind)
  local list = { { path = dir .. "/modules", kind = "modules", depth = 3 } }
  if kind ~= "worktrees" then add(list, { path = dir .. "/worktrees", kind = "worktrees", depth = 0 }) end
  return list
end

guard_nests = function(state, dir, kind)
  for _, nest in ipairs(M.nests(dir, kind)) do guard_nested(state, nest.path, nest.kind, nest.depth) end
end

-- A directory that isn't where one looks for it, and those that it is in, up to what is writable as a whole.
local function pin_chain(state, path)
  local parent = path:match("^(.+)/")
  if not (parent and state.writable(path) and state.writable(parent)) then return end
  pin_chain(state, parent)
  if not state.pinned[path] then add(state.pins, path) end
  state.pinned[path] = true
end

local function guard_repository(state, dir)
  guard_directory(state, dir)
  guard_nests(state, dir, "repository")
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
  state.dir, state.common = dir, common
  if state.writable(common) then pin_chain(state, common) else add(state.rw, common) end
  if common ~= dir then guard_directory(state, dir) end
  guard_repository(state, common)
end

-- Submodules that are repositories of their own: what is in them stays as it is.  They aren't pinned (`git mv`,
-- `git rm` are work); those that are replaced are judged at the end.
local function guard_links(state)
  state.links_failed = gitlinks.each(state.project, state.dir, function(path, info)
    state.links[path] = M.link_id(path, info)
    if info.type == "directory" then guard_directory(state, path) end
  end)
end

---Whether git takes a directory for a repository without a working tree, when it finds no `.git` there.
---@param dir string
---@return boolean
function M.is_bare(dir)
  local function there(name) return lstat(dir .. "/" .. name) ~= nil end
  return there("HEAD") and (there("commondir") or there("objects") and there("refs"))
end

---What tells whether the `.git` of a submodule is still the same.
---@param path string
---@param info terret.fs.info
---@return string
function M.link_id(path, info)
  return info.type == "file" and "file:" .. (gitlinks.target(path) or "") or which(info)
end

---Looks at the project's repository as it is now.
---@param project string
---@param writable fun(path: string): boolean
---@param memory table<string, string> git directories that earlier looks of this session found; it grows
---@return terret.sandbox.git
function M.inspect(project, writable, memory)
  local state = { pins = {}, ro = {}, rw = {}, configs = {}, watch = {}, nests = {}, known = {}, whole = {},
    pinned = {}, nested = 0, writable = writable, project = project, memory = memory, links = {} }
  local path = project .. "/.git"
  local info = lstat(path)
  if not info then
    add(state.watch, { path = path, kind = "repository" })
  elseif info.type == "directory" then
    -- Another command could put a link in its place before it is a mount.  A mount on itself gives no
    -- rights, wherever it leads; the forged one is found at the end.
    add(state.pins, path)
    state.top = { path = path, id = which(info) }
    state.dir = path
    guard_repository(state, path)
  elseif info.type == "file" then
    inspect_file(state, project)
  elseif info.type == "link" then
    add(state.watch, { path = path, kind = "changed", id = identity(info) })
    local target = fs.realpath(path)
    if target and writable(target) then
      pin_chain(state, target)
      state.dir = target
      guard_repository(state, target)
    end
  end
  if state.dir then guard_links(state) end
  state.bare = M.is_bare(project)
  if state.bare then guard_repository(state, project) end
  return state
end

return M

-- sandbox/policy/git.lua - what of a repository a command may change.
--
-- Git runs programs that hooks and configuration name, on the host, the next time the user types
-- `git status`.  So they are read-only, and so is everything that says where they are: `.git`
-- itself (it could be renamed, and a forged one put in its place), `commondir`, a worktree's
-- pointer files.  The rest of `.git` is writable: a command commits, stashes, branches.
--
-- What is missing can't be protected before: a mount needs something to be mounted on.  It is
-- watched: what has appeared when the command ended is renamed, so that git doesn't find it.
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
---@field watch {path: string, kind: string, id: string?}[]

local function lstat(path) return fs.stat(path, { follow = false }) end

local function identity(info)
  return ("%d:%d:%.9f"):format(info.dev, info.inode, info.mtime)
end

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
  end
end
M.guard = guard

local function guard_directory(state, dir)
  for _, name in ipairs(GUARDED) do
    guard(state, dir .. "/" .. name, name == "hooks" and "hooks" or nil)
  end
end

-- Submodules' and worktrees' git directories below dir: those that hold a HEAD.  Names of
-- submodules may have slashes, so it looks a few levels down.
local function guard_nested(state, dir, depth)
  local entries = fs.list(dir)
  if not entries or #entries == 0 then return end
  add(state.pins, dir)
  for _, e in ipairs(entries) do
    local path = dir .. "/" .. e.name
    if e.type == "directory" and state.nested < MAX_NESTED then
      if lstat(path .. "/HEAD") then
        state.nested = state.nested + 1
        add(state.pins, path)
        guard_directory(state, path)
        guard_nested(state, path .. "/modules", 3)
      elseif depth > 0 then
        guard_nested(state, path, depth - 1)
      end
    end
  end
end

local function guard_repository(state, dir)
  guard_directory(state, dir)
  guard_nested(state, dir .. "/modules", 3)
  guard_nested(state, dir .. "/worktrees", 0)
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
  local state = { pins = {}, ro = {}, rw = {}, watch = {}, nested = 0, writable = writable }
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

-- After the command -------------------------------------------------------------------------

-- What `git init`, `clone` and `remote add` write.  Anything else in a new repository's
-- configuration might name a program.
local PLAIN = { user = true, init = true, remote = true, branch = true, extensions = true }
local PLAIN_CORE = { repositoryformatversion = true, filemode = true, bare = true, logallrefupdates = true,
  ignorecase = true, precomposeunicode = true, symlinks = true, autocrlf = true, eol = true }
local NOT_PLAIN = { receivepack = true, uploadpack = true, vcs = true, proxy = true, worktreeconfig = true }

local function plain_config(path)
  local text = fs.read(path, { max = 1048576 })
  if not text then return lstat(path) == nil end
  local section
  for line in text:gmatch("[^\r\n]+") do
    local head, rest = line:match("^%s*%[%s*([%w%-%.]+)[^%]]*%](.*)$")
    if head then
      section = head:lower()
      if not (section == "core" or PLAIN[section]) or rest:find("%S") then return false end
    else
      local name = line:match("^%s*([%w%-]+)")
      if name then
        name = name:lower()
        if not section or section == "core" and not PLAIN_CORE[name] or NOT_PLAIN[name] then return false end
      elseif line:find("%S") and not line:find("^%s*[#;]") then
        return false
      end
    end
    if line:sub(-1) == "\\" then return false end
  end
  return true
end

local function only_samples(dir)
  local info = lstat(dir)
  if not info then return true end
  if info.type ~= "directory" then return false end
  for _, e in ipairs(fs.list(dir) or {}) do
    if e.name:sub(-7) ~= ".sample" then return false end
  end
  return true
end

-- What is wrong at a watched place: the paths to put aside.
local function offending(w)
  local info = lstat(w.path)
  if w.kind == "changed" then
    if info and identity(info) ~= w.id then return { w.path } end
  elseif not info then
    return {}
  elseif w.kind == "absent" then
    return { w.path }
  elseif w.kind == "hooks" then
    if not only_samples(w.path) then return { w.path } end
  elseif w.kind == "repository" then
    if info.type ~= "directory" then return { w.path } end
    local bad = {}
    if not plain_config(w.path .. "/config") then add(bad, w.path .. "/config") end
    if not only_samples(w.path .. "/hooks") then add(bad, w.path .. "/hooks") end
    for _, name in ipairs { "commondir", "config.worktree" } do
      if lstat(w.path .. "/" .. name) then add(bad, w.path .. "/" .. name) end
    end
    return bad
  end
  return {}
end

---Puts aside what a command left where nothing may appear.
---@param watch {path: string, kind: string, id: string?}[]
---@param suffix string of the new names
---@return string[] notes one for each thing that was put aside
function M.settle(watch, suffix)
  local notes = {}
  for _, w in ipairs(watch) do
    for _, path in ipairs(offending(w)) do
      local aside = path .. ".refused-" .. suffix
      local ok, message = fs.rename(path, aside)
      if ok then
        add(notes, ("%s is protected; what the command made there is now %s"):format(path, aside))
      else
        add(notes, ("%s is protected, but what is there now could not be put aside: %s"):format(path, message))
      end
    end
  end
  return notes
end

return M

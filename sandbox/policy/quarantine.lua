-- sandbox/policy/quarantine.lua - after a command: what it left where nothing may appear is moved out of
-- the project, into the session's directory, so that git and terret don't find it.
--
-- A repository that a command made keeps what `git init`, `clone`, `submodule` and `worktree` write; the
-- rest of its configuration is dropped, hooks and pointers elsewhere are put aside.
--
-- Other commands may run at the same time and change what is looked at.  So nothing is written
-- through a path that they could turn into a link.

local fs = require "terret.fs"
local git = require "terret.sandbox.policy.git"
local gitconfig = require "terret.sandbox.policy.gitconfig"
local gitlinks = require "terret.sandbox.policy.gitlinks"

local M = {}

local MAX_CONFIG = 1048576

local function lstat(path) return fs.stat(path, { follow = false }) end

---@class terret.sandbox.quarantine
---@field dir string? of the session
---@field random fun(): string
---@field notes string[]

local function note(q, format, ...) q.notes[#q.notes + 1] = format:format(...) end

-- Renames within the directory only where the session's is on another file system.
local function move(q, path)
  if q.dir and fs.mkdir(q.dir, { parents = true, mode = tonumber("700", 8) }) then
    local far = ("%s/%s-%s"):format(q.dir, path:match("[^/]+$"), q.random())
    if fs.rename(path, far) then return far end
  end
  local aside = ("%s.refused-%s"):format(path, q.random())
  local moved, message = fs.rename(path, aside)
  return moved and aside, message
end

local function put_aside(q, path)
  local aside, message = move(q, path)
  if aside then return note(q, "%s is protected; what the command made there is now %s", path, aside) end
  note(q, "%s is protected, but what is there now could not be put aside: %s", path, message)
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

-- A submodule's own directory names its working tree, which must be in the project.
local function names_worktree(dir, project)
  return function(e)
    if e.section ~= "core" or e.sub or e.key ~= "worktree" or e.value == true then return false end
    local path = e.value:sub(1, 1) == "/" and e.value or dir .. "/" .. e.value
    local real = fs.realpath(path)
    return real ~= nil and (real == project or real:sub(1, #project + 1) == project .. "/")
  end
end

local function check_config(q, dir, more)
  local info = lstat(dir .. "/config")
  if not info then return end
  local root = info.type == "file" and fs.root(dir)
  local text = root and root:read("config", { max = MAX_CONFIG })
  local clean, dropped
  if text then clean, dropped = gitconfig.filter(text, more) end
  if not clean then
    put_aside(q, dir .. "/config")
  elseif #dropped > 0 then
    local ok, message = root:write("config", clean)
    if ok then
      note(q, "dropped from %s/config: %s", dir, table.concat(dropped, ", "))
    else
      note(q, "%s/config holds %s, which could not be dropped: %s", dir, table.concat(dropped, ", "), message)
    end
  end
  if root then root:close() end
end

local check_nest

-- A git directory that wasn't there before, and all that are in it.
local function check_new(q, dir, kind, project)
  if kind == "worktrees" then
    local text = fs.read(dir .. "/commondir", { max = 4096 })
    if text ~= "../..\n" then return put_aside(q, dir) end
  else
    check_config(q, dir, kind == "modules" and names_worktree(dir, project) or nil)
    if not only_samples(dir .. "/hooks") then put_aside(q, dir .. "/hooks") end
    if lstat(dir .. "/commondir") then put_aside(q, dir .. "/commondir") end
  end
  if lstat(dir .. "/config.worktree") then put_aside(q, dir .. "/config.worktree") end
  for _, nest in ipairs(git.nests(dir, kind)) do check_nest(q, nest, {}, project) end
end

local function check_watched(q, w, state)
  local info = lstat(w.path)
  if w.kind == "changed" then
    if info and git.identity(info) ~= w.id then put_aside(q, w.path) end
  elseif not info then
    return
  elseif w.kind == "absent" then
    put_aside(q, w.path)
  elseif w.kind == "hooks" then
    if not only_samples(w.path) then put_aside(q, w.path) end
  elseif w.kind == "repository" then
    if info.type ~= "directory" then return put_aside(q, w.path) end
    check_new(q, w.path, "repository", state.project)
  end
end

-- More than can be looked at: everything that holds nothing known goes.
local function clear(q, nest, known)
  local keep, count = {}, 0
  for path in pairs(known) do
    if path:sub(1, #nest.path + 1) == nest.path .. "/" then keep[path:match("^[^/]+", #nest.path + 2)] = true end
  end
  for _, e in ipairs(fs.list(nest.path) or {}) do
    if not keep[e.name] and move(q, nest.path .. "/" .. e.name) then count = count + 1 end
  end
  note(q, "%s holds too much to be looked at; %d things that the command made there were put aside", nest.path, count)
end

check_nest = function(q, nest, known, project)
  local info = lstat(nest.path)
  if not info then return end
  if info.type ~= "directory" then return put_aside(q, nest.path) end
  local new = {}
  local all = git.each_nested(nest.path, nest.depth, function(path, is_link)
    local now = lstat(path)
    if now and known[path] ~= git.which(now) then new[#new + 1] = { path = path, is_link = is_link } end
  end)
  if not all then clear(q, nest, known) end
  for _, n in ipairs(new) do
    if n.is_link then put_aside(q, n.path) elseif lstat(n.path) then check_new(q, n.path, nest.kind, project) end
  end
end

-- Another directory where `.git` was is a new repository.
local function check_top(q, state)
  local info = lstat(state.top.path)
  if not info or git.which(info) == state.top.id then return end
  if info.type ~= "directory" then return put_aside(q, state.top.path) end
  note(q, "%s was replaced by another directory while a command ran", state.top.path)
  check_new(q, state.top.path, "repository", state.project)
end

local function below(path, dir) return path:sub(1, #dir + 1) == dir .. "/" end

-- The `.git` of a submodule may be a repository without programs, or lead to one that is judged elsewhere or that
-- no command can write.
local function check_link(q, state, path, info)
  if info.type == "directory" then return check_new(q, path, "repository", state.project) end
  local target = info.type == "file" and gitlinks.target(path)
  for _, dir in ipairs { state.dir or state.project .. "/.git", state.common } do
    if target and below(target, dir) then return end
  end
  if info.type ~= "file" or target and state.writable(target) then put_aside(q, path) end
end

local function check_links(q, state)
  local dir = state.dir or state.project .. "/.git" -- made by the command
  local failed = gitlinks.each(state.project, dir, function(path, info)
    if state.links[path] ~= git.link_id(path, info) then check_link(q, state, path, info) end
  end)
  if failed and failed ~= state.links_failed then put_aside(q, failed) end
end

---@param state terret.sandbox.git as it was before the command
---@param dir string? where to put things
---@param random fun(): string a suffix
---@return string[] notes one for each thing
function M.settle(state, dir, random)
  local q = { dir = dir, random = random, notes = {} }
  for _, w in ipairs(state.watch) do check_watched(q, w, state) end
  for _, nest in ipairs(state.nests) do check_nest(q, nest, state.known, state.project) end
  if state.top then check_top(q, state) end
  if state.writable then
    check_links(q, state)
    if not state.bare and git.is_bare(state.project) then check_new(q, state.project, "repository", state.project) end
  end
  return q.notes
end

return M

-- sandbox/policy/gitlinks.lua - the directories that a repository's index takes for submodules.
--
-- `git status` goes into each of them and obeys the configuration that it finds there.  The index is
-- writable for commands, so any repository in the project can be made one.
--
-- The index is read as git does: versions 2 to 4, both kinds of hashes, split ones.

local fs = require "terret.fs"

local M = {}

local MAX_INDEX = 268435456
local MAX_POINTER = 8192
local MAX_DEPTH = 6 -- submodules of submodules
M.MAX = 256 -- git directories of submodules that are looked at

local GITLINK = 0xE000 -- the mode of an entry
local EXTENDED, LENGTH = 0x4000, 0xFFF -- of an entry's flags

-- The number that a version 4 index tells how much of the last name to drop with.
local function varint(text, at)
  local byte = text:byte(at)
  local value = byte and byte & 127
  while byte and byte >= 128 do
    at = at + 1
    byte = text:byte(at)
    value = byte and (((value + 1) & 0xFFFFFFFF) << 7) + (byte & 127)
  end
  return value, at + 1
end

-- Where the mode of a submodule is next; the rarer bytes of it are looked for.
local function next_mode(text, at)
  while true do
    at = text:find("\xE0\0", at + 2, true)
    if not at then return nil end
    if text:sub(at - 2, at - 1) == "\0\0" then return at - 2 end
    at = at - 1
  end
end

-- Names follow each other; each tells how much of the last one it keeps.
local function compressed(text, count, hash)
  local out, at, last = {}, 13, ""
  for _ = 1, count do
    if at + 42 + hash > #text then return nil end
    local mode, flags = (">I4"):unpack(text, at + 24), (">I2"):unpack(text, at + 40 + hash)
    local drop
    drop, at = varint(text, at + 42 + hash + (flags & EXTENDED ~= 0 and 2 or 0))
    local stop = drop and drop <= #last and text:find("\0", at, true)
    if not stop then return nil end
    last, at = last:sub(1, #last - drop) .. text:sub(at, stop - 1), stop + 1
    if mode == GITLINK and last ~= "" then out[#out + 1] = last end
  end
  return out
end

-- Whatever looks like an entry is taken for one: that is fast, and a wrong one does no harm.
local function plain(text, hash, out)
  local at = next_mode(text, 13)
  while at do
    local flags_at = at + 16 + hash
    if flags_at + 2 > #text then break end
    local flags = (">I2"):unpack(text, flags_at)
    local first = flags_at + (flags & EXTENDED ~= 0 and 4 or 2)
    local stop = text:find("\0", first, true)
    local length = flags & LENGTH
    if stop and stop > first and (length == LENGTH or length == stop - first) then
      out[#out + 1] = text:sub(first, stop - 1)
    end
    at = next_mode(text, at + 1)
  end
  return out
end

---@param text string of an index
---@return string[]? paths nil: not understood
function M.parse(text)
  if not next_mode(text, 1) then return {} end -- most have none
  if #text < 12 then return nil end
  local magic, version, count = (">c4I4I4"):unpack(text)
  if magic ~= "DIRC" or version < 2 or version > 4 then return nil end
  if version == 4 then return compressed(text, count, 20) or compressed(text, count, 32) end
  return plain(text, 32, plain(text, 20, {})) -- nothing else tells which hash it is
end

local function paths(dir)
  local out = {}
  local names = { "index" }
  for _, e in ipairs(fs.list(dir) or {}) do
    if e.name:find("^sharedindex%.") then names[#names + 1] = e.name end
  end
  for _, name in ipairs(names) do
    local info = fs.stat(dir .. "/" .. name)
    if info and info.type == "file" then
      local text = info.size <= MAX_INDEX and fs.read(dir .. "/" .. name, { max = MAX_INDEX })
      local list = text and M.parse(text)
      if not list then return nil end
      table.move(list, 1, #list, #out + 1, out)
    end
  end
  return out
end

---Where a file `.git` leads.
---@param path string
---@return string? real path
function M.target(path)
  local target = (fs.read(path, { max = MAX_POINTER }) or ""):match("^gitdir:%s*([^\r\n%z]+)")
  if not target then return nil end
  return fs.realpath(target:sub(1, 1) == "/" and target or path:match("^(.+)/") .. "/" .. target)
end

---Calls for the `.git` of each submodule that there is, and of its submodules after it.
---@param tree string real path
---@param dir string its git directory
---@param each fun(path: string, info: terret.fs.info)
---@return string? what could not be looked at
function M.each(tree, dir, each)
  local left = M.MAX
  local function visit(at, git_dir, depth)
    local list = paths(git_dir)
    if not list then return git_dir .. "/index" end
    for _, name in ipairs(list) do
      local path = at .. "/" .. name
      local info = fs.stat(path .. "/.git", { follow = false })
      if info and fs.realpath(path) == path then
        left = left - 1
        if left < 0 or depth == 0 then return git_dir .. "/index" end
        each(path .. "/.git", info)
        info = fs.stat(path .. "/.git", { follow = false })
        local inner = info and (info.type == "directory" and path .. "/.git" or M.target(path .. "/.git"))
        local failed = inner and visit(path, inner, depth - 1)
        if failed then return failed end
      end
    end
  end
  return visit(tree, dir, MAX_DEPTH)
end

return M

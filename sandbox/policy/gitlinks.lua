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

local GITLINK = 0xE000

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

local function entries(text, hash)
  if #text < 12 then return nil end
  local magic, version, count = (">c4I4I4"):unpack(text)
  if magic ~= "DIRC" or version < 2 or version > 4 then return nil end
  local out, at, last = {}, 13, ""
  for _ = 1, count do
    local start = at
    if at + 42 + hash > #text then return nil end
    local mode, flags = (">I4"):unpack(text, at + 24), (">I2"):unpack(text, at + 40 + hash)
    at = at + 42 + hash + (version >= 3 and flags & 0x4000 ~= 0 and 2 or 0)
    local drop = 0
    if version == 4 then drop, at = varint(text, at) end
    local stop = drop and drop <= #last and text:find("\0", at, true)
    if not stop then return nil end
    local name = last:sub(1, #last - drop) .. text:sub(at, stop - 1)
    if version == 4 then
      last, at = name, stop + 1
    else
      if flags & 0xFFF < 0xFFF and #name ~= flags & 0xFFF then return nil end
      at = start + ((stop - start) // 8 + 1) * 8
    end
    if mode == GITLINK and name ~= "" then out[#out + 1] = name end
  end
  return out
end

---@param text string of an index
---@return string[]? paths nil: not understood
function M.parse(text)
  if not text:find("\0\0\xE0\0", 1, true) then return {} end -- most have none
  return entries(text, 20) or entries(text, 32)
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

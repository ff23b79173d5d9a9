-- sandbox/policy/restore.lua - for backends without mounts: git's hooks and configuration are kept from before
-- a command, and what it changed of them is undone after it.
--
-- Until then it is there, for the host's git too.  Small files only: a hook is a script.

local fs = require "terret.fs"
local gitconfig = require "terret.sandbox.policy.gitconfig"

local M = {}

local MAX_FILES = 200 -- of one directory
local MAX_BYTES = 65536 -- of one file

local function contents(path)
  local info = fs.stat(path, { follow = false })
  if not info then return {} end
  if info.type == "file" then return { [path] = { text = fs.read(path, { max = MAX_BYTES }) } } end
  local out = {}
  for i, e in ipairs(info.type == "directory" and fs.list(path) or {}) do
    if i > MAX_FILES then break end
    local name = path .. "/" .. e.name
    out[name] = { text = e.type == "file" and fs.read(name, { max = MAX_BYTES }) or nil }
  end
  return out
end

---Files, and those of directories, to be compared with after a command that could change them.
---@param paths string[]
---@return table
function M.snapshot(paths)
  local out = {}
  for _, path in ipairs(paths) do out[path] = contents(path) end
  return out
end

-- Of a changed configuration the harmless part stays.
local function harmless(path, before, now)
  local a = path:match("/config$") and gitconfig.parse(before)
  local b = a and now and gitconfig.parse(now)
  if not b then return before end
  local taken = {}
  for _, e in ipairs(gitconfig.changes(a, b)) do
    if gitconfig.allowed(e) then taken[#taken + 1] = e end
  end
  return gitconfig.apply(before, taken) or before
end

-- What isn't a file any more goes out of the way first.
local function write_back(path, text)
  local info = fs.stat(path, { follow = false })
  if info and info.type ~= "file" and not fs.rename(path, path .. ".refused") then return false end
  local dir, name = path:match("^(.*)/([^/]+)$")
  local root = fs.root(dir)
  local ok = root and root:write(name, text)
  if root then root:close() end
  return ok
end

---Undoes what a command changed of them, but for harmless changes of git's configuration.
---@param before table of snapshot()
---@return string[] notes
function M.undo(before)
  local notes = {}
  for path, files in pairs(before) do
    local now = contents(path)
    for name, f in pairs(files) do
      local text = now[name] and now[name].text
      if f.text and text ~= f.text then
        local wanted = harmless(name, f.text, text)
        if wanted ~= text then
          local ok = write_back(name, wanted)
          notes[#notes + 1] = ("%s is protected; what the command changed there was %s"):format(name,
            ok and "undone" or "not undone, since it can't be written")
        end
      end
    end
    for name in pairs(now) do
      if not files[name] then
        local ok = fs.rename(name, name .. ".refused")
        notes[#notes + 1] = ("%s is protected; what the command made there was %s"):format(name,
          ok and "renamed to .refused" or "not put aside")
      end
    end
  end
  return notes
end

return M

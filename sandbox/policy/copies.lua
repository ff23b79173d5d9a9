-- sandbox/policy/copies.lua - the copies of git's configuration files that commands write to, and the way
-- back of what is allowed.
--
-- A session has one copy of each file; commands that run together share it.  `base` is what the copy was
-- made from.  After each command the copy's changes against it go through the allow-list into the
-- real file, and the copy is made anew.  The real file may have changed meanwhile, by the user's
-- hand: only keys that the command changed are touched.

local fs = require "terret.fs"
local gitconfig = require "terret.sandbox.policy.gitconfig"

local M = {}

M.MAX = 16 -- files; further ones are read-only
local MAX_BYTES = 1048576

---@class terret.sandbox.copies
---@field dir string on the host; holds N/config
---@field files table<string, {n: integer, base: string?, copy: string?, real: string?}> copy and real: what
--- tells whether a file changed since it was read
local Copies = {}
Copies.__index = Copies

---@param dir string
---@return terret.sandbox.copies
function M.new(dir) return setmetatable({ dir = dir, files = {}, count = 0 }, Copies) end

local function stamp(info) return info and ("%d:%d:%d:%.9f"):format(info.dev, info.inode, info.size, info.mtime) end

local function real_stamp(path) return stamp(fs.stat(path, { follow = false })) end

local function real_text(path)
  local info = fs.stat(path, { follow = false })
  return info and info.type == "file" and fs.read(path, { max = MAX_BYTES })
end

-- The copies are in a directory that commands write: nothing is followed out of it.
local function beneath(self)
  if not self.root then
    fs.mkdir(self.dir, { parents = true, mode = tonumber("700", 8) })
    self.root = fs.root(self.dir)
  end
  return self.root
end

local function put(self, f, text)
  local root = beneath(self)
  local ok = root and root:write(f.n .. "/config", text, { parents = true, sync = false, mode = tonumber("600", 8) })
  f.base = ok and text or nil
  f.copy = ok and stamp(root:stat(f.n .. "/config", { follow = false })) or nil
  return ok
end

local function unchanged(self, f)
  local root = beneath(self)
  return root ~= nil and f.copy ~= nil and stamp(root:stat(f.n .. "/config", { follow = false })) == f.copy
end

local function copy_text(self, f)
  local root = beneath(self)
  return root and root:read(f.n .. "/config", { max = MAX_BYTES })
end

-- With changes in the copy another command is still running: they come first.
local function refresh(self, path, f)
  local now = real_stamp(path)
  if f.base and (now == f.real or not unchanged(self, f)) then return true end
  local text = real_text(path)
  if not text or not gitconfig.parse(text) then return false end
  f.real = now
  return f.base == text or put(self, f, text)
end

---Makes the copies fit for the next command.
---@param paths string[]
---@return table<string, integer> number of the copy of each path that has one
function Copies:prepare(paths)
  local out = {}
  for _, path in ipairs(paths) do
    local f = self.files[path]
    if not f and self.count < M.MAX then
      f = { n = self.count + 1 }
      if refresh(self, path, f) then self.files[path], self.count = f, f.n end
    elseif f and not refresh(self, path, f) then
      f = nil
    end
    if f and f.base then out[path] = f.n end
  end
  return out
end

-- Other commands may have the file under a mount, which would end if it were replaced.
local function write_real(path, text, alone)
  if alone then return fs.write(path, text) end
  local file, message = io.open(path, "w")
  if not file then return nil, message end
  local ok
  ok, message = file:write(text)
  return file:close() and ok, message
end

local function names(changes)
  local out = {}
  for i, e in ipairs(changes) do out[i] = gitconfig.name(e) end
  return table.concat(out, ", ")
end

local function merge(self, path, f, alone, notes)
  if not f.base or unchanged(self, f) then return end
  local copy, text = copy_text(self, f), real_text(path)
  if not text or copy == f.base then return end
  local before, after = gitconfig.parse(f.base), copy and gitconfig.parse(copy)
  if not after then
    notes[#notes + 1] = ("dropped: changes of %s that can't be read"):format(path)
    return put(self, f, text)
  end
  local taken, dropped = {}, {}
  for _, e in ipairs(gitconfig.changes(before, after)) do
    local list = gitconfig.allowed(e) and taken or dropped
    list[#list + 1] = e
  end
  local merged = gitconfig.apply(text, taken)
  if merged and merged ~= text then
    local ok, message = write_real(path, merged, alone)
    if not ok then
      notes[#notes + 1] = ("%s could not be written: %s"):format(path, message)
      merged = nil
    end
  end
  if not merged then
    notes[#notes + 1] = ("dropped from %s: %s"):format(path, names(taken))
    merged = text
  end
  if #dropped > 0 then
    notes[#notes + 1] = ("dropped from %s, since git runs or trusts what such keys name: %s")
      :format(path, names(dropped))
  end
  put(self, f, merged)
end

---Takes over what commands changed.
---@param paths string[] what prepare() had: guarded while the command ran, so that they lead where they did
---@param alone boolean no other command is running
---@return string[] notes what was not taken over
function Copies:merge(paths, alone)
  local notes = {}
  for _, path in ipairs(paths) do
    if self.files[path] then merge(self, path, self.files[path], alone, notes) end
  end
  return notes
end

return M

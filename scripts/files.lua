-- scripts/files.lua - what the files looked like when the tools of an agent last saw them.

local fs = require "terret.fs"

local M = {}

---@class terret.files
local Files = {}
Files.__index = Files

---@return terret.files
function M.new() return setmetatable({ seen = {} }, Files) end

local function stamp(info) return info and ("%d:%.9f:%d"):format(info.size, info.mtime, info.inode) or "gone" end

---@param host string
---@param path string as it is shown
---@param info table?
function Files:touch(host, path, info) self.seen[host] = { path = path, stamp = stamp(info) } end

---@param host string
---@return boolean
function Files:changed(host)
  local known = self.seen[host]
  return known ~= nil and known.stamp ~= stamp(fs.stat(host))
end

---@return terret.files the same, for a fork
function Files:copy()
  local copy = M.new()
  for host, known in pairs(self.seen) do
    copy.seen[host] = { path = known.path, stamp = known.stamp, said = known.said }
  end
  return copy
end

---Paths that changed since, each said once.
---@return string[]
function Files:take_changes()
  local out = {}
  for host, known in pairs(self.seen) do
    local now = stamp(fs.stat(host))
    if now ~= known.stamp and now ~= known.said then
      known.said = now
      out[#out + 1] = known.path .. (now == "gone" and " (gone)" or "")
    end
  end
  table.sort(out)
  return out
end

return M

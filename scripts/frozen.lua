-- scripts/frozen.lua - read-only views of tables, made as they are looked into; nothing is copied.

local M = {}

local DATA = {} -- the key of what a view shows
local Frozen = { __name = "terret.frozen" }

local function data_of(v)
  return type(v) == "table" and getmetatable(v) == Frozen and rawget(v, DATA) or nil
end

local view

function Frozen.__index(v, key)
  local value = rawget(v, DATA)[key]
  if type(value) == "table" then return view(value) end
  return value
end

function Frozen.__newindex(_, key)
  error(("'%s' can't be set here: pass changes on with next{...}"):format(tostring(key)), 2)
end

function Frozen.__pairs(v)
  local data = rawget(v, DATA)
  return function(_, key)
    local k, value = next(data, key)
    if type(value) == "table" then value = view(value) end
    return k, value
  end, v, nil
end

function Frozen.__len(v) return #rawget(v, DATA) end

---A table that can be read but not changed, to any depth.  Objects (tables with a metatable) are passed as they are.
---@param t table
---@return table
function view(t)
  if getmetatable(t) then return t end
  return setmetatable({ [DATA] = t }, Frozen)
end
M.view = view

---What a value holds: a view's own table, and a copy of a table with views in it.
---@param value any
---@return any
function M.thaw(value)
  if type(value) ~= "table" then return value end
  local data = data_of(value)
  if data then return data end
  if getmetatable(value) then return value end
  local copy
  for k, v in pairs(value) do
    local inner = M.thaw(v)
    if inner ~= v then
      copy = copy or table.move(value, 1, #value, 1, {})
      copy[k] = inner
    end
  end
  if not copy then return value end
  for k, v in pairs(value) do
    if copy[k] == nil then copy[k] = v end
  end
  return copy
end

---A copy that may be changed, of a view or a table.
---@param value any
---@return any
function M.copy(value)
  value = data_of(value) or value
  if type(value) ~= "table" or getmetatable(value) then return value end
  local out = {}
  for k, v in pairs(value) do out[k] = M.copy(v) end
  return out
end

---@param a any
---@param b any
---@return boolean whether they hold the same
function M.same(a, b)
  if rawequal(a, b) then return true end
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do
    if not M.same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

return M

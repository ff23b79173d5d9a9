-- scripts/redact.lua - values of keys never reach the log, the model or the screen.
--
-- Once, at admission: all three see the same bytes, so a resumed view is identical.  Values under 12
-- bytes are left alone: too many innocent texts hold them.

local json = require "terret.json"

local M = {}

local MIN = 12
local DEPTH = 16 -- of tables for the screen
local NAME = { "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL" }

---@class terret.redactor
local Redactor = {}
Redactor.__index = Redactor

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

---@param environ table<string, string>
---@param more table<any, string>? further values (keys of the configuration)
---@return terret.redactor
function M.new(environ, more)
  local secrets, seen = {}, {}
  local function add_one(value, name)
    if #value >= MIN and not seen[value] then
      seen[value] = true
      secrets[#secrets + 1] = { value = value, mark = "[redacted:" .. name .. "]" }
    end
  end
  local function add(value, name)
    value = value:match("^%s*(.-)%s*$")
    add_one(value, name)
    add_one(json.encode(value):sub(2, -2), name) -- as it stands in arguments and JSON files
  end
  -- By name, so that a value under two names has the same mark in each process.
  for _, name in ipairs(sorted_keys(environ)) do
    local value, upper = environ[name], name:upper()
    for _, part in ipairs(NAME) do
      if upper:find(part, 1, true) and not value:find("^/") then add(value, name) end
    end
  end
  for _, value in pairs(more or {}) do add(value, "key") end
  -- The longest first, so that a value that holds another goes as a whole; then by name.
  table.sort(secrets, function(a, b)
    if #a.value ~= #b.value then return #a.value > #b.value end
    return a.value < b.value
  end)
  return setmetatable({ secrets = secrets }, Redactor)
end

---@param s string
---@return string
function Redactor:clean(s)
  for _, secret in ipairs(self.secrets) do
    local from, to = s:find(secret.value, 1, true)
    if from then
      local out, at = {}, 1
      while from do
        out[#out + 1] = s:sub(at, from - 1)
        out[#out + 1] = secret.mark
        at = to + 1
        from, to = s:find(secret.value, at, true)
      end
      out[#out + 1] = s:sub(at)
      s = table.concat(out)
    end
  end
  return s
end

---A copy of plain data with all its strings redacted; what is no data is left out.
---@param value any
---@param depth integer?
---@return any
function Redactor:clean_all(value, depth)
  depth = depth or 0
  local kind = type(value)
  if kind == "string" then return self:clean(value) end
  if kind == "function" or kind == "thread" then return nil end
  if kind ~= "table" then return value end
  if depth >= DEPTH then return nil end
  local out = json.is_array(value) and json.array {} or {}
  for key, x in next, value do out[key] = self:clean_all(x, depth + 1) end
  return out
end

-- How many bytes at the end of s may be the beginning of a secret.
local function held(self, s)
  local most = 0
  for _, secret in ipairs(self.secrets) do
    local value = secret.value
    local at = s:find(value:sub(1, 1), math.max(1, #s - #value + 2), true)
    while at do
      if value:sub(1, #s - at + 1) == s:sub(at) then
        most = math.max(most, #s - at + 1)
        break
      end
      at = s:find(value:sub(1, 1), at + 1, true)
    end
  end
  return most
end

---Redacts a text that comes in pieces: a piece that may begin a secret waits for the next.
---@return fun(piece: string): string feed
---@return fun(): string finish what was held back
function Redactor:stream()
  local rest = ""
  local function feed(piece)
    local s = self:clean(rest .. piece)
    local keep = held(self, s)
    rest = s:sub(#s - keep + 1)
    return s:sub(1, #s - keep)
  end
  local function finish()
    local s = rest
    rest = ""
    return s
  end
  return feed, finish
end

---@param s string
---@return boolean
function Redactor:has_placeholder(s)
  for _, secret in ipairs(self.secrets) do
    if s:find(secret.mark, 1, true) then return true end
  end
  return false
end

return M

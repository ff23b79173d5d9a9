-- scripts/redact.lua - values of keys never reach the log, the model or the screen.
--
-- Once, at admission: all three see the same bytes, so a resumed view is identical.  Values under 12
-- bytes are left alone: too many innocent texts hold them.

local M = {}

local MIN = 12
local NAME = { "KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL" }

---@class terret.redactor
local Redactor = {}
Redactor.__index = Redactor

---@param environ table<string, string>
---@param more string[]? further values (keys of the configuration)
---@return terret.redactor
function M.new(environ, more)
  local secrets, seen = {}, {}
  local function add(value, name)
    if #value >= MIN and not seen[value] then
      seen[value] = true
      secrets[#secrets + 1] = { value = value, mark = "[redacted:" .. name .. "]" }
    end
  end
  for name, value in pairs(environ) do
    for _, part in ipairs(NAME) do
      if name:upper():find(part, 1, true) and not value:find("^/") then add(value, name) end
    end
  end
  for _, value in ipairs(more or {}) do add(value, "key") end
  -- The longest first, so that a value that holds another goes as a whole; then by name.
  table.sort(secrets, function(a, b)
    if #a.value ~= #b.value then return #a.value > #b.value end
    return a.mark < b.mark
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

---@param s string
---@return boolean
function Redactor:has_placeholder(s)
  for _, secret in ipairs(self.secrets) do
    if s:find(secret.mark, 1, true) then return true end
  end
  return false
end

return M

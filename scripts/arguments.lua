-- scripts/arguments.lua - the arguments of a tool call, out of the text that a model wrote.
--
-- Strict first, then the repairs of terret.json (tolerant), then two of text around whole objects:
-- the same object several times, and a sentence before it.  What is cut off is never closed by guess,
-- and nothing is run of which two readings exist.

local json = require "terret.json"

local M = {}

local LONGEST_PROSE = 300 -- bytes before the object
local MOST_OBJECTS = 8

-- The end of the object that starts at `from`, by brackets outside of strings.
local function object_end(text, from)
  local depth, at = 0, from
  while true do
    at = text:find('[{}"]', at)
    if not at then return nil end
    local c = text:sub(at, at)
    if c == '"' then
      repeat
        at = text:find('["\\]', at + 1)
        if not at then return nil end
        local escaped = text:sub(at, at) == "\\"
        if escaped then at = at + 1 end
      until not escaped
    else
      depth = depth + (c == "{" and 1 or -1)
      if depth == 0 then return at end
    end
    at = at + 1
  end
end

-- One object where the text is the same object several times; a message where they differ.
local function glued(text)
  local at, first, n = 1, nil, 0
  while true do
    local from = text:find("%S", at)
    if not from then break end
    if text:sub(from, from) ~= "{" or n == MOST_OBJECTS then return nil end
    local to = object_end(text, from)
    local one = to and json.canonical(text:sub(from, to))
    if not one then return nil end
    if first and one ~= first then return nil, "they are several different JSON objects in one call" end
    first, n, at = one, n + 1, to + 1
  end
  if n > 1 then return json.decode(first) end
end

-- The object behind a sentence.
local function behind_prose(text)
  local from = text:find("{", 1, true)
  if not from or from == 1 or from > LONGEST_PROSE then return nil end
  local prose = text:sub(1, from - 1)
  if prose:find('["%[%]}`<>=]') or not prose:find("%a") then return nil end
  local value = json.tolerant(text:sub(from))
  return type(value) == "table" and value ~= json.null and value or nil
end

---@param text string
---@return table? arguments
---@return string[]|string repairs, or what is wrong
---@return string? code "truncated" or "bad_json"
function M.parse(text)
  if not text:find("%S") or text:find("^%s*null%s*$") then return {}, {} end
  local value, detail, code = json.tolerant(text)
  if value ~= nil then
    if type(value) == "table" and not json.is_array(value) then return value, detail end
    return nil, "the arguments are no JSON object", "bad_json"
  end
  local one, differ = glued(text)
  if one then return one, { "glued" } end
  if differ then return nil, differ, "bad_json" end
  if code ~= "truncated" then
    one = behind_prose(text)
    if one and not json.is_array(one) then return one, { "prose" } end
  end
  return nil, detail --[[@as string]], code
end

return M

-- scripts/wire.lua - what the providers share: URLs, events that may hold anything, numbers, usage.
--
-- Pure functions over what an endpoint sent, which is hostile: each looks at the type of a field
-- before its value, takes absent and null alike, and never raises.

local json = require "terret.json"
local text_mod = require "terret.text"

local M = {}

-- Values -------------------------------------------------------------------------------------

---@param x any
---@return boolean
function M.is_text(x) return type(x) == "string" and x ~= "" end

---@param x any
---@return table a JSON object or array, or an empty one
function M.object(x) return type(x) == "table" and x or {} end

---A count: integers, floats and digits in a string; nothing below zero, which would lift limits.
---@param x any
---@return integer?
function M.count(x)
  if type(x) == "string" and #x < 20 then x = tonumber(x) end
  local n = type(x) == "number" and math.tointeger(x) or nil
  return n and n >= 0 and n or nil
end

local MOST_TOKENS = 1 << 40 -- more is no count: it would end each sum

---A number of tokens.
---@param x any
---@return integer?
function M.tokens(x)
  local n = M.count(x)
  return n and n <= MOST_TOKENS and n or nil
end

---A JSON text to be sent as it is, or nil: it is none.
---@param text any
---@return userdata?
function M.raw(text)
  local canonical = type(text) == "string" and json.canonical(text)
  return canonical and json.raw(canonical) or nil
end

-- URLs ---------------------------------------------------------------------------------------

local ENDINGS = { "/chat/completions", "/completions", "/responses", "/messages", "/models" }

---The URL of an operation below a base that may have come with or without a version, a slash at its
---end, the full path of some operation, a query string.
---@param base string
---@param operation string "/chat/completions"
---@param always_version boolean? the version is asked for below any path (Anthropic's rule)
---@return string
function M.url(base, operation, always_version)
  local path, query = base:match("^([^?#]*)(%??[^#]*)")
  path = path:gsub("/+$", "")
  for _, ending in ipairs(ENDINGS) do
    if path:sub(-#ending) == ending then
      return path:sub(1, -#ending - 1) .. operation .. query
    end
  end
  local versioned = path:find("/v%d+%l*%d*$")
  if not versioned and (always_version or not path:match("^%w+://[^/]+/.")) then path = path .. "/v1" end
  return path .. operation .. query
end

---@param url string
---@return string host in small letters, without the port
function M.host(url)
  local place = (url:match("^%w+://([^/?#]*)") or ""):gsub("^.*@", "")
  return (place:match("^%[[^%]]*%]") or place:match("^[^:]*")):lower()
end

-- Events -------------------------------------------------------------------------------------

-- Several JSON texts, one a line: what is left when an endpoint forgets the blank lines.
local function by_line(data)
  local list = {}
  for line in data:gmatch("[^\r\n]+") do
    if line:find("%S") then
      local done = line:find("^%s*%[DONE%]%s*$") ~= nil
      local value = not done and json.decode(line) or nil
      if not done and type(value) ~= "table" then return nil end
      list[#list + 1] = done and "[DONE]" or value
    end
  end
  return list
end

-- One object under small faults: bytes that are no text, raw control characters.
local function repaired(data)
  local value = json.tolerant(text_mod.clean(data))
  if type(value) == "table" and next(value) ~= nil and not json.is_array(value) then return { value } end
end

---The JSON values of an event, "[DONE]" among them; nil: it is no JSON.
---@param event {event: string?, data: string}
---@return (table|string)[]?
function M.values(event)
  local data = event.data:gsub("^%s*data:%s*", "") -- some say it twice
  if not data:find("%S") then return {} end
  if data:find("^%s*%[DONE%]%s*$") then return { "[DONE]" } end
  local value = json.decode(data)
  if json.is_array(value) then value = type(value[1]) == "table" and value[1] or {} end
  if type(value) == "table" then return next(value) ~= nil and not json.is_array(value) and { value } or {} end
  if type(value) == "string" and value ~= "" then return { value } end
  local list = data:find("\n", 1, true) and by_line(data)
  return list or repaired(data)
end

-- Usage --------------------------------------------------------------------------------------

-- Where cached tokens are named, by the name of the object in which they stand.
local CACHED = {
  { "prompt_tokens_details", "cached_tokens" }, { "input_tokens_details", "cached_tokens" },
  { nil, "prompt_cache_hit_tokens" }, { nil, "cached_tokens" }, { nil, "cache_read_input_tokens" },
  { nil, "cachedContentTokenCount" },
}

local function cached_of(u)
  for _, where in ipairs(CACHED) do
    local at = where[1] and M.object(u[where[1]]) or u
    local n = M.tokens(at[where[2]])
    if n then return n end
  end
end

---Takes in a report of usage; each field of the last report that has it wins.
---@param usage {input: integer?, output: integer?, cached: integer?, cost: number?}?
---@param u any
---@return table? usage
function M.usage(usage, u)
  if type(u) ~= "table" or u == json.null then return usage end
  local input = M.tokens(u.prompt_tokens) or M.tokens(u.input_tokens) or M.tokens(u.promptTokenCount)
  local output = M.tokens(u.completion_tokens) or M.tokens(u.output_tokens) or M.tokens(u.candidatesTokenCount)
  if input == 0 and (output or 0) == 0 then return usage end -- a report of nothing is none
  usage = usage or {}
  usage.input, usage.output = input or usage.input, output or usage.output
  usage.cached = cached_of(u) or usage.cached
  if type(u.cost) == "number" and u.cost >= 0 and u.cost < math.huge then usage.cost = u.cost end
  return next(usage) and usage or nil
end

-- Ends ---------------------------------------------------------------------------------------

local ENDS = {
  length = { "length", "max_tokens", "max_output_tokens", "max_completion_tokens" },
  filtered = { "content_filter", "content_filtered", "sensitive", "safety", "recitation", "blocklist",
    "prohibited_content", "spii", "blocked", "refusal", "image_safety", "language" },
  overload = { "error", "network_error", "insufficient_system_resource", "overloaded", "server_error", "abort",
    "aborted", "cancelled", "timeout", "engine_overloaded" },
  overflow = { "model_context_window_exceeded", "context_length_exceeded", "context_window_exceeded" },
  sampling = { "malformed_function_call", "tool_use_failed", "unexpected_tool_call", "malformed_tool_call" },
}
local CLASS = {}
for class, words in pairs(ENDS) do
  for _, word in ipairs(words) do CLASS[word] = class end
end

---What the reason of an end stands for: "length", or the class of a failure; nil: an end like any
---other.  Unknown words are ends.
---@param finish string?
---@return string?
function M.end_class(finish) return finish and CLASS[finish:lower()] or nil end

-- Names --------------------------------------------------------------------------------------

---An id that a dialect takes, made of one that it doesn't; the same for the same id.
---@param id string
---@param length integer
---@return string letters and digits
function M.short_id(id, length)
  local digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  local sum, out = require("terret.hash").sha256(id), {}
  for i = 1, length do
    local n = tonumber(sum:sub(4 * i - 3, 4 * i), 16) % #digits + 1
    out[i] = digits:sub(n, n)
  end
  return table.concat(out)
end

-- Words of a schema, but not properties that are called like them.
local function strip_schema(schema, words)
  if type(schema) ~= "table" then return end
  for key, inner in pairs(schema) do
    if key == "properties" and type(inner) == "table" then
      for _, property in pairs(inner) do strip_schema(property, words) end
    elseif words[key] then
      schema[key] = nil
    else
      strip_schema(inner, words)
    end
  end
end

---The tools without some words of JSON Schema.
---@param tools string JSON
---@param words table<string, boolean>?
---@return string
function M.without(tools, words)
  if not words or not next(words) then return tools end
  local list = json.decode(tools)
  strip_schema(list, words)
  return json.encode(list)
end

---The tools of a request from whichever form they were kept in.
---@param text string JSON
---@return {name: string, description: string, schema: string}[]
function M.plain_tools(text)
  local list = {}
  for i, tool in ipairs(M.object(json.decode(text))) do
    local t = type(tool["function"]) == "table" and tool["function"] or tool
    list[i] = { name = t.name, description = t.description or "",
      schema = json.encode(t.parameters or t.input_schema or {}) }
  end
  return list
end

return M

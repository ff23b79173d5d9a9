-- scripts/dialect.lua - what one endpoint takes: its profile, and what its refusals taught.
--
-- A 400 that names a field is read once, the field is left out (or changed) and the request sent again;
-- the lesson is kept by endpoint and model in STATE/dialects.json for a month.  Each lesson changes the
-- dialect in one direction only, so that lessons end.  `version` counts those that change how messages
-- are encoded: a view of an older version is made anew from its log (a batch, as compaction is).

local fs = require "terret.fs"
local json = require "terret.json"
local profiles = require "terret.profiles"

local M = {}

local KEPT = 30 * 86400 -- seconds that a lesson holds; endpoints change
local MOST = 200 -- endpoints in the file

-- Lessons that are kept, and their types.
local LESSONS = { max_field = "string|boolean", drop = "table", schema_drop = "table", system = "string",
  empty = "string", ids = "string", after_tool = "boolean", no_echo = "table", echo_empty = "string",
  cache_marks = "boolean", stream = "boolean", call_extra = "table" }

---@class terret.dialect
---@field origin string provider, endpoint and model: reasoning goes back only there
---@field version integer
---@field learned table<string, any>
local Dialect = {}
Dialect.__index = Dialect

local function path_of(state_dir) return state_dir .. "/dialects.json" end

local function read_file(state_dir)
  local data = state_dir and fs.read(path_of(state_dir), { max = 1048576 })
  local all = data and json.decode(data) or {}
  return type(all) == "table" and not json.is_array(all) and all or {}
end

local function take(self, key, value)
  local types = LESSONS[key]
  if not types or not types:find(type(value), 1, true) then return end
  if type(value) == "table" then
    local merged = {}
    for name, x in pairs(type(self[key]) == "table" and self[key] or {}) do merged[name] = x end
    for name, x in pairs(value) do merged[name] = x end
    value = merged
  end
  self[key], self.learned[key] = value, value
end

---@param options {base_url: string?, model: string, provider: string, profile: string?, profiles: table?,
---  state_dir: string?, now: integer?}
---@return terret.dialect
---@return string? message the profile that was named is unknown
function M.new(options)
  local url = (options.base_url or ""):gsub("[?#].*$", ""):gsub("/+$", "")
  local name = options.profile or options.base_url and profiles.of_url(url, options.model, options.profiles) or nil
  local fields, unknown = profiles.fields(name, options.profiles)
  local self = setmetatable(fields, Dialect)
  self.profile, self.version, self.learned = name, 1, {}
  self.origin = ("%s %s %s"):format(options.provider, url, options.model)
  self.options = options
  local known = read_file(options.state_dir)[self.origin]
  local now = options.now or os.time()
  if type(known) == "table" and type(known.time) == "number" and now - known.time < KEPT then
    for key, value in pairs(known) do take(self, key, value) end
  end
  return self, unknown
end

---The dialect of another model of the same endpoint.
---@param model string
---@return terret.dialect
function Dialect:for_model(model)
  local options = {}
  for key, value in pairs(self.options) do options[key] = value end
  options.model = model
  return (M.new(options))
end

---The function that encodes messages for a session.
---@param provider table
---@return fun(message: table, after: string?): string
function Dialect:speaker(provider)
  return function(message, after) return provider.encode(message, self, after) end
end

---Keeps what was learned.  A failure to write is none of the session.
function Dialect:save()
  local dir = self.options.state_dir
  if not dir or not next(self.learned) then return end
  local all, n = read_file(dir), 0
  for _ in pairs(all) do n = n + 1 end
  if n >= MOST then all = {} end
  local entry = { time = self.options.now or os.time() }
  for key, value in pairs(self.learned) do entry[key] = value end
  all[self.origin] = entry
  fs.write(path_of(dir), json.encode(all), { parents = true, mode = 384, sync = false })
end

-- Reading refusals ----------------------------------------------------------------------------

local REFUSED = {
  "unsupported", "not support", "n't support", "unrecognized", "unrecognised", "unknown", "unexpected", "extra inputs",
  "extra field", "extra_forbidden", "additional properties", "not permitted", "not allowed", "not accepted",
  "invalid parameter", "invalid field", "invalid argument", "no such field", "cannot find field", "can't be used",
  "cannot be used", "deprecated", "forbidden", "not implemented", "unavailable", "not available", "disallowed",
  "not valid", "incompatible", "only supports", "does not accept", "must be omitted", "not recognized", "not enabled",
  "requires --",
}
local REQUIRED = { "must be passed back", "must be provided", "is required", "is missing", "missing", "must include",
  "must contain", "must be present", "required" }

local function any(s, list)
  for _, words in ipairs(list) do
    if s:find(words, 1, true) then return true end
  end
  return false
end

-- True if a text names a field as a word of its own.
local function names(s, field)
  local at = 1
  while true do
    local from, to = s:find(field, at, true)
    if not from then return false end
    if not s:sub(from - 1, from - 1):find("[%w_]") and not s:sub(to + 1, to + 1):find("[%w_]") then return true end
    at = to + 1
  end
end

-- The fields of a request before its messages.
local function head_of(body)
  local at = body:find(',"messages":[', 1, true) or body:find(',"input":[', 1, true)
  local head = at and json.decode(body:sub(1, at - 1) .. "}")
  return type(head) == "table" and head or {}
end

local NEEDED = { model = true, messages = true, input = true, tools = true, system = true, max_tokens = true,
  max_completion_tokens = true, max_output_tokens = true, stream = true }
local REASONING = { "reasoning_content", "reasoning_details", "reasoning", "extra_content", "thought_signature",
  "thinking", "thinking_blocks", "refusal", "annotations" }

-- Each rule gets (dialect, words, head of the request, text of the tools); it returns what it learned
-- in words, the field and its value; a fourth value: messages are encoded otherwise.
local RULES = {
  function(d, s, head) -- the name of the output limit
    local sent = head.max_tokens and "max_tokens" or head.max_completion_tokens and "max_completion_tokens"
    if not sent or not names(s, sent) or not any(s, REFUSED) then return end
    local other = sent == "max_tokens" and "max_completion_tokens" or "max_tokens"
    if d.max_field == other then return end
    if d.learned.max_field == sent then return sent .. " is left out", "max_field", false end
    return ("%s instead of %s"):format(other, sent), "max_field", other
  end,
  function(d, s) -- streaming
    if d.stream ~= false and any(s, REFUSED) and not s:find("stream_options", 1, true)
      and (names(s, "stream") or s:find("streaming", 1, true)) then
      return "answers come whole, not streamed", "stream", false
    end
  end,
  function(d, s, head) -- any other field of the head that is not needed
    if not any(s, REFUSED) then return end
    for field in pairs(head) do
      if not NEEDED[field] and names(s, field:lower()) and not (d.drop or {})[field] then
        return ("'%s' is left out"):format(field), "drop", { [field] = true }
      end
    end
  end,
  function(d, s, _, tools) -- words of the tools' schemas
    if not any(s, REFUSED) then return end
    for word in tools:gmatch('"([%w$]+)":') do
      if (word:find("[A-Z$]") or word == "format" or word == "default" or word == "pattern") and names(s, word:lower())
        and not (d.schema_drop or {})[word] then
        return ("'%s' is left out of the tools' schemas"):format(word), "schema_drop", { [word] = true }
      end
    end
  end,
  function(d, s) -- ids of calls
    if d.ids ~= "mistral" and any(s, { "tool call id", "tool_call_id", "tool_calls" })
      and (s:find("length of 9", 1, true) or s:find("{9}", 1, true)) then
      return "ids of calls have nine letters", "ids", "mistral", true
    end
  end,
  function(d, s) -- the role of the system prompt
    if not (any(s, REFUSED) or s:find("role", 1, true) and s:find("invalid", 1, true)) or not names(s, "system") then
      if not (names(s, "developer") and s:find("role", 1, true) and d.system == "developer") then return end
      return "the system prompt goes as the user's first words", "system", "user", true
    end
    if d.system ~= "user" and (s:find("role", 1, true) or s:find("system message", 1, true)
        or s:find("system prompt", 1, true)) then
      return "the system prompt goes as the user's first words", "system", "user", true
    end
  end,
  function(d, s) -- a user message right behind a result
    if not d.after_tool and (s:find("'user' after role 'tool'", 1, true) or s:find("user after tool", 1, true)
        or s:find("user' after 'tool", 1, true) or s:find("unexpected role 'user'", 1, true)) then
      return "a message of the assistant goes between a result and the user's words", "after_tool", true, true
    end
  end,
  function(d, s) -- reasoning that must go back, if need be empty
    for _, field in ipairs { "reasoning_content", "reasoning" } do
      if names(s, field) and any(s, REQUIRED) and not any(s, { "extra inputs", "not permitted", "unsupported" })
        and d.echo_empty ~= field then
        return ("'%s' goes with each message that calls tools"):format(field), "echo_empty", field, true
      end
    end
  end,
  function(d, s) -- fields of messages that must not go back
    if not any(s, REFUSED) then return end
    for _, field in ipairs(REASONING) do
      if names(s, field) and not (d.no_echo or {})[field] then
        return ("'%s' of earlier answers is left out"):format(field), "no_echo", { [field] = true }, true
      end
    end
  end,
  function(d, s) -- calls of another model lack the signature
    if not d.call_extra and s:find("missing a thought_signature", 1, true) then
      return "calls of other models carry a placeholder for the signature", "call_extra",
        { extra_content = '{"google":{"thought_signature":"skip_thought_signature_validator"}}' }, true
    end
  end,
  function(d, s) -- cache marks
    if d.cache_marks and names(s, "cache_control") and any(s, REFUSED) then
      return "no marks for the cache", "cache_marks", false, true
    end
  end,
  function(d, s) -- content of messages that only call tools
    if not s:find("content", 1, true) or s:find("content_filter", 1, true) then return end
    local none = any(s, { "nil", "null", "none", "missing", "required", "must be a string", "expected a string",
      "valid string", "should be a string" })
    local blank = any(s, { "empty", "at least 1", "too short", "blank" })
    if blank and not d.empty then return "content is left out where there is none", "empty", "omit", true end
    if none and d.empty == "omit" then return "content is an empty text where there is none", "empty", "blank", true end
  end,
}

-- Signatures that don't hold are not a matter of the endpoint: reasoning stays away for this run.
local function drop_signatures(d, s)
  local reasoning = any(s, { "signature", "encrypted_content", "encrypted content", "thinking block", "thought" })
  local broken = any(s, { "invalid", "verif", "decrypt", "mismatch", "not valid", "could not", "cannot be modified",
    "corrupt" })
  if d.echo == false or not reasoning or not broken then return end
  d.echo, d.version = false, d.version + 1
  return "reasoning of earlier answers is left out"
end

local TAUGHT_BY = { [400] = true, [404] = true, [422] = true, [500] = true, [501] = true }

---Reads a refusal; changes the dialect if it says how.
---@param status integer?
---@param fault terret.fault
---@param body string the request that was refused
---@return string? learned in words; nil: nothing
function Dialect:learn(status, fault, body)
  if status and not TAUGHT_BY[status] then return nil end
  local s = (fault.text .. " " .. (fault.param or "")):lower()
  local head = head_of(body)
  local tools = type(head.tools) == "table" and json.encode(head.tools) or ""
  for _, rule in ipairs(RULES) do
    local words, key, value, encoded = rule(self, s, head, tools)
    if words then
      take(self, key, value)
      if encoded then self.version = self.version + 1 end
      self:save()
      return words
    end
  end
  return drop_signatures(self, s)
end

return M

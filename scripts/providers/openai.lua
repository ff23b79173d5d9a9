-- scripts/providers/openai.lua - OpenAI chat completions, and all that is compatible with it.
--
-- Pure functions: no HTTP, no retries, no clock.  encode turns a neutral message into the bytes
-- that are sent (once, when it enters the store); build makes the request around the stored
-- fragments; parse reads one SSE event, or a whole body, into parts.

local json = require "terret.json"

local M = { name = "openai", key_env = "OPENAI_API_KEY", default_url = "https://api.openai.com/v1" }

-- Messages -----------------------------------------------------------------------------------

local function encode_call(call)
  return {
    id = call.id, type = "function",
    ["function"] = { name = call.name, arguments = call.arguments },
  }
end

---@param m terret.message
---@return string fragment one message as canonical JSON
function M.encode(m)
  local out = { role = m.role, content = m.content }
  if m.role == "assistant" then
    if m.tool_calls and #m.tool_calls > 0 then
      local calls = json.array {}
      for i, call in ipairs(m.tool_calls) do calls[i] = encode_call(call) end
      out.tool_calls = calls
      if out.content == "" then out.content = nil end
    end
    for key, raw in pairs(m.echo or {}) do out[key] = json.raw(raw) end
  elseif m.role == "tool" then
    out.tool_call_id = m.call_id
  end
  return json.encode(out)
end

-- Requests -----------------------------------------------------------------------------------

---@param base string with or without /v1, a slash, the full path, a query string
---@return string
function M.url(base)
  local path, query = base:match("^([^?]*)(%??.*)$")
  path = path:gsub("/+$", "")
  if not path:find("/chat/completions$") then
    if not path:match("^%w+://[^/]+/.") then path = path .. "/v1" end
    path = path .. "/chat/completions"
  end
  return path .. query
end

---@param base string
---@return string url of the list of models
function M.models_url(base)
  return (M.url(base):gsub("/chat/completions", "/models", 1))
end

---@param key string?
---@return string[]
function M.headers(key)
  local headers = { "Content-Type: application/json", "Accept: text/event-stream, application/json" }
  if key and key ~= "" then headers[#headers + 1] = "Authorization: Bearer " .. key end
  return headers
end

-- The tool list as canonical JSON; kept in the session's first record.
---@param tools {name: string, description: string, schema: string}[]
---@return string
function M.encode_tools(tools)
  local list = json.array {}
  for i, tool in ipairs(tools) do
    list[i] = { type = "function", ["function"] = {
      name = tool.name, description = tool.description, parameters = json.raw(tool.schema) } }
  end
  return json.encode(list)
end

---@param request {base_url: string, key: string?, model: string, tools: string?, stream: boolean, max_output: integer?, sampling: table?, tool_choice: string?, session: string?, tail: string?}
---@param view terret.store.view
---@return string url
---@return string[] headers
---@return string body `messages` is its last key, so that each body is a prefix of the next
function M.build(request, view)
  local head = { model = request.model, stream = request.stream }
  if request.stream then head.stream_options = { include_usage = true } end
  if request.tools and request.tools ~= "[]" then
    head.tools = json.raw(request.tools)
    head.tool_choice = request.tool_choice
  end
  if request.max_output then head.max_tokens = request.max_output end
  for key, value in pairs(request.sampling or {}) do head[key] = value end
  local prefix = json.encode(head):sub(1, -2) .. ',"messages":['
  local tail = request.tail and (view:count() > 0 and "," or "") .. request.tail .. "]}" or "]}"
  return M.url(request.base_url), M.headers(request.key), view:render(prefix, tail)
end

-- Answers ------------------------------------------------------------------------------------

local ECHO = { "reasoning_content", "reasoning", "reasoning_details" }

local function is_text(x) return type(x) == "string" and x ~= "" end

-- The call that a delta goes on with, or nil: it begins one.  The index decides; without one a new
-- id, or a name after arguments, begins a call.
local function open_call(acc, delta, index, name)
  local call
  if index then call = acc.by_index[index] else call = acc.calls[#acc.calls] end
  if not call then return nil end
  if is_text(delta.id) and delta.id ~= call.id and (call.id or not index) then return nil end
  if not index and not is_text(delta.id) and is_text(name) and acc.pieces[call] then return nil end
  return call
end

-- One delta of a tool call, or (whole) one call of an answer that was not streamed.
local function add_call(acc, delta, whole)
  if type(delta) ~= "table" then return end
  local fn = type(delta["function"]) == "table" and delta["function"] or {}
  local index = not whole and math.type(delta.index) == "integer" and delta.index or nil
  local call = not whole and open_call(acc, delta, index, fn.name) or nil
  if not call then
    call = { name = "", arguments = "" }
    acc.calls[#acc.calls + 1] = call
    if index then acc.by_index[index] = call end
  end
  if is_text(delta.id) then call.id = delta.id end
  if is_text(fn.name) and fn.name ~= call.name then call.name = call.name .. fn.name end
  if type(fn.arguments) == "string" then
    acc.pieces[call] = acc.pieces[call] or {}
    table.insert(acc.pieces[call], fn.arguments)
  elseif type(fn.arguments) == "table" then
    acc.pieces[call] = { json.encode(fn.arguments) }
  end
end

-- An endpoint that reports less than nothing would lift the limits.
local function number(x)
  local n = type(x) == "number" and math.tointeger(x) or nil
  return n and n >= 0 and n or nil
end

-- Each field of the last non-null report wins.
local function add_usage(acc, u)
  if type(u) ~= "table" then return end
  local details = type(u.prompt_tokens_details) == "table" and u.prompt_tokens_details or {}
  local usage = acc.usage or {}
  usage.input = number(u.prompt_tokens) or usage.input
  usage.output = number(u.completion_tokens) or usage.output
  usage.cached = number(details.cached_tokens) or number(u.prompt_cache_hit_tokens)
    or number(u.cached_tokens) or usage.cached
  usage.cost = type(u.cost) == "number" and u.cost >= 0 and u.cost < math.huge and u.cost or usage.cost
  acc.usage = usage
end

local function error_text(e)
  if type(e) == "string" then return e end
  if type(e) ~= "table" then return "error without text" end
  return is_text(e.message) and e.message or json.encode(e)
end

---@return table acc what parse collects into
function M.start() return { calls = {}, by_index = {}, pieces = {}, echo = {} } end

local function add_delta(acc, delta, parts, whole)
  if is_text(delta.content) then
    parts[#parts + 1] = { type = "text", text = delta.content }
  elseif is_text(delta.refusal) then
    parts[#parts + 1] = { type = "text", text = delta.refusal }
  elseif type(delta.content) == "table" then
    for _, piece in ipairs(delta.content) do
      if type(piece) == "table" and is_text(piece.text) then
        parts[#parts + 1] = { type = "text", text = piece.text }
      end
    end
  end
  for _, key in ipairs(ECHO) do
    if is_text(delta[key]) then
      parts[#parts + 1] = { type = "reasoning", text = delta[key] }
      acc.echo[key] = (acc.echo[key] or "") .. delta[key]
      break
    end
  end
  if type(delta.tool_calls) == "table" then
    for _, call in ipairs(delta.tool_calls) do
      add_call(acc, call, whole)
      parts[#parts + 1] = { type = "tool_call" } -- progress, for the deadline
    end
  end
end

---One event of the stream, or the whole body of an answer that was not streamed.
---@param event {event: string?, data: string}
---@param acc table of M.start()
---@return {type: "text"|"reasoning"|"tool_call", text: string?}[] parts
function M.parse(event, acc)
  local parts = {}
  if event.data == "[DONE]" then
    acc.done = true
    return parts
  end
  local body = json.decode(event.data)
  if json.is_array(body) then body = body[1] end
  if type(body) ~= "table" then
    if event.event == "error" then acc.error = event.data end
    return parts
  end
  if body.error and body.error ~= json.null and body.error ~= "" then
    acc.error = error_text(body.error)
    acc.error_code = type(body.error) == "table" and body.error.code or nil
    return parts
  end
  add_usage(acc, body.usage)
  if type(body.model) == "string" then acc.model = body.model end
  local choice = type(body.choices) == "table" and body.choices[1]
  if type(choice) ~= "table" then return parts end
  add_usage(acc, choice.usage)
  if type(choice.delta) == "table" then
    add_delta(acc, choice.delta, parts, false)
  elseif type(choice.message) == "table" then
    add_delta(acc, choice.message, parts, true)
    acc.done = true -- a whole answer, also where no reason of its end is given
  end
  if is_text(choice.finish_reason) then acc.finish = choice.finish_reason end
  return parts
end

---What the stream came to.
---@param acc table
---@return {tool_calls: table[], usage: table?, finish: string?, echo: table, error: string?}
function M.finish(acc)
  for call, pieces in pairs(acc.pieces) do call.arguments = table.concat(pieces) end
  local echo = {}
  for key, text in pairs(acc.echo) do echo[key] = json.encode(text) end
  local complete = acc.finish ~= nil or acc.done == true
  return { tool_calls = acc.calls, usage = acc.usage, echo = echo, error = acc.error,
    error_code = acc.error_code, finish = acc.finish or acc.done and "stop" or nil, complete = complete }
end

return M

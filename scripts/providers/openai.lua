-- scripts/providers/openai.lua - OpenAI chat completions, and all that is compatible with it.
--
-- Pure functions: no HTTP, no retries, no clock.  encode turns a neutral message into the bytes
-- that are sent (once, when it enters the store); build makes the request around the stored
-- fragments; parse reads one SSE event, or a whole body, into parts.  How endpoints differ is said by
-- a dialect (profiles.lua, dialect.lua); without one it is what most of them take.

local lazy = require "terret.lazy"

local assemble = lazy "terret.assemble"
local fault = lazy "terret.fault"
local json = require "terret.json"
local marks = lazy "terret.marks"
local think = lazy "terret.think"
local wire = require "terret.wire"

local M = { name = "openai", key_env = "OPENAI_API_KEY", default_url = "https://api.openai.com/v1" }

local is_text = wire.is_text
local PLAIN = {} -- the dialect of those who name none

-- Messages -----------------------------------------------------------------------------------

local function call_id(id, dialect)
  if dialect.ids ~= "mistral" or id:find("^%w%w%w%w%w%w%w%w%w$") then return id end
  return wire.short_id(id, 9)
end

local function encode_call(call, dialect, ours)
  local out = { id = call_id(call.id, dialect), type = "function",
    ["function"] = { name = call.name, arguments = call.arguments } }
  local extra = ours and dialect.echo ~= false and call.extra or dialect.call_extra
  for key, raw in pairs(extra or {}) do
    if not (dialect.no_echo or PLAIN)[key] then out[key] = wire.raw(raw) end
  end
  return out
end

local function encode_assistant(m, dialect)
  local out = { role = "assistant", content = m.content }
  local ours = not m.origin or not dialect.origin or m.origin == dialect.origin
  if m.tool_calls and #m.tool_calls > 0 then
    local calls = json.array {}
    for i, call in ipairs(m.tool_calls) do calls[i] = encode_call(call, dialect, ours) end
    out.tool_calls = calls
    if out.content == "" and dialect.empty == "omit" then out.content = nil end
    if dialect.echo_empty then out[dialect.echo_empty] = "" end
  elseif out.content == "" then
    out.content = "(no text)" -- endpoints refuse an empty message
  end
  if ours and dialect.echo ~= false then
    for key, raw in pairs(m.echo or {}) do
      if not (dialect.no_echo or PLAIN)[key] then out[key] = wire.raw(raw) end
    end
  end
  return json.encode(out)
end

local function encode_system(m, dialect)
  local content = m.content
  if dialect.cache_marks then content = json.array { { type = "text", text = content, cache_control = marks.MARK } } end
  if dialect.system ~= "user" then return json.encode { role = dialect.system or "system", content = content } end
  return json.encode { role = "user", content = content } .. ',{"content":"Understood.","role":"assistant"}'
end

-- One message as canonical JSON; two with a comma between them where the dialect asks for it.
---@param m terret.message
---@param dialect terret.dialect?
---@param after string? role of the message before it
---@return string fragment
function M.encode(m, dialect, after)
  dialect = dialect or PLAIN
  if m.role == "assistant" then return encode_assistant(m, dialect) end
  if m.role == "system" then return encode_system(m, dialect) end
  if m.role == "tool" then
    return json.encode { role = "tool", content = m.content, tool_call_id = call_id(m.call_id, dialect) }
  end
  local fragment = json.encode { role = m.role, content = m.content }
  if after == "tool" and dialect.after_tool then
    return '{"content":"(a note from the user follows)","role":"assistant"},' .. fragment
  end
  return fragment
end

-- Requests -----------------------------------------------------------------------------------

---@param base string with or without /v1, a slash, the full path, a query string
---@return string
function M.url(base) return wire.url(base, "/chat/completions") end

---@param base string
---@return string url of the list of models
function M.models_url(base) return wire.url(base, "/models") end

---@param key string?
---@param dialect terret.dialect?
---@return string[]
function M.headers(key, dialect)
  local headers = { "Content-Type: application/json", "Accept: text/event-stream, application/json" }
  if key and key ~= "" then
    local auth = dialect and dialect.auth == "api-key" and "api-key: " or "Authorization: Bearer "
    headers[#headers + 1] = auth .. key
  end
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

-- Content with a mark for the cache, of a message of the user's or a result.
local function marked(fragment)
  local m = json.decode(fragment)
  if type(m) ~= "table" or not is_text(m.content) or m.role == "assistant" then return fragment end
  m.content = json.array { { type = "text", text = m.content, cache_control = marks.MARK } }
  return json.encode(m)
end

---@class terret.wire.request
---@field base_url string
---@field key string?
---@field model string
---@field tools string? JSON of encode_tools
---@field stream boolean
---@field max_output integer? what the user or the model's row limits the output to
---@field most integer? what there is room for, for dialects in which the field must be there
---@field sampling table? further fields of the body
---@field tool_choice string?
---@field session string?
---@field tail string? a message behind the others, which is not stored
---@field dialect terret.dialect?
---@field store terret.store.store? that of the view

---@param request terret.wire.request
---@param view terret.store.view
---@return string url
---@return string[] headers
---@return string body `messages` is its last key, so that each body is a prefix of the next
function M.build(request, view)
  local dialect = request.dialect or PLAIN
  local stream = request.stream and dialect.stream ~= false
  local head = { model = request.model, stream = stream }
  if stream then head.stream_options = { include_usage = true } end
  if request.tools and request.tools ~= "[]" then
    head.tools = json.raw(wire.without(request.tools, dialect.schema_drop))
    head.tool_choice = request.tool_choice
  end
  local limit = dialect.max_field
  if limit == nil then limit = "max_tokens" end
  if request.max_output and limit then head[limit] = request.max_output end
  if dialect.cache_key then head.prompt_cache_key = request.session end
  for key, value in pairs(request.sampling or PLAIN) do head[key] = value end
  for key in pairs(dialect.drop or PLAIN) do head[key] = nil end
  local prefix = json.encode(head):sub(1, -2) .. ',"messages":['
  local tail = request.tail and (view:count() > 0 and "," or "") .. request.tail .. "]}" or "]}"
  local body = dialect.cache_marks and marks.render(view, request.store, prefix, tail, 2, marked)
    or view:render(prefix, tail)
  return M.url(request.base_url), M.headers(request.key, dialect), body
end

-- Answers ------------------------------------------------------------------------------------

---@return table acc what parse collects into
function M.start()
  return { calls = assemble.new(), echo = {}, think = think.new() }
end

-- Fields of a call that nobody knows: signatures, which go back on the same call.
local KNOWN = { index = true, id = true, type = true, ["function"] = true }
local function unknown_fields(call)
  local extra
  for key, value in pairs(call) do
    if type(key) == "string" and not KNOWN[key] and value ~= json.null then
      extra = extra or {}
      extra[key] = json.encode(value)
    end
  end
  return extra
end

-- Answers the bytes of the arguments.
local function add_call(acc, call, whole)
  if type(call) ~= "table" then return 0 end
  local fn = wire.object(call["function"])
  local given = fn.arguments
  if given == nil or given == json.null then given = fn.parameters end
  local d = { index = wire.count(call.index), id = call.id, name = fn.name, arguments = given,
    extra = unknown_fields(call) }
  if whole then acc.calls:whole(d) else acc.calls:add(d) end
  return type(given) == "string" and #given or 0
end

local function add_text(acc, s, parts)
  think.feed(acc.think, s, parts)
end

-- Content that comes as a list of parts (Mistral): text, and thinking with parts of its own.
local function add_parts(acc, list, parts)
  for _, piece in ipairs(list) do
    if type(piece) == "string" then
      add_text(acc, piece, parts)
    elseif type(piece) == "table" and piece.type == "thinking" then
      for _, inner in ipairs(type(piece.thinking) == "table" and piece.thinking or { piece.thinking }) do
        local s = type(inner) == "table" and inner.text or inner
        if is_text(s) then parts[#parts + 1] = { type = "reasoning", text = s } end
      end
    elseif type(piece) == "table" and is_text(piece.text) then
      add_text(acc, piece.text, parts)
    end
  end
end

-- Typed details of reasoning: fragments of one index are one entry; they go back whole and in order.
local function add_details(acc, list)
  acc.details = acc.details or {}
  for _, d in ipairs(list) do
    if type(d) == "table" then
      local last = acc.details[#acc.details]
      local same = last and last.type == d.type and last.index == d.index and last.type ~= "reasoning.encrypted"
      if not same then
        last = {}
        acc.details[#acc.details + 1] = last
      end
      for key, value in pairs(d) do
        local joins = same and (key == "text" or key == "summary") and is_text(value) and is_text(last[key])
        if joins then last[key] = last[key] .. value
        elseif value ~= json.null or last[key] == nil then last[key] = value end
      end
    end
  end
end

-- Reasoning under the name that it came with; some endpoints say it under two.
local function add_reasoning(acc, delta, parts)
  local key = is_text(delta.reasoning_content) and "reasoning_content"
    or is_text(delta.reasoning) and "reasoning" or nil
  if key then
    parts[#parts + 1] = { type = "reasoning", text = delta[key] }
    local pieces = acc.echo[key] or {}
    acc.echo[key] = pieces
    pieces[#pieces + 1] = delta[key]
  end
  if type(delta.reasoning_details) == "table" then
    add_details(acc, delta.reasoning_details)
    for _, d in ipairs(key and {} or delta.reasoning_details) do
      local s = type(d) == "table" and (is_text(d.text) and d.text or d.summary)
      if is_text(s) then parts[#parts + 1] = { type = "reasoning", text = s } end
    end
  end
end

local function add_delta(acc, delta, parts, whole)
  add_reasoning(acc, delta, parts)
  if is_text(delta.content) then
    add_text(acc, delta.content, parts)
  elseif is_text(delta.refusal) then
    parts[#parts + 1] = { type = "text", text = delta.refusal }
  elseif type(delta.content) == "table" then
    add_parts(acc, delta.content, parts)
  end
  if type(delta.tool_calls) == "table" then
    for _, call in ipairs(delta.tool_calls) do
      parts[#parts + 1] = { type = "tool_call", size = add_call(acc, call, whole) } -- progress, for the deadline
    end
  elseif type(delta.function_call) == "table" then -- the form before tools
    local size = add_call(acc, { index = 0, ["function"] = delta.function_call }, whole)
    parts[#parts + 1] = { type = "tool_call", size = size }
  end
end

local function add_choice(acc, choice, parts)
  if choice.usage then acc.usage = wire.usage(acc.usage, choice.usage) end
  if type(choice.error) == "table" or is_text(choice.error) then acc.fault = fault.read(choice) end
  if type(choice.delta) == "table" then
    add_delta(acc, choice.delta, parts, false)
  elseif type(choice.message) == "table" then
    add_delta(acc, choice.message, parts, true)
    acc.done = true -- a whole answer, also where no reason of its end is given
  elseif is_text(choice.text) then
    add_text(acc, choice.text, parts)
  end
  if is_text(choice.finish_reason) then acc.finish = choice.finish_reason end
end

local function add_usage(acc, body)
  acc.usage = wire.usage(acc.usage, body.usage)
  acc.usage = wire.usage(acc.usage, wire.object(body.x_groq).usage)
  local cached = wire.tokens(wire.object(body.timings).cache_n)
  if cached and acc.usage then acc.usage.cached = acc.usage.cached or cached end
end

-- Most events are a choice with a delta and nothing else: the rest is looked at only where it is.
local function add_body(acc, body, parts)
  local choices = body.choices
  if body.usage or body.x_groq or body.timings then add_usage(acc, body) end
  if type(choices) ~= "table" or body.error or body.base_resp or body.type then
    local said = fault.of_event(body)
    acc.fault = acc.fault or said
    if said or type(choices) ~= "table" then return end
  end
  for _, choice in ipairs(choices) do
    if type(choice) == "table" then add_choice(acc, choice, parts) end
  end
end

-- Most events of a stream are the one before with another text.  What stands around the text is
-- remembered, so that such an event needs no decoder: the same bytes around a plain string mean the same.
local MOST_TRIES = 16

local function remember(acc, data, body)
  acc.frame = nil
  local choice = type(body.choices) == "table" and #body.choices == 1 and body.choices[1]
  local delta = type(choice) == "table" and choice.delta
  local said = type(delta) == "table" and delta.content
  if not is_text(said) or said:find('["\\%c]') then return end
  for key in pairs(delta) do
    if key ~= "content" and key ~= "role" then return end
  end
  local from, to = data:find('"content":"' .. said .. '"', 1, true)
  if not from or data:find('"content":"', 1, true) ~= from or data:find('"content":"', to, true) then return end
  acc.frame = { before = data:sub(1, from + 10), after = data:sub(to) }
  acc.tries = (acc.tries or 0) + 1
end

-- The text of an event that is the last one but for its text.
local function same_frame(acc, data)
  local before, after = acc.frame.before, acc.frame.after
  local last = #data - #after
  if last <= #before or data:find(before, 1, true) ~= 1 or not data:find(after, last + 1, true) then return nil end
  local said = data:sub(#before + 1, last)
  if said:find('["\\%c]') or not utf8.len(said) then return nil end
  acc.tries = 0
  return said
end

---One event of the stream, or the whole body of an answer that was not streamed.
---@param event {event: string?, data: string}
---@param acc table of M.start()
---@return {type: "text"|"reasoning"|"tool_call", text: string?, size: integer?}[] parts
function M.parse(event, acc)
  local parts = {}
  local said = acc.frame and not event.event and same_frame(acc, event.data)
  if said then
    add_text(acc, said, parts)
    return parts
  end
  local plain = event.event == nil and json.decode(event.data)
  if type(plain) == "table" and not json.is_array(plain) then
    add_body(acc, plain, parts)
    if (acc.tries or 0) < MOST_TRIES then remember(acc, event.data, plain) end
    return parts
  end
  local values = wire.values(event)
  if not values then
    acc.fault = acc.fault or event.event == "error" and fault.of_body(event.data)
      or { message = "an event of the stream is no valid JSON", text = "malformed event", class = "cut" }
    return parts
  end
  for _, value in ipairs(values) do
    if value == "[DONE]" then acc.done, acc.over = true, true
    elseif event.event == "error" then acc.fault = acc.fault or fault.read(value)
    elseif type(value) == "table" then add_body(acc, value, parts) end
  end
  return parts
end

---What the stream came to.
---@param acc table
---@return {tool_calls: table[], usage: table?, finish: string?, echo: table, error: string?, parts: table[]?,
---  complete: boolean, fault: terret.fault?}
function M.finish(acc)
  local echo, parts = {}, {}
  think.finish(acc.think, parts)
  for key, pieces in pairs(acc.echo) do echo[key] = json.encode(table.concat(pieces)) end
  if acc.details and #acc.details > 0 then echo.reasoning_details = json.encode(json.array(acc.details)) end
  return { tool_calls = acc.calls:finish(), usage = acc.usage, echo = echo, fault = acc.fault,
    error = acc.fault and acc.fault.message, finish = acc.finish or acc.done and "stop" or nil,
    complete = acc.finish ~= nil or acc.done == true, parts = parts }
end

return M

-- scripts/providers/anthropic.lua - Anthropic's Messages API.
--
-- Pure functions.  The system prompt is the first fragment and stands in the head of the body; results
-- are user messages, and neighbours of the user's role become one message when the body is built.
-- Thinking goes back untouched, in its place.  Cache marks: one on the system prompt (which covers the
-- tools), two that move (marks.lua).

local lazy = require "terret.lazy"

local fault = lazy "terret.fault"
local json = require "terret.json"
local marks = lazy "terret.marks"
local wire = require "terret.wire"

local M = { name = "anthropic", key_env = "ANTHROPIC_API_KEY", default_url = "https://api.anthropic.com/v1" }

local is_text = wire.is_text
local PLAIN = {}
local MOST_OUTPUT = 8192 -- where nothing says how much; the field must be there

-- Messages -----------------------------------------------------------------------------------

local function call_id(id)
  return id:find("^[%w_%-]+$") and #id <= 64 and id or "call_" .. wire.short_id(id, 16)
end

local function tool_use(call)
  local input = wire.raw(call.arguments) or {}
  return json.encode { type = "tool_use", id = call_id(call.id), name = call.name, input = input }
end

local function text_block(s) return json.encode { type = "text", text = s } end

-- The order of the blocks as they came, with the thinking among them.
local function order_of(m, dialect)
  local ours = not m.origin or not dialect.origin or m.origin == dialect.origin
  local raw = ours and dialect.echo ~= false and m.echo and m.echo.blocks
  local list = raw and json.decode(raw)
  return type(list) == "table" and list or {}
end

local function encode_assistant(m, dialect)
  local blocks, calls, at = {}, m.tool_calls or {}, 1
  local text = m.content:find("%S") and m.content or nil
  local function add_text()
    if text then blocks[#blocks + 1] = text_block(text) end
    text = nil
  end
  for _, block in ipairs(order_of(m, dialect)) do
    if block == "text" then
      add_text()
    elseif block == "call" then
      if calls[at] then blocks[#blocks + 1] = tool_use(calls[at]) end
      at = at + 1
    elseif type(block) == "table" then
      blocks[#blocks + 1] = json.encode(block)
    end
  end
  add_text()
  for i = at, #calls do blocks[#blocks + 1] = tool_use(calls[i]) end
  if #blocks == 0 then blocks[1] = text_block("(no text)") end
  return '{"content":[' .. table.concat(blocks, ",") .. '],"role":"assistant"}'
end

---@param m terret.message
---@param dialect terret.dialect?
---@return string fragment
function M.encode(m, dialect)
  dialect = dialect or PLAIN
  if m.role == "assistant" then return encode_assistant(m, dialect) end
  if m.role == "system" then
    local mark = dialect.cache_marks ~= false and marks.MARK or nil
    return json.encode(json.array { { type = "text", text = m.content, cache_control = mark } })
  end
  local block
  if m.role == "tool" then
    block = json.encode { type = "tool_result", tool_use_id = call_id(m.call_id), content = m.content,
      is_error = m.ok == false or nil }
  else
    block = text_block(m.content:find("%S") and m.content or "(no text)")
  end
  return '{"content":[' .. block .. '],"role":"user"}'
end

-- Requests -----------------------------------------------------------------------------------

---@param base string
---@return string
function M.url(base) return wire.url(base, "/messages", true) end

---@param base string
---@return string
function M.models_url(base) return wire.url(base, "/models", true) end

---@param key string?
---@param dialect terret.dialect?
---@return string[]
function M.headers(key, dialect)
  local headers = { "Content-Type: application/json", "Accept: text/event-stream, application/json",
    "anthropic-version: 2023-06-01" }
  if key and key ~= "" then
    headers[#headers + 1] = "x-api-key: " .. key
    -- Gateways that speak this protocol want the other form.
    if not dialect or dialect.auth ~= "x-api-key" then headers[#headers + 1] = "Authorization: Bearer " .. key end
  end
  return headers
end

---@param tools {name: string, description: string, schema: string}[]
---@return string
function M.encode_tools(tools)
  local list = json.array {}
  for i, tool in ipairs(tools) do
    list[i] = { name = tool.name, description = tool.description, input_schema = json.raw(tool.schema) }
  end
  return json.encode(list)
end

local BEGIN, END = '{"content":[', '],"role":"user"}'

local function is_user(fragment) return fragment:sub(-#END) == END end

-- The last block with a mark.
local function marked(message)
  local m = is_user(message) and json.decode(message)
  if type(m) ~= "table" then return message end
  m.content[#m.content].cache_control = marks.MARK
  return json.encode(m)
end

-- The messages, neighbours of the user's role as one, and the two marks that move.
local function messages_of(request, view, with_marks)
  local list, answer = {}, nil
  for i = 2, view:count() do
    local fragment = marks.fragment(view, request.store, i)
    local last = list[#list]
    if last and is_user(last) and is_user(fragment) then
      list[#list] = last:sub(1, -#END - 1) .. "," .. fragment:sub(#BEGIN + 1)
    else
      list[#list + 1] = fragment
      if not is_user(fragment) then answer = #list end
    end
  end
  if with_marks and #list > 0 then
    list[#list] = marked(list[#list])
    if answer and answer > 1 and answer - 1 ~= #list then list[answer - 1] = marked(list[answer - 1]) end
  end
  local tail = request.tail
  if tail and list[#list] and is_user(list[#list]) and is_user(tail) then
    list[#list] = list[#list]:sub(1, -#END - 1) .. "," .. tail:sub(#BEGIN + 1)
  elseif tail then
    list[#list + 1] = tail
  end
  return table.concat(list, ",")
end

---@param request terret.wire.request
---@param view terret.store.view
---@return string url
---@return string[] headers
---@return string body `messages` is its last key
function M.build(request, view)
  local dialect = request.dialect or PLAIN
  local head = { model = request.model, stream = request.stream and dialect.stream ~= false,
    max_tokens = request.max_output or request.most or MOST_OUTPUT }
  if view:count() > 0 then head.system = json.raw(marks.fragment(view, request.store, 1)) end
  if request.tools and request.tools ~= "[]" then
    head.tools = json.raw(wire.without(request.tools, dialect.schema_drop))
    if request.tool_choice then head.tool_choice = { type = request.tool_choice } end
  end
  for key, value in pairs(request.sampling or PLAIN) do head[key] = value end
  for key in pairs(dialect.drop or PLAIN) do head[key] = nil end
  local body = json.encode(head):sub(1, -2) .. ',"messages":['
    .. messages_of(request, view, dialect.cache_marks ~= false) .. "]}"
  return M.url(request.base_url), M.headers(request.key, dialect), body
end

-- Answers ------------------------------------------------------------------------------------

---@return table acc
function M.start() return { blocks = {}, by_index = {} } end

-- Input tokens leave cached ones out here; everywhere else they are among them.
local function add_usage(acc, u)
  if type(u) ~= "table" then return end
  local usage = acc.usage or {}
  local fresh = wire.tokens(u.input_tokens)
  acc.fresh = fresh or acc.fresh
  usage.cached = wire.tokens(u.cache_read_input_tokens) or usage.cached
  usage.written = wire.tokens(u.cache_creation_input_tokens) or usage.written
  if acc.fresh then usage.input = acc.fresh + (usage.cached or 0) + (usage.written or 0) end
  usage.output = wire.tokens(u.output_tokens) or usage.output
  acc.usage = usage
end

local function block_of(acc, event)
  local index = wire.count(event.index)
  local block
  if index then block = acc.by_index[index] else block = acc.blocks[#acc.blocks] end
  if not block then
    block = { type = "text", text = {}, pieces = {} }
    acc.blocks[#acc.blocks + 1] = block
    if index then acc.by_index[index] = block end
  end
  return block
end

local function begin(acc, event, parts)
  local given = wire.object(event.content_block)
  local index = wire.count(event.index)
  local block = { type = given.type, given = given, text = {}, pieces = {} }
  acc.blocks[#acc.blocks + 1] = block
  if index then acc.by_index[index] = block end
  if given.type == "text" and is_text(given.text) then parts[#parts + 1] = { type = "text", text = given.text } end
  if given.type == "thinking" and is_text(given.thinking) then
    block.text[1] = given.thinking
    parts[#parts + 1] = { type = "reasoning", text = given.thinking }
  end
  if given.type == "tool_use" then parts[#parts + 1] = { type = "tool_call" } end
end

local function add_delta(acc, event, parts)
  local d, block = wire.object(event.delta), block_of(acc, event)
  if is_text(d.text) then
    parts[#parts + 1] = { type = "text", text = d.text }
  elseif is_text(d.thinking) then
    block.text[#block.text + 1] = d.thinking
    parts[#parts + 1] = { type = "reasoning", text = d.thinking }
  elseif is_text(d.signature) then
    block.signature = (block.signature or "") .. d.signature
  elseif is_text(d.partial_json) then
    block.pieces[#block.pieces + 1] = d.partial_json
    parts[#parts + 1] = { type = "tool_call", size = #d.partial_json }
  end
end

local FINISH = { max_tokens = "length", refusal = "content_filter" }

local function add_reason(acc, reason)
  if is_text(reason) then acc.finish = FINISH[reason] or reason end
end

local function add_body(acc, body, parts)
  local kind = body.type
  if kind == "content_block_start" then begin(acc, body, parts)
  elseif kind == "content_block_delta" then add_delta(acc, body, parts)
  elseif kind == "message_start" then add_usage(acc, wire.object(body.message).usage)
  elseif kind == "message_delta" then
    add_usage(acc, body.usage)
    add_reason(acc, wire.object(body.delta).stop_reason)
  elseif kind == "message_stop" then acc.done, acc.over = true, true
  elseif kind == "message" then
    for i, block in ipairs(wire.object(body.content)) do
      begin(acc, { index = i - 1, content_block = block }, parts)
      acc.blocks[#acc.blocks].signature = type(block) == "table" and block.signature or nil
    end
    add_usage(acc, body.usage)
    add_reason(acc, body.stop_reason)
    acc.done = true
  else
    acc.fault = acc.fault or fault.of_event(body)
  end
end

---@param event {event: string?, data: string}
---@param acc table
---@return table[] parts
function M.parse(event, acc)
  local parts, values = {}, wire.values(event)
  if not values then
    acc.fault = acc.fault or { message = "an event of the stream is no valid JSON", text = "", class = "cut" }
    return parts
  end
  for _, value in ipairs(values) do
    if type(value) == "table" then
      if value.type == nil and event.event then value.type = event.event end
      add_body(acc, value, parts)
    elseif event.event == "error" and value ~= "[DONE]" then
      acc.fault = acc.fault or fault.read(value)
    end
  end
  return parts
end

-- A thinking block as it must go back; without its signature it would be refused.
local function thinking_of(block)
  if block.type == "redacted_thinking" then return block.given end
  if block.type ~= "thinking" or not is_text(block.signature) then return nil end
  return { type = "thinking", thinking = table.concat(block.text), signature = block.signature }
end

---@param acc table
---@return {tool_calls: table[], usage: table?, finish: string?, echo: table, error: string?, complete: boolean}
function M.finish(acc)
  local calls, order, thought = {}, json.array {}, false
  for _, block in ipairs(acc.blocks) do
    local thinking = thinking_of(block)
    if thinking then
      order[#order + 1], thought = thinking, true
    elseif block.type == "tool_use" then
      local pieces = table.concat(block.pieces)
      local whole = type(block.given.input) == "table" and json.encode(block.given.input) or ""
      calls[#calls + 1] = { id = block.given.id, name = is_text(block.given.name) and block.given.name or "",
        arguments = pieces ~= "" and pieces or whole }
      order[#order + 1] = "call"
    elseif block.type == "text" and order[#order] ~= "text" then
      order[#order + 1] = "text"
    end
  end
  return { tool_calls = calls, usage = acc.usage, echo = thought and { blocks = json.encode(order) } or {},
    fault = acc.fault, error = acc.fault and acc.fault.message, finish = acc.finish or acc.done and "stop" or nil,
    complete = acc.finish ~= nil or acc.done == true }
end

return M

-- scripts/providers/responses.lua - OpenAI's Responses API.
--
-- Pure functions.  Nothing is stored at the endpoint: each request carries the conversation as items,
-- the reasoning items encrypted and right before what they led to.  A message of ours may be several
-- items; they are one fragment, with commas between.

local lazy = require "terret.lazy"

local fault = lazy "terret.fault"
local json = require "terret.json"
local openai = require "terret.providers.openai"
local wire = require "terret.wire"

local M = { name = "responses", key_env = "OPENAI_API_KEY", default_url = "https://api.openai.com/v1",
  headers = openai.headers, models_url = openai.models_url }

local is_text = wire.is_text
local PLAIN = {}
local LONGEST_ID = 64

-- Messages -----------------------------------------------------------------------------------

local function call_id(id) return #id <= LONGEST_ID and id or wire.short_id(id, 16) end

local function encode_call(call)
  return json.encode { type = "function_call", call_id = call_id(call.id), name = call.name,
    arguments = call.arguments }
end

-- The order in which text, calls and reasoning came; without it text goes first.
local function order_of(m, dialect)
  local ours = not m.origin or not dialect.origin or m.origin == dialect.origin
  local raw = ours and dialect.echo ~= false and m.echo and m.echo.items
  local list = raw and json.decode(raw)
  return type(list) == "table" and list or {}
end

local function encode_assistant(m, dialect)
  local items, calls, text = {}, m.tool_calls or {}, m.content ~= "" and m.content or nil
  local at = 1
  local function add_text()
    if text then items[#items + 1] = json.encode { role = "assistant", content = text } end
    text = nil
  end
  for _, item in ipairs(order_of(m, dialect)) do
    if item == "text" then
      add_text()
    elseif item == "call" then
      if calls[at] then items[#items + 1] = encode_call(calls[at]) end
      at = at + 1
    elseif type(item) == "table" then
      items[#items + 1] = json.encode(item)
    end
  end
  add_text()
  for i = at, #calls do items[#items + 1] = encode_call(calls[i]) end
  if #items == 0 then return '{"content":"(no text)","role":"assistant"}' end
  return table.concat(items, ",")
end

---@param m terret.message
---@param dialect terret.dialect?
---@return string fragment
function M.encode(m, dialect)
  dialect = dialect or PLAIN
  if m.role == "assistant" then return encode_assistant(m, dialect) end
  if m.role == "tool" then
    return json.encode { type = "function_call_output", call_id = call_id(m.call_id), output = m.content }
  end
  local role = m.role == "system" and (dialect.system or "developer") or m.role
  return json.encode { role = role, content = m.content }
end

-- Requests -----------------------------------------------------------------------------------

---@param base string
---@return string
function M.url(base) return wire.url(base, "/responses") end

---@param tools {name: string, description: string, schema: string}[]
---@return string
function M.encode_tools(tools)
  local list = json.array {}
  for i, tool in ipairs(tools) do
    list[i] = { type = "function", name = tool.name, description = tool.description, strict = false,
      parameters = json.raw(tool.schema) }
  end
  return json.encode(list)
end

---@param request terret.wire.request
---@param view terret.store.view
---@return string url
---@return string[] headers
---@return string body `input` is its last key
function M.build(request, view)
  local dialect = request.dialect or PLAIN
  local head = { model = request.model, stream = request.stream and dialect.stream ~= false, store = false,
    include = json.array { "reasoning.encrypted_content" }, max_output_tokens = request.max_output,
    prompt_cache_key = dialect.cache_key and request.session or nil }
  if request.tools and request.tools ~= "[]" then
    head.tools = json.raw(wire.without(request.tools, dialect.schema_drop))
    head.tool_choice = request.tool_choice
  end
  for key, value in pairs(request.sampling or PLAIN) do head[key] = value end
  for key in pairs(dialect.drop or PLAIN) do head[key] = nil end
  local prefix = json.encode(head):sub(1, -2) .. ',"input":['
  local tail = request.tail and (view:count() > 0 and "," or "") .. request.tail .. "]}" or "]}"
  return M.url(request.base_url), M.headers(request.key, dialect), view:render(prefix, tail)
end

-- Answers ------------------------------------------------------------------------------------

---@return table acc
function M.start() return { items = {}, by_index = {} } end

-- The item of an event: by its place in the output, else by its id, else the last.
local function item_of(acc, event, kind)
  local index = wire.count(event.output_index)
  local item = index and acc.by_index[index]
  if not item and is_text(event.item_id) then
    for _, other in ipairs(acc.items) do
      if other.id == event.item_id then item = other end
    end
  end
  if not item and not index and not is_text(event.item_id) then
    local last = acc.items[#acc.items]
    if last and last.kind == kind then item = last end
  end
  if not item then
    item = { kind = kind, pieces = {}, index = index, id = event.item_id }
    acc.items[#acc.items + 1] = item
    if index then acc.by_index[index] = item end
  end
  return item
end

local KIND = { message = "text", function_call = "call", reasoning = "reasoning" }

local function text_of(item)
  local out = {}
  for _, part in ipairs(wire.object(item.content)) do
    if type(part) == "table" then
      local s = is_text(part.text) and part.text or part.refusal
      if is_text(s) then out[#out + 1] = s end
    end
  end
  return table.concat(out)
end

-- An item as it began, or (final) as it ended: then it replaces what its pieces came to.
local function add_item(acc, event, raw, final, parts)
  local kind = KIND[raw.type]
  if not kind then return end
  local item = item_of(acc, { output_index = event.output_index, item_id = raw.id }, kind)
  item.kind, item.id = kind, item.id or raw.id
  if kind == "call" then
    item.call_id = is_text(raw.call_id) and raw.call_id or item.call_id
    item.name = is_text(raw.name) and raw.name or item.name
    if final and is_text(raw.arguments) then item.pieces = { raw.arguments } end
    if type(raw.arguments) == "table" then item.pieces = { json.encode(raw.arguments) } end
    parts[#parts + 1] = { type = "tool_call" }
  elseif kind == "reasoning" then
    local s = final and not item.seen and text_of({ content = raw.summary }) or ""
    if s == "" and final and not item.seen then s = text_of(raw) end
    if s ~= "" then parts[#parts + 1] = { type = "reasoning", text = s } end
    item.seen = item.seen or final
    if final and is_text(raw.encrypted_content) then
      item.raw = { type = "reasoning", id = raw.id, summary = raw.summary or json.array {},
        encrypted_content = raw.encrypted_content }
    end
  elseif final and not item.seen then
    local s = text_of(raw)
    item.seen = true
    if s ~= "" then parts[#parts + 1] = { type = "text", text = s } end
  end
end

local FINISH = { max_output_tokens = "length", content_filter = "content_filter" }

-- A whole response: at the end of a stream, or the answer itself.
local function add_response(acc, response, parts)
  acc.usage = wire.usage(acc.usage, response.usage)
  for i, raw in ipairs(wire.object(response.output)) do
    if type(raw) == "table" then
      local index = #acc.items > 0 and next(acc.by_index) == nil and nil or i - 1
      add_item(acc, { output_index = index }, raw, true, parts)
    end
  end
  local status = response.status
  if status == "failed" or type(response.error) == "table" then
    acc.fault = acc.fault or fault.read(response)
  elseif status == "incomplete" then
    local reason = wire.object(response.incomplete_details).reason
    acc.finish = FINISH[reason] or is_text(reason) and reason or "length"
  elseif status == "completed" or type(response.output) == "table" then
    acc.finish = "stop"
  end
end

local on = {}

local function delta_of(kind, part)
  return function(acc, e, parts)
    if not is_text(e.delta) then return end
    local item = item_of(acc, e, kind)
    item.seen = true
    if kind == "call" then item.pieces[#item.pieces + 1] = e.delta end
    parts[#parts + 1] = { type = part, text = kind ~= "call" and e.delta or nil, size = #e.delta }
  end
end
on["response.output_text.delta"] = delta_of("text", "text")
on["response.refusal.delta"] = delta_of("text", "text")
on["response.reasoning_summary_text.delta"] = delta_of("reasoning", "reasoning")
on["response.reasoning_text.delta"] = delta_of("reasoning", "reasoning")
on["response.function_call_arguments.delta"] = delta_of("call", "tool_call")

on["response.function_call_arguments.done"] = function(acc, e)
  if is_text(e.arguments) then item_of(acc, e, "call").pieces = { e.arguments } end
end
on["response.output_item.added"] = function(acc, e, parts)
  if type(e.item) == "table" then add_item(acc, e, e.item, false, parts) end
end
on["response.output_item.done"] = function(acc, e, parts)
  if type(e.item) == "table" then add_item(acc, e, e.item, true, parts) end
end
for _, name in ipairs { "completed", "incomplete", "failed", "done" } do
  on["response." .. name] = function(acc, e, parts)
    add_response(acc, wire.object(e.response), parts)
    acc.over = acc.finish ~= nil
  end
end

local function add_body(acc, body, parts)
  local handler = on[body.type]
  if handler then return handler(acc, body, parts) end
  if type(body.type) == "string" and body.type:find("^response%.") then return end
  local said = body.object ~= "response" and fault.of_event(body)
  if said then
    acc.fault = acc.fault or said
  elseif body.object == "response" or type(body.output) == "table" then
    add_response(acc, body, parts)
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
    elseif value ~= "[DONE]" and event.event == "error" then
      acc.fault = acc.fault or fault.read(value)
    end
  end
  return parts
end

---@param acc table
---@return {tool_calls: table[], usage: table?, finish: string?, echo: table, error: string?, complete: boolean}
function M.finish(acc)
  local calls, order, reasoned = {}, json.array {}, false
  for _, item in ipairs(acc.items) do
    if item.kind == "call" then
      calls[#calls + 1] = { id = item.call_id or item.id, name = item.name or "",
        arguments = table.concat(item.pieces) }
      order[#order + 1] = "call"
    elseif item.kind == "text" then
      order[#order + 1] = "text"
    elseif item.raw then
      order[#order + 1] = item.raw
      reasoned = true
    end
  end
  return { tool_calls = calls, usage = acc.usage, echo = reasoned and { items = json.encode(order) } or {},
    fault = acc.fault, error = acc.fault and acc.fault.message, finish = acc.finish, complete = acc.finish ~= nil }
end

return M

-- scripts/request.lua - one request to an endpoint: HTTP, deadlines, streaming, abort.
--
-- The same code serves every provider; providers are pure functions.  Returns a reply, or
-- nil, message, class (see retry.lua), {status, after, text_shown}.  The request is closed however this ends.

local http = require "terret.http"
local json = require "terret.json"
local reactor = require "terret.reactor"
local retry = require "terret.retry"
local sse = require "terret.sse"
local task = require "terret.task"
local text = require "terret.text"

local M = {}

local MAX_ERROR = 2000 -- bytes of an endpoint's error page that are shown

local function describe_error(body)
  local value = json.decode(body)
  if json.is_array(value) then value = value[1] end
  local e = type(value) == "table" and (value.error or value) or nil
  local message = type(e) == "table" and (e.message or e.detail) or e
  if type(message) ~= "string" then message = body end
  message = text.cut(text.clean(message), MAX_ERROR)
  return message:find("%S") and message or "no text"
end

-- A function that feeds bytes to the provider, whichever shape the answer has.  shown: the pieces
-- of text and reasoning; parts: how many of any kind came; begin: the first bytes, for messages.
local function make_reader(provider, acc, sink)
  local parser, whole, streamed = sse.new(), {}, nil
  local shown = { text = {}, reasoning = {}, any = false, parts = 0, events = 0, begin = "" }
  -- Pieces of one kind that came in one read are shown as one.
  local function take(events)
    local kind, pieces
    local function flush()
      if not kind then return end
      local piece = table.concat(pieces)
      local list = shown[kind]
      list[#list + 1] = piece
      if sink then sink(kind, piece) end
    end
    for _, event in ipairs(events) do
      shown.events = shown.events + 1
      for _, part in ipairs(provider.parse(event, acc)) do
        shown.parts = shown.parts + 1
        if shown[part.type] then
          if kind ~= part.type then
            flush()
            kind, pieces = part.type, {}
          end
          pieces[#pieces + 1] = part.text
          shown.any = shown.any or kind == "text"
        end
      end
    end
    flush()
  end
  local function feed(data)
    -- The body decides, not its label: JSON begins with a brace or a bracket.
    if streamed == nil then
      local first = data:match("^[\239\187\191%s]*([^%s])")
      if first then streamed = first ~= "{" and first ~= "[" end
    end
    if #shown.begin < MAX_ERROR then shown.begin = shown.begin .. data:sub(1, MAX_ERROR) end
    if streamed then take(parser:feed(data)) else whole[#whole + 1] = data end
  end
  local function finish()
    if streamed then take(parser:finish())
    elseif #whole > 0 then take { { data = table.concat(whole) } } end
  end
  return feed, finish, shown
end

local function read_all(req)
  local parts, size = {}, 0
  while size < 1048576 do
    local data = req:read()
    if not data then break end
    if data == "" then task.await(req) end
    parts[#parts + 1] = data
    size = size + #data
  end
  return table.concat(parts)
end

-- What an answer that was read came to: the reply, or nil, message, class.
local function judge(provider, acc, shown, cut, cut_code)
  local result = provider.finish(acc)
  if result.error then
    local said = text.cut(text.clean(result.error), MAX_ERROR)
    local code = tonumber(result.error_code)
    return nil, said, retry.classify(code and code >= 400 and code < 600 and math.tointeger(code) or nil,
      said .. " " .. tostring(result.error_code))
  elseif not result.complete then
    -- A page of something else, say of a proxy, is said as it is.
    if not cut and shown.events == 0 and shown.begin:find("^%s*<") then
      local page = describe_error(shown.begin)
      return nil, "the endpoint answered with a page instead of an answer: " .. page, "bad_request"
    end
    return nil, cut or "the answer was cut off before its end", cut_code or "cut"
  end
  result.text, result.reasoning = table.concat(shown.text), table.concat(shown.reasoning)
  if result.text == "" and #result.tool_calls == 0 then
    if result.finish == "length" then return nil, "the output limit was reached before any text", "length" end
    return nil, "the endpoint answered nothing", "empty"
  end
  return result
end

-- Reads an answer that is not 2xx.
local function refusal(req, status, data, info)
  local said = describe_error((data or "") .. read_all(req))
  info.status, info.after = status, retry.retry_after(req:header("retry-after"))
  return nil, ("HTTP %d: %s"):format(status, said), retry.classify(status, said), info
end

---@class terret.request
---@field url string
---@field headers string[]
---@field body string
---@field timeouts {connect: number?, first_byte: number?, idle: number?, progress: number?}

---@param provider table
---@param options terret.request
---@param sink fun(kind: string, delta: string)? called with each piece of text or reasoning
---@return {text: string, reasoning: string, tool_calls: table[], usage: table?, finish: string?, echo: table}? reply
---@return string? message
---@return string? class
---@return {status: integer?, after: number?, shown: boolean, partial: string?}? info
function M.send(provider, options, sink)
  local t = options.timeouts or {}
  local req <close>, message, code = http.request {
    url = options.url, headers = options.headers, body = options.body, connect_timeout = t.connect,
    first_byte_timeout = t.first_byte, idle_timeout = t.idle,
  }
  if not req then return nil, message, code, { shown = false } end
  local acc = provider.start()
  local feed, finish, shown = make_reader(provider, acc, sink)
  local progress, parts -- when the last part came, from the first byte on
  local data, err, err_code
  repeat
    data, err, err_code = req:read()
    local status = req:status()
    if status and (status < 200 or status > 299) then return refusal(req, status, data, { shown = false }) end
    if data and data ~= "" then
      feed(data)
      if shown.parts ~= parts then parts, progress = shown.parts, reactor.now() end
    end
    -- Bytes that bring nothing (keep-alives) are no progress.
    local left = data and progress and t.progress and t.progress - (reactor.now() - progress)
    if left and left <= 0 then
      data, err, err_code = nil, "the endpoint made no progress", "timeout_idle"
    elseif data == "" then
      task.await(req, left or nil)
    end
  until not data
  -- A stream may end without its last chunk after it said that it is done.
  finish()
  local reply, said, class = judge(provider, acc, shown, err, err_code)
  if reply then return reply end
  return nil, said, class, { shown = shown.any, partial = table.concat(shown.text) }
end

---The same for a provider without a network: plays the events that it answers.
---@param provider table
---@param request table
---@param sink fun(kind: string, delta: string)?
---@return table? reply
---@return string? message
---@return string? class
---@return table? info
function M.play(provider, request, sink)
  local reply = { text = "", reasoning = "", tool_calls = {}, echo = {} }
  for _, e in ipairs(provider.answer(request)) do
    if e.type == "wait" then task.sleep(e.seconds)
    elseif e.type == "error" then
      return nil, e.message, e.class, { shown = reply.text ~= "", partial = reply.text, after = e.after }
    elseif e.type == "text" or e.type == "reasoning" then
      reply[e.type] = reply[e.type] .. e.text
      if sink then sink(e.type, e.text) end
    elseif e.type == "tool_call" then reply.tool_calls[#reply.tool_calls + 1] = e
    elseif e.type == "usage" then reply.usage = e.usage
    elseif e.type == "finish" then reply.finish = e.reason end
  end
  if reply.text == "" and #reply.tool_calls == 0 then
    return nil, "the endpoint answered nothing", "empty", { shown = false }
  end
  return reply
end

return M

-- scripts/request.lua - one request to an endpoint: HTTP, deadlines, streaming, abort.
--
-- The same code serves every provider; providers are pure functions.  Returns a reply, or
-- nil, message, class (see retry.lua), info.  The request is closed however this ends.
--
-- Three deadlines: the first byte; any byte (keep-alives count); progress (only parts of the answer count).
-- And two bounds: an answer may be twice as long as its tokens allow, its bytes on the wire are limited.
-- What follows the end of an answer isn't waited for, but for a moment.

local lazy = require "terret.lazy"

local fault = lazy "terret.fault"
local http = require "terret.http"
local json = require "terret.json"
local leak = lazy "terret.leak"
local reactor = require "terret.reactor"
local retry = require "terret.retry"
local sse = require "terret.sse"
local task = require "terret.task"
local text = require "terret.text"
local think = lazy "terret.think"
local wire = require "terret.wire"

local M = {}

local LEAST_PART = 4 -- bytes that a part counts at least: each is a token or more
local KEPT = 4096 -- bytes of the beginning and the end of an answer, to tell what it was
local LARGE = 65536 -- bytes of a request that may be too long
local MOST_REFUSAL = 65536 -- bytes that are read of an error page
local TOKEN_BYTES, SPARE = 8, 65536 -- of text, that a token may stand for at most, and beyond all tokens
local WIRE_BYTES = 512 -- of a stream, for each token
local MOST_BYTES = 32 * 1048576 -- of an answer, with all that stands around its text

M.refusal_wait = 3 -- seconds for the whole of an error page
M.usage_wait = 5 -- seconds for the usage behind the reason of the end
M.end_wait = 0.25 -- seconds for the end of the transfer behind the answer's: the connection is used again

-- Reading --------------------------------------------------------------------------------------

-- A function that feeds bytes to the provider, whichever shape the answer has.  shown: the pieces
-- of text and reasoning; parts: how many of any kind came, size: their bytes; begin, last: bytes, for
-- messages.
local function make_reader(provider, acc, sink)
  local parser, whole, streamed = sse.new(), {}, nil
  local shown = { text = {}, reasoning = {}, any = false, parts = 0, size = 0, events = 0, begin = "", last = "" }
  local kind, pieces -- pieces of one kind that came in one read are shown as one
  local function flush()
    if not kind then return end
    local piece, list = table.concat(pieces), shown[kind]
    list[#list + 1] = piece
    if sink then sink(kind, piece) end
    kind = nil
  end
  local function add(parts)
    for _, part in ipairs(parts) do
      shown.parts = shown.parts + 1
      shown.size = shown.size + math.max(LEAST_PART, part.text and #part.text or part.size or 0)
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
  local function take(events)
    for _, event in ipairs(events) do
      if acc.over then break end -- what an endpoint says behind its end is not the answer's
      shown.events = shown.events + 1
      add(provider.parse(event, acc))
    end
    flush()
  end
  local function feed(data)
    -- The body decides, not its label: JSON begins with a brace or a bracket.
    if streamed == nil then
      local first = data:match("^[\239\187\191%s]*([^%s])")
      if first then streamed = first ~= "{" and first ~= "[" end
    end
    if #shown.begin < KEPT then shown.begin = (shown.begin .. data:sub(1, KEPT)):sub(1, KEPT) end
    if streamed then
      shown.last = #data >= KEPT and data:sub(-KEPT) or (shown.last .. data):sub(-KEPT)
      take(parser:feed(data))
    else
      whole[#whole + 1] = data
    end
  end
  -- The end of the bytes; answers what the provider made of them.
  local function finish(cut)
    local body, fault_before = cut ~= "too_large" and table.concat(whole) or "", acc.fault
    if streamed then
      take(parser:finish())
    elseif body:find("%S") then
      -- JSON first and a stream behind it is read as a stream.
      if body:find("\ndata:", 1, true) and json.decode(body) == nil then
        take(parser:feed(body))
        take(parser:finish())
      else
        take { { data = body } }
      end
    end
    -- A piece of an event is what a cut leaves: the cut is what happened.
    if cut and not fault_before and acc.fault and acc.fault.class == "cut" then acc.fault = nil end
    local result = provider.finish(acc)
    add(result.parts or {})
    flush()
    return result
  end
  return feed, finish, shown
end

-- The words of a refusal, as far as they come at once: a page that drips is no reason to wait.
local function read_all(req, data)
  local parts, size = { data }, data and #data or 0
  local deadline = reactor.now() + M.refusal_wait
  while data and size < MOST_REFUSAL do
    local left = deadline - reactor.now()
    if left <= 0 then break end
    if data == "" then task.await(req, left) end
    data = req:read()
    parts[#parts + 1] = data
    size = size + (data and #data or 0)
  end
  return table.concat(parts):sub(1, MOST_REFUSAL)
end

-- Judging ----------------------------------------------------------------------------------------

local MESSAGES = {
  filtered = "the endpoint's filter blocked the answer (%s)",
  overload = "the endpoint ended the answer with '%s'",
  overflow = "the context window is full (%s)",
  sampling = "the model wrote a tool call that the endpoint could not read (%s)",
}

-- An error that stands behind the events, not framed as one.
local function unframed(shown)
  for line in shown.last:gmatch("[^\r\n]+") do
    local value = line:sub(1, 1) == "{" and json.decode(line)
    local said = type(value) == "table" and fault.of_event(value)
    if said then return said end
  end
end

-- Calls out of what the model wrote as text.
local function recover(result, known)
  if not known then return end
  local calls, rest, broken = leak.recover(result.text, known)
  if #result.tool_calls > 0 then -- the same calls, read by the endpoint but also left in the text
    if calls and #calls <= #result.tool_calls then result.text = rest end
    return
  end
  if not calls and not result.text:find("%S") then calls = leak.recover(result.reasoning, known) end
  if calls then
    result.tool_calls, result.text, result.leaked = calls, rest or result.text, true
  elseif broken then
    result.broken = true
  end
end

-- A reply out of the call that an endpoint could not read and hands back.
local function from_generation(said, known)
  local calls, rest = nil, nil
  if said.generation and known then calls, rest = leak.recover(said.generation, known) end
  if calls then
    return { text = rest, reasoning = "", tool_calls = calls, echo = {}, finish = "tool_calls", leaked = true }
  end
end

local function failed(said, class, known)
  local reply = from_generation(said, known)
  if reply then return reply end
  local message = said.message
  if said.generation then message = message .. "; it wrote: " .. text.cut(text.clean(said.generation), 500) end
  return nil, message, class
end

-- Why an answer that is no answer ended.
local function incomplete(shown, cut, cut_code)
  local said = unframed(shown)
  if said then return nil, said.message, retry.classify(said.status, said.text), said end
  if cut then return nil, cut, cut_code end
  if shown.events == 0 and fault.is_page(shown.begin) then
    return nil, "the address answered with " .. fault.of_body(shown.begin).message
      .. " and not as a model's endpoint does; is the base URL right?", "bad_request"
  end
  if shown.events == 0 and shown.begin:find("%S") then
    said = fault.of_body(shown.begin)
    return nil, "the endpoint answered: " .. said.message, retry.classify(nil, said.text, "cut"), said
  end
  if shown.parts == 0 then return nil, "the answer is empty: it ended without anything", "cut" end
  return nil, "the answer was cut off before its end", "cut"
end

-- What an answer that was read came to: the reply, or nil, message, class, fault.
local function judge(result, shown, known, cut, cut_code)
  result.text, result.reasoning = table.concat(shown.text), table.concat(shown.reasoning)
  local said = result.fault or result.error and { message = result.error, text = result.error }
  if said then
    said.text = said.text .. " " .. tostring(result.error_code or "")
    said.status = said.status or wire.count(result.error_code)
    local class = said.class or retry.classify(said.status, said.text)
    local reply, message = failed(said, class, not shown.any and known)
    if reply then return reply end
    return nil, message, class, said
  end
  if not result.complete then return incomplete(shown, cut, cut_code) end
  local class = wire.end_class(result.finish)
  if class and class ~= "length" then return nil, MESSAGES[class]:format(result.finish), class end
  local words, thought = think.split(result.text)
  if thought then result.text, result.reasoning = words, result.reasoning .. thought end
  if class ~= "length" then recover(result, known) end
  if #result.tool_calls > 0 then return result end
  if class == "length" then
    if not result.text:find("%S") then return nil, "the output limit was reached before any text", "length" end
    return nil, "the answer was cut at the output limit (length)", "length"
  end
  if not result.text:find("%S") then
    local what = result.reasoning ~= "" and "only reasoning, no text" or "no text and no tool call"
    return nil, "the endpoint answered nothing: the answer is empty (" .. what .. ")", "empty"
  end
  return result
end

-- A 400 without a word for a large request: some endpoints say no more of an overflow.
local function too_long(status, said, size)
  return status == 400 and size > LARGE and not said.text:find("%w")
end

-- Reads an answer that is not 2xx.
local function refusal(req, status, data, options)
  local said, known = fault.of_body(read_all(req, data)), options.known
  local class = retry.classify(status, said.text)
  if too_long(status, said, #options.body) then
    class, said.message = "overflow", "no text; the request may be too long for the context window"
  end
  local reply, message = failed(said, class, known)
  if reply then return reply end
  local after = retry.after(function(name) return req:header(name) end, said.text)
  return nil, ("HTTP %d: %s"):format(status, message), class,
    { shown = false, status = status, fault = said, after = after }
end

---@class terret.request
---@field url string
---@field headers string[]
---@field body string
---@field timeouts {connect: number?, first_byte: number?, idle: number?, progress: number?}
---@field most integer? tokens that the answer may have
---@field known (fun(name: string): string?)? the tool that a name means, for calls that came as text

---@class terret.reply
---@field text string
---@field reasoning string
---@field tool_calls {id: string?, name: string, arguments: string, extra: table?}[]
---@field usage table?
---@field finish string?
---@field echo table<string, string> raw JSON that goes back to the same endpoint and model
---@field leaked boolean? the calls were read out of text
---@field broken boolean? there is markup of a call that could not be read

-- Why no more is read of an answer that goes on (false: it is whole), else nil and how long is waited.
local function enough(clock, acc, shown, t, most)
  local now = reactor.now()
  if shown.parts ~= clock.parts or (acc.finish ~= nil) ~= clock.finished or acc.over ~= clock.over then
    clock.parts, clock.finished, clock.over, clock.last = shown.parts, acc.finish ~= nil, acc.over, now
  end
  if shown.size > most then return "the answer is longer than it may be", "length" end
  -- Bytes that bring nothing (keep-alives) are no progress.
  local patience = acc.over and M.end_wait or acc.finish and M.usage_wait or t.progress
  local left = patience and clock.last and patience - (now - clock.last)
  if not left or left > 0 then return nil, left end
  if acc.over or acc.finish then return false end
  return "the endpoint made no progress", "timeout_idle"
end

---@param provider table
---@param options terret.request
---@param sink fun(kind: string, delta: string)? called with each piece of text or reasoning
---@return terret.reply?
---@return string? message
---@return string? class
---@return {status: integer?, after: number?, shown: boolean, partial: string?, fault: terret.fault?, usage: table?, size: integer?}? info
function M.send(provider, options, sink)
  local t = options.timeouts or {}
  local req <close>, message, code = http.request {
    url = options.url, headers = options.headers, body = options.body, connect_timeout = t.connect,
    first_byte_timeout = t.first_byte, idle_timeout = t.idle,
    max_bytes = math.max(MOST_BYTES, WIRE_BYTES * (options.most or 0)),
  }
  if not req then return nil, message, code, { shown = false } end
  local acc = provider.start()
  local feed, finish, shown = make_reader(provider, acc, sink)
  local most = options.most and TOKEN_BYTES * options.most + SPARE or math.huge
  local clock = {} -- when the last part came, from the first byte on
  local data, err, err_code
  repeat
    data, err, err_code = req:read()
    local status = req:status()
    if status and (status < 200 or status > 299) then return refusal(req, status, data, options) end
    if data and data ~= "" then feed(data) end
    if data and (data ~= "" or clock.last) then
      local why, rest = enough(clock, acc, shown, t, most)
      if why ~= nil then
        data, err, err_code = nil, why or nil, rest
      elseif data == "" then
        task.await(req, rest)
      end
    elseif data then
      task.await(req)
    end
  until not data
  -- A stream may end without its last chunk after it said that it is done.
  local result = finish(err and (err_code or "cut"))
  local reply, why, class, said = judge(result, shown, options.known, err, err_code)
  if reply then return reply end
  return nil, why, class, { shown = shown.any, partial = table.concat(shown.text), usage = result.usage, fault = said,
    size = shown.size,
    after = said and retry.after(function(name) return req:header(name) end, said.text) or nil }
end

---An answer out of bytes that are there already, in whichever pieces: for replays and tests.
---@param provider table
---@param pieces string[]
---@param known (fun(name: string): string?)?
---@return terret.reply?
---@return string? message
---@return string? class
---@return table? info
function M.read(provider, pieces, known)
  local feed, finish, shown = make_reader(provider, provider.start(), nil)
  for _, piece in ipairs(pieces) do feed(piece) end
  local result = finish()
  local reply, why, class, said = judge(result, shown, known)
  if reply then return reply end
  return nil, why, class, { shown = shown.any, partial = table.concat(shown.text), usage = result.usage, fault = said }
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

-- tests/spec/support/mock.lua - starts tests/mock/mockd.c with a script made from Lua tables.
--
--     local mock = require "support.mock"
--     local m <close> = mock.start { answers = { { body = "hi" }, mock.chat { text = "hello" } } }
--     ... m.url ... m:requests() ...
--
-- An answer is a string (lines of mockd's script) or a table: its fields are settings, its array
-- part is lines that are played in order, such as "text abc", "delay 5", "stall", "cut".
local M = {}

---@class mock.answer
---@field status integer? default 200
---@field headers string[]? lines "Name: value"
---@field body string? one piece
---@field match string? answers only a request that contains this
---@field rep boolean? may be used again and again
---@field chunked boolean?
---@field length integer? a false Content-Length
---@field nolength boolean? no Content-Length: the end of the connection is the end
---@field close boolean?

---@class mock.server
---@field url string http://127.0.0.1:PORT
---@field port integer
local server = {}
server.__index = server

local ESCAPES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\" }

---Any bytes, as mockd's script wants them.
---@param s string
---@return string
function M.escape(s)
  return (s:gsub("[%c\\\x80-\xff]", function(c)
    return ESCAPES[c] or ("\\x%02x"):format(c:byte())
  end))
end

local SETTINGS = { status = "n", headers = "list", body = "text", match = "text", rep = "flag",
  chunked = "flag", length = "n", nolength = "flag", close = "flag" }

local function answer_lines(answer)
  if type(answer) == "string" then return answer end
  local lines = { "answer" }
  for key, value in pairs(answer) do
    local kind = SETTINGS[key]
    if type(key) ~= "number" and not kind then error("mock: unknown setting " .. tostring(key)) end
    if kind == "n" then lines[#lines + 1] = ("%s %d"):format(key, value) end
    if kind == "flag" and value then lines[#lines + 1] = key == "rep" and "repeat" or key end
    if key == "match" then lines[#lines + 1] = "match " .. M.escape(value) end
    if key == "body" then lines[#lines + 1] = "text " .. M.escape(value) end
    if key == "headers" then
      for _, h in ipairs(value) do lines[#lines + 1] = "header " .. M.escape(h) end
    end
  end
  for _, line in ipairs(answer) do lines[#lines + 1] = line end
  return table.concat(lines, "\n")
end

local function binary()
  return os.getenv("TERRET_MOCKD") or "build/tests/mockd"
end

local function quote(s)
  return "'" .. s:gsub("'", "'\\''") .. "'"
end

---Starts a server; it ends with stop(), with `<close>`, or with this process.
---@param options { answers: (mock.answer|string)[]?, models: string[]? }
---@return mock.server
function M.start(options)
  local base = os.tmpname()
  local self = setmetatable({ base = base, log = base .. ".log", fifo = base .. ".fifo" }, server)
  local f = assert(io.open(base, "wb"))
  f:write("log ", self.log, "\n")
  if options.models then f:write("models ", table.concat(options.models, " "), "\n") end
  for _, answer in ipairs(options.answers or {}) do f:write(answer_lines(answer), "\n") end
  f:close()
  assert(os.execute("mkfifo " .. quote(self.fifo)))
  -- The shell opens the fifo, so the read below waits for the server and not for ever.
  local command = "exec >%s; exec %s %s"
  self.stdin = assert(io.popen(command:format(quote(self.fifo), quote(binary()), quote(base)), "w"))
  local fifo <close> = assert(io.open(self.fifo, "r"))
  local port = (fifo:read("l") or ""):match("^port (%d+)$")
  if not port then
    self:stop()
    error("mock: " .. binary() .. " did not start")
  end
  self.port = tonumber(port)
  self.url = "http://127.0.0.1:" .. port
  return self
end

---Ends the server and removes its files.
function server:stop()
  if not self.stdin then return end
  self.stdin:close()
  self.stdin = nil
  os.remove(self.fifo)
  os.remove(self.log)
  os.remove(self.base)
end
server.__close = server.stop
server.__gc = server.stop

local function read_log(self)
  local f = io.open(self.log, "rb")
  if not f then return "" end
  local text = f:read("a")
  f:close()
  return text
end

---The requests so far, in the order of arrival, byte by byte.
---@return { head: string, body: string, method: string, path: string }[]
function server:requests()
  local log, list, at = read_log(self), {}, 1
  while at <= #log do
    local stop, number, size = select(2, log:find("^==== (%d+) (%w+)\n", at))
    if not stop then break end
    at = stop + 1
    if size ~= "closed" then
      local raw = log:sub(at, at + tonumber(size) - 1)
      local head, body = raw:match("^(.-\r\n)\r\n(.*)$")
      local method, path = head:match("^(%S+) (%S+)")
      list[tonumber(number)] = { head = head, body = body, method = method, path = path }
      at = at + tonumber(size) + 1
    end
  end
  return list
end

---How many clients left before the end of their answer.
---@return integer
function server:closed()
  return select(2, read_log(self):gsub("==== %d+ closed\n", ""))
end

-- ---- answers of an OpenAI-compatible endpoint -------------------------------------------------

local JSON_ESCAPES = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t" }

local function json_string(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return JSON_ESCAPES[c] or ("\\u%04x"):format(c:byte())
  end) .. '"'
end

---Pieces of about n bytes; never cuts a UTF-8 sequence.
local function pieces(text, n)
  local list, at = {}, 1
  while at <= #text do
    local stop = at + n
    while stop <= #text and text:byte(stop) & 0xC0 == 0x80 do stop = stop + 1 end
    list[#list + 1] = text:sub(at, stop - 1)
    at = stop
  end
  return list
end

local function usage_json(usage)
  if type(usage) == "string" then return usage end
  usage = usage or {}
  local prompt, completion = usage.prompt_tokens or 10, usage.completion_tokens or 5
  local details = ""
  if usage.cached_tokens then
    details = (',"prompt_tokens_details":{"cached_tokens":%d}'):format(usage.cached_tokens)
  end
  return ('{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d%s}')
    :format(prompt, completion, prompt + completion, details)
end

local CHUNK = '{"id":"chatcmpl-mock","object":"chat.completion.chunk","created":0,"model":"mock",'
  .. '"choices":[%s]%s}'

---@class mock.chat_options: mock.answer
---@field text string?
---@field reasoning string? as delta.reasoning_content
---@field tool_calls table[]? each {id, name, arguments} or {id=, name=, arguments=}
---@field usage table|string|false|nil prompt_tokens, completion_tokens, cached_tokens; false: none sent
---@field finish string? default "stop", or "tool_calls"
---@field split integer? bytes a piece, default 16

local CHAT = { text = true, reasoning = true, tool_calls = true, usage = true, finish = true, split = true }

-- What is not about the chat is a setting of the answer: {delay lines, match, status...}.
local function pass_on(options, answer)
  for key, value in pairs(options) do
    if not CHAT[key] and type(key) ~= "number" then answer[key] = value end
  end
  return answer
end

local function tool_call(call)
  return call.id or call[1], call.name or call[2], call.arguments or call[3] or "{}"
end

---A streamed chat completion, cut as OpenAI's servers cut it.  Lines in the array part of
---options ("delay 5", "cut") are played after the text and before the rest.
---@param options mock.chat_options
---@return mock.answer
function M.chat(options)
  local answer = pass_on(options, { chunked = true })
  local n = options.split or 16
  local function chunk(choices, rest)
    answer[#answer + 1] = "sse " .. M.escape(CHUNK:format(choices, rest or ""))
  end
  local function delta(fields, finish)
    chunk(('{"index":0,"delta":{%s},"finish_reason":%s}'):format(fields, finish or "null"))
  end
  delta('"role":"assistant","content":""')
  for _, p in ipairs(pieces(options.reasoning or "", n)) do
    delta('"reasoning_content":' .. json_string(p))
  end
  for _, p in ipairs(pieces(options.text or "", n)) do delta('"content":' .. json_string(p)) end
  for _, line in ipairs(options) do answer[#answer + 1] = line end
  for i, call in ipairs(options.tool_calls or {}) do
    local id, name, arguments = tool_call(call)
    delta(('"tool_calls":[{"index":%d,"id":%s,"type":"function","function":{"name":%s,"arguments":""}}]')
      :format(i - 1, json_string(id), json_string(name)))
    for _, p in ipairs(pieces(arguments, n)) do
      delta(('"tool_calls":[{"index":%d,"function":{"arguments":%s}}]'):format(i - 1, json_string(p)))
    end
  end
  delta("", json_string(options.finish or (options.tool_calls and "tool_calls") or "stop"))
  if options.usage ~= false then chunk("", ',"usage":' .. usage_json(options.usage)) end
  answer[#answer + 1] = "sse [DONE]"
  return answer
end

---The same, not streamed.
---@param options mock.chat_options
---@return mock.answer
function M.completion(options)
  local calls = {}
  for i, call in ipairs(options.tool_calls or {}) do
    local id, name, arguments = tool_call(call)
    calls[i] = ('{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}')
      :format(json_string(id), json_string(name), json_string(arguments))
  end
  local message = '"role":"assistant","content":' .. (options.text and json_string(options.text) or "null")
  if #calls > 0 then message = message .. ',"tool_calls":[' .. table.concat(calls, ",") .. "]" end
  local finish = options.finish or (#calls > 0 and "tool_calls") or "stop"
  local body = ('{"id":"chatcmpl-mock","object":"chat.completion","created":0,"model":"mock","choices":'
    .. '[{"index":0,"message":{%s},"finish_reason":%s}],"usage":%s}')
    :format(message, json_string(finish), usage_json(options.usage or nil))
  return pass_on(options, { headers = { "Content-Type: application/json" }, body = body })
end

---An error as OpenAI-compatible endpoints send it.
---@param status integer
---@param message string
---@param answer mock.answer? further settings (headers, rep...)
---@return mock.answer
function M.error(status, message, answer)
  answer = answer or {}
  answer.status = status
  answer.body = ('{"error":{"message":%s,"type":"mock_error","code":null}}'):format(json_string(message))
  return answer
end

return M

-- scripts/providers/scripted.lua - a model that plays answers from a file: demo, tests, replay.
--
-- The file is Lua or JSON: a list of replies {text =, reasoning =, tool_calls = {{name =, arguments = table or
-- text}}, usage =, error =, delay =}, or (Lua only) a function of the request that returns one.  No network.

local fs = require "terret.fs"
local json = require "terret.json"
local openai = require "terret.providers.openai"
local tokens = require "terret.tokens"

local M = { name = "scripted", encode = openai.encode, encode_tools = openai.encode_tools }

---@param path string
---@return table|function? answers
---@return string? message
---@return string? code
function M.load(path)
  local source, message, code = fs.read(path)
  if not source then return nil, message, code end
  if path:find("%.json$") then
    local list, err = json.decode(source)
    if type(list) ~= "table" then return nil, path .. ": " .. (err or "no list"), "bad_script" end
    return list
  end
  local chunk, err = load(source, "@" .. path, "t")
  if not chunk then return nil, err, "bad_script" end
  local ok, value = pcall(chunk)
  if not ok then return nil, tostring(value), "bad_script" end
  if type(value) ~= "table" and type(value) ~= "function" then
    return nil, path .. ": must return a list of replies or a function", "bad_script"
  end
  return value
end

-- The n-th reply; each agent counts for itself.
local function pick(request)
  local script = request.script
  if type(script) == "function" then return script(request) end
  return script[request.turn]
end

---@param request {script: table|function, turn: integer, messages: string, model: string}
---@return table[] events {type = "text"|"reasoning"|"tool_call"|"usage"|"finish"|"wait"|"error", ...}
function M.answer(request)
  local r = pick(request)
  if not r then return { { type = "error", message = "the script has no further answer", class = "bad_request" } } end
  local events = {}
  local function add(event) events[#events + 1] = event end
  if r.delay then add { type = "wait", seconds = r.delay } end
  if r.error then add { type = "error", message = r.error, class = r.class or "bad_request" } end
  if r.reasoning then add { type = "reasoning", text = r.reasoning } end
  if r.text then add { type = "text", text = r.text } end
  for _, call in ipairs(r.tool_calls or {}) do
    local arguments = call.arguments
    if type(arguments) == "table" then arguments = json.encode(arguments) end
    add { type = "tool_call", id = call.id, name = call.name, arguments = arguments or "{}" }
  end
  add { type = "usage", usage = r.usage
    or { input = tokens.estimate(request.messages), output = tokens.estimate(r.text or ""), estimated = true } }
  add { type = "finish", reason = r.finish or r.tool_calls and "tool_calls" or "stop" }
  return events
end

return M

-- tests/fuzz/fuzz_wire.lua [SECONDS [SEED]] - answers of endpoints, recorded and then damaged, and made of pieces:
-- no provider raises or hangs, what is read is well formed, and the cuts between the bytes change nothing.
package.path = "tests/spec/?.lua;" .. package.path
local arguments = require "terret.arguments"
local calls = require "terret.calls"
local dialect = require "terret.dialect"
local fault = require "terret.fault"
local faults = require "support.faults"
local fs = require "terret.fs"
local json = require "terret.json"
local leak = require "terret.leak"
local request = require "terret.request"
local retry = require "terret.retry"

local seconds = tonumber(arg and arg[1]) or 1
local seed = tonumber(arg and arg[2]) or os.time()
math.randomseed(seed)
local random = math.random

local PROVIDERS = {}
for _, name in ipairs { "openai", "responses", "anthropic" } do
  PROVIDERS[#PROVIDERS + 1] = require("terret.providers." .. name)
end

local bodies = { (assert(fs.read "tests/wire/responses.sse")), (assert(fs.read "tests/wire/anthropic.sse")) }
for _, case in ipairs(faults.load()) do
  for _, step in ipairs(case.steps) do
    local body = faults.bytes(step)
    if #body < 8000 then bodies[#bodies + 1] = body end
  end
end

local PIECES = { "data: ", "\n\n", "\n", "\r", "[DONE]", "{", "}", "[", "]", '"', ":", ",", "null", "1e999", "-1",
  '"choices":[', '"delta":{', '"tool_calls":[', '"index":0', '"id":"a"', '"function":{', '"name":"bash"',
  '"arguments":"{', '"content":"', '"finish_reason":"stop"', '"usage":{', '"error":{', '"message":"m"', "<think>",
  "</think>", "<tool_call>", "</tool_call>", "<function=bash>", "</function>", "<parameter=a>", "</parameter>",
  "<|channel|>", "<|message|>", "<|call|>", "```\n", "`", "\\", "\\u0000", "\\ud800", "\0", "\255", "é",
    "event: error\n",
  '"type":"response.completed"', '"type":"content_block_delta"', '"output":[', '"item":{', '"reasoning_details":[' }

local function made()
  local out = {}
  for i = 1, random(1, 60) do out[i] = PIECES[random(#PIECES)] end
  return table.concat(out)
end

-- A recorded answer with bytes and lines lost, doubled, swapped or replaced.
local function damaged()
  local s = bodies[random(#bodies)]
  for _ = 1, random(0, 6) do
    local at = random(1, #s + 1)
    local len = random(0, 30)
    local what = random(5)
    if what == 1 then s = s:sub(1, at - 1) .. s:sub(at + len)
    elseif what == 2 then s = s:sub(1, at) .. s:sub(at - len > 0 and at - len or 1)
    elseif what == 3 then s = s:sub(1, at - 1) .. PIECES[random(#PIECES)] .. s:sub(at)
    elseif what == 4 then s = s:sub(1, at - 1) .. string.char(random(0, 255)) .. s:sub(at + 1)
    else s = s:sub(1, at - 1) end
    if #s > 20000 then s = s:sub(1, 20000) end
  end
  return s
end

local function cut(s)
  local pieces, at = {}, 1
  while at <= #s do
    local n = random(1, 300)
    pieces[#pieces + 1] = s:sub(at, at + n - 1)
    at = at + n
  end
  return pieces
end

local TOOLS = { bash = { name = "bash" }, read = { name = "read" } }
local function known(name)
  local tool = calls.resolve(TOOLS, name)
  return tool and tool.name
end

local function check_reply(reply)
  assert(type(reply.text) == "string" and type(reply.reasoning) == "string")
  for _, call in ipairs(calls.unpack(reply.tool_calls, TOOLS)) do
    assert(type(call.name) == "string" and type(call.arguments) == "string")
    local parsed = calls.parse(call, TOOLS)
    assert(type(json.decode(parsed.arguments)) == "table", parsed.arguments)
    for _, raw in pairs(call.extra or {}) do assert(json.canonical(raw)) end
  end
  for _, raw in pairs(reply.echo) do assert(json.canonical(raw)) end
  for key, n in pairs(reply.usage or {}) do assert(type(n) == "number" and n >= 0, key) end
end

local function digest(...)
  local reply, message, class = request.read(...)
  if reply then check_reply(reply) else assert(type(message) == "string" and type(class) == "string") end
  return json.encode { reply = reply and { reply.text, reply.reasoning, #reply.tool_calls } or json.null,
    class = class or json.null }
end

local function one(s)
  local provider = PROVIDERS[random(#PROVIDERS)]
  local whole, parts = digest(provider, { s }, known), digest(provider, cut(s), known)
  assert(whole == parts, whole .. "\n" .. parts)
  local said = fault.of_body(s)
  assert(type(said.message) == "string" and #said.message <= fault.longest + 8)
  retry.classify(random() < 0.5 and random(300, 599) or nil, said.text)
  retry.after(function() return random() < 0.3 and s:sub(1, 40) or nil end, said.text)
  retry.output_limit(said.text, 8000)
  retry.window(said.text)
  dialect.new({ base_url = "https://h", model = "m", provider = "openai" }):learn(400, said,
    '{"model":"m","messages":[]}')
  leak.recover(s, known)
  arguments.parse(s)
end

local deadline, n, slowest = os.clock() + seconds, 0, 0
while os.clock() < deadline do
  local s = random() < 0.6 and damaged() or made()
  local before = os.clock()
  local ok, err = xpcall(one, debug.traceback, s)
  if not ok then
    print(("fuzz_wire: seed %d: %q\n%s"):format(seed, s, err))
    os.exit(1)
  end
  slowest = math.max(slowest, os.clock() - before)
  if slowest > 1 then
    print(("fuzz_wire: seed %d: took %.1f s: %q"):format(seed, slowest, s))
    os.exit(1)
  end
  n = n + 1
end
print(("fuzz_wire: seed %d, %d answers, slowest %.0f ms"):format(seed, n, slowest * 1000))

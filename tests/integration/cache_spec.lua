-- The cache sentinel and the counts of tokens over a real connection, for the bodies that providers build.
local json = require "terret.json"
local mock = require "support.mock"
local world = require "support.world"

-- One streamed answer that reports usage.
local function answer(message, usage)
  message.role = "assistant"
  local body = json.encode { choices = json.array { { delta = message, finish_reason = "stop" } }, usage = usage }
  return { headers = { "Content-Type: text/event-stream" }, body = "data: " .. body .. "\n\ndata: [DONE]\n\n" }
end

local function usage(input, cached)
  return { prompt_tokens = input, completion_tokens = 5, prompt_tokens_details = { cached_tokens = cached } }
end

local function call(id)
  return { content = "go", tool_calls = json.array { { index = 0, id = id, type = "function",
    ["function"] = { name = "echo", arguments = "{}" } } } }
end

describe("over HTTP", function()
  it("hits are predicted, a miss is told, and the count of the endpoint is taken over", function()
    local m <close> = mock.start { answers = { answer(call "a", usage(10000, 0)), answer(call "b", usage(18000, 9984)),
      answer(call "c", usage(26000, 0)), answer({ content = "end" }, usage(34000, 25984)) } }
    local w <close> = world.new { provider = "openai", model = "mock-model", base_url = m.url, window = 100000,
      api_key = "sk-mock-0123456789" }
    w:tool("echo", function() return ("some words that fill the context\n"):rep(1200) end)
    local result = w:prompt("go")
    assert.equal("done", result.status, result.message)
    local list = w:logged("usage")
    assert.equal(4, #list)
    assert.is_nil(list[1].predicted)
    for i = 2, 4 do assert.is_true(math.abs(list[i].predicted - (list[i - 1].input - 1)) < 500, list[i].predicted) end
    assert.is_nil(list[2].lost)
    assert.equal("missed", list[3].why)
    assert.is_nil(list[4].lost)
    local told = 0
    for _, e in ipairs(w:seen("warning")) do
      if e.text:find("the provider missed", 1, true) then told = told + 1 end
    end
    assert.equal(1, told)
    -- The next request is what was counted and what was added.
    local size = w.agent.context.size(w.agent)
    assert.is_true(size >= 34000 and size < 34100, size)
  end)
end)

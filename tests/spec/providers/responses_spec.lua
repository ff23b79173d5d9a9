-- scripts/providers/responses.lua: pure functions between neutral messages and the Responses API.
local fs = require "terret.fs"
local json = require "terret.json"
local request = require "terret.request"
local responses = require "terret.providers.responses"
local store = require "terret.store"

local function read(...)
  local pieces = {}
  for i, e in ipairs { ... } do pieces[i] = "data: " .. (type(e) == "string" and e or json.encode(e)) .. "\n\n" end
  return request.read(responses, pieces)
end

local DONE = { type = "response.completed", response = { status = "completed" } }
local function text(s) return { type = "response.output_text.delta", output_index = 0, delta = s } end

describe("providers.responses", function()
  local stream = assert(request.read(responses, { (assert(fs.read "tests/wire/responses.sse")) }))

  it("reads a stream: text, reasoning, calls, usage", function()
    assert.equal("Let me look at the café 🦀.", stream.text)
    assert.equal("The nest first.", stream.reasoning)
    assert.same({ { id = "call_1", name = "bash", arguments = '{"command":"echo a"}' } }, stream.tool_calls)
    assert.same({ input = 930, cached = 800, output = 40 }, stream.usage)
    assert.equal("stop", stream.finish)
  end)

  it("gives the reasoning back, encrypted, before what it led to, and only where it came from", function()
    local m = { role = "assistant", content = stream.text, tool_calls = stream.tool_calls, echo = stream.echo,
      origin = "here" }
    local items = json.decode("[" .. responses.encode(m, { origin = "here" }) .. "]")
    assert.same({ "reasoning", "ZW5jLTAx" }, { items[1].type, items[1].encrypted_content })
    assert.same({ "assistant", stream.text }, { items[2].role, items[2].content })
    assert.same({ "function_call", "call_1", "bash" }, { items[3].type, items[3].call_id, items[3].name })
    for _, d in ipairs { { origin = "there" }, { origin = "here", echo = false } } do
      items = json.decode("[" .. responses.encode(m, d) .. "]")
      assert.same({ 2, "assistant", "function_call" }, { #items, items[1].role, items[2].type })
    end
  end)

  it("encodes each message as items", function()
    assert.equal('{"content":"s","role":"developer"}', responses.encode { role = "system", content = "s" })
    assert.equal('{"content":"s","role":"user"}', responses.encode({ role = "system", content = "s" },
      { system = "user" }))
    assert.equal('{"content":"u","role":"user"}', responses.encode { role = "user", content = "u" })
    assert.equal('{"call_id":"c","output":"r","type":"function_call_output"}',
      responses.encode { role = "tool", call_id = "c", content = "r" })
    assert.equal('{"content":"(no text)","role":"assistant"}', responses.encode { role = "assistant", content = "" })
    local long = ("x"):rep(99)
    local call = json.decode(responses.encode { role = "assistant", content = "", tool_calls = { { id = long,
      name = "t",
      arguments = "{}" } } })
    local result = json.decode(responses.encode { role = "tool", call_id = long, content = "" })
    assert.equal(call.call_id, result.call_id)
    assert.is_true(#call.call_id <= 64)
  end)

  it("keeps a broken echo out of the request", function()
    local m = { role = "assistant", content = "a", echo = { items = "{broken" } }
    assert.equal('{"content":"a","role":"assistant"}', responses.encode(m))
  end)

  it("builds a request that stores nothing, with the input last", function()
    local s = store.new()
    local view = s:view()
    view:push(s:add('{"a":1}', 1))
    local url, _, first = responses.build({ base_url = "https://h/v1/chat/completions", model = "m", stream = true,
      max_output = 9, session = "S", tools = "[]", dialect = { cache_key = true, drop = { include = true } } }, view)
    assert.equal("https://h/v1/responses", url)
    local b = json.decode(first)
    assert.same({ false, true, 9, "S" }, { b.store, b.stream, b.max_output_tokens, b.prompt_cache_key })
    assert.is_nil(b.include)
    assert.equal('"input":[{"a":1}]}', first:sub(-18))
  end)

  it("reads an answer that was not streamed", function()
    local reply = assert(request.read(responses, { json.encode { object = "response", status = "completed",
      output = json.array { { type = "reasoning", summary = json.array { { type = "summary_text", text = "hm" } } },
        { type = "message", content = json.array { { type = "output_text", text = "a" },
        { type = "refusal", refusal = "b" } } }, { type = "function_call", call_id = "c", name = "t",
        arguments = "{}" } }, usage = { input_tokens = 3, output_tokens = 4 } } }))
    assert.same({ "ab", "hm", "t", 3 }, { reply.text, reply.reasoning, reply.tool_calls[1].name, reply.usage.input })
  end)

  it("takes what only the last event says, and pieces without an index", function()
    local reply = assert(read { type = "response.completed", response = { status = "completed", output = json.array {
      { type = "message", content = json.array { { type = "output_text", text = "late" } } } } } })
    assert.equal("late", reply.text)
    reply = assert(read({ type = "response.output_item.added", item = { type = "function_call", call_id = "c",
      name = "t", id = "f" } }, { type = "response.function_call_arguments.delta", item_id = "f", delta = "{}" }, DONE))
    assert.same({ { id = "c", name = "t", arguments = "{}" } }, reply.tool_calls)
  end)

  it("tells ends and failures apart", function()
    local function class(...) return select(3, read(...)) end
    assert.equal("cut", class(text "a"))
    assert.equal("length", class(text "a", { type = "response.incomplete", response = { status = "incomplete",
      incomplete_details = { reason = "max_output_tokens" } } }))
    assert.equal("filtered", class(text "a", { type = "response.incomplete", response = { status = "incomplete",
      incomplete_details = { reason = "content_filter" } } }))
    assert.equal("rate_limit", class { type = "response.failed", response = { status = "failed",
      error = { code = "rate_limit_exceeded", message = "slow" } } })
    assert.equal("overload", class { type = "error", message = "server had an error", code = "server_error" })
    assert.equal("overflow", class { error = { message = "x", code = "context_length_exceeded" } })
    assert.equal("empty", class(DONE))
    assert.equal("cut", class "{broken")
  end)
end)

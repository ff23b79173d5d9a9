-- scripts/providers/anthropic.lua: pure functions between neutral messages and the Messages API.
local anthropic = require "terret.providers.anthropic"
local fs = require "terret.fs"
local json = require "terret.json"
local request = require "terret.request"
local store = require "terret.store"

local function read(...)
  local pieces = {}
  for i, e in ipairs { ... } do pieces[i] = "data: " .. (type(e) == "string" and e or json.encode(e)) .. "\n\n" end
  return request.read(anthropic, pieces)
end

local STOP = { type = "message_stop" }
local function text(s) return { type = "content_block_delta", index = 0, delta = { type = "text_delta", text = s } } end
local function reason(s) return { type = "message_delta", delta = { stop_reason = s } } end

-- The body of a request over these messages.
local function build(messages, changes)
  local s = store.new()
  local view = s:view()
  for _, m in ipairs(messages) do view:push(s:add(anthropic.encode(m, changes and changes.dialect), 1)) end
  local r = { base_url = "https://h", model = "m", stream = true, tools = "[]", store = s }
  for key, value in pairs(changes or {}) do r[key] = value end
  local url, headers, body = anthropic.build(r, view)
  return body, url, headers
end

local function call(id) return { id = id, name = "t", arguments = '{"a":[]}' } end
local TALK = {
  { role = "system", content = "sys" }, { role = "user", content = "u1" },
  { role = "assistant", content = "", tool_calls = { call "a", call "b" } },
  { role = "tool", call_id = "a", content = "r1", ok = true }, { role = "tool", call_id = "b", content = "r2",
    ok = false },
  { role = "assistant", content = "done" }, { role = "user", content = "u2" },
}
local function first(n) return table.move(TALK, 1, n, 1, {}) end

describe("providers.anthropic", function()
  local stream = assert(request.read(anthropic, { (assert(fs.read "tests/wire/anthropic.sse")) }))

  it("reads a stream: text, thinking, calls, usage with the cached tokens among the input", function()
    assert.equal("Let me look at the café 🦀.", stream.text)
    assert.equal("The nest first.", stream.reasoning)
    assert.same({ { id = "toolu_01", name = "bash", arguments = '{"command": "echo a"}' },
      { id = "toolu_02", name = "read", arguments = '{"path":"b"}' } }, stream.tool_calls)
    assert.same({ input = 930, cached = 800, written = 100, output = 40 }, stream.usage)
  end)

  it("gives thinking back untouched, in its place, and only where it came from", function()
    local m = { role = "assistant", content = stream.text, tool_calls = stream.tool_calls, echo = stream.echo,
      origin = "here" }
    local blocks = json.decode(anthropic.encode(m, { origin = "here" })).content
    assert.same({ type = "thinking", thinking = "The nest first.", signature = "c2lnLTAx" }, blocks[1])
    assert.same({ "text", "tool_use", "tool_use" }, { blocks[2].type, blocks[3].type, blocks[4].type })
    assert.same({ "toolu_02", { path = "b" } }, { blocks[4].id, blocks[4].input })
    for _, d in ipairs { { origin = "there" }, { origin = "here", echo = false } } do
      assert.equal("text", json.decode(anthropic.encode(m, d)).content[1].type)
    end
    m.echo = { blocks = "{broken" }
    assert.equal("text", json.decode(anthropic.encode(m, { origin = "here" })).content[1].type)
  end)

  it("encodes results, and ids that the API takes, the same on both sides", function()
    local result = json.decode(anthropic.encode { role = "tool", call_id = "functions.t:0", content = "r", ok = false })
    local asked = json.decode(anthropic.encode { role = "assistant", content = " ",
      tool_calls = { call "functions.t:0" } })
    assert.equal(result.content[1].tool_use_id, asked.content[1].id)
    assert.matches("^[%w_-]+$", asked.content[1].id)
    assert.is_true(result.content[1].is_error)
    assert.equal(1, #asked.content) -- no blank text
    assert.equal("(no text)", json.decode(anthropic.encode { role = "assistant", content = "" }).content[1].text)
    assert.equal("(no text)", json.decode(anthropic.encode { role = "user", content = " " }).content[1].text)
  end)

  it("builds the system prompt into the head, and neighbours of the user's role into one message", function()
    local body, url = build(TALK, { tool_choice = "none", tools = anthropic.encode_tools { { name = "t",
      description = "d", schema = "{}" } } })
    local b = json.decode(body)
    assert.equal("https://h/v1/messages", url)
    assert.equal("sys", b.system[1].text)
    assert.same({ "none", "t", 8192 }, { b.tool_choice.type, b.tools[1].name, b.max_tokens })
    local roles = {}
    for i, m in ipairs(b.messages) do roles[i] = m.role .. #m.content end
    assert.same({ "user1", "assistant2", "user2", "assistant1", "user1" }, roles)
    local without = build(TALK, { store = false })
    assert.equal(build(TALK), without)
  end)

  it("marks the system prompt, the last message, and the one before the last answer", function()
    local b = json.decode((build(TALK)))
    local _, n = build(TALK):gsub("cache_control", "")
    assert.equal(3, n)
    assert.is_table(b.system[1].cache_control)
    assert.is_table(b.messages[5].content[1].cache_control)
    assert.is_table(b.messages[3].content[2].cache_control)
    assert.is_nil(b.messages[3].content[1].cache_control)
    assert.is_nil(build(TALK, { dialect = { cache_marks = false } }):find("cache_control", 1, true))
  end)

  it("never changes bytes before the marks: each body is a prefix of the next up to there", function()
    local function plain(n) return (build(first(n)):gsub('"cache_control":{"type":"ephemeral"},', "")) end
    for _, pair in ipairs { { 2, 5 }, { 5, 7 } } do
      local before, after = plain(pair[1]), plain(pair[2])
      assert.equal(before:sub(1, -3), after:sub(1, #before - 2))
    end
  end)

  it("puts a tail behind the messages", function()
    local tail = anthropic.encode { role = "user", content = "sum up" }
    local b = json.decode((build(first(5), { tail = tail })))
    assert.same({ 3, 3 }, { #b.messages, #b.messages[3].content })
    b = json.decode((build(first(6), { tail = tail })))
    assert.same({ 5, "sum up" }, { #b.messages, b.messages[5].content[1].text })
    assert.is_table(json.decode((build({}, { tail = tail }))))
  end)

  it("sends the key as the host wants it", function()
    local _, _, headers = build(TALK, { key = "K", dialect = { auth = "x-api-key" } })
    assert.equal("x-api-key: K", headers[#headers])
    _, _, headers = build(TALK, { key = "K" })
    assert.equal("Authorization: Bearer K", headers[#headers])
    _, _, headers = build(TALK)
    assert.equal(3, #headers)
  end)

  it("reads an answer that was not streamed", function()
    local reply = assert(request.read(anthropic, { json.encode { type = "message", stop_reason = "tool_use",
      content = json.array { { type = "thinking", thinking = "hm", signature = "s" }, { type = "text", text = "a" },
        { type = "tool_use", id = "i", name = "t", input = { x = 1 } } }, usage = { input_tokens = 3,
          output_tokens = 4 } } }))
    assert.same({ "a", "hm", '{"x":1}', 3 }, { reply.text, reply.reasoning, reply.tool_calls[1].arguments,
      reply.usage.input })
    assert.truthy(reply.echo.blocks:find('"signature":"s"', 1, true))
  end)

  it("keeps thinking without its signature to itself", function()
    local reply = assert(read({ type = "content_block_start", index = 0, content_block = { type = "thinking",
      thinking = "hm" } }, { type = "content_block_start", index = 1, content_block = { type = "text", text = "a" } },
      reason "end_turn", STOP))
    assert.same({ "a", "hm", {} }, { reply.text, reply.reasoning, reply.echo })
  end)

  it("tells ends and failures apart", function()
    local function class(...) return select(3, read(...)) end
    assert.equal("cut", class(text "a"))
    assert.is_nil(class(text "a", reason "end_turn"))
    assert.equal("length", class(text "a", reason "max_tokens"))
    assert.equal("filtered", class(text "a", reason "refusal", STOP))
    assert.equal("overflow", class(text "a", reason "model_context_window_exceeded"))
    assert.equal("overload", class { type = "error", error = { type = "overloaded_error", message = "Overloaded" } })
    assert.equal("rate_limit", class { type = "error", error = { type = "rate_limit_error", message = "slow" } })
    assert.equal("overflow", class { type = "error", error = { message = "prompt is too long: 9 > 8" } })
    assert.equal("empty", class(STOP))
    assert.equal("cut", class "{broken")
  end)
end)

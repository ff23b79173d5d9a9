-- scripts/providers/openai.lua: pure functions between neutral messages and chat completions.
local json = require "terret.json"
local openai = require "terret.providers.openai"
local store = require "terret.store"

local function sse(value) return { data = type(value) == "string" and value or json.encode(value) } end

-- Feeds deltas as a stream; answers the finished result, the text, and the parts.
local function stream(list)
  local acc, parts = openai.start(), {}
  for _, x in ipairs(list) do
    for _, part in ipairs(openai.parse(sse(x), acc)) do parts[#parts + 1] = part end
  end
  local text = {}
  for _, part in ipairs(parts) do
    if part.type == "text" then text[#text + 1] = part.text end
  end
  return openai.finish(acc), table.concat(text), parts
end

local function delta(d, finish)
  return { choices = json.array { { index = 0, delta = d, finish_reason = finish } } }
end

local function calls(...)
  return delta { tool_calls = json.array { ... } }
end

describe("providers.openai", function()
  describe("encode", function()
    it("gives canonical bytes, the same each time", function()
      assert.equal('{"content":"hi","role":"user"}', openai.encode { role = "user", content = "hi", kind = "prompt" })
      assert.equal('{"content":"r","role":"tool","tool_call_id":"c1"}',
        openai.encode { role = "tool", content = "r", call_id = "c1", name = "read", blob = "b1", ok = false })
      local m = { role = "assistant", content = "", tool_calls = { { id = "c", name = "t", arguments = '{"a":[]}' } } }
      assert.equal('{"content":"","role":"assistant","tool_calls":[{"function":{"arguments":"{\\"a\\":[]}","name":"t"},'
        .. '"id":"c","type":"function"}]}', openai.encode(m))
      assert.equal(openai.encode(m), openai.encode(m))
    end)

    it("gives back what the model wants to see of its reasoning", function()
      local text = openai.encode { role = "assistant", content = "x", echo = { reasoning_content = '"thought"' } }
      assert.equal("thought", json.decode(text).reasoning_content)
    end)

    it("gives it back only to the endpoint and the model that it came from", function()
      local m = { role = "assistant", content = "x", echo = { reasoning = '"thought"' }, origin = "here",
        tool_calls = { { id = "c", name = "t", arguments = "{}", extra = { sign = '"s"' } } } }
      local out = json.decode(openai.encode(m, { origin = "here" }))
      assert.same({ "thought", "s" }, { out.reasoning, out.tool_calls[1].sign })
      for _, d in ipairs { { origin = "there" }, { origin = "here", echo = false },
        { origin = "here", no_echo = { reasoning = true, sign = true } } } do
        out = json.decode(openai.encode(m, d))
        assert.same({}, { out.reasoning, out.tool_calls[1].sign })
      end
      m.echo = { reasoning = "{broken" }
      assert.is_nil(json.decode(openai.encode(m, { origin = "here" })).reasoning)
    end)

    it("says things as a dialect wants them", function()
      local m = { role = "assistant", content = "", tool_calls = { { id = "call_a", name = "t", arguments = "{}" } } }
      local function encode(d) return json.decode(openai.encode(m, d)) end
      assert.is_nil(encode({ empty = "omit" }).content)
      assert.equal("", encode({ echo_empty = "reasoning_content" }).reasoning_content)
      local id = encode({ ids = "mistral" }).tool_calls[1].id
      assert.matches("^%w%w%w%w%w%w%w%w%w$", id)
      assert.equal(id, json.decode(openai.encode({ role = "tool", call_id = "call_a", content = "" },
        { ids = "mistral" })).tool_call_id)
      m.tool_calls[1].id = "Ab3dE6gH9"
      assert.equal("Ab3dE6gH9", encode({ ids = "mistral" }).tool_calls[1].id)
      assert.equal('{"content":"s","role":"developer"}', openai.encode({ role = "system", content = "s" },
        { system = "developer" }))
      local two = json.decode("[" .. openai.encode({ role = "system", content = "s" }, { system = "user" }) .. "]")
      assert.same({ "user", "assistant" }, { two[1].role, two[2].role })
      two = json.decode("[" .. openai.encode({ role = "user", content = "u" }, { after_tool = true }, "tool") .. "]")
      assert.same({ "assistant", "user" }, { two[1].role, two[2].role })
      assert.equal('{"content":"u","role":"user"}', openai.encode({ role = "user", content = "u" },
        { after_tool = true }, "assistant"))
      assert.equal("(no text)", json.decode(openai.encode { role = "assistant", content = "" }).content)
    end)

    it("keeps schemas as they are", function()
      local text = openai.encode_tools { { name = "t", description = "d", schema = '{"required":[],"properties":{}}' } }
      assert.truthy(text:find('"required":[]', 1, true))
      assert.truthy(text:find('"properties":{}', 1, true))
    end)
  end)

  describe("url", function()
    local want = "https://h/v1/chat/completions"
    for given, expected in pairs { ["https://h"] = want, ["https://h/"] = want, ["https://h/v1"] = want,
      ["https://h/v1/"] = want, [want] = want, ["https://h/api/v1//"] = "https://h/api/v1/chat/completions",
      ["https://h/v1?api-version=2"] = want .. "?api-version=2", ["http://127.0.0.1:1?x"] =
      "http://127.0.0.1:1/v1/chat/completions?x" } do
      it("of " .. given, function() assert.equal(expected, openai.url(given)) end)
    end

    it("of the models lies beside it", function()
      assert.equal("https://h/v1/models", openai.models_url("https://h"))
    end)
  end)

  describe("build", function()
    local function view_of(...)
      local s = store.new()
      local view = s:view()
      for _, fragment in ipairs { ... } do view:push(s:add(fragment, 1)) end
      return view, s
    end
    local request = { base_url = "http://h", key = "k", model = "m", tools = "[]", stream = true }

    it("has the messages last, so that each body is a prefix of the next", function()
      local view, s = view_of('{"a":1}')
      local _, headers, body = openai.build(request, view)
      view:push(s:add('{"b":2}', 1))
      local _, _, next_body = openai.build(request, view)
      assert.equal(body:sub(1, -3), next_body:sub(1, #body - 2))
      assert.equal("[{\"a\":1},{\"b\":2}]", json.slice(next_body, "messages"))
      assert.equal("Authorization: Bearer k", headers[#headers])
    end)

    it("puts a tail behind them, under the same head", function()
      local view = view_of('{"a":1}')
      local _, _, plain = openai.build(request, view)
      local with = setmetatable({ tail = '{"t":1}' }, { __index = request })
      local _, _, tailed = openai.build(with, view)
      assert.equal(plain:sub(1, -3), tailed:sub(1, #plain - 2))
      assert.equal('[{"a":1},{"t":1}]', json.slice(tailed, "messages"))
    end)

    it("follows a dialect", function()
      local view = view_of()
      local function build(d, changes)
        local r = { base_url = "http://h", model = "m", stream = true, max_output = 7, session = "S", dialect = d,
          tools = '[{"x":{"additionalProperties":false}}]', sampling = { temperature = 0 } }
        for key, value in pairs(changes or {}) do r[key] = value end
        local _, headers, body = openai.build(r, view)
        return json.decode(body), headers
      end
      assert.equal(7, build({ max_field = "max_completion_tokens" }).max_completion_tokens)
      local none = build { max_field = false, drop = { stream_options = true, temperature = true }, stream = false }
      assert.same({ stream = false, model = "m" }, { stream = none.stream, model = none.model, a = none.max_tokens,
        b = none.stream_options, c = none.temperature })
      assert.equal("S", build({ cache_key = true }).prompt_cache_key)
      assert.same({ x = {} }, build({ schema_drop = { additionalProperties = true } }).tools[1])
      local _, headers = build({ auth = "api-key" }, { key = "K" })
      assert.equal("api-key: K", headers[#headers])
    end)

    it("marks the cache where the dialect says so, at most four times", function()
      local d, s = { cache_marks = true }, store.new()
      local view = s:view()
      for _, m in ipairs { { role = "system", content = "s" }, { role = "user", content = "u" },
        { role = "assistant", content = "", tool_calls = { { id = "a", name = "t", arguments = "{}" },
          { id = "b", name = "t", arguments = "{}" } } }, { role = "tool", call_id = "a", content = "r" },
        { role = "tool", call_id = "b", content = "r" } } do
        view:push(s:add(openai.encode(m, d), 1))
      end
      local _, _, body = openai.build({ base_url = "http://h", model = "m", stream = true, dialect = d, store = s },
        view)
      local list = json.decode(body).messages
      assert.equal(3, select(2, body:gsub("cache_control", "")))
      assert.is_table(list[1].content[1].cache_control)
      assert.is_table(list[2].content[1].cache_control)
      assert.is_table(list[5].content[1].cache_control)
      assert.equal("r", list[4].content)
    end)

    it("names tools, limits and sampling only when there are any", function()
      local view = view_of()
      local _, headers, body = openai.build({ base_url = "http://h", model = "m", stream = false }, view)
      assert.equal('{"model":"m","stream":false,"messages":[]}', body)
      assert.equal(2, #headers)
      local _, _, full = openai.build({ base_url = "http://h", model = "m", stream = true, tools = '[{"x":1}]',
        tool_choice = "none", max_output = 7, sampling = { temperature = 0 } }, view)
      local out = json.decode(full)
      assert.same({ "none", 7, 0, { { x = 1 } }, { include_usage = true } },
        { out.tool_choice, out.max_tokens, out.temperature, out.tools, out.stream_options })
    end)
  end)

  describe("a stream", function()
    it("is text, reasoning and a reason of its end", function()
      local r, text, parts = stream { delta { role = "assistant", content = "" }, delta { reasoning_content = "hm" },
        delta { content = "a" }, delta { content = "b" }, delta({}, "stop"), "[DONE]" }
      assert.equal("ab", text)
      assert.equal("reasoning", parts[1].type)
      assert.is_true(r.complete)
      assert.equal("stop", r.finish)
      assert.equal('"hm"', r.echo.reasoning_content)
    end)

    it("without its end is not complete", function()
      assert.is_false(stream({ delta { content = "a" } }).complete)
      assert.is_true(stream({ delta { content = "a" }, "[DONE]" }).complete)
    end)

    it("puts calls together by their index", function()
      local r = stream { calls { index = 0, id = "a", ["function"] = { name = "read", arguments = "" } },
        calls { index = 1, id = "b", ["function"] = { name = "gr", arguments = '{"x"' } },
        calls { index = 0, ["function"] = { arguments = '{"p":' } },
        calls { index = 1, ["function"] = { name = "ep", arguments = ":1}" } },
        calls { index = 0, ["function"] = { name = "read", arguments = "2}" } }, delta({}, "tool_calls") }
      assert.same({ { id = "a", name = "read", arguments = '{"p":2}' },
        { id = "b", name = "grep", arguments = '{"x":1}' } }, r.tool_calls)
    end)

    it("begins a new call at a new id, where the index is missing or always 0", function()
      for _, index in ipairs { 0, false } do
        local r = stream { calls { index = index or nil, id = "a", ["function"] = { name = "one", arguments = "{}" } },
          calls { index = index or nil, id = "b", ["function"] = { name = "two", arguments = "{}" } },
          delta({}, "stop") }
        assert.same({ "one", "two" }, { r.tool_calls[1].name, r.tool_calls[2].name })
      end
    end)

    it("takes whole calls without index and id one by one", function()
      local r = stream { calls { ["function"] = { name = "one", arguments = { a = 1 } } },
        calls { ["function"] = { name = "two", arguments = "{}" } }, delta({}, "stop") }
      assert.same({ { name = "one", arguments = '{"a":1}' }, { name = "two", arguments = "{}" } }, r.tool_calls)
    end)

    it("counts the pieces of a call as progress", function()
      local _, _, parts = stream { calls { index = 0, id = "a", ["function"] = { name = "t", arguments = "{" } } }
      assert.equal("tool_call", parts[1].type)
    end)

    it("takes the last report of usage, and nothing below zero", function()
      local r = stream { delta({ content = "a" }, "stop"), { choices = json.array {}, usage = { prompt_tokens = 10,
        completion_tokens = 5, prompt_tokens_details = { cached_tokens = 4 }, cost = 0.5 } },
        { choices = json.array {}, usage = { prompt_tokens = -9, completion_tokens = 1.5, cost = -3 } } }
      assert.same({ input = 10, output = 5, cached = 4, cost = 0.5 }, r.usage)
      assert.is_nil(stream({ delta({ content = "a" }, "stop") }).usage)
    end)

    it("may say that something broke", function()
      assert.equal("overloaded", stream({ { error = { message = "overloaded", code = 502 } } }).error)
      assert.equal("text", stream({ { error = "text" } }).error)
      assert.equal('{"x":1}', stream({ { error = { x = 1 } } }).error)
      assert.is_nil(stream({ { error = json.null, choices = json.array {} } }).error)
      local acc = openai.start()
      openai.parse({ event = "error", data = "no JSON" }, acc)
      assert.equal("no JSON", openai.finish(acc).error)
    end)

    it("shows a refusal, and content that comes as a list", function()
      assert.equal("I won't", select(2, stream { delta({ content = json.null, refusal = "I won't" }, "stop") }))
      local list = json.array { { type = "text", text = "a" }, { text = "b" }, 7 }
      assert.equal("ab", select(2, stream { delta { content = list } }))
    end)

    it("merges typed details of reasoning by their index, and keeps them whole", function()
      local r, _, parts = stream { delta { reasoning_details = json.array { { type = "reasoning.text", text = "a ",
        index = 0 } } }, delta { reasoning_details = json.array { { type = "reasoning.text", text = "b",
          index = 0 } } },
        delta { reasoning_details = json.array { { type = "reasoning.text", signature = "s", index = 0 } } },
        delta { reasoning = "c", reasoning_details = json.array { { type = "reasoning.encrypted", data = "d",
          index = 1 } } },
        delta({ content = "x" }, "stop") }
      assert.same({ { type = "reasoning.text", text = "a b", signature = "s", index = 0 },
        { type = "reasoning.encrypted", data = "d", index = 1 } }, json.decode(r.echo.reasoning_details))
      local said = {}
      for _, p in ipairs(parts) do
        if p.type == "reasoning" then said[#said + 1] = p.text end
      end
      assert.equal("a b c", (table.concat(said):gsub("bc", "b c")))
    end)

    it("says reasoning once that comes under two names", function()
      local r, _, parts = stream { delta { reasoning = "a", reasoning_content = "a" }, delta({ content = "x" },
        "stop") }
      assert.equal(2, #parts)
      assert.same({ reasoning_content = '"a"' }, r.echo)
    end)

    it("takes reasoning out of tags and out of typed content", function()
      local _, text, parts = stream { delta { content = "<thi" }, delta { content = "nk>a</think>b" }, delta({},
        "stop") }
      assert.same({ "b", "reasoning" }, { text, parts[1].type })
      local thinking = { type = "thinking", thinking = json.array { { type = "text", text = "hm" } } }
      _, text, parts = stream { delta { content = json.array { thinking, { type = "text", text = "b" } } } }
      assert.same({ "b", "hm" }, { text, parts[1].text })
    end)

    it("takes the old form of calls, all choices, and usage wherever it stands", function()
      local r = stream { { choices = json.array { { index = 1, delta = { function_call = { name = "t",
        arguments = "{}" } },
        usage = { prompt_tokens = 3 } } }, x_groq = { usage = { completion_tokens = 2 } }, timings = { cache_n = 1 } },
        delta({}, "function_call") }
      assert.same({ { name = "t", arguments = "{}" } }, r.tool_calls)
      assert.same({ input = 3, output = 2, cached = 1 }, r.usage)
      local _, text = stream { { choices = json.array { { index = 0, delta = { content = "a" } },
        { index = 1, delta = { content = "b" } } } } }
      assert.equal("ab", text)
    end)

    it("survives anything", function()
      for _, bad in ipairs { "", "null", "[]", "7", '"x"', "{", '{"choices":7}', '{"choices":[]}', '{"choices":[7]}',
        '{"choices":[{"delta":7}]}', '{"choices":[{"delta":{"content":7,"tool_calls":7}}]}', '{"choices":{"0":1}}',
        '{"choices":[{"delta":{"tool_calls":[7,null,{}]}}]}', '{"choices":[{"message":null}]}',
        '{"usage":7,"model":[]}',
        '{"choices":[{"delta":{"tool_calls":[{"index":-1,"id":7,"function":7}]}}]}', '[{"error":{"message":"m"}}]',
        '{"choices":[{"delta":{"tool_calls":{"a":1}},"finish_reason":7}],"usage":{"prompt_tokens":"9"}}' } do
        local r = stream { bad }
        for _, c in ipairs(r.tool_calls) do assert.same({ "string", "string" }, { type(c.name), type(c.arguments) }) end
      end
    end)
  end)

  describe("an answer that was not streamed", function()
    local function whole(message, finish)
      return stream { { choices = json.array { { message = message, finish_reason = finish } },
        usage = { prompt_tokens = 3, completion_tokens = 4 } } }
    end

    it("is the same in one piece, also without a reason", function()
      local r, text = whole({ role = "assistant", content = "hello" })
      assert.equal("hello", text)
      assert.is_true(r.complete)
      assert.same({ input = 3, output = 4 }, r.usage)
    end)

    it("keeps each call, whatever the ids", function()
      local one = { id = "same", ["function"] = { name = "a", arguments = "{}" } }
      local two = { id = "same", ["function"] = { name = "b", arguments = "{}" } }
      local three = { index = 0, ["function"] = { name = "c", arguments = "{}" } }
      local four = { index = 0, ["function"] = { name = "d", arguments = "{}" } }
      local r = whole({ content = json.null, tool_calls = json.array { one, two, three, four } }, "tool_calls")
      local names = {}
      for i, c in ipairs(r.tool_calls) do names[i] = c.name end
      assert.same({ "a", "b", "c", "d" }, names)
    end)
  end)

  it("reads an event that differs from the last one only in its text as any other", function()
    local function play(...)
      local acc, said = openai.start(), {}
      for _, data in ipairs { ... } do
        for _, part in ipairs(openai.parse({ data = data }, acc)) do said[#said + 1] = part.type .. "=" .. part.text end
      end
      return table.concat(said, " "), openai.finish(acc)
    end
    local function event(content, rest)
      local tail = '},"finish_reason":null' .. (rest or "") .. "}]}"
      return '{"choices":[{"index":0,"delta":{"content":' .. content .. tail
    end
    assert.equal("text=a text=b text=c", (play(event '"a"', event '"b"', event '"c"')))
    -- Escapes, other frames, a quote that would close the string: all through the decoder.
    local said = play(event '"a"', event '"\\"\\\\\\n"', event '"é"', event '"d"')
    assert.equal('text=a text="\\\n text=é text=d', said)
    local reply
    said, reply = play(event '"a"', event '"b"',
      event('"c"', ',"usage":{"prompt_tokens":5,"completion_tokens":2}'), event('""', ',"x":1'),
      '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}')
    assert.equal("text=a text=b text=c", said)
    assert.equal("stop", reply.finish)
    assert.equal(5, reply.usage.input)
    -- The text itself holds what looks like the frame.
    assert.equal('text=a text="content":"x text=z', (play(event '"a"', event '"\\"content\\":\\"x"', event '"z"')))
    -- Bytes that are no UTF-8 mean the same, whichever way they come.
    assert.equal("text=a " .. play(event '"\255"'), (play(event '"a"', event '"\255"')))
  end)
end)

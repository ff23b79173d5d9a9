-- scripts/exchange.lua over a server on loopback: what is tried again, adapted, learned and echoed.
local json = require "terret.json"
local mock = require "support.mock"
local retry = require "terret.retry"
local world = require "support.world"

-- A world whose endpoint gives these answers; f gets the world and a function for the decoded requests.
local function with(answers, options, f)
  local m <close> = mock.start { answers = answers }
  options.provider, options.base_url, options.model = options.provider or "openai", m.url .. "/v1", "m"
  options.timeouts = { first_byte = 5, idle = 5, progress = 5 }
  local w <close> = world.new(options)
  w:tool("echo", function(args) return args.text or "nothing" end)
  f(w, function()
    local out = {}
    for i, r in ipairs(m:requests()) do out[i] = assert(json.decode(r.body)) end
    return out
  end, m)
end

local function call(id, arguments) return mock.chat { tool_calls = { { id, "echo", arguments or "{}" } } } end

local function warned(w, words)
  for _, e in ipairs(w.events) do
    if e.text and e.text:find(words, 1, true) then return true end
  end
  return false
end

describe("exchange", function()
  local wait = retry.wait
  setup(function()
    retry.wait = function(...)
      local seconds = wait(...)
      return seconds and math.min(seconds, 0.001)
    end
  end)
  teardown(function() retry.wait = wait end)

  describe("learns from a refusal", function()
    it("once, and remembers it in the next session", function()
      with({ mock.error(400, "'stream_options' is not supported"), mock.chat { text = "one" },
        mock.chat { text = "two" } }, {}, function(w, requests)
        assert.equal("one", w:prompt().text)
        assert.is_true(warned(w, "stream_options"))
        w:open()
        assert.equal("two", w:prompt().text)
        local r = requests()
        assert.equal(3, #r)
        assert.is_table(r[1].stream_options)
        assert.is_nil(r[2].stream_options)
        assert.is_nil(r[3].stream_options)
      end)
    end)

    it("and encodes the messages anew, the same after a resume", function()
      with({ call "a", mock.error(400, "System role not supported"), mock.chat { text = "one" },
        mock.chat { text = "two" } }, {}, function(w, requests, m)
        assert.equal("one", w:prompt().text)
        w:resume()
        assert.equal("two", w:prompt("more").text)
        local r = requests()
        assert.same({ "user", "assistant", "user", "assistant", "tool" }, { r[3].messages[1].role,
          r[3].messages[2].role,
          r[3].messages[3].role, r[3].messages[4].role, r[3].messages[5].role })
        local third, fourth = m:requests()[3].body, m:requests()[4].body
        assert.equal(third:sub(1, -3), fourth:sub(1, #third - 2))
      end)
    end)

    it("up to a limit", function()
      local answers = {}
      for i = 1, 30 do answers[i] = mock.error(400, ("'p%d' is not supported"):format(i)) end
      local sampling = {}
      for i = 1, 30 do sampling["p" .. i] = 1 end
      with(answers, { sampling = sampling }, function(w, requests)
        local result = w:prompt()
        assert.equal("endpoint", result.status)
        assert.is_true(#requests() < 12)
      end)
    end)
  end)

  describe("echoes reasoning", function()
    local thought = mock.chat { reasoning = "hm", tool_calls = { { "a", "echo", "{}" } } }

    it("to the endpoint and the model that it came from", function()
      with({ thought, mock.chat { text = "done" } }, {}, function(w, requests)
        w:prompt()
        assert.equal("hm", requests()[2].messages[3].reasoning_content)
      end)
    end)

    it("but to no other model", function()
      with({ thought, mock.chat { text = "done" }, mock.chat { text = "other" }, mock.chat { text = "again" } }, {},
        function(w, requests)
          w:prompt()
          w:run(function(agent)
            agent:say("user", "go on")
            assert.equal("other", agent:ask({ model = "m2" }).text)
            agent:say("user", "go on")
            agent:ask()
          end)
          local r = requests()
          assert.equal("m2", r[3].model)
          assert.is_nil(r[3].messages[3].reasoning_content)
          assert.equal("hm", r[4].messages[3].reasoning_content)
          w:check()
        end)
    end)

    it("nor after a resume with another model", function()
      with({ thought, mock.chat { text = "done" }, mock.chat { text = "other" } }, {}, function(w, requests)
        w:prompt()
        w.cfg.model = "m3"
        w:resume()
        w:prompt("more")
        assert.is_nil(requests()[3].messages[3].reasoning_content)
      end)
    end)

    it("and drops it where it is refused", function()
      with({ thought, mock.error(400, "messages.2.reasoning_content: Extra inputs are not permitted"),
        mock.chat { text = "done" } }, {}, function(w, requests)
        assert.equal("done", w:prompt().text)
        assert.is_nil(requests()[3].messages[3].reasoning_content)
      end)
    end)
  end)

  it("keeps unknown fields of a call on that call", function()
    local signed = [[{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","extra_content":{"s":"1"},"function":]]
      .. [[{"name":"echo","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}]]
    with({ { "sse " .. mock.escape(signed) }, mock.chat { text = "done" } }, {}, function(w, requests)
      w:prompt()
      assert.same({ s = "1" }, requests()[2].messages[3].tool_calls[1].extra_content)
      w:check()
    end)
  end)

  it("asks for less output where the endpoint says how much there is", function()
    with({ mock.error(400, "max_tokens is too large: 8000. This model supports at most 4096 completion tokens"),
      mock.chat { text = "done" } }, { max_output = 8000 }, function(w, requests)
      assert.equal("done", w:prompt().text)
      local r = requests()
      assert.same({ 8000, 4096 }, { r[1].max_tokens, r[2].max_tokens })
    end)
  end)

  it("says when, where the wait is too long", function()
    with({ mock.error(429, "Rate limit reached", { headers = { "Retry-After: 3600" } }) }, {}, function(w, requests)
      local result = w:prompt()
      assert.equal("endpoint", result.status)
      assert.matches("60 minutes", result.message)
      assert.equal(1, #requests())
    end)
  end)

  it("waits as long as headers or words say", function()
    local seen = {}
    local short = retry.wait
    retry.wait = function(class, attempt, after, random)
      seen[#seen + 1] = after
      return short(class, attempt, after, random)
    end
    with({ mock.error(429, "x", { headers = { "retry-after-ms: 1750" } }),
      mock.error(429, "x", { headers = { "x-ratelimit-remaining-tokens: 0", "x-ratelimit-reset-tokens: 2.2s",
        "x-ratelimit-remaining-requests: 4", "x-ratelimit-reset-requests: 6m0s" } }),
      mock.error(429, "Please try again in 7.66s."), mock.chat { text = "done" } }, {}, function(w)
      assert.equal("done", w:prompt().text)
    end)
    retry.wait = short
    assert.same({ 1.75, 2.2, 7.66 }, seen)
  end)

  it("nudges a model that answers nothing again, without storing that", function()
    with({ mock.chat { text = "" }, mock.chat { text = "" }, mock.chat { text = "done" } }, {}, function(w, requests)
      assert.equal("done", w:prompt().text)
      local r = requests()
      assert.equal(#r[1].messages, #r[2].messages)
      assert.matches("empty", r[3].messages[#r[3].messages].content)
      assert.equal(3, #w:view())
    end)
  end)

  it("never ends with nothing and no word", function()
    with({ mock.chat { text = "", rep = true } }, {}, function(w)
      local result = w:prompt()
      assert.equal("endpoint", result.status)
      assert.matches("empty", result.message)
    end)
  end)

  it("goes on where the output limit cut an answer", function()
    with({ mock.chat { text = "one ", finish = "length" }, mock.chat { text = "two" } }, {}, function(w, requests)
      assert.equal("one two", w:prompt().text)
      local m = requests()[2].messages
      assert.matches("output limit", m[#m].content)
    end)
  end)

  it("reads a call that came as text, and asks for one that it can't read", function()
    local good = '<tool_call>\n{"name": "echo", "arguments": {"text": "hi"}}\n</tool_call>'
    with({ mock.chat { text = "Look.\n" .. good }, mock.chat { text = "<tool_call>\n{bad}\n</tool_call>" },
      mock.chat { text = "done" } }, {}, function(w)
      assert.equal("done", w:prompt().text)
      assert.same({ "hi" }, w:results())
      assert.is_true(warned(w, "tool call as text"))
      w:check()
    end)
  end)

  it("takes an answer that talks about calls for one, in the end", function()
    with({ mock.chat { text = "<tool_call>\n{bad}\n</tool_call>", rep = true } }, {}, function(w, requests)
      assert.equal("done", w:prompt().status)
      assert.equal(3, #requests())
    end)
  end)

  it("reads the call that an endpoint could not", function()
    local body = json.encode { error = { message = "Failed to call a function.", code = "tool_use_failed",
      failed_generation = '<function=echo>{"text":"hi"}</function>' } }
    with({ { status = 400, body = body }, mock.chat { text = "done" } }, {}, function(w)
      assert.equal("done", w:prompt().text)
      assert.same({ "hi" }, w:results())
    end)
  end)

  it("estimates what the endpoint doesn't count", function()
    with({ mock.chat { text = "some words here", usage = { prompt_tokens = 400, completion_tokens = 0 } } }, {},
      function(w)
        w:prompt()
        local usage = w:logged("usage")[1]
        assert.equal(400, usage.input)
        assert.is_true(usage.output > 0 and usage.estimated)
      end)
  end)

  it("keeps to a limit of tokens, whatever usage the endpoint reports", function()
    for _, n in ipairs { 1 << 62, 1, 0 } do
      local answer = call("a")
      for i, line in ipairs(answer) do
        answer[i] = line:gsub('"prompt_tokens":%d+', '"prompt_tokens":' .. n)
          :gsub('"completion_tokens":%d+', '"completion_tokens":' .. n)
      end
      answer.rep = true
      with({ answer }, { limits = { tokens = 12000, steps = 200 } }, function(w)
        local result = w:prompt()
        assert.equal("limit", result.status)
        assert.matches("tokens", result.message)
        assert.is_true(#w:logged "usage" < 60)
      end)
    end
  end)

  it("asks for less output where a limit leaves less", function()
    with({ mock.chat { text = "one" }, mock.chat { text = "two" } }, { limits = { tokens = 4500 } },
      function(w, requests)
        w:prompt()
        assert.is_number(requests()[1].max_tokens)
        assert.is_true(requests()[1].max_tokens < 4096)
      end)
    with({ mock.chat { text = "one" } }, {}, function(w, requests)
      w:prompt()
      assert.is_nil(requests()[1].max_tokens)
    end)
  end)

  it("books the reasoning of an answer that was cut off", function()
    local cut = mock.chat { reasoning = ("hm "):rep(400), usage = false }
    while not cut[#cut]:find("hm", 1, true) do table.remove(cut) end
    cut[#cut + 1] = "cut"
    with({ cut, mock.chat { text = "one" } }, {}, function(w)
      assert.equal("one", w:prompt().text)
      assert.is_true(w:logged("usage")[1].output >= 200)
    end)
  end)

  it("runs no call of an answer in which an event was lost", function()
    local broken = call("a", '{"text":"rm ./build/tmp"}')
    for i, line in ipairs(broken) do
      if line:find("ild/", 1, true) then broken[i] = line:gsub("ild/.*$", "ild") end
    end
    with({ broken, mock.chat { text = "done" } }, {}, function(w)
      assert.equal("done", w:prompt().text)
      assert.same({}, w:results())
    end)
  end)

  it("repairs an event of which a byte is no UTF-8, and drops nothing of it", function()
    local odd = call("a", '{"text":"rm ./build/XX-cache/tmp"}')
    for i, line in ipairs(odd) do odd[i] = line:gsub("XX", "\\xe9") end
    with({ odd, mock.chat { text = "done" } }, {}, function(w)
      assert.equal("done", w:prompt().text)
      assert.same({ "rm ./build/\u{FFFD}-cache/tmp" }, w:results())
    end)
  end)

  it("speaks the other protocols with the same code", function()
    local events = { { type = "message_start", message = { usage = { input_tokens = 300 } } },
      { type = "content_block_start", index = 0, content_block = { type = "tool_use", id = "t1", name = "echo" } },
      { type = "content_block_delta", index = 0, delta = { type = "input_json_delta",
        partial_json = '{"text":"hi"}' } },
      { type = "message_delta", delta = { stop_reason = "tool_use" }, usage = { output_tokens = 4 } },
      { type = "message_stop" } }
    local first = {}
    for i, e in ipairs(events) do first[i] = "sse " .. mock.escape(json.encode(e)) end
    local last = json.encode { type = "message", stop_reason = "end_turn", content = json.array { { type = "text",
      text = "done" } }, usage = { input_tokens = 9, output_tokens = 1 } }
    with({ first, { body = last } }, { provider = "anthropic" }, function(w, requests)
      assert.equal("done", w:prompt().text)
      local r = requests()
      assert.same({ "user", "assistant", "user" }, { r[2].messages[1].role, r[2].messages[2].role,
        r[2].messages[3].role })
      assert.equal("hi", r[2].messages[3].content[1].content)
      assert.same({ text = "hi" }, r[2].messages[2].content[1].input)
    end)
  end)

  it("says the tools of a session that another provider began", function()
    with({ mock.chat { text = "one" }, { body = json.encode { type = "message", stop_reason = "end_turn",
      content = json.array { { type = "text", text = "two" } } } } }, {}, function(w, requests)
      w:prompt()
      w.cfg.provider = "anthropic"
      w:resume()
      assert.equal("two", w:prompt("more").text)
      local tools = requests()[2].tools
      assert.is_table(tools[1].input_schema)
      assert.is_string(tools[1].name)
    end)
  end)
end)

-- scripts/request.lua against a real server on loopback: shapes of answers, failures, deadlines, abort.
local mock = require "support.mock"
local openai = require "terret.providers.openai"
local reactor = require "terret.reactor"
local request = require "terret.request"
local task = require "terret.task"

local JSON_HEAD = { "Content-Type: application/json" }

-- Sends one request to a server that gives this answer.
local function send(answer, timeouts, sink)
  local m <close> = mock.start { answers = { answer } }
  return task.run(request.send, openai, { url = openai.url(m.url), headers = openai.headers(), body = "{}",
    timeouts = timeouts or { first_byte = 5, idle = 5 } }, sink)
end

-- A part of a stream that is not ended.
local function begun(text, ...)
  local answer = mock.chat { text = text, usage = false }
  while #answer > 2 do table.remove(answer) end
  for _, line in ipairs { ... } do answer[#answer + 1] = line end
  return answer
end

describe("request", function()
  it("streams text and calls", function()
    local seen = {}
    local reply = assert(send(mock.chat { text = "hello there, all of you", reasoning = "hm",
      tool_calls = { { "c1", "read", '{"path":"a"}' } }, usage = { prompt_tokens = 7, completion_tokens = 3 } }, nil,
      function(kind, delta) seen[#seen + 1] = kind .. "=" .. delta end))
    assert.equal("hello there, all of you", reply.text)
    assert.equal("hm", reply.reasoning)
    assert.same({ { id = "c1", name = "read", arguments = '{"path":"a"}' } }, reply.tool_calls)
    assert.same({ input = 7, output = 3 }, reply.usage)
    assert.equal("reasoning=hm", seen[1])
    assert.equal("text=hello there, all of you", (table.concat(seen, ";", 2):gsub(";text=", "")))
  end)

  it("reads an answer that was not streamed, whatever its label", function()
    assert.equal("whole", assert(send(mock.completion { text = "whole" })).text)
    local odd = mock.completion { text = "odd label" }
    odd.headers = { "Content-Type: text/event-stream" }
    assert.equal("odd label", assert(send(odd)).text)
    local stream = mock.chat { text = "a stream" }
    stream.headers = JSON_HEAD
    assert.equal("a stream", assert(send(stream)).text)
  end)

  it("takes a stream that ends without its last chunk after it said so", function()
    local answer = mock.chat { text = "all said" }
    answer[#answer + 1] = "cut"
    assert.equal("all said", assert(send(answer)).text)
  end)

  local refusals = {
    { mock.error(401, "bad key"), "auth", "bad key" },
    { mock.error(429, "slow down", { headers = { "Retry-After: 7" } }), "rate_limit", "slow down" },
    { mock.error(500, "oops"), "overload", "HTTP 500: oops" },
    { mock.error(400, "maximum context length is 10"), "overflow", "context" },
    { { status = 503, body = "<html><body>busy</body></html>" }, "overload", "web page (HTML, busy)" },
    { { status = 500, body = "" }, "overload", "no text" },
    { { status = 500, body = "[1]", headers = JSON_HEAD }, "overload", "[1]" },
    { { status = 500, body = '["a"]', headers = JSON_HEAD }, "overload", "a" },
    { { status = 500, body = '{"error":null}', headers = JSON_HEAD }, "overload", "error" },
    { { status = 400, body = '[{"error":{"message":"in a list"}}]', headers = JSON_HEAD }, "bad_request", "in a list" },
    { { status = 404, body = "\27[2Jhostile\0" }, "bad_request", "hostile" },
    { { status = 302, headers = { "Location: http://example.com/" }, body = "" }, "bad_request", "302" },
    { { body = '{"error":{"message":"broke inside","code":502}}', headers = JSON_HEAD }, "overload", "broke inside" },
    { { body = '{"error":{"message":"Rate limit exceeded","code":429}}', headers = JSON_HEAD }, "rate_limit", "Rate" },
    { { body = '{"error":"insufficient_quota"}', headers = JSON_HEAD }, "quota", "quota" },
    { { body = "<html>Sign in</html>", headers = { "Content-Type: text/html" } }, "bad_request", "Sign in" },
    { { body = "{}", headers = JSON_HEAD }, "cut", "empty" },
    { { body = "", headers = JSON_HEAD }, "cut", "empty" },
    { mock.chat { text = "" }, "empty", "nothing" },
    { mock.chat { text = "", finish = "length" }, "length", "output limit" },
  }
  for i, c in ipairs(refusals) do
    it(("says what came instead of an answer (%d: %s)"):format(i, c[2]), function()
      local reply, message, class, info = send(c[1])
      assert.is_nil(reply)
      assert.equal(c[2], class, message)
      assert.truthy(message:find(c[3], 1, true), message)
      assert.is_false(info.shown)
      if i == 2 then assert.equal(7, info.after) end
    end)
  end

  it("cuts a long error page", function()
    local _, message = send { status = 500, body = ("x"):rep(100000) }
    assert.is_true(#message < 2100)
  end)

  it("keeps what was shown before a cut, a stall or an error in the stream", function()
    local error_line = 'sse {"error":{"message":"upstream died","code":502}}'
    for line, class in pairs { cut = "cut", stall = "timeout_idle", [error_line] = "overload" } do
      local reply, message, got, info = send(begun("partial", line), { first_byte = 5, idle = 0.05 })
      assert.is_nil(reply)
      assert.equal(class, got, message)
      assert.is_true(info.shown)
      assert.equal("partial", info.partial)
    end
  end)

  it("gives up where nothing comes, and where only keep-alives come", function()
    local _, _, class = send({ "stall", "raw x" }, { first_byte = 0.03, idle = 5 })
    assert.equal("timeout_first_byte", class)
    local answer = begun("partial")
    for _ = 1, 200 do
      answer[#answer + 1] = "delay 5"
      answer[#answer + 1] = "text : keep-alive\\n\\n"
    end
    local started = reactor.now()
    local _, message, code, info = send(answer, { first_byte = 5, idle = 5, progress = 0.04 })
    assert.is_true(reactor.now() - started < 0.6)
    assert.matches("no progress", message)
    assert.equal("timeout_idle", code)
    assert.equal("partial", info.partial)
  end)

  it("takes the pieces of a call for progress", function()
    local answer = begun("")
    for i = 1, 12 do
      answer[#answer + 1] = "delay 8"
      local piece = ('{"index":0,%s"function":{"arguments":"%s"}}'):format(i == 1 and '"id":"c",' or "",
        i == 1 and '{\\"n\\":1' or "0")
      answer[#answer + 1] = "sse " .. mock.escape(('{"choices":[{"delta":{"tool_calls":[%s]}}]}'):format(piece))
    end
    answer[#answer + 1] = 'sse {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}'
    local reply = assert(send(answer, { first_byte = 5, idle = 5, progress = 0.05 }))
    assert.equal('{"n":1' .. ("0"):rep(11), reply.tool_calls[1].arguments)
  end)

  it("fails with the transport's code where nobody listens, and for a bad URL", function()
    local m = mock.start {}
    local url = m.url
    m:stop()
    local _, _, class = task.run(request.send, openai, { url = url, headers = {}, body = "{}" })
    assert.equal("connect", class)
    local reply, message, code, info = request.send(openai, { url = "gopher://x", headers = {}, body = "{}" })
    assert.is_nil(reply)
    assert.is_string(message)
    assert.equal("url", code)
    assert.is_false(info.shown)
  end)

  describe("ends an answer that never ends:", function()
    local function delta(field, text) return ('{"choices":[{"index":0,"delta":{"%s":%s}}]}'):format(field, text) end
    local kinds = { text = { "content", '"%s"' }, reasoning = { "reasoning_content", '"%s"' },
      call = { "tool_calls", '[{"index":0,"id":"c","function":{"name":"x","arguments":"%s"}}]' } }
    for kind, form in pairs(kinds) do
      it(kind, function()
        local answer = { chunked = true }
        for i = 1, 12 do
          answer[i] = "sse " .. mock.escape(delta(form[1], (form[2]:gsub("%%s", (("la "):rep(4000))))))
        end
        answer[#answer + 1] = "stall"
        local m <close> = mock.start { answers = { answer } }
        local reply, message, class, info = task.run(request.send, openai, { url = openai.url(m.url), headers = {},
          body = "{}", timeouts = { first_byte = 5, idle = 5 }, most = 100 })
        assert.is_nil(reply)
        assert.equal("length", class, message)
        assert.is_true(info.size > 65536 and info.size <= 12 * 12000)
      end)
    end
  end)

  it("does not wait for an error page that drips", function()
    local before = request.refusal_wait
    request.refusal_wait = 0.05
    local _ <close> = setmetatable({}, { __close = function() request.refusal_wait = before end })
    local started = reactor.now()
    local reply, message, class = send { status = 500, chunked = true, "text broken", "delay 5", "text  pipe", "stall" }
    assert.is_nil(reply)
    assert.equal("overload", class)
    assert.matches("broken pipe", message, 1, true)
    assert.is_true(reactor.now() - started < 2)
  end)

  it("does not wait for what follows the end of an answer, nor reads it", function()
    local answer = mock.chat { text = "fine" }
    local more = 'sse {"choices":[{"index":0,"delta":{"content":" and more"}}]}'
    for _, line in ipairs { more, "delay 5", more, "stall" } do answer[#answer + 1] = line end
    local started = reactor.now()
    assert.equal("fine", assert(send(answer)).text)
    assert.is_true(reactor.now() - started < 2)
  end)

  it("waits a moment for the usage where only the reason of the end came", function()
    local before = request.usage_wait
    request.usage_wait = 0.1
    local _ <close> = setmetatable({}, { __close = function() request.usage_wait = before end })
    local finish = 'sse {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
    local usage = 'sse {"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2}}'
    local reply = assert(send(begun("late", finish, "delay 20", usage, "stall")))
    assert.same({ "late", { input = 9, output = 2 } }, { reply.text, reply.usage })
    assert.equal("never", assert(send(begun("never", finish, "stall"))).text)
  end)

  it("says of a cut in the middle of an event that it was cut", function()
    local reply, message, class = send(begun("partial", 'text data: {"choices":[{"del', "cut"))
    assert.is_nil(reply)
    assert.equal("cut", class)
    assert.is_nil(message:find("JSON", 1, true))
  end)

  it("is closed when its task is cancelled", function()
    local m <close> = mock.start { answers = { begun("partial", "stall") } }
    local got
    task.run(function()
      local t = task.spawn(request.send, openai, { url = openai.url(m.url), headers = {}, body = "{}" }, function(_, d)
        got = d
      end)
      while not got do task.sleep(0.001) end
      task.cancel(t)
      pcall(task.await, t)
      for _ = 1, 400 do
        if m:closed() > 0 then break end
        task.sleep(0.002)
      end
    end)
    assert.equal(1, m:closed())
  end)

  describe("play", function()
    local function play(events) return request.play({ answer = function() return events end }, {}) end

    it("collects the events of a provider without a network", function()
      local reply = play { { type = "reasoning", text = "r" }, { type = "text", text = "a" },
        { type = "text", text = "b" }, { type = "tool_call", name = "x" }, { type = "usage", usage = { input = 1 } },
        { type = "finish", reason = "stop" } }
      assert.same({ "ab", "r", "stop", 1, "x" }, { reply.text, reply.reasoning, reply.finish, reply.usage.input,
        reply.tool_calls[1].name })
    end)

    it("answers an error with what was shown before", function()
      local reply, message, class, info = play { { type = "text", text = "a" },
        { type = "error", message = "m", class = "cut" } }
      assert.same({ nil, "m", "cut", { shown = true, partial = "a" } }, { reply, message, class, info })
    end)

    it("answers nothing with empty", function() assert.equal("empty", select(3, play {})) end)
  end)
end)

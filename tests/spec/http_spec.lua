-- tests/spec/http_spec.lua - terret.http against tests/mock/mockd.c, on the loopback only.
local http = require "terret.http"
local reactor = require "terret.reactor"
local mock = require "support.mock"

local function contains(list, x)
  for _, v in ipairs(list) do
    if v == x then return true end
  end
  return false
end

-- Turns the loop until the request has something to say; fails instead of hanging.
local function await(req)
  local limit = reactor.now() + 5
  while not req:ready() do
    assert(reactor.now() < limit, "the request hangs")
    reactor.poll(1)
  end
end

-- The whole answer: its pieces, and the error at the end.
local function finish(req)
  local parts = {}
  while true do
    await(req)
    local data, message, code = req:read()
    if not data then return table.concat(parts), message, code, parts end
    parts[#parts + 1] = data
  end
end

local function get(options)
  local req = assert(http.request(options))
  local text, message, code = finish(req)
  return text, message, code, req
end

describe("http.request", function()
  local m
  local function serve(answers) m = mock.start { answers = answers } end
  after_each(function()
    if m then m:stop() end
    m = nil
  end)

  it("names a head with a line over libcurl's own limit as too large", function()
    serve { { "raw HTTP/1.1 200 OK\\r\\nX-A: " .. ("a"):rep(200000) .. "\\r\\n\\r\\n" } }
    local _, message, code = get { url = m.url }
    assert.equal("too_large", code)
    assert.matches("head is too large", message)
  end)

  it("gets", function()
    serve { { body = "hello\n\0\xff", headers = { "X-One: 1", "X-Two:  two  ", "x-one: again" } } }
    local text, message, _, req = get { url = m.url .. "/a?b=c" }
    assert.equal("hello\n\0\xff", text)
    assert.is_nil(message)
    assert.equal(200, req:status())
    assert.equal("again", req:header("X-ONE"))
    assert.equal("two", req:header("x-two"))
    assert.is_nil(req:header("x"))
    assert.is_nil(req:header("x-three"))
    assert.is_nil(req:header(""))
    local seen = m:requests()
    assert.equal("GET", seen[1].method)
    assert.equal("/a?b=c", seen[1].path)
    assert.equal("", seen[1].body)
  end)

  it("posts exactly the bytes given", function()
    local body = "\0\r\n\xff{}" .. ("x"):rep(1000)
    serve { { status = 201, body = "" } }
    local text, _, _, req = get { url = m.url, body = body,
      headers = { "Content-Type: application/json", "Authorization: Bearer k", "X-Empty:" } }
    assert.equal("", text)
    assert.equal(201, req:status())
    local seen = m:requests()[1]
    assert.equal("POST", seen.method)
    assert.equal(body, seen.body)
    assert.matches("\r\nContent%-Type: application/json\r\n", seen.head)
    assert.matches("\r\nAuthorization: Bearer k\r\n", seen.head)
    assert.matches("\r\nX%-Empty: ?\r\n", seen.head)
    assert.not_matches("Expect", seen.head)
    assert.equal(#body, req:times().sent)
  end)

  it("sends a large body, kept alive only by the request", function()
    serve { { body = "ok" } }
    local req = assert(http.request { url = m.url, body = ("0123456789abcdef"):rep(256 * 1024) })
    collectgarbage()
    collectgarbage()
    assert.equal("ok", (finish(req)))
    assert.equal(("0123456789abcdef"):rep(256 * 1024), m:requests()[1].body)
    assert.not_matches("Content%-Type", m:requests()[1].head)
  end)

  it("uses the method asked for", function()
    serve { { body = "1" }, { body = "2" }, { "raw HTTP/1.1 200 OK\\r\\nContent-Length: 5\\r\\n\\r\\n" },
      { body = "4" }, { body = "5" } }
    assert.equal("1", (get { url = m.url, method = "DELETE" }))
    assert.equal("2", (get { url = m.url, method = "PUT", body = "b" }))
    assert.equal("", (get { url = m.url, method = "HEAD" }))
    assert.equal("4", (get { url = m.url, method = "POST" }))
    assert.equal("5", (get { url = m.url, method = "GET" }))
    local methods = {}
    for i, r in ipairs(m:requests()) do methods[i] = r.method .. r.body end
    assert.same({ "DELETE", "PUTb", "HEAD", "POST", "GET" }, methods)
  end)

  it("delivers a stream as it comes", function()
    serve { { chunked = true, "text one", "delay 15", "text two", "delay 15", "text three" } }
    local req = assert(http.request { url = m.url })
    local text, _, _, parts = finish(req)
    assert.equal("onetwothree", text)
    assert.same({ "one", "two", "three" }, parts)
  end)

  it("knows the status before the body", function()
    serve { { chunked = true, "text a", "stall" } }
    local req = assert(http.request { url = m.url })
    assert.is_nil(req:status())
    assert.is_nil(req:header("transfer-encoding"))
    await(req)
    assert.equal(200, req:status())
    assert.equal("chunked", req:header("transfer-encoding"))
    req:close()
  end)

  it("answers \"\" while there is nothing, and nil for ever at the end", function()
    serve { { body = "x", "delay 5" } }
    local req = assert(http.request { url = m.url })
    assert.is_false(req:ready())
    assert.equal("", req:read())
    assert.equal("x", (finish(req)))
    assert.is_true(req:ready())
    assert.equal(1, select("#", req:read()))
    assert.is_nil(req:read())
  end)

  it("is reported by the reactor", function()
    serve { { body = "x" } }
    local req = assert(http.request { url = m.url })
    local seen = false
    for _ = 1, 100 do
      if contains(reactor.poll(1), req) then seen = true end
      if req:ready() then break end
    end
    assert.is_true(seen)
    finish(req)
    assert.same({}, reactor.poll(0))
  end)

  it("keeps the connection", function()
    serve { { body = "1" }, { body = "2" }, { body = "3", close = true }, { body = "4" } }
    local reused = {}
    for i = 1, 4 do
      local text, _, _, req = get { url = m.url }
      assert.equal(tostring(i), text)
      reused[i] = req:times().reused
    end
    assert.same({ false, true, true, false }, reused)
  end)

  it("tells times", function()
    serve { { "delay 10", body = "12345" } }
    local _, _, _, req = get { url = m.url }
    local t = req:times()
    assert.is_true(t.connect > 0 and t.connect <= t.first_byte and t.first_byte <= t.total)
    assert.equal(5, t.received)
    assert.equal(0, t.sent)
    local again = req:times().total
    assert.equal(t.total, again)
  end)

  it("does not follow redirects", function()
    serve { { status = 302, headers = { "Location: /elsewhere" }, body = "moved" } }
    local text, _, _, req = get { url = m.url }
    assert.equal("moved", text)
    assert.equal(302, req:status())
    assert.equal("/elsewhere", req:header("location"))
    assert.equal(1, #m:requests())
  end)

  it("gives the body of an error status", function()
    serve { mock.error(429, "slow down", { headers = { "Retry-After: 7" } }) }
    local text, message, _, req = get { url = m.url }
    assert.is_nil(message)
    assert.equal(429, req:status())
    assert.equal("7", req:header("retry-after"))
    assert.matches("slow down", text)
  end)

  it("skips 100 Continue", function()
    serve { { "raw HTTP/1.1 100 Continue\\r\\nX-Interim: 1\\r\\n\\r\\n",
      "raw HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\nX-Final: 1\\r\\n\\r\\nok" } }
    local text, _, _, req = get { url = m.url, body = "b" }
    assert.equal("ok", text)
    assert.equal(200, req:status())
    assert.equal("1", req:header("x-final"))
    assert.is_nil(req:header("x-interim"))
  end)

  it("decompresses", function()
    local gzip = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xcb\x48\xcd\xc9\xc9\x07\x00\x86\xa6\x10\x36"
      .. "\x05\x00\x00\x00"
    serve { { headers = { "Content-Encoding: gzip" }, body = gzip },
      { headers = { "Content-Encoding: gzip" }, body = "not gzip at all" } }
    assert.equal("hello", (get { url = m.url }))
    local _, _, code = get { url = m.url }
    assert.equal("network", code)
    assert.matches("\r\nAccept%-Encoding: ", m:requests()[1].head)
  end)

  it("runs many at once", function()
    local answers = {}
    for i = 1, 20 do
      answers[i] = { match = ("/n%d "):format(i), chunked = true, "text <", "delay 10", ("text %d>"):format(i) }
    end
    serve(answers)
    local start, open = reactor.now(), {}
    for i = 1, 20 do open[i] = assert(http.request { url = m.url .. "/n" .. i }) end
    for i = 1, 20 do assert.equal(("<%d>"):format(i), (finish(open[i]))) end
    assert.is_true(reactor.now() - start < 1)
  end)

  describe("deadline", function()
    it("first byte", function()
      serve { { "stall" , "raw x" } }
      local text, message, code, req = get { url = m.url, first_byte_timeout = 0.02 }
      assert.equal("timeout_first_byte", code)
      assert.equal("", text)
      assert.matches("^127%.0%.0%.1:" .. m.port .. ": no answer after 0.02 s$", message)
      assert.is_nil(req:status())
    end)

    it("first byte, when only half a head came", function()
      serve { { "raw HTTP/1.1 200 OK\\r\\nX: ", "stall" } }
      local _, _, code = get { url = m.url, first_byte_timeout = 0.02, idle_timeout = 0.001 }
      assert.equal("timeout_first_byte", code)
    end)

    it("idle, after what came before", function()
      serve { { chunked = true, "text a", "stall" } }
      local text, message, code = get { url = m.url, idle_timeout = 0.02 }
      assert.equal("a", text)
      assert.equal("timeout_idle", code)
      assert.matches("nothing came for 0.02 s", message)
    end)

    it("idle starts over with each byte", function()
      serve { { chunked = true, "text a", "delay 15", "text b", "delay 15", "text c", "delay 15", "text d" } }
      local text, _, code = get { url = m.url, idle_timeout = 0.2, first_byte_timeout = 0.2 }
      assert.is_nil(code)
      assert.equal("abcd", text)
    end)

    it("whole", function()
      serve { { chunked = true, "text a", "delay 8", "text b", "delay 8", "text c", "delay 8", "text d", "stall" } }
      local text, message, code = get { url = m.url, timeout = 0.05, idle_timeout = 5 }
      assert.equal("timeout", code)
      assert.matches("^a", text)
      assert.matches("not complete after 0.05 s", message)
    end)

    it("connection", function()
      -- TLS to a server that waits for a request line: the handshake never ends.
      serve { { "stall" } }
      local url = m.url:gsub("http:", "https:")
      local _, message, code = get { url = url, connect_timeout = 0.05 }
      assert.equal("timeout_connect", code)
      assert.matches("^127%.0%.0%.1:" .. m.port, message)
    end)

    it("is not the time that Lua does not read", function()
      serve { { chunked = true, "text aaaa", "text bbbb", "text cccc" } }
      local req = assert(http.request { url = m.url, max_buffered = 4, idle_timeout = 0.02 })
      await(req)
      local nap <close> = reactor.timer(0.05)
      while not nap:ready() do reactor.poll(1) end
      local text, message = finish(req)
      assert.is_nil(message)
      assert.equal("aaaabbbbcccc", text)
    end)
  end)

  describe("failure", function()
    it("cut before its length", function()
      serve { { length = 100, "text abc", "cut" } }
      local text, message, code = get { url = m.url }
      assert.equal("abc", text)
      assert.equal("cut", code)
      assert.is_string(message)
    end)

    it("cut before the last chunk", function()
      serve { { chunked = true, "text abc", "cut" } }
      local text, _, code = get { url = m.url }
      assert.equal("abc", text)
      assert.equal("cut", code)
    end)

    it("chunks that are none", function()
      serve { { "raw HTTP/1.1 200 OK\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n3\\r\\nabc\\r\\nzz\\r\\n", "stall" } }
      local text, _, code = get { url = m.url }
      assert.equal("abc", text)
      assert.equal("cut", code)
    end)

    it("reset in the body", function()
      serve { { length = 100, "text abc", "delay 10", "reset" } }
      local text, _, code = get { url = m.url }
      assert.equal("abc", text)
      assert.equal("cut", code)
    end)

    it("closed without an answer", function()
      serve { { "raw ", "cut" }, { "raw ", "reset" } }
      for _ = 1, 2 do
        local text, _, code = get { url = m.url }
        assert.equal("", text)
        assert.equal("network", code)
      end
    end)

    it("not HTTP", function()
      serve { { "raw SSH-2.0-OpenSSH\\r\\n", "cut" } }
      local text, _, code = get { url = m.url }
      assert.equal("", text)
      assert.equal("network", code)
    end)

    it("an end without a length is no failure", function()
      serve { { nolength = true, "text abc" } }
      local text, message = get { url = m.url }
      assert.equal("abc", text)
      assert.is_nil(message)
    end)

    it("refused", function()
      serve {}
      local url = m.url
      m:stop()
      local _, message, code = get { url = url }
      assert.equal("connect", code)
      assert.matches("^127%.0%.0%.1:%d+: ", message)
    end)

    it("no such host", function()
      local _, message, code = get { url = "http://nonexistent.invalid/", connect_timeout = 3, insecure_env = true }
      assert.is_true(code == "dns" or code == "timeout_connect", code)
      assert.matches("nonexistent%.invalid:80", message)
    end)

    it("a certificate store that is not there", function()
      serve { { "raw x" } }
      local _, message, code = get { url = m.url:gsub("http:", "https:"), ca_file = "/nonexistent/ca.pem" }
      assert.equal("tls", code)
      assert.matches("ca%.pem", message)
    end)

    it("is told again and again", function()
      serve { { "raw ", "cut" } }
      local req = assert(http.request { url = m.url })
      finish(req)
      local _, message, code = req:read()
      assert.equal("network", code)
      assert.is_string(message)
      assert.is_true(req:ready())
      assert.same({}, reactor.poll(0))
    end)
  end)

  describe("limit", function()
    it("max_bytes", function()
      serve { { chunked = true, "text 1234", "delay 5", "text 5678", "delay 5", "text 9" }, { body = "12345678" } }
      local text, message, code = get { url = m.url, max_bytes = 8 }
      assert.equal("12345678", text)
      assert.equal("too_large", code)
      assert.matches("larger than max_bytes", message)
      local exact, none = get { url = m.url, max_bytes = 8 }
      assert.equal("12345678", exact)
      assert.is_nil(none)
    end)

    it("max_bytes counts what was decompressed", function()
      local path = os.tmpname()
      assert(os.execute("head -c 1000000 /dev/zero | gzip -c >" .. path))
      serve { { headers = { "Content-Encoding: gzip" }, "body-file " .. path } }
      os.remove(path)
      local text, _, code = get { url = m.url, max_bytes = 50000 }
      assert.equal("too_large", code)
      assert.is_true(#text <= 50000)
    end)

    it("the head", function()
      local lines = {}
      for i = 1, 30 do lines[i] = ("X-Long-%d: %s"):format(i, ("v"):rep(10000)) end
      serve { { headers = lines, body = "x" } }
      local _, _, code = get { url = m.url }
      assert.equal("too_large", code)
    end)

    it("max_buffered pauses, and nothing is lost", function()
      local lines, want = { chunked = true }, {}
      for i = 1, 200 do
        want[i] = ("%03d"):format(i):rep(20)
        lines[i] = "text " .. want[i]
      end
      serve { lines }
      local req = assert(http.request { url = m.url, max_buffered = 1 })
      local text, message, _, parts = finish(req)
      assert.is_nil(message)
      assert.equal(table.concat(want), text)
      assert.is_true(#parts >= 1)
    end)

    it("max_buffered holds back a large body", function()
      local path = os.tmpname()
      local f = assert(io.open(path, "wb"))
      for i = 1, 3000 do f:write(("%07d\n"):format(i):rep(100)) end
      f:close()
      serve { { "body-file " .. path } }
      os.remove(path)
      local req = assert(http.request { url = m.url, max_buffered = 50000 })
      for _ = 1, 50 do reactor.poll(0.001) end
      local first = req:read()
      assert.is_true(#first > 0 and #first <= 50000, #first)
      local text, message, _, parts = finish(req)
      assert.is_nil(message)
      assert.equal(3000 * 800, #first + #text)
      assert.equal("0003000\n", text:sub(-8))
      for _, p in ipairs(parts) do assert.is_true(#p <= 50000) end
    end)
  end)

  describe("close", function()
    it("aborts the transfer", function()
      serve { { chunked = true, "text a", "stall" } }
      local req = assert(http.request { url = m.url })
      await(req)
      req:close()
      assert.is_true(req:ready())
      local data, message, code = req:read()
      assert.is_nil(data)
      assert.matches(": closed$", message)
      assert.equal("closed", code)
      req:close()
      local limit = reactor.now() + 2
      while m:closed() == 0 and reactor.now() < limit do reactor.poll(0.002) end
      assert.equal(1, m:closed())
    end)

    it("wakes who waits, once", function()
      serve { { "stall", "raw x" } }
      local req = assert(http.request { url = m.url })
      reactor.poll(0)
      req:close()
      assert.same({ req }, reactor.poll(1))
      assert.same({}, reactor.poll(0))
    end)

    it("happens at the end of a block", function()
      serve { { "stall", "raw x" } }
      local kept
      do
        local req <close> = assert(http.request { url = m.url })
        reactor.poll(0)
        kept = req
      end
      assert.equal("closed", select(3, kept:read()))
      assert.same({}, reactor.poll(0))
    end)

    it("happens by garbage collection, in the middle", function()
      serve { { rep = true, chunked = true, "text a", "stall" } }
      for _ = 1, 5 do
        local req = assert(http.request { url = m.url, body = ("x"):rep(1000) })
        await(req)
      end
      collectgarbage()
      collectgarbage()
      assert.same({}, reactor.poll(0))
      local limit = reactor.now() + 2
      while m:closed() < 5 and reactor.now() < limit do reactor.poll(0.002) end
      assert.equal(5, m:closed())
    end)

    it("drops what was not read, and keeps times and status", function()
      serve { { body = "abc" } }
      local req = assert(http.request { url = m.url })
      await(req)
      req:close()
      assert.equal("closed", select(3, req:read()))
      assert.equal(200, req:status())
      assert.equal(3, req:times().received)
    end)
  end)

  describe("refuses", function()
    it("what is no URL for it", function()
      for _, url in ipairs { "", "nonsense", "ftp://127.0.0.1/", "file:///etc/passwd", "http://", "//x/y",
        "http://a b/", "http://127.0.0.1:99999/" } do
        local req, message, code = http.request { url = url }
        assert.is_nil(req, url)
        assert.is_string(message)
        assert.equal("url", code)
      end
    end)

    it("wrong options, by raising", function()
      local url = "http://127.0.0.1:1/"
      for _, options in ipairs { { url = 5 }, { url = url .. "\0" }, { url = url, timout = 1 }, { url = url, body = 5 },
        { url = url, method = "GET /" }, { url = url, method = "" }, { url = url, method = "A\r\nB" },
        { url = url, timeout = -1 }, { url = url, timeout = 0 / 0 }, { url = url, idle_timeout = 0 },
        { url = url, max_bytes = 0 }, { url = url, max_buffered = 1.5 }, { url = url, headers = "X: 1" },
        { url = url, ca_file = "a\0b" }, { url = url, insecure_env = 1 }, {} } do
        assert.has_error(function() http.request(options) end)
      end
      assert.has_error(function() http.request() end)
      assert.has_error(function() http.request(url) end)
    end)

    it("headers that could smuggle others", function()
      for _, line in ipairs { "A: b\r\nC: d", "A: b\nC: d", "A: b\rC", "A: \0", "A\0: b", "no colon", ": x", "A B: c",
        "A\t: c", "A : c", "", "\r\n" } do
        assert.has_error(function() http.request { url = "http://127.0.0.1:1/", headers = { line } } end)
      end
      for _, list in ipairs { { 5 }, { {} }, { true } } do
        assert.has_error(function() http.request { url = "http://127.0.0.1:1/", headers = list } end)
      end
    end)

    it("methods on something else", function()
      assert.has_error(function() http.request { url = "http://127.0.0.1:1/" }.read({}) end)
      assert.has_error(function() http.request { url = "http://127.0.0.1:1/" }:header() end)
    end)
  end)
end)

describe("support.mock", function()
  it("streams a chat as OpenAI does", function()
    local m <close> = mock.start { answers = { mock.chat { text = "h\xc3\xa4llo \"w\"", split = 2, usage = {
      prompt_tokens = 3, completion_tokens = 4, cached_tokens = 2 }, tool_calls = { { "c1", "bash", '{"a":1}' } } } } }
    local text, _, _, req = get { url = m.url, body = "{}" }
    assert.equal("text/event-stream", req:header("content-type"))
    assert.matches('^data: {"id":"chatcmpl%-mock"', text)
    assert.matches('"delta":{"content":"h\xc3\xa4"}', text)
    assert.matches('"id":"c1","type":"function","function":{"name":"bash","arguments":""}', text)
    assert.matches('"finish_reason":"tool_calls"', text)
    assert.matches('"choices":%[%],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7', text)
    assert.matches("data: %[DONE%]\n\n$", text)
  end)

  it("answers with its models", function()
    local m <close> = mock.start { models = { "a", "b" }, answers = {} }
    assert.equal('{"object":"list","data":[{"object":"model","id":"a"},{"object":"model","id":"b"}]}',
      (get { url = m.url .. "/v1/models" }))
    local _, _, _, req = get { url = m.url .. "/other" }
    assert.equal(500, req:status())
  end)
end)

-- terret.sse: bytes of an event stream in, events out, whatever the cuts.
local sse = require "terret.sse"

--- All events of a stream fed in pieces of n bytes (none: whole), with the end.
local function parse(stream, n, options)
  local parser, events = sse.new(options), {}
  for i = 1, #stream, n or #stream do
    for _, event in ipairs(parser:feed(stream:sub(i, i + (n or #stream) - 1))) do events[#events + 1] = event end
  end
  for _, event in ipairs(parser:finish()) do events[#events + 1] = event end
  return events
end

--- The stream gives the expected events whole, byte by byte, in all pairs of parts.
local function check(stream, expected, options)
  for _, n in ipairs { #stream, 1, 2, 3, 7 } do
    assert.same(expected, parse(stream, math.max(n, 1), options))
  end
  for cut = 0, #stream do
    local parser, events = sse.new(options), {}
    for _, list in ipairs { parser:feed(stream:sub(1, cut)), parser:feed(""), parser:feed(stream:sub(cut + 1)),
      parser:finish() } do
      for _, event in ipairs(list) do events[#events + 1] = event end
    end
    assert.same(expected, events)
  end
end

describe("sse.parser", function()
  it("delivers data at the blank line", function()
    local parser = sse.new()
    assert.same({}, parser:feed "data: a\n")
    assert.same({ { data = "a" } }, parser:feed "\n")
    assert.same({}, parser:feed "data: b")
    assert.same({ { data = "b" } }, parser:feed "\n\n")
    assert.same({}, parser:finish())
  end)

  it("knows CR, LF and CRLF, mixed and cut anywhere", function()
    local expected = { { data = "a" }, { data = "b\nc" } }
    for _, eol in ipairs { "\n", "\r", "\r\n" } do
      check(("data: a\n\ndata: b\ndata: c\n\n"):gsub("\n", eol), expected)
    end
    check("data: a\r\r\ndata: b\ndata: c\r\n\r", expected)
    check("\r\n\n\rdata: a\r\r", { { data = "a" } })
  end)

  it("does not wait for the LF behind a CR", function()
    local parser = sse.new()
    assert.same({ { data = "a" } }, parser:feed "data: a\r\r")
    assert.same({}, parser:feed "\ndata: b\r")
    assert.same({}, parser:feed "\n")
    assert.same({ { data = "b" } }, parser:feed "\r")
  end)

  it("skips one BOM, at the start only", function()
    check("\u{FEFF}data: a\n\n", { { data = "a" } })
    check("\u{FEFF}\u{FEFF}data: a\n\n", {})
    check("data: a\n\n\u{FEFF}data: b\n\n", { { data = "a" } })
    check("\n\u{FEFF}data: b\n\n", {})
    check("\xEF\xBBdata: b\n\n", {})
    check("\u{FEFF}\ndata: a\n\n", { { data = "a" } })
  end)

  it("ignores comments, retry and unknown fields", function()
    check(": ping\n\n:\n:data: x\nretry: 100\nfoo: bar\nDATA: x\ndata : x\n data: x\ndata: a\n: between\ndata: b\n\n",
      { { data = "a\nb" } })
  end)

  it("strips one leading space", function()
    check("data:a\n\ndata:  b \n\ndata:\tc\n\ndata:d:e: f\n\n",
      { { data = "a" }, { data = " b " }, { data = "\tc" }, { data = "d:e: f" } })
  end)

  it("reads fields without colon, and empty data", function()
    check("data\n\ndata:\n\ndata: \n\ndata\ndata\n\ndata:\ndata: x\n\n",
      { { data = "" }, { data = "" }, { data = "" }, { data = "\n" }, { data = "\nx" } })
    check("event\ndata: a\n\n", { { data = "a" } })
  end)

  it("names events, each for itself", function()
    check("event: ping\ndata: a\n\ndata: b\n\nevent: x\nevent: y\ndata: c\n\n",
      { { event = "ping", data = "a" }, { data = "b" }, { event = "y", data = "c" } })
  end)

  it("delivers no event without data", function()
    check("event: ping\n\ndata: a\n\nid: 1\n\n\n\n", { { data = "a" } })
  end)

  it("keeps the last id until it changes", function()
    check("id: 1\ndata: a\n\ndata: b\n\nid: 2\n\ndata: c\n\nid\ndata: d\n\n",
      { { id = "1", data = "a" }, { id = "1", data = "b" }, { id = "2", data = "c" }, { data = "d" } })
    check("id: 1\nid: x\0y\ndata: a\n\n", { { id = "1", data = "a" } })
  end)

  it("keeps NUL and broken UTF-8 in data", function()
    check("data: a\0b\ndata: \xFF\xFE\n\n", { { data = "a\0b\n\xFF\xFE" } })
    check("event: \0\ndata: \0\n\n", { { event = "\0", data = "\0" } })
  end)

  it("ends a pending event at the end of the stream", function()
    check("data: a", { { data = "a" } })
    check("data: a\n", { { data = "a" } })
    check("data: a\r", { { data = "a" } })
    check("event: e\ndata: a\ndata", { { event = "e", data = "a\n" } })
    check("event: e", {})
    check(": comment", {})
    check("", {})
  end)

  it("is as new after the end", function()
    local parser = sse.new()
    parser:feed "id: 1\nevent: e\ndata: a\r"
    assert.same({ { id = "1", event = "e", data = "a" } }, parser:finish())
    assert.same({}, parser:finish())
    assert.same({ { data = "b" } }, parser:feed "\u{FEFF}data: b\n\n")
    assert.same({ { data = "c" } }, parser:feed "data: c\n\n")
  end)

  it("holds lines of any length", function()
    local long = ("x"):rep(300000)
    assert.same({ { data = long .. "\n" .. long } }, parse("data: " .. long .. "\ndata: " .. long .. "\n\n", 1000))
    assert.same({ { data = long } }, parse("data: " .. long, 65536))
  end)
end)

describe("sse.parser with max_event", function()
  local options = { max_event = 16 }
  local too_large = { event = "error", data = "event larger than 16 bytes" }

  it("takes an event of exactly that length", function()
    check("data: 0123456789\n\n", { { data = "0123456789" } }, options)
    check("data: 0123456789a\n\ndata: b\n\n", { too_large, { data = "b" } }, options)
  end)

  it("counts all lines of the event", function()
    check("data: 012345\ndata: 678\n\n", { { data = "012345\n678" } }, options)
    check("data: 0123456\ndata:6789a\n\n", { too_large }, options)
    check("data: 0123456\ndata:6789\n\n", { { data = "0123456\n6789" } }, options)
  end)

  it("drops up to the end of the event and says so once", function()
    check("data: 0123456789abcdef\ndata: more\nevent: x\nid: 3\n: c\n\n\ndata: b\n\n", { too_large, { data = "b" } },
      options)
    check("data: 0123456789abcdef\r\n\r\ndata: b\r\n\r\n", { too_large, { data = "b" } }, options)
    check("data: 0123456789abcdef\r\rdata: b\r\r", { too_large, { data = "b" } }, options)
    check("data: a\nevent: 0123456789abcdef\n\ndata: b\n\n", { too_large, { data = "b" } }, options)
    check(": 0123456789abcdefgh\n\n", { too_large }, options)
  end)

  it("says it at the end of the stream too", function()
    check("data: 0123456789abcdef", { too_large }, options)
    check("data: 0123456789abcdef\ndata: x", { too_large }, options)
    check("data: 0123456789abcdef\n", { too_large }, options)
  end)

  it("keeps the id from before", function()
    check("id: 1\ndata: 0123456789abcdef\nid: 2\n\ndata: b\n\n", { too_large, { id = "1", data = "b" } }, options)
  end)

  it("does not hold what it drops", function()
    local parser = sse.new { max_event = 1000 }
    collectgarbage()
    for _ = 1, 1000 do assert.same({}, parser:feed(("x"):rep(10000))) end
    assert.same({ { event = "error", data = "event larger than 1000 bytes" } }, parser:feed "\n\n")
  end)
end)

describe("sse", function()
  it("takes hostile cuts in linear time", function()
    local size = 1 << 20
    local hostile = { ("\r"):rep(size), ("\n"):rep(size), ("\r\n"):rep(size // 2), ("data\r"):rep(size // 5),
      (":"):rep(size), ("x\r"):rep(size // 2), ("data: x\r"):rep(size // 8) }
    local start = os.clock()
    for _, stream in ipairs(hostile) do parse(stream) end
    assert.is_true(os.clock() - start < 2) -- quadratic: minutes
    assert.equal(1, #parse("data: " .. ("y"):rep(200000), 1))
  end)

  it("raises on wrong arguments", function()
    assert.error_matches(function() sse.new { max = 1 } end, "unknown option 'max'")
    assert.error_matches(function() sse.new { max_event = 0 } end, "max_event")
    assert.has_error(function() sse.new { max_event = "x" } end)
    assert.has_error(function() sse.new(1) end)
    local parser = sse.new()
    assert.has_error(function() parser:feed() end)
    assert.has_error(function() parser:feed(1) end)
    assert.has_error(function() parser.feed({}, "x") end)
    assert.has_error(function() parser.finish(io.stdout) end)
  end)

  it("can't be used once closed", function()
    local kept
    do
      local parser <close> = sse.new()
      kept = parser
      parser:feed "data: a\n"
      assert.equal("terret.sse.parser (open)", tostring(kept))
    end
    assert.equal("terret.sse.parser (closed)", tostring(kept))
    assert.error_matches(function() kept:feed "\n" end, "closed")
    assert.error_matches(function() kept:finish() end, "closed")
  end)

  it("hides its finalizer from scripts", function()
    local parser = sse.new()
    assert.is_nil(parser.__gc)
    assert.equal("terret", getmetatable(parser))
  end)
end)

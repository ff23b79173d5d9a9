-- terret.text: repairing, escaping, cutting, measuring.
local text = require "terret.text"

local BAD = "\u{fffd}"

-- Deterministic noise over a small alphabet that makes all kinds of broken UTF-8 likely.
local function noise()
  local seed = 1
  local pieces = { "a", "b\n", "é", "日", "😀", "\x80", "\xbf", "\xc3", "\xe6\x97", "\xf0\x9f\x98", "\xed\xa0",
    "\xc0", "\xff", "\0" }
  return function(n, from)
    local out = {}
    for i = 1, n do
      seed = (seed * 1103515245 + 12345) & 0x7fffffff
      out[i] = pieces[(seed >> 8) % (from or #pieces) + 1]
    end
    return table.concat(out)
  end
end
local VALID = 5 -- the first pieces are valid

describe("terret.text.clean", function()
  it("leaves valid text alone, as the same string", function()
    for _, s in ipairs { "", "a", "plain text", "grüße", "日本語", "😀", "\u{d7ff}\u{e000}\u{10ffff}",
      "\27\r\u{202e}\u{fffd}" } do
      local clean, repaired = text.clean(s)
      assert.equal(s, clean)
      assert.equal(0, repaired)
    end
    local long = ("x"):rep(100) .. "é"
    assert.equal(("%p"):format(long), ("%p"):format((text.clean(long))))
  end)

  it("follows the rule of the longest valid start", function()
    local cases = { -- the examples of the Unicode standard, section 3.9
      { "\xc0\xaf\xe0\x80\xbf\xf0\x81\x82A", BAD:rep(8) .. "A", 8 },
      { "\xed\xa0\x80\xed\xbf\xbf\xed\xafA", BAD:rep(8) .. "A", 8 },
      { "\xf4\x91\x92\x93\xffA\x80\xbfB", BAD:rep(5) .. "A" .. BAD:rep(2) .. "B", 7 },
      { "\xe1\x80\xe2\xf0\x91\x92\xf1\xbfA", BAD:rep(4) .. "A", 4 },
      { "\xc3", BAD, 1 },
      { "\xe6\x97", BAD, 1 },
      { "\xf0\x9f\x98", BAD, 1 },
      { "\xf5\x80\x80\x80", BAD:rep(4), 4 },
      { "\xc3\xc3\xa9", BAD .. "é", 1 },
      { "a\xffb\xfec", "a" .. BAD .. "b" .. BAD .. "c", 2 },
    }
    for _, case in ipairs(cases) do assert.same({ case[2], case[3] }, { text.clean(case[1]) }) end
  end)

  it("replaces NUL", function()
    assert.same({ "a" .. BAD .. "b" .. BAD, 2 }, { text.clean("a\0b\0") })
  end)

  it("finds what is broken at every offset", function()
    for _, bad in ipairs { "\0", "\x80", "\xff", "\xc3" } do
      for before = 0, 17 do
        for after = 0, 17 do
          local a, b = ("x"):rep(before), ("y"):rep(after)
          local clean, repaired = text.clean(a .. bad .. b)
          if clean ~= a .. BAD .. b or repaired ~= 1 then error(("%d %q %d"):format(before, bad, after)) end
        end
      end
    end
  end)

  it("always gives valid text, and leaves that alone", function()
    local random = noise()
    for n = 1, 300 do
      local s = text.clean(random(n % 40))
      assert.is_truthy(utf8.len(s))
      assert.is_nil(s:find("\0", 1, true))
      assert.same({ s, 0 }, { text.clean(s) })
    end
  end)

  it("repairs long noise", function()
    local s, n = text.clean(("\xff"):rep(100000))
    assert.equal(300000, #s)
    assert.equal(100000, n)
  end)

  it("raises on what is no string", function()
    assert.error_matches(function() text.clean() end, "string expected")
  end)
end)

describe("terret.text.safe", function()
  it("leaves text alone", function()
    for _, s in ipairs { "", "plain ~ text\n\tindented", "grüße 日本語 😀 é", "a\\b", "✔\u{fe0f} ⚠\u{fe0f}" } do
      assert.equal(s, text.safe(s))
    end
  end)

  it("shows control characters", function()
    assert.equal("\\x1b[31mred\\x1b]0;title\\x07", text.safe("\27[31mred\27]0;title\7"))
    assert.equal("a\\rb\n", text.safe("a\rb\n"))
    assert.equal("\\x7f\\x08", text.safe("\127\8"))
    assert.equal("\\x9b31m \\x80\\x9f", text.safe("\u{9b}31m \u{80}\u{9f}"))
    for c = 1, 31 do
      local s = text.safe(string.char(c))
      if c == 9 or c == 10 then assert.equal(string.char(c), s) else assert.matches("^\\[xr]", s) end
    end
  end)

  it("repairs as clean does", function()
    assert.equal(BAD .. "a" .. BAD .. BAD, text.safe("\0a\x9b\xff"))
    assert.equal(BAD, text.safe("\xe6\x97"))
  end)

  it("shows what hides or turns the reading direction", function()
    local hidden = { 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x180e, 0x200b, 0x200c, 0x200d, 0x200e, 0x200f,
      0x2028, 0x2029, 0x202a, 0x202e, 0x2060, 0x2064, 0x2066, 0x2069, 0x206f, 0x3164, 0xfeff, 0xffa0, 0xfff9, 0xfffb,
      0xe0000, 0xe0041, 0xe007f, 0xe0100, 0xe01ef }
    for _, cp in ipairs(hidden) do
      local shown = cp < 0x100 and ("\\x%02x"):format(cp) or ("\\u{%x}"):format(cp)
      assert.equal("a" .. shown .. "b", text.safe("a" .. utf8.char(cp) .. "b"))
    end
    for _, cp in ipairs { 0xa0, 0xac, 0xae, 0x61b, 0x2010, 0x2027, 0x202f, 0x205f, 0x2070, 0xfefe, 0xfffc, 0xfffd } do
      assert.equal(utf8.char(cp), text.safe(utf8.char(cp)))
    end
  end)

  it("lets one variation selector choose a picture, not carry data", function()
    assert.equal("⚠\u{fe0f}", text.safe("⚠\u{fe0f}"))
    assert.equal("⚠\u{fe0f}\\u{fe0f}", text.safe("⚠\u{fe0f}\u{fe0f}"))
    assert.equal("a\\u{fe0f}", text.safe("a\u{fe0f}"))
    assert.equal("\\u{fe0f}", text.safe("\u{fe0f}"))
    assert.equal("⚠\\u{fe00}", text.safe("⚠\u{fe00}"))
  end)

  it("escapes line ends and tabs when told to", function()
    assert.equal("a\\nb\tc", text.safe("a\nb\tc", { newline = false }))
    assert.equal("a\nb\\tc", text.safe("a\nb\tc", { tab = false }))
    assert.equal("a\\nb\\tc", text.safe("a\nb\tc", { newline = false, tab = false }))
    assert.equal("a\nb\tc", text.safe("a\nb\tc", { newline = true, tab = true }))
  end)

  it("is harmless for every input, and stays so", function()
    local random = noise()
    for n = 1, 300 do
      local s = text.safe(random(n % 40) .. "\27\u{202e}\u{85}")
      assert.is_truthy(utf8.len(s))
      assert.is_nil(s:find("[\0-\8\11-\31\127]"))
      assert.equal(s, text.safe(s))
    end
  end)

  it("raises on wrong arguments", function()
    assert.error_matches(function() text.safe() end, "string expected")
    assert.error_matches(function() text.safe("a", { newlines = false }) end, "unknown option 'newlines'")
    assert.error_matches(function() text.safe("a", { tab = 1 }) end, "must be a boolean")
    assert.error_matches(function() text.safe("a", true) end, "table expected")
  end)
end)

describe("terret.text.cut", function()
  it("keeps what fits", function()
    assert.equal("abc", text.cut("abc", 3))
    assert.equal("abc", text.cut("abc", 100, true))
    assert.equal("", text.cut("", 0))
    assert.equal("abc", text.cut("abc", math.maxinteger))
  end)

  it("cuts from either end", function()
    assert.equal("ab", text.cut("abcd", 2))
    assert.equal("cd", text.cut("abcd", 2, true))
    assert.equal("", text.cut("abcd", 0))
    assert.equal("", text.cut("abcd", 0, true))
  end)

  it("splits no character", function()
    for _, c in ipairs { "é", "日", "😀" } do
      for max = 0, #c - 1 do
        assert.equal("", text.cut(c, max))
        assert.equal("", text.cut(c, max, true))
        assert.equal("x", text.cut("x" .. c, max + 1))
        assert.equal("x", text.cut(c .. "x", max + 1, true))
      end
      assert.equal(c, text.cut(c .. c, #c))
      assert.equal(c, text.cut(c .. c, #c, true))
    end
  end)

  it("gives valid parts of valid text, as long as they can be", function()
    local random = noise()
    for n = 1, 200 do
      local s = random(n % 20, VALID)
      for max = 0, #s do
        local head, tail = text.cut(s, max), text.cut(s, max, true)
        local part = s:sub(1, #head) == head and (tail == "" or s:sub(-#tail) == tail)
        local size = #head <= max and #tail <= max and max - #head < 4 and max - #tail < 4
        if not (part and size and utf8.len(head) and utf8.len(tail)) then error(("%q %d"):format(s, max)) end
      end
    end
  end)

  it("takes broken text", function()
    assert.equal("\x80\x80\x80", text.cut(("\x80"):rep(6), 3))
    assert.equal("\x80\x80\x80", text.cut(("\x80"):rep(6), 3, true))
    assert.equal("a\xe6", text.cut("a\xe6a", 2))
    local random = noise()
    for n = 1, 200 do
      local s = random(n % 20)
      for max = 0, #s do
        if #text.cut(s, max) > max or #text.cut(s, max, true) > max then error(("%q %d"):format(s, max)) end
      end
    end
  end)

  it("raises on a negative size", function()
    assert.error_matches(function() text.cut("a", -1) end, "negative")
    assert.error_matches(function() text.cut("a") end, "number expected")
  end)
end)

describe("terret.text.headtail", function()
  it("keeps what fits", function()
    assert.same({ "abcd", "", 0, 0 }, { text.headtail("abcd", 2, 2) })
    assert.same({ "", "", 0, 0 }, { text.headtail("", 0, 0) })
    assert.same({ "abcd", "", 0, 0 }, { text.headtail("abcd", math.maxinteger, math.maxinteger) })
  end)

  it("cuts at line ends when that loses under half", function()
    local s = "one\ntwo\nthree\nfour\nfive\n"
    assert.same({ "one\ntwo\n", "five\n", 11, 2 }, { text.headtail(s, 10, 8) })
    assert.same({ "one\ntwo\n", "four\nfive\n", 6, 1 }, { text.headtail(s, 8, 10) })
    assert.same({ "one\n", "five\n", 15, 3 }, { text.headtail(s, 4, 5) })
  end)

  it("cuts inside of a line when it is long", function()
    assert.same({ "ab", "ef", 2, 1 }, { text.headtail("abcdef", 2, 2) })
    assert.same({ "a\nbbbbbb", "cccccc\nd", 8, 1 }, { text.headtail("a\nbbbbbbbbbbcccccccccc\nd", 8, 8) })
  end)

  it("counts the lines it leaves out, parts of lines too", function()
    local _, _, bytes, lines = text.headtail(("line\n"):rep(100), 25, 25)
    assert.same({ 450, 90 }, { bytes, lines })
    assert.same({ "", "", 3, 2 }, { text.headtail("a\nb", 0, 0) })
    assert.same({ "", "", 4, 2 }, { text.headtail("a\nb\n", 0, 0) })
  end)

  it("takes a head or a tail alone", function()
    assert.same({ "a\nb\n", "", 4, 2 }, { text.headtail("a\nb\nc\nd\n", 4, 0) })
    assert.same({ "", "c\nd\n", 4, 2 }, { text.headtail("a\nb\nc\nd\n", 0, 4) })
  end)

  it("splits no character and no byte gets lost", function()
    local random = noise()
    for n = 1, 50 do
      local s = random(n % 25, VALID)
      for head = 0, #s, 3 do
        for tail = 0, #s - head, 2 do
          local h, t, bytes, lines = text.headtail(s, head, tail)
          local left_out = s:sub(#h + 1, #h + bytes)
          local fits = bytes == 0 or #h <= head and #t <= tail and #h * 2 + 8 >= head and #t * 2 + 8 >= tail
          local whole = s == h .. left_out .. t and lines == text.count_lines(left_out)
          if not (fits and whole and utf8.len(h) and utf8.len(t)) then
            error(("%q %d %d"):format(s, head, tail))
          end
        end
      end
    end
  end)

  it("is quick with one long line", function()
    local s = ("x"):rep(10000000)
    local start = os.clock()
    for _ = 1, 10 do
      local h, t, bytes, lines = text.headtail(s, 65536, 65536)
      assert.is_true(#h == 65536 and #t == 65536 and bytes == 10000000 - 131072 and lines == 1)
    end
    assert.is_true(os.clock() - start < 2) -- 2 ms where this was written
  end)

  it("raises on negative sizes", function()
    assert.error_matches(function() text.headtail("a", -1, 0) end, "negative")
    assert.error_matches(function() text.headtail("a", 0, -1) end, "negative")
    assert.error_matches(function() text.headtail("a", 0) end, "number expected")
  end)
end)

describe("terret.text.width", function()
  it("counts columns", function()
    local widths = {
      [""] = 0, abc = 3, ["grüße"] = 5, ["日本語"] = 6, ["한국어"] = 6, ["ﾊﾝ"] = 2, ["Ａ"] = 2, ["e\u{301}"] = 1,
      ["😀"] = 2, ["🚀x"] = 3, ["✔"] = 1, ["→—…"] = 3, ["\t\n\27"] = 0, ["\u{9b}"] = 0, ["a\xffb"] = 3,
      ["\u{200b}"] = 0, ["ไทยดี่"] = 4, ["नि"] = 2, ["\u{ad}"] = 1, ["┌─┐"] = 3, ["\u{1100}\u{1161}"] = 2,
      ["\u{20000}"] = 2, ["\u{e0041}"] = 0, ["\u{1fae8}"] = 2, ["\u{303f}"] = 1, ["\u{3000}"] = 2,
    }
    for s, width in pairs(widths) do assert.same({ s, width }, { s, text.width(s) }) end
  end)

  it("truncates to columns", function()
    assert.same({ "abc", 3 }, { text.truncate("abc", 3) })
    assert.same({ "ab", 2 }, { text.truncate("abc", 2) })
    assert.same({ "", 0 }, { text.truncate("abc", 0) })
    assert.same({ "日本", 4 }, { text.truncate("日本語", 5) })
    assert.same({ "", 0 }, { text.truncate("日", 1) })
    assert.same({ "ae\u{301}", 2 }, { text.truncate("ae\u{301}x", 2) })
    assert.same({ "abc", 3 }, { text.truncate("abc", math.maxinteger) })
    assert.error_matches(function() text.truncate("abc", -1) end, "negative")
  end)
end)

describe("terret.text lines", function()
  it("are counted, the last one too", function()
    local counts = { [""] = 0, a = 1, ["a\n"] = 1, ["a\nb"] = 2, ["\n"] = 1, ["\n\n"] = 2, ["a\r\nb\r\n"] = 2,
      ["\0\n\0"] = 2 }
    for s, n in pairs(counts) do assert.equal(n, text.count_lines(s)) end
  end)

  it("are taken from and to", function()
    local s = "one\ntwo\n\nfour"
    assert.same({ "one\n", 1 }, { text.lines(s, 1, 1) })
    assert.same({ "two\n\n", 3 }, { text.lines(s, 2, 3) })
    assert.same({ "\nfour", 4 }, { text.lines(s, 3, 4) })
    assert.same({ "four", 4 }, { text.lines(s, 4, 100) })
    assert.same({ s, 4 }, { text.lines(s, 1, math.maxinteger) })
  end)

  it("that aren't there are an empty part, and the number of lines", function()
    assert.same({ "", 2 }, { text.lines("a\nb\n", 3, 9) })
    assert.same({ "", 2 }, { text.lines("a\nb\n", math.maxinteger, math.maxinteger) })
    assert.same({ "", 0 }, { text.lines("", 1, 1) })
    assert.same({ "", 1 }, { text.lines("a\nb\n", 2, 1) })
    assert.same({ "", 0 }, { text.lines("a\nb\n", 1, math.mininteger) })
  end)

  it("count from 1", function()
    assert.error_matches(function() text.lines("a", 0, 1) end, "lines count from 1")
    assert.error_matches(function() text.lines("a", 1) end, "number expected")
  end)
end)

describe("terret.text.is_binary", function()
  it("knows text", function()
    for _, s in ipairs { "", "a", "grüße 日本語 😀\n", "caf\xe9", "\27[31mred\27[0m",
      ("un texte fran\xe7ais, cod\xe9 autrement\n"):rep(50), ("日"):rep(5000), "a" .. ("日"):rep(5000),
      "ab" .. ("日"):rep(5000) } do
      assert.is_false(text.is_binary(s))
    end
  end)

  it("knows what is none", function()
    for _, s in ipairs { "\0", "text\0", "\x7fELF\2\1\1\0", ("\x89\xab"):rep(100), ("x"):rep(8191) .. "\0" } do
      assert.is_true(text.is_binary(s))
    end
  end)

  it("looks at the first 8 KiB only", function()
    assert.is_false(text.is_binary(("x"):rep(8192) .. ("\0\xff"):rep(1000)))
  end)
end)

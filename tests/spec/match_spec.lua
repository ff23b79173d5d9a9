-- scripts/match.lua: where an edit applies, what is forgiven, and that nothing else changes.
local match = require "terret.match"

local SIGNS = "quotes, dashes or blanks of Unicode"

-- {name, file, old, new, wanted file or nil, what was forgiven}
local CASES = {
  { "exact", "abc\n", "b", "X", "aXc\n" },
  { "CRLF file, LF old", "a\r\n b\r\nc\r\n", "a\n b\n", "a\n d\n", "a\r\n d\r\nc\r\n", "line ends" },
  { "CRLF from the middle of a line", "x = a\r\nb = 1\r\n", "a\nb", "A\nB", "x = A\r\nB = 1\r\n", "line ends" },
  { "a deleted CRLF line", "a\r\nb\r\nc\r\n", "b\n", "", "a\r\nc\r\n", "line ends" },
  { "CRLF, no last line end", "a\r\nb\r\nc", "b\nc", "b\nd", "a\r\nb\r\nd", "line ends" },
  { "a CRLF line of a mixed file", "1\r\n2\n3\r\n4\n", "3\n", "x\n", "1\r\n2\nx\r\n4\n", "line ends" },
  { "a span of mixed ends keeps each", "1\r\n2\n3\r\n4\n5\r\n", "2\n3\n4", "2\nx\n4", "1\r\n2\nx\r\n4\n5\r\n",
    "line ends" },
  { "a new line in a CRLF file", "a\r\nb\r\n", "a", "a\nx", "a\r\nx\r\nb\r\n" },
  { "a new line in the last line without end", "a\r\nb", "b", "b\nc", "a\r\nb\r\nc" },
  { "CRLF old, LF file", "a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n", "line ends" },
  { "CRLF both", "a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n" },
  { "lone CRs are data", "1\r2\rs: i\n", "s: i", "s: b", "1\r2\rs: b\n" },
  { "BOM stays", "\u{feff}a\r\nb\r\n", "a\nb", "a\nc", "\u{feff}a\r\nc\r\n", "line ends" },
  { "the last line end is missing", "abc\ndef", "def\n", "DEF\n", "abc\nDEF", "line ends" },
  { "the same, one line more", "abc\ndef", "def\n", "DEF\nghi\n", "abc\nDEF\nghi", "line ends" },
  { "trailing blanks in the file", "alpha  \nbeta \ngamma\t\n", "beta\ngamma", "B\nG", "alpha  \nB\nG\t\n",
    "trailing blanks" },
  { "equal lines keep theirs", "a\nb  \nc\n", "b\nc", "b\nd", "a\nb  \nd\n", "trailing blanks" },
  { "trailing blanks in old", "a\nfoo\nbar\n", "foo   ", "X", "a\nX\nbar\n", "trailing blanks" },
  { "blanks that stand inside a line", "a\nfoobar\n", "foo   ", "X", nil },
  { "blanks for a tab", "f {\n\tif a {\n\t}\n}\n", "    if a {", "    if b {", "f {\n\tif b {\n\t}\n}\n",
    "indentation" },
  { "new lines get tabs", "f {\n\tif a {\n\t\tr\n\t}\n}\n", "    if a {\n        r\n    }",
    "    if a {\n        if x {\n            y\n        }\n    }",
    "f {\n\tif a {\n\t\tif x {\n\t\t\ty\n\t\t}\n\t}\n}\n", "indentation" },
  { "a tab for blanks", "f\n    a\n        b\n", "\ta\n\t\tb\n", "\ta\n\t\tb\n\t\t\tc\n",
    "f\n    a\n        b\n            c\n",
    "indentation" },
  { "a Makefile", "all:\n\tcc x\n", "        cc x", "        cc -O2 x", "all:\n\tcc -O2 x\n", "indentation" },
  { "shifted in", "class A:\n    def f():\n        r\n", "def f():\n    r\n", "def f():\n    if x:\n        r\n",
    "class A:\n    def f():\n        if x:\n            r\n", "indentation" },
  { "shifted out", "def f():\n    r\n", "    def f():\n        r", "    def f():\n        s", "def f():\n    s\n",
    "indentation" },
  { "empty lines stay empty", "  a\n\n  b\n", "a\n\nb\n", "a\n\nb\n\nc\n", "  a\n\n  b\n\n  c\n", "indentation" },
  { "indentation and CRLF", "  a\r\n  b\r\n", "a\nb\n", "a\nc\n", "  a\r\n  c\r\n", "indentation" },
  { "no rule for the indentation", " a\n   b\n", "  a\n  b\n", "  a\n  c\n", nil },
  { "two places without indentation", "  a\nx\n    a\n", "\ta\n", "b\n", nil },
  { "curly quotes in the file", "say “Hello.”\n“Bye.”\n", 'say "Hello."', 'say "Hi."', "say “Hi.”\n“Bye.”\n", SIGNS },
  { "a dash", "pages 10–20 — x\n", "10-20", "10-30", "pages 10–30 — x\n", SIGNS },
  { "a no-break space", "10\u{a0}km\n20\u{a0}km\n", "10 km", "15 km", "15\u{a0}km\n20\u{a0}km\n", SIGNS },
  { "signs over two lines", "a “x”\nb\n", 'a "x"\nb', 'a "x"\nc', "a “x”\nc\n", SIGNS },
  { "straight quotes in the file", 'a "x" b\n', "“x”", "“y”", 'a "y" b\n', SIGNS },
  { "new quotes where the file has curly ones", "a “x” b\n", '"x"', '"y" and "z"', nil },
  { "a changed dash", "a–b\n", "a-b", "a-c-b", nil },
  { "two places but for signs", "“x” “x”\n", '"x"', '"y"', nil },
  { "numbers of read", "a\n  return 1\nb\n", "     2\t  return 1", "     2\t  return 2", "a\n  return 2\nb\n",
    "line numbers" },
  { "numbers of two lines, new without", "a\nb\nc\n", "     1\ta\n     2\tb\n", "x\n", "x\nc\n", "line numbers" },
  { "numbers with an arrow", "a\n  r 1\n", "     2→  r 1", "     2→  r 2", "a\n  r 2\n", "line numbers" },
  { "numbers with a bar", "a\n  r 1\n", "2|  r 1", "2|  r 2", "a\n  r 2\n", "line numbers" },
  { "numbers that don't count up", "a\nb\n", "     1\ta\n     7\tb", "x", nil },
  { "real data with numbers", "1\ta\n2\tb\n", "2\tb", "2\tB", "1\ta\n2\tB\n" },
  { "a lost empty line", "One.\n\nTwo.\n", "One.\nTwo.", "x", nil },
  { "an added empty line", "One.\nTwo.\n", "One.\n\nTwo.", "x", nil },
  { "a run of blanks inside", "a    = 1\n", "a = 1", "a = 2", nil },
  { "only blanks", "a\n \nb\n", "  \n", "x", nil },
  { "invalid bytes around", "gr\xFC\n\xFF\xFE\nend\n", "end", "END", "gr\xFC\n\xFF\xFE\nEND\n" },
  { "NUL in old", "a=1\nrest\n", "a=1\0zzz", "x", nil },
  { "patterns are text", "axxb\na.*b %1\n", "a.*b %1", "%0$&\\1", "axxb\n%0$&\\1\n" },
}

describe("match", function()
  for _, c in ipairs(CASES) do
    it(c[1], function()
      local edits, why = match.find(c[2], c[3], c[4])
      assert.equal(c[5], edits and match.apply(c[2], edits))
      if edits then assert.equal(c[6], why) end
    end)
  end

  it("says all places of an ambiguous text, overlapping ones too", function()
    local edits, why = match.find("aaa\naa\n", "aa", "b")
    assert.is_nil(edits)
    assert.same({ { 1 }, { 2 }, { 5 } }, why.places)
    assert.is_nil(why.forgiven)
    edits, why = match.find("  a\nx\n    a\n", "\ta\n", "b")
    assert.is_nil(edits)
    assert.equal("indentation", why.forgiven)
    assert.same({ { 1 }, { 7 } }, why.places)
  end)

  it("replaces all places, not overlapping, also in a CRLF file", function()
    assert.equal("bb", match.apply("aaaa", (match.find("aaaa", "aa", "b", true))))
    assert.equal("ba", match.apply("aaa", (match.find("aaa", "aa", "b", true))))
    local edits, why = match.find("a\r\nb\r\na\r\nb\r\n", "a\nb\n", "c\n", true)
    assert.equal("c\r\nc\r\n", match.apply("a\r\nb\r\na\r\nb\r\n", edits))
    assert.equal("line ends", why)
    assert.is_nil((match.find("  a\nx\n    a\n", "\ta\n", "b", true)))
  end)

  it("never changes a byte outside the region", function()
    -- every tolerant result begins and ends with the file's own bytes
    for _, c in ipairs(CASES) do
      local edits = match.find(c[2], c[3], c[4])
      if edits then
        local fresh = match.apply(c[2], edits)
        local first, last = edits[1], edits[#edits]
        assert.equal(c[2]:sub(1, first[1] - 1), fresh:sub(1, first[1] - 1))
        local rest = c[2]:sub(last[2] + 1)
        assert.equal(rest, fresh:sub(#fresh - #rest + 1))
      end
    end
  end)

  it("finds the same places as a simple search", function()
    local text, seed = {}, 3
    for i = 1, 300 do
      seed = (seed * 1103515245 + 12345) % 2147483648
      text[i] = seed // 65536 % 4 == 0 and "b" or "a"
    end
    text = table.concat(text)
    for _, n in ipairs { 1, 2, 5, 63, 64, 65, 100 } do
      local needle, want, at = text:sub(40, 39 + n), {}, 1
      while true do
        local p = text:find(needle, at, true)
        if not p then break end
        want[#want + 1], at = p, p + 1
      end
      assert.same(want, match.find_plain(text, needle))
    end
  end)

  it("is linear for hostile texts", function()
    local a = ("a"):rep(200000)
    local start = os.clock()
    assert.same({}, match.find_plain(a, a:sub(1, 50000) .. "b"))
    assert.same({ 1 }, match.find_plain(a .. "b", a .. "b"))
    assert.is_nil((match.find(a, a:sub(1, 40000) .. "b" .. a:sub(1, 40000), "x")))
    assert.is_nil((match.find((" "):rep(200000), (" "):rep(1000) .. "b", "x")))
    assert.is_nil((match.find(("\n"):rep(50000), ("\n"):rep(100) .. "b", "x")))
    assert.is_true(os.clock() - start < 5)
  end)

  it("caps the places that it lists", function()
    assert.equal(10000, #match.find_plain(("a"):rep(20000), "a"))
  end)

  it("misses quickly in one big line, and says so without comparing it", function()
    local near = require "terret.near"
    local line = ("y"):rep(1000000)
    local started = os.clock()
    local half = ("y"):rep(2500)
    for _, old in ipairs { half .. half .. "x", "x" .. half .. half, half .. "x" .. half } do
      local edits, why = match.find(line, old, "z")
      assert.same({ nil, {} }, { edits, why.places })
      near.text(line, old)
    end
    -- The pieces are there, the whole isn't: one slow pass, nothing forgiven.
    local nasty = (("y"):rep(4998) .. "x"):rep(150)
    assert.same({}, select(2, match.find(nasty, ("y"):rep(4999), "z")).places)
    assert.is_true(os.clock() - started < 5)
    assert.matches("too long to be compared", near.text(("some words "):rep(10000), ("Some words "):rep(8)))
  end)

  it("finds the same places, whichever piece of the old text is looked for", function()
    local text = (("ab"):rep(50) .. "X" .. ("ab"):rep(50)):rep(4)
    for _, old in ipairs { ("ab"):rep(50) .. "X", "X" .. ("ab"):rep(50), ("ab"):rep(20) .. "X" .. ("ab"):rep(40) } do
      local places, at = {}, 1
      while true do
        local p = text:find(old, at, true)
        if not p then break end
        places[#places + 1], at = p, p + 1
      end
      assert.same(places, match.find_plain(text, old))
    end
  end)

  it("refuses to replace more places than one edit may change", function()
    local most = match.most
    match.most = 10
    local _ <close> = setmetatable({}, { __close = function() match.most = most end })
    assert.equal(10, #match.find(("a"):rep(10), "a", "b", true))
    local edits, why = match.find(("a"):rep(11), "a", "b", true)
    assert.same({ nil, true }, { edits, why.many })
  end)
end)

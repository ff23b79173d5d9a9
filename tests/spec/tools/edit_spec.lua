-- scripts/tools/edit.lua: what is changed, what is refused, and what the refusal says.  Where a text is
-- found has its own spec (match_spec.lua).
local fake = require "support.fakecall"
local fs = require "terret.fs"

local call

local function edit(old, new, more)
  local args = { path = "a.txt", old_string = old, new_string = new }
  for k, v in pairs(more or {}) do args[k] = v end
  return fake.run("edit", args, call)
end

local function has(text, ...)
  for _, words in ipairs { ... } do
    assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
  end
end

-- Refused, nothing changed, and the message has the words.
local function refused(file, old, new, words, more)
  call:put("a.txt", file)
  local text, message = edit(old, new, more)
  assert.is_nil(text)
  assert.equal(file, call:get("a.txt"))
  has(message, table.unpack(words))
  assert.is_true(#message < 4000)
  return message
end

describe("edit", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  it("changes one place and shows it", function()
    call:put("a.txt", "one\ntwo\nthree\nfour\nfive\n")
    local text, extra = edit("three", "3")
    assert.equal("one\ntwo\n3\nfour\nfive\n", call:get("a.txt"))
    has(text, "edited a.txt: lines 3-3", "     3\t3", "     1\tone", "     5\tfive")
    has(extra.diff, "--- a/a.txt", "-three\n+3\n")
    assert.same({ 1, 1 }, { extra.added, extra.removed })
  end)

  it("says which lines are new, and when they are gone", function()
    call:put("a.txt", "a\nb\nc\n")
    has((edit("b\n", "x\ny\nz\n")), "lines 2-4")
    has((edit("x\ny\nz\n", "")), "edited a.txt")
    assert.equal("a\nc\n", call:get("a.txt"))
  end)

  it("says what it forgave", function()
    call:put("a.txt", "\tif a {\n\t}\n")
    has((edit("    if a {", "    if b {")), "note: old_string fits only with tolerance for indentation")
    assert.equal("\tif b {\n\t}\n", call:get("a.txt"))
  end)

  it("replaces all, and counts", function()
    call:put("a.txt", "x y x\nx\n")
    has((edit("x", "%1$&", { replace_all = true })), "3 places in lines 1-2")
    assert.equal("%1$& y %1$&\n%1$&\n", call:get("a.txt"))
    assert.is_nil((edit("nope", "x", { replace_all = true })))
  end)

  it("creates a missing or empty file for an empty old_string", function()
    has((edit("", "one\ntwo\n", { path = "d/new.txt" })), "created d/new.txt: 2 lines")
    assert.equal("one\ntwo\n", call:get("d/new.txt"))
    call:put("a.txt", "")
    has((edit("", "x\n")), "created a.txt")
    assert.equal("x\n", call:get("a.txt"))
    refused("abc", "", "X", { "old_string is empty" })
    refused("abc", "", "X", { "old_string is empty" }, { replace_all = true })
  end)

  it("keeps mode, links and bytes", function()
    call:put("a.txt", "\u{feff}#!x\r\ngr\xFC\r\nend")
    os.execute(("chmod 755 '%s/a.txt' && ln -s a.txt '%s/l.txt'"):format(call.cwd, call.cwd))
    assert.truthy((edit("end", "END", { path = "l.txt" })))
    assert.equal("\u{feff}#!x\r\ngr\xFC\r\nEND", call:get("a.txt"))
    assert.equal("link", fs.stat(call.cwd .. "/l.txt", { follow = false }).type)
    assert.equal(493, fs.stat(call.cwd .. "/a.txt").mode & 511)
  end)

  describe("refuses", function()
    it("what is there several times, with the lines", function()
      refused("---\nx\n---\n", "---", "=", { "occurs 2 times", "1, 3", "replace_all" })
      refused("aaa\n", "aa", "b", { "2 times", "overlap" })
      refused(("same\n"):rep(300), "same", "x", { "300" })
      refused("  a\nx\n    a\n", "\ta\n", "b\n", { "2 times", "indentation", "1, 3" })
    end)

    it("what is not there, with the nearest text and the first difference", function()
      local file = "local a = 1\nfunction f(server)\n  server:listen(8080)\n  return server\nend\n"
      refused(file, "  server:listen(8081)", "x", { "not found", "     3\t  server:listen(8080)",
        "line 3, at column 20",
        "'0'", "'1'" })
      refused(file, "Function F(server)", "x", { "     2\t", "case" })
      refused(file, "  server:listen(8080)\n  return servers\n", "x", { "     3\t", "     4\t", "line 4" })
      refused("a  = 1\n", "a = 1", "x", { "only white space or signs" })
      refused("caf\u{65}\u{301} au lait\n", "caf\u{e9} au lait", "x", { "     1\t", "U+00E9" })
    end)

    it("what is not like anything, briefly", function()
      refused("local a = 1\nreturn a\n", "the quick brown fox jumps", "x", { "not found", "Nothing like it" })
      refused(("hay "):rep(50000) .. "\nhay\n", "needle needle", "x", { "not found" })
    end)

    it("with a hint where the reason is known", function()
      refused("port = 9090\n", "port = 8080", "port = 9090", { "already there, at line 1" })
      refused("if (a < b)\n", "if (a &lt; b)", "x", { "entities" })
      refused("x = 1\n", "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE", "x = 2", { "markers", "x = 1" })
      refused("a “x” b\n", '"x"', '"y" "z"', { "Unicode" })
    end)

    it("an edit that does nothing", function()
      refused("abc\n", "b", "b", { "the same" })
    end)

    it("binary files, and letters for a file that is no UTF-8", function()
      refused("\x89PNG\r\n\26\n\0\0\0\rIHDR", "IHDR", "ihdr", { "binary" })
      refused("// \xBD done\nx = 1\n", "x = 1", "x = \u{e9}", { "UTF-8" })
    end)

    it("files that are read-only, missing, directories or outside", function()
      call:put("a.txt", "old\n")
      os.execute(("chmod 444 '%s/a.txt'"):format(call.cwd))
      has(select(2, edit("old", "new")), "read-only (mode 0444)")
      call:put("ui/App.tsx", "x\n")
      has(select(2, edit("x", "y", { path = "ui/App.ts" })), "no such file", "ui/App.tsx")
      has(select(2, edit("x", "y", { path = "ui" })), "directory")
      os.execute(("ln -s /etc/hostname '%s/out.txt'"):format(call.cwd))
      has(select(2, edit("x", "y", { path = "out.txt" })), "outside the project")
      has(select(2, edit("x", "y", { path = "/etc/hostname" })), "outside the project")
      has(select(2, edit("x", "y", { path = "a.txt\0b" })), "NUL")
    end)
  end)

  describe("a file that changed on disk", function()
    it("is named where the edit was made", function()
      call:put("a.txt", "one\ntwo\n")
      assert.truthy((fake.run("read", { path = "a.txt" }, call)))
      call:put("a.txt", "one\ntwo\nthree\n")
      has((edit("two", "2")), "changed on disk")
      assert.is_nil((edit("one", "1")):find("changed on disk", 1, true))
    end)

    it("is named where it was not", function()
      call:put("a.txt", "one\n")
      assert.truthy((fake.run("read", { path = "a.txt" }, call)))
      call:put("a.txt", "other text\n")
      has(select(2, edit("one", "1")), "changed on disk")
    end)
  end)

  it("edits five megabytes quickly", function()
    local lines = {}
    for i = 1, 125000 do lines[i] = ("line %d of a file of five megabytes.."):format(i) end
    call:put("a.txt", table.concat(lines, "\n"))
    local start = os.clock()
    has((edit("line 100000 of", "LINE")), "lines 100000-100000")
    assert.is_true(os.clock() - start < 0.5)
  end)
end)

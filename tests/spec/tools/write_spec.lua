-- scripts/tools/write.lua
local fake = require "support.fakecall"
local fs = require "terret.fs"

local call

local function write(path, content)
  return fake.run("write", { path = path, content = content }, call)
end

local function has(text, words)
  assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
end

describe("write", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  it("creates, with the directories that lack", function()
    local text, extra = write("a/b/c.txt", "one\ntwo\n")
    assert.equal("created a/b/c.txt: 2 lines", text)
    assert.equal("one\ntwo\n", call:get("a/b/c.txt"))
    assert.same({ 2, 0 }, { extra.added, extra.removed })
    has(extra.diff, "+one\n+two\n")
  end)

  it("replaces and says how many lines there were; the answer does not repeat them", function()
    call:put("a", "1\n2\n3\n")
    local text, extra = write("a", ("x\n"):rep(3000))
    assert.equal("overwrote a: 3000 lines (it had 3 lines)", text)
    assert.same({ 3000, 3 }, { extra.added, extra.removed })
  end)

  it("writes any bytes as they are", function()
    for _, content in ipairs { "", "\n", "one\0two\n", "@echo\r\n", "\t\tx\n  y", "a\\nb", "%s%1$&" } do
      assert.truthy((write("f", content)))
      assert.equal(content, call:get("f"))
    end
  end)

  it("does not touch a file that is the same", function()
    call:put("a", "x\n")
    local before = fs.stat(call.cwd .. "/a")
    has((write("a", "x\n")), "already has this content")
    assert.same(before, fs.stat(call.cwd .. "/a"))
  end)

  it("keeps the mode and writes through links inside", function()
    call:put("go.sh", "x")
    os.execute(("chmod 755 '%s/go.sh' && ln -s go.sh '%s/l'"):format(call.cwd, call.cwd))
    assert.truthy((write("l", "y")))
    assert.equal("y", call:get("go.sh"))
    assert.equal(493, fs.stat(call.cwd .. "/go.sh").mode & 511)
  end)

  it("refuses directories, names that end in a slash, NUL, read-only files, and what lies outside", function()
    call:put("d/x", "x")
    has(select(2, write("d", "y")), "directory")
    has(select(2, write("new/", "y")), "directory")
    has(select(2, write("a\0b", "y")), "NUL")
    os.execute(("chmod 444 '%s/d/x'; ln -s /tmp/nowhere-terret '%s/l'"):format(call.cwd, call.cwd))
    has(select(2, write("d/x", "y")), "read-only")
    has(select(2, write("l", "y")), "outside")
    has(select(2, write("../x", "y")), "outside")
    assert.equal("x", call:get("d/x"))
  end)

  it("refuses content that is no text", function()
    for _, bad in ipairs { 42, true, { "one", "two" }, { name = "x" } } do
      has(select(2, write("a", bad)), "content: expected string")
    end
    assert.is_nil(call:get("a"))
  end)

  it("mentions a change on disk", function()
    call:put("a", "x\n")
    fake.run("read", { path = "a" }, call)
    call:put("a", "other\n")
    has((write("a", "y\n")), "changed on disk")
    assert.is_nil((write("a", "z\n")):find("changed", 1, true))
  end)
end)

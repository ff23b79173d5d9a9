-- scripts/inject.lua: facts are said when they change, once, also across a resume.
local fs = require "terret.fs"
local inject = require "terret.inject"
local world = require "support.world"

local function notes(w)
  local text, out = w.agent.session.view:render("", ""), {}
  for note in text:gmatch("<note>\\n(.-)\\n</note>") do out[#out + 1] = note end
  return out
end

local function replies(n)
  local list = {}
  for i = 1, n do list[i] = { text = "reply" } end
  return list
end

describe("inject", function()
  describe("branch", function()
    it("is read from .git/HEAD, a file or a directory", function()
      local w <close> = world.new()
      assert.is_nil(inject.branch(w.project))
      w:put(".git/HEAD", "ref: refs/heads/feature/x\n")
      assert.equal("feature/x", inject.branch(w.project))
      w:put(".git/HEAD", "0123456789abcdef0123456789abcdef01234567\n")
      assert.equal("0123456", inject.branch(w.project))
      w:put(".git/HEAD", "garbage\n")
      assert.is_nil(inject.branch(w.project))
      fs.remove(w.project .. "/.git", { recursive = true })
      w:put("real/HEAD", "ref: refs/heads/tree\n")
      w:put(".git", "gitdir: real\n")
      assert.equal("tree", inject.branch(w.project))
      w:put(".git", "gitdir: nowhere\n")
      assert.is_nil(inject.branch(w.project))
    end)

    it("that is no file, or too long, is none", function()
      local w <close> = world.new()
      assert(fs.mkdir(w.project .. "/.git"))
      assert(os.execute("mkfifo " .. w.project .. "/.git/HEAD"))
      assert.is_nil(inject.branch(w.project))
      fs.remove(w.project .. "/.git/HEAD")
      w:put(".git/HEAD", "ref: refs/heads/" .. ("x"):rep(5000))
      assert.is_nil(inject.branch(w.project))
    end)
  end)

  it("says a branch once, and again when it changed", function()
    local w <close> = world.new { script = replies(5) }
    w:put(".git/HEAD", "ref: refs/heads/one\n")
    w:prompt()
    w:prompt()
    assert.same({ "git branch: one" }, notes(w))
    w:resume()
    w:prompt()
    assert.same({ "git branch: one" }, notes(w))
    w:put(".git/HEAD", "ref: refs/heads/two\n")
    w:prompt()
    assert.same({ "git branch: one", "git branch: two" }, notes(w))
    w:check()
  end)

  it("says it again on a branch of the session where it was not said", function()
    local w <close> = world.new { script = replies(5) }
    w:prompt()
    local mark = w.agent.session.last
    w:put(".git/HEAD", "ref: refs/heads/one\n")
    w:prompt()
    assert.equal(1, #notes(w))
    assert(w.agent.session:rewind(mark))
    assert.equal(0, #notes(w))
    w:prompt()
    assert.same({ "git branch: one" }, notes(w))
  end)

  it("shows a hostile name as text", function()
    local w <close> = world.new { script = replies(1) }
    w:put(".git/HEAD", "ref: refs/heads/a\27[2J\u{202e}" .. ("y"):rep(1000) .. "\n")
    w:prompt()
    local note = notes(w)[1]
    assert.is_true(#note < 300)
    assert.is_nil(note:find("\u{202e}", 1, true))
  end)

  it("names files that changed since a tool saw them, once", function()
    local w <close> = world.new { script = { { tool_calls = { { name = "read", arguments = { path = "f" } } } },
      { text = "seen" }, { text = "a" }, { text = "b" }, { text = "c" } } }
    w:put("f", "one\n")
    w:prompt()
    assert.same({}, notes(w))
    w:put("f", "another text\n")
    w:prompt()
    assert.equal(1, #notes(w))
    assert.matches("changed on disk since you saw them: .*f$", notes(w)[1])
    w:prompt()
    assert.equal(1, #notes(w))
    fs.remove(w.project .. "/f")
    w:prompt()
    assert.matches("f %(gone%)$", notes(w)[2])
    w:check()
  end)
end)

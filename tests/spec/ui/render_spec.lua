-- tests/spec/ui/render_spec.lua - mirrors scripts/render.lua and scripts/screen.lua.
local fake = require "ui.fake"
local render = require "terret.render"
local screen = require "terret.screen"
local text = require "terret.text"

local plain, color = render.style(false), render.style(true)

local function strip(s) return (s:gsub("\27%[%d*m", "")) end

describe("terret.render", function()
  it("says numbers shortly", function()
    assert.same({ "0.0 s", "1.2 s", "9.9 s", "10 s", "1 min 0 s", "59 min 59 s", "1 h 1 min" },
      { render.duration(0), render.duration(1.24), render.duration(9.94), render.duration(9.96), render.duration(60),
        render.duration(3599), render.duration(3660) })
    assert.same({ "0", "999", "1.0k", "999.9k", "1.0M" }, { render.count(0), render.count(999), render.count(1000),
      render.count(999949), render.count(999950) })
    assert.same({ "$0.0123", "$12.35" }, { render.money(0.0123), render.money(12.345678) })
    assert.equal("in 12.3k (8.0k cached) out 950 · $0.0100 · context 12%",
      render.usage { input = 12300, cached = 8000, output = 950, cost = 0.01, context = 12, window = 100 })
    assert.equal("in 0 out 0", render.usage { context = 1, window = 0 })
  end)

  it("wraps at blanks, and inside what is too long", function()
    assert.same({ "one two", "three" }, render.wrap("one two three", 8))
    assert.same({ "- one two", "  three" }, render.wrap("- one two three", 10))
    assert.same({ "  12. aaaa bbbb ccc", "      d" }, render.wrap("  12. aaaa bbbb ccc d", 19))
    assert.same({ "  12. a b", "c d" }, render.wrap("  12. a b c d", 9))
    assert.same({ "abcdef", "gh" }, render.wrap("abcdefgh", 6))
    assert.same({ "漢漢", "漢" }, render.wrap("漢漢漢", 5))
    assert.same({ "" }, render.wrap("", 10))
    assert.same({ "a", "\27[1mbcde\27[0m" }, render.wrap("a \27[1mbcde\27[0m", 5))
    assert.same({ "\27[1mabcd", "efgh", "i\27[0m" }, render.wrap("\27[1mabcdefghi\27[0m", 4))
  end)

  it("styles Markdown line by line", function()
    local state = {}
    local function line(s) return render.markdown(state, s, color) end
    assert.equal("\27[1m# Head\27[0m", line "# Head")
    assert.equal("a \27[1mb\27[0m \27[36mc\27[0m", line "a **b** `c`")
    assert.equal("\27[2m```sh\27[0m", line "```sh")
    assert.equal("# **no** head", line "# **no** head")
    assert.equal("~~~", line "~~~")
    assert.equal("\27[2m````\27[0m", line "````")
    assert.equal("a**b", line "a**b")
    assert.equal("x y", render.markdown({}, "x **y**", plain))
  end)

  it("finds what a call is about", function()
    assert.equal("make test", render.subject '{"command":"make test","timeout":3}')
    assert.equal("a\\nb\\x1b[1m\\u{202e}", render.subject { command = "a\nb\27[1m\u{202e}" })
    assert.equal("main  src", render.subject { pattern = "main", path = "src" })
    assert.equal("2 items", render.subject { items = { 1, 2 } })
    assert.equal('{"depth":2}', render.subject { depth = 2 })
    assert.equal("", render.subject "{}")
    assert.equal("{broken\\x07", render.subject "{broken\7")
    assert.equal("3", render.subject "3")
  end)

  it("makes tool lines that fit", function()
    local call = { state = "ok", name = "bash", subject = "make test", seconds = 1.23 }
    assert.equal("✓ bash  make test  1.2 s", render.tool_line(call, plain))
    call.state, call.seconds = "running", nil
    assert.equal("● bash  make test", render.tool_line(call, plain))
    call.state, call.subject, call.depth = "failed", ("x"):rep(100), 1
    local line = render.tool_line(call, color, 30)
    assert.equal(30, text.width(strip(line)))
    assert.equal("  ✗ bash  " .. ("x"):rep(19) .. "…", strip(line))
    for columns = 1, 12 do render.tool_line(call, color, columns) end
  end)

  it("folds results", function()
    assert.same({ "1", "2", "… 3 more lines" }, render.fold("1\n2\n3\n4\n5\n", 2))
    assert.same({ "1", "2", "3" }, render.fold("1\n2\n3", 2))
    assert.same({ "", "a" }, render.fold("\na\n", 5))
    assert.same({}, render.fold("", 5))
    assert.same({ "abc…", "… 2 more lines" }, render.fold("abcdefg\n\n\n", 1, 4))
    assert.same({ "  \\x1b[31ma    b" }, render.result({ ok = true, text = "\27[31ma\tb" }, plain,
      { lines = 3, diff_lines = 3 }))
    local e = { ok = true, text = "edited", extra = { diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\27\n+b\n" } }
    assert.same({ "  \27[36m@@ -1 +1 @@\27[0m", "  \27[31m-a\\x1b\27[0m", "  \27[32m+b\27[0m" },
      render.result(e, color, { lines = 3, diff_lines = 9 }))
    e.ok = false
    assert.same({ "  \27[31medited\27[0m" }, render.result(e, color, { lines = 3, diff_lines = 9 }))
  end)

  it("shows a question whole and escaped", function()
    local lines = render.question({ tool = "bash", reason = "no rule\nallows it", propose = "make *", agent = "s1",
      request = { class = "exec", command = "make \\\n  why asked: nothing\27[2K\r" .. ("x"):rep(30) } }, plain,
      { columns = 24 })
    assert.same({ "? subagent s1: bash wants to run:", "  │ make \\↵", "  │   why asked: nothing",
      "  │ \\x1b[2K\\rxxxxxxxxxxx",
      "  │ " .. ("x"):rep(19), "  why asked: no rule\\nallows it", "  rule for this session: allow make *" }, lines)
    assert.same({ "? read wants to read /etc/x\\n" }, render.question({ tool = "read", request = { class = "read",
      path = "/etc/x\n" } }, plain, {}))
    assert.same({ "? edit wants to write /p/a", "  │ @@ -1 +1 @@", "  │ -a", "  │ +b" },
      render.question({ tool = "edit", request = { class = "write", path = "/p/a" } }, plain,
        { arguments = { old_string = "a\n", new_string = "b\n" } }))
    assert.same({ "? x wants to be used" }, render.question({ tool = "x", request = { class = "none" } }, plain, {}))
    -- Nothing of a long command is left out.
    local command = {}
    for i = 1, 300 do command[i] = "echo " .. i end
    lines = render.question({ tool = "bash", request = { class = "exec", command = table.concat(command, "\n") } },
      plain, { columns = 80 })
    assert.equal(301, #lines)
  end)

  it("has a line for what else happens", function()
    for want, e in pairs {
      ["warning: a\\nb"] = { type = "warning", text = "a\nb" },
      ["error: x"] = { type = "error", text = "x" },
      ["retry 2 in 1.5 s: busy"] = { type = "retry", attempt = 2, seconds = 1.5, text = "busy" },
      ["summed up: 9.0k -> 1.0k tokens"] = { type = "compaction", kind = "done", before = 9000, after = 1000 },
      ["3 old results shortened"] = { type = "compaction", kind = "strip", results = 3 },
      ["subagent: look"] = { type = "subagent", state = "start", prompt = "look" },
      ["subagent ended: done"] = { type = "subagent", state = "done" },
    } do
      assert.equal(want, render.notice(e))
    end
    assert.is_nil(render.notice { type = "compaction", kind = "new" })
    assert.is_nil(render.notice { type = "whatever" })
    assert.is_nil(render.outcome { status = "done" })
    assert.equal("limit: of steps", render.outcome { status = "limit", message = "of steps" })
    assert.equal("interrupted", render.outcome { status = "interrupted" })
  end)

  it("lets no control byte through but its own", function()
    math.randomseed(3)
    local function noise()
      local out = {}
      for i = 1, math.random(0, 60) do
        out[i] = math.random() < 0.3 and ({ "**", "`", "```", "\n", "# ", "- ", "\27[31m", "漢",
          "\u{202e}", "\t" })[math.random(10)]
          or string.char(math.random(0, 255))
      end
      return table.concat(out)
    end
    local function check(s) assert.is_nil(strip(s):find("[%c]"), ("%q"):format(s)) end
    for _ = 1, 300 do
      local columns, state = math.random(1, 40), {}
      for line in (render.safe(noise()) .. "\n"):gmatch("([^\n]*)\n") do
        for _, row in ipairs(render.wrap(render.markdown(state, line, color), columns)) do
          check(row)
          assert.is_true(text.width(strip(row)) <= math.max(columns, 4))
        end
      end
      check(render.tool_line({ state = "ok", name = noise(), subject = render.subject(noise()), seconds = 1 }, color,
        columns))
      check(render.tool_line({ state = "ok", name = noise(), subject = render.subject { command = noise() } }, color))
      local e = { ok = math.random() < 0.7, text = noise(), extra = math.random() < 0.5 and { diff = noise() } or nil }
      for _, row in ipairs(render.result(e, color, { lines = 3, diff_lines = 5, columns = columns })) do check(row) end
      for _, row in ipairs(render.question({ tool = noise(), reason = noise(), propose = noise(),
        request = { class = "exec", command = noise() } }, color, { columns = columns })) do check(row) end
    end
  end)
end)

describe("terret.screen", function()
  it("keeps what was said and draws the live rows anew", function()
    local terminal = fake.terminal(20, 6)
    local s = screen.new(terminal)
    s:draw({}, { "status", "> " }, 2, 2)
    s:draw({ "one" }, { "tool", "status", "> a" }, 3, 3)
    assert.equal("one\ntool\nstatus\n> a", terminal.screen())
    s:draw({ "two", "three" }, { "status", "> ab" }, 2, 4)
    assert.equal("one\ntwo\nthree\nstatus\n> ab", terminal.screen())
    assert.same({ 5, 4 }, { terminal.cursor() })
    s:draw({}, { "status", "> x", "  y" }, 2, 3)
    assert.same({ 5, 3 }, { terminal.cursor() })
    s:draw({ "four" }, {})
    assert.equal("one\ntwo\nthree\nfour", terminal.screen())
  end)

  it("cuts live rows that don't fit at the top", function()
    local terminal = fake.terminal(20, 4)
    local s = screen.new(terminal)
    s:draw({}, { "1", "2", "3", "4", "5" }, 5, 1)
    assert.equal("3\n4\n5", terminal.screen())
    s:draw({}, { "1", "2", "3", "4", "5" }, 2, 1)
    assert.equal("2\n3\n4", terminal.screen())
    assert.same({ 1, 1 }, { terminal.cursor() })
  end)

  it("knows that a narrower terminal has broken its rows", function()
    local terminal = fake.terminal(10, 24)
    local s = screen.new(terminal)
    terminal.size = function() return 20, 24 end
    s:measure()
    terminal.size = function() return 10, 24 end
    s:draw({}, { ("x"):rep(19), "> " }, 2, 2)
    s:measure()
    s:draw({ "said" }, { "short", "> " }, 2, 2)
    assert.equal("said\nshort\n>", terminal.screen())
  end)
end)

-- tests/spec/ui/plain_spec.lua - mirrors scripts/ui/plain.lua.
local fake = require "ui.fake"
local plain = require "terret.ui.plain"
local task = require "terret.task"

local function new(terminal, source)
  local out, err = fake.file(), fake.file()
  return plain.new { out = out, err = err, terminal = terminal, source = source or { read = function() end } }, out, err
end

local CALL = { type = "tool_call", id = "1", name = "bash", arguments = '{"command":"make test"}' }
local RESULT = { type = "tool_result", id = "1", name = "bash", ok = true, text = "a\nb\27\n", seconds = 1.2 }
local QUESTION = { kind = "permission", tool = "bash", request = { class = "exec", command = "rm x\nls" },
  reason = "no rule allows 'rm'", propose = "rm *", call_id = "1" }

describe("terret.ui.plain", function()
  it("shows a turn without any escape sequence", function()
    local ui, out, err = new()
    for _, e in ipairs { { type = "text", delta = "\n\nLook" }, { type = "text", delta = "ing\27[1m **here**" },
      { type = "text", delta = "of a subagent", agent = "s" }, { type = "reasoning", delta = "hm" }, CALL, RESULT,
      { type = "warning", text = "w" }, { type = "text", delta = "Done.\n" },
      { type = "usage", input = 10, cached = 0, output = 2, context = 1, window = 100 },
      { type = "usage", input = 5, output = 2, context = 50, window = 100, agent = "s" }, { type = "unknown" } } do
      ui.event(e)
    end
    ui.finish { status = "done" }
    assert.equal([[
Looking\x1b[1m **here**

● bash  make test
✓ bash  make test  1.2 s
  a
  b\x1b
warning: w

Done.
[in 15 out 4 · context 1%]
]], out:text())
    assert.equal("", err:text())
  end)

  it("says how a turn ended that isn't done", function()
    local ui, out, err = new()
    ui.event { type = "text", delta = "half" }
    ui.finish { status = "endpoint", message = "HTTP 500\27" }
    assert.equal("half\n", out:text())
    assert.equal("terret: endpoint: HTTP 500\\x1b\n", err:text())
  end)

  it("takes a result without its call, and a diff", function()
    local ui, out = new()
    ui.event { type = "tool_result", id = "9", name = "edit", ok = true, text = "edited", seconds = 0,
      extra = { diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n" } }
    assert.equal("✓ edit  0.0 s\n  @@ -1 +1 @@\n  -a\n  +b\n", out:text())
  end)

  it("reads prompts from a pipe, and asks nobody there", function()
    local lines = { "one\27", "two" }
    local ui, out = new(nil, { read = function() return table.remove(lines, 1) end })
    assert.is_nil(ui.ask)
    assert.same({ "one\27", "two" }, { ui.input(), ui.input() })
    assert.is_nil(ui.input())
    assert.is_nil(out:text():find("\27"))
  end)

  local function answer(typed, question)
    local terminal = fake.terminal()
    local ui, out = new(terminal)
    terminal.feed("y\n") -- typed before the question: no answer to it
    local got = task.run(function()
      local asking = task.spawn(ui.ask, question or QUESTION)
      task.sleep(1e-9)
      terminal.feed(typed)
      return task.await(asking)
    end)
    return got, out:text(), terminal
  end

  it("asks by a line of the terminal", function()
    local got, out, terminal = answer("y\n")
    assert.same({ verdict = "allow", scope = "once" }, got)
    assert.equal(1, terminal.flushed)
    assert.equal([[
? bash wants to run:
  │ rm x↵
  │ ls
  why asked: no rule allows 'rm'
  rule for this session: allow rm *
  y = once, s = for this session, n [words] = no (Enter: no): ]], out)
    assert.same({ verdict = "allow", scope = "session", rule = "rm *" }, (answer("s\n")))
    for _, no in ipairs { "\n", "n\n", "x\n", "yy\n", "\27\n", "sure\n" } do
      assert.same({ verdict = "deny" }, (answer(no)), no)
    end
    assert.same({ verdict = "deny", words = "use trash" }, (answer("No  use trash \n")))
    assert.same({ verdict = "deny" }, (answer("s\n", { tool = "x", request = { class = "none" } })))
  end)

  it("waits for whole lines, and ends", function()
    local terminal = fake.terminal()
    local ui = new(terminal)
    task.run(function()
      local reading = task.spawn(ui.input)
      task.sleep(1e-9)
      terminal.feed("hel")
      task.sleep(1e-9)
      assert.is_false(reading.done)
      terminal.feed("lo\nmore\n")
      assert.equal("hello", task.await(reading))
      assert.equal("more", ui.input())
      reading = task.spawn(ui.input)
      task.sleep(1e-9)
      ui.stop()
      assert.is_nil((task.await(reading)))
      assert.is_nil(ui.input())
    end)
  end)

  it("ends when the terminal is gone", function()
    local terminal = fake.terminal()
    terminal.ready, terminal.read = function() return true end, function() return nil end
    local ui = new(terminal)
    assert.same({ verdict = "deny" }, ui.ask(QUESTION))
    assert.is_nil(ui.input())
  end)
end)

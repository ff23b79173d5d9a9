-- tests/spec/ui/tty_spec.lua - mirrors scripts/ui/tty.lua and scripts/repl.lua, on a terminal that is none.
local fake = require "ui.fake"
local task = require "terret.task"
local tty = require "terret.ui.tty"

local QUESTION = { kind = "permission", tool = "bash", request = { class = "exec", command = "rm x\nls" },
  reason = "no rule allows 'rm'", propose = "rm *", call_id = "1" }

local function new(options)
  local terminal = fake.terminal(options and options.columns or 60, options and options.height or 24)
  local ui = assert(tty.new { terminal = terminal, color = false, bell = false, grace = options and options.grace or 0,
    cfg = { model = "m", mode = "ask" } })
  return ui, terminal
end

-- Lets everything run that can.
local function settle()
  for _ = 1, 4 do task.sleep(1e-9) end
end

-- Runs f with a started interface.
local function with_ui(options, f)
  local ui, terminal = new(options)
  local calls = { said = {}, interrupts = 0 }
  task.run(function()
    ui.start { interrupt = function() calls.interrupts = calls.interrupts + 1 return true end,
      say = function(words) table.insert(calls.said, words) end }
    f(ui, terminal, calls)
    ui.close()
  end)
  return terminal, calls
end

-- An agent that answers as it is told.
local function agent_of(replies)
  local agent = { session = { id = "20250101-000000-abcdef", entries = {} }, cfg = { mode = "ask" }, said = {} }
  function agent.say(_, role, words, kind) table.insert(agent.said, role .. ":" .. kind .. ":" .. words) end
  function agent.interrupt() task.cancel(agent.loop_task, "interrupted") end
  function agent.prompt(_, words)
    agent.loop_task = task.spawn(replies, words)
    local ok, err = pcall(task.await, agent.loop_task)
    agent.loop_task = nil
    if not ok and not task.is_cancelled(err) then error(err, 0) end
    return { status = ok and "done" or "interrupted", text = "" }
  end
  return agent
end

describe("terret.ui.tty", function()
  it("streams text above, and keeps the line at the bottom", function()
    with_ui({ columns = 30 }, function(ui, terminal)
      assert.is_true(terminal.is_raw)
      ui.event { type = "text", delta = "\n# He" }
      assert.equal("# He\n\nm · mode ask · /help\n>", terminal.screen())
      ui.event { type = "text", delta = "ad\n\nA **bold** word and some more\27" }
      terminal.feed("typed")
      settle()
      assert.equal("# Head\n\nA bold word and some more\\x1b\n\nm · mode ask · /help\n> typed", terminal.screen())
      ui.event { type = "text", delta = " that go on.\n" }
      ui.event { type = "usage", input = 1200, cached = 0, output = 2, context = 5, window = 100 }
      assert.equal("# Head\n\nA bold word and some more\\x1b\nthat go on.\n\nm · mode ask · /help · in 1.…\n> typed",
        terminal.screen())
      ui.finish { status = "done" }
    end)
  end)

  it("shows calls while they run and when they ended", function()
    local terminal = with_ui(nil, function(ui, terminal)
      ui.busy(true)
      ui.event { type = "reasoning", delta = "first\nI wonder" }
      assert.matches("\nI wonder\n", "\n" .. terminal.screen())
      ui.event { type = "text", delta = "Look:" }
      ui.event { type = "tool_call", id = "1", name = "bash", arguments = '{"command":"make test"}' }
      ui.event { type = "tool_call", id = "2", name = "read", arguments = '{"path":"a.c"}' }
      ui.event { type = "tool_progress", id = "1", text = "half\27 way" }
      assert.matches("Look:\n● bash  make test  0.0 s\n    half\\x1b way\n● read  a.c  0.0 s\n\nworking 0.0 s",
        terminal.screen(), 1, true)
      ui.event { type = "tool_result", id = "2", name = "read", ok = false, text = "no such file", seconds = 0.1 }
      ui.event { type = "tool_result", id = "1", name = "bash", ok = true, text = ("x\n"):rep(9), seconds = 12 }
      ui.event { type = "tool_call", id = "3", name = "grep", arguments = '{"pattern":"p"}', agent = "s" }
      ui.event { type = "tool_result", id = "3", name = "grep", ok = true, text = "hidden", seconds = 1, agent = "s" }
      ui.event { type = "warning", text = "careful" }
      ui.busy(false)
      ui.finish { status = "limit", message = "steps" }
    end)
    assert.equal([[
Look:

✗ read  a.c  0.1 s
  no such file
✓ bash  make test  12 s
  x
  x
  x
  x
  x
  … 4 more lines
  ✓ grep  p  1.0 s
warning: careful
limit: steps]], terminal.screen())
    assert.is_false(terminal.is_raw)
    assert.equal("\27[?2004l", terminal.log[#terminal.log])
  end)

  it("keeps a paragraph without an end within bounds", function()
    with_ui({ columns = 40, height = 10 }, function(ui, terminal)
      for _ = 1, 30 do ui.event { type = "text", delta = ("word "):rep(100) } end
      terminal.clear_log()
      ui.event { type = "text", delta = "x" }
      assert.is_true(#table.concat(terminal.log) < 2000)
      local _, words = terminal.screen():gsub("word", "")
      assert.is_true(words > 2400)
    end)
  end)

  it("steers and interrupts while the agent works", function()
    local _, calls = with_ui(nil, function(ui, terminal)
      ui.busy(true)
      terminal.feed("use make\r")
      settle()
      assert.matches("> use make", terminal.screen(), 1, true)
      terminal.feed("half")
      terminal.feed("\3")
      settle()
      terminal.feed("\3")
      settle()
      assert.matches("interrupting", terminal.screen())
      assert.matches("> half", terminal.screen(), 1, true)
    end)
    assert.same({ "use make" }, calls.said)
    assert.equal(1, calls.interrupts)
  end)

  it("takes a lone ESC for an interrupt, an arrow key not", function()
    local _, calls = with_ui(nil, function(ui, terminal, calls)
      ui.busy(true)
      terminal.feed("\27[A")
      settle()
      assert.equal(0, calls.interrupts)
      terminal.feed("\27")
      while calls.interrupts == 0 do task.sleep(0.01) end
    end)
    assert.equal(1, calls.interrupts)
  end)

  it("goes on when a key fails", function()
    with_ui(nil, function(ui, terminal, calls)
      ui.busy(true)
      local say = calls.said
      setmetatable(say, { __newindex = function() error("expected\27") end })
      terminal.feed("x\r")
      settle()
      assert.matches("error: .*expected\\x1b", terminal.screen())
      terminal.feed("typed")
      settle()
      assert.matches("> typed$", terminal.screen())
    end)
  end)

  it("gives prompts, and ends", function()
    with_ui(nil, function(ui, terminal)
      terminal.feed("one\r\r  \rtwo\\\rthree\r")
      settle()
      assert.equal("one", ui.input())
      assert.equal("two\nthree", ui.input())
      local input = task.spawn(ui.input)
      terminal.feed("\3")
      settle()
      assert.matches("Ctrl%-C again", terminal.screen())
      terminal.feed("\3")
      assert.is_nil((task.await(input)))
    end)
    with_ui(nil, function(ui, terminal)
      terminal.feed("\4")
      assert.is_nil(ui.input())
    end)
    local _, calls = with_ui(nil, function(ui, terminal)
      terminal.read = function() return nil end
      terminal.feed("x")
      assert.is_nil(ui.input())
    end)
    assert.equal(1, calls.interrupts)
  end)
end)

describe("a question", function()
  local function ask(typed, options)
    local got, screen, calls
    with_ui(options, function(ui, terminal, c)
      ui.busy(true)
      terminal.feed("y") -- before it was drawn
      local asking = task.spawn(ui.ask, options and options.question or QUESTION)
      settle()
      screen = terminal.screen()
      for _, bytes in ipairs(typed) do
        terminal.feed(bytes)
        settle()
      end
      got, calls = asking.done and task.await(asking) or nil, c
      if not asking.done then task.cancel(asking) end
    end)
    return got, screen, calls
  end

  it("is shown whole", function()
    local _, screen = ask { "n" }
    assert.matches([[
? bash wants to run:
  │ rm x↵
  │ ls
  why asked: no rule allows 'rm'
  rule for this session: allow rm *

  y once   s this session   e edit rule   w no, with words
  n/Enter/Esc no
waiting for your answer]], screen, 1, true)
  end)

  it("is answered by keys; whatever isn't yes is no", function()
    assert.same({ verdict = "allow", scope = "once" }, (ask { "y" }))
    assert.same({ verdict = "allow", scope = "session", rule = "rm *" }, (ask { "s" }))
    for _, no in ipairs { "n", "N", "\r" } do assert.same({ verdict = "deny" }, (ask { no })) end
    for _, none in ipairs { "x", "\27[A", "yes", "Y", " ", "\27[200~y\27[201~", "\t" } do
      assert.is_nil((ask { none }), ("%q"):format(none))
    end
    assert.same({ verdict = "allow", scope = "once" }, (ask { "x", "y" }))
    local got, _, calls = ask { "\3" }
    assert.same({ verdict = "deny" }, got)
    assert.equal(1, calls.interrupts)
  end)

  it("offers no rule where there is none", function()
    local question = { tool = "x", request = { class = "none" } }
    assert.is_nil((ask({ "s", "e" }, { question = question })))
    assert.same({ verdict = "allow", scope = "once" }, (ask({ "s", "y" }, { question = question })))
  end)

  it("takes words with a no", function()
    assert.same({ verdict = "deny", words = "use trash" }, (ask { "w", "use trash", "\r" }))
    assert.same({ verdict = "deny", words = "" }, (ask { "w", "\r" }))
    assert.same({ verdict = "allow", scope = "once" }, (ask { "w", "x", "\21", "\3", "y" }))
  end)

  it("lets its rule be edited, but not into none", function()
    assert.same({ verdict = "allow", scope = "session", rule = "rm x" }, (ask { "e", "\127x", "\r" }))
    assert.is_nil((ask { "e", "\21", "\r" }))
    assert.is_nil((ask { "e", "\21foo(x)", "\r" }))
    assert.is_nil((ask { "e", "\27\rdeny x", "\r" }))
  end)

  it("takes no key in the time after it was drawn", function()
    assert.is_nil((ask({ "y", "\r", "\3" }, { grace = 3600 })))
  end)

  it("is gone after an interrupt", function()
    with_ui(nil, function(ui, terminal)
      ui.busy(true)
      local asking = task.spawn(function() pcall(ui.ask, QUESTION) end)
      settle()
      task.cancel(asking)
      settle()
      assert.is_nil(terminal.screen():find("waiting for your answer", 1, true))
      terminal.feed("y")
      settle()
      assert.matches("> y$", terminal.screen())
    end)
  end)

  it("shows what a write would change", function()
    with_ui(nil, function(ui, terminal)
      ui.event { type = "tool_call", id = "7", name = "write",
        arguments = '{"path":"a","content":"one\\n\\u001btwo\\n"}' }
      local asking = task.spawn(ui.ask, { tool = "write", request = { class = "write", path = "/p/a" }, call_id = "7" })
      settle()
      assert.matches("? write wants to write /p/a\n  │ @@ -0,0 +1,2 @@\n  │ +one\n  │ +\\x1btwo", terminal.screen(),
        1, true)
      terminal.feed("n")
      task.await(asking)
    end)
  end)
end)

describe("the main loop", function()
  it("takes words, steers, runs commands, ends", function()
    local ui, terminal = new()
    local told = task.event()
    local agent = agent_of(function(words)
      if words == "long" then task.await(told) end
      ui.event { type = "text", delta = "answer to " .. words }
    end)
    local driver = task.spawn(function()
      settle()
      assert.matches("^> first\n\nanswer to first", terminal.screen())
      terminal.feed("long\r")
      settle()
      terminal.feed("quick\r")
      settle()
      terminal.feed("/clear\r")
      settle()
      assert.matches("/clear has to wait", terminal.screen())
      told:set()
      settle()
      assert.matches("answer to long", terminal.screen())
      terminal.feed("/nothing\r")
      settle()
      assert.matches("no command /nothing", terminal.screen())
      terminal.feed("/usr/bin is no command\r")
      settle()
      assert.matches("answer to /usr/bin", terminal.screen())
      terminal.feed("\4")
    end)
    local status = ui.run(agent, { prompt = "first" })
    task.await(driver)
    assert.equal(0, status)
    assert.same({ "user:steer:quick" }, agent.said)
    assert.is_false(terminal.is_raw)
    assert.matches("terret %-r 20250101%-000000%-abcdef goes on with it$", (terminal.screen():gsub("\n", " ")))
  end)

  it("interrupts a turn and goes on", function()
    local ui, terminal = new()
    local agent = agent_of(function()
      ui.event { type = "text", delta = "half" }
      task.await(task.event())
    end)
    local driver = task.spawn(function()
      settle()
      terminal.feed("\3")
      settle()
      assert.matches("half\n\ninterrupted\n", terminal.screen())
      terminal.feed("\4")
    end)
    assert.equal(0, ui.run(agent, { prompt = "x" }))
    task.await(driver)
  end)

  it("gives the terminal back after an error", function()
    local ui, terminal = new()
    local agent = agent_of(function() error("expected") end)
    assert.error_matches(function() ui.run(agent, { prompt = "x" }) end, "expected")
    assert.is_false(terminal.is_raw)
  end)
end)

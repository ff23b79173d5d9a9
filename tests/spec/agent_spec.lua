-- scripts/agent.lua and exchange.lua: turns, limits, interrupts, failures, subagents.  Nothing sleeps to wait.
local reactor = require "terret.reactor"
local retry = require "terret.retry"
local task = require "terret.task"
local world = require "support.world"

local function fill(n, reply)
  local list = {}
  for i = 1, n do list[i] = reply end
  return list
end

local CALL = { text = "working", tool_calls = { { name = "echo", arguments = { text = "x" } } } }

local function make(script, options)
  options = options or {}
  options.script = script
  local w = world.new(options)
  w:tool("echo", function(args) return args.text or "" end)
  return w
end

-- Interrupts as soon as an event of this type was seen.
local function interrupted_at(w, kind, reason)
  local agent = w.agent or assert(w:open())
  return task.run(function()
    task.spawn(function()
      while #w:seen(kind) == 0 do task.sleep(0.0005) end
      agent:interrupt(reason)
    end)
    return agent:prompt("go")
  end)
end

describe("agent", function()
  local first_wait
  before_each(function()
    first_wait = retry.first_wait
    retry.first_wait = 0.0001
  end)
  after_each(function() retry.first_wait = first_wait end)

  it("runs the loop until there are no calls", function()
    local w <close> = make { CALL, CALL, { text = "finished" } }
    local r = w:prompt("do it")
    assert.equal("done", r.status)
    assert.equal("finished", r.text)
    assert.equal(3, r.steps)
    assert.is_true(r.usage.input > 0)
    assert.equal(w.agent.session.id, r.session)
    w:check()
  end)

  it("writes a record before its effect", function()
    local w <close> = make { CALL, { text = "end" } }
    w:tool("echo", function()
      local last = w:records()
      local seen = {}
      for _, r in ipairs(last) do seen[#seen + 1] = r.type == "message" and r.role or r.type end
      assert.equal("assistant permission", table.concat(seen, " ", #seen - 1))
      return "fine"
    end)
    w:prompt()
    assert.equal("fine", w:results()[1])
  end)

  describe("a loop", function()
    it("needs no error handling: what it passes over has a result all the same", function()
      local w <close> = make { CALL, CALL, { text = "end" } }
      local agent = w:open()
      agent.loop = function(a)
        a:ask()
        a:ask() -- the calls of the first were never run
        a:say("assistant", "by the way")
      end
      assert.equal("done", w:prompt().status)
      w:check()
      for _, r in ipairs(w:results()) do assert.matches("not run", r) end
    end)

    it("that fails ends the turn, not the session", function()
      local w <close> = make { CALL, { text = "better" } }
      local agent = w:open()
      local react = agent.loop
      agent.loop = function(a)
        a:ask()
        error("loop broke")
      end
      local r = w:prompt()
      assert.equal("failed", r.status)
      assert.matches("loop broke", r.message)
      w:check()
      agent.loop = react
      assert.equal("better", w:prompt("again").text)
      w:check()
    end)

    it("that returns without asking is not called for ever", function()
      local w <close> = make {}
      local agent = w:open()
      local count = 0
      agent.loop = function() count = count + 1 end
      assert.equal("done", w:prompt().status)
      assert.equal(1, count)
    end)

    it("can't run a call twice, nor one that nobody made", function()
      local w <close> = make { CALL, CALL }
      w:open().loop = function(a)
        local reply = a:ask()
        a:act(reply.tool_calls)
        a:act(reply.tool_calls)
      end
      assert.matches("no result yet", w:prompt().message)
      w.agent.loop = function(a) a:act { { id = "x", name = "echo" } } end
      assert.matches("no result yet", w:prompt().message)
      w:check()
    end)

    it("goes back to a mark and tries again", function()
      local w <close> = make { { text = "bad" }, { text = "good" } }
      w:open().loop = function(a)
        local mark = a:mark() -- behind the user's words, which were not sent yet
        a:ask()
        a:rewind(mark)
        a:ask()
      end
      assert.equal("good", w:prompt("do it").text)
      local v = w:view()
      assert.equal(3, #v)
      assert.matches("do it$", v[2].content)
      assert.equal("good", v[3].content)
      w:check()
    end)

    it("may fork before anything was asked, and between calls and their results", function()
      local w <close> = make { main = { CALL, { text = "end" } }, sub = { { text = "a" }, { text = "b" } } }
      w:open().loop = function(a)
        local early = a:fork()
        early:ask()
        assert.matches("do it$", w:view(early)[2].content)
        local reply = a:ask()
        a:say("user", "steer", "steer")
        local late = a:fork()
        late:act(reply.tool_calls)
        late:ask()
        w:check(late)
        assert.equal("steer", w:view(late)[5].content)
        a:act(reply.tool_calls)
        a:ask()
      end
      local r = w:prompt("do it")
      assert.equal("done", r.status, r.message)
      w:check()
    end)

    it("forks: each branch has its own view, the main one is as before", function()
      local w <close> = make { main = { { text = "main" } }, sub = { { text = "a" }, { text = "b" } } }
      local branches = {}
      w:open().loop = function(a)
        a:ask()
        local before = a.session.view:render("", "")
        for i = 1, 2 do
          branches[i] = a:fork()
          branches[i]:say("user", "branch " .. i)
          branches[i]:ask()
        end
        assert(a.session.view:render("", "") == before)
      end
      local r = w:prompt()
      assert.equal("done", r.status, r.message)
      for i, f in ipairs(branches) do
        w:check(f)
        local view = w:view(f)
        assert.equal("branch " .. i, view[#view - 1].content)
        f.session:close()
      end
      assert.equal(3, r.steps) -- the forks count
      w:check()
    end)

    it("orders what the user and the assistant are made to say", function()
      local w <close> = make { { text = "end" } }
      w:open().loop = function(a)
        a:say("user", "one")
        a:say("assistant", "two")
        a:say("user", "three")
        a:ask()
      end
      w:prompt("zero")
      local v = w:view()
      assert.matches("zero\n\none$", v[2].content)
      assert.same({ "two", "three", "end" }, { v[3].content, v[4].content, v[5].content })
      assert.has_error(function() w.agent:say("system", "x") end)
    end)
  end)

  describe("steering", function()
    it("is delivered before the next request", function()
      local w <close> = make { CALL, { text = "end" } }
      w:tool("echo", function(_, call)
        call.agent:say("user", "turn left", "steer")
        return "x"
      end)
      w:prompt()
      local v = w:view()
      assert.equal("turn left", v[#v - 1].content)
      w:check()
    end)

    it("that comes with the last request makes the loop go on", function()
      local w
      w = make { function()
        w.agent:say("user", "one more thing", "steer")
        return { text = "first" }
      end, { text = "second" } }
      local _close <close> = w
      assert.equal("second", w:prompt().text)
      w:check()
    end)
  end)

  describe("interrupt", function()
    it("while a tool runs answers it and what was not started", function()
      local w <close> = make { { text = "x", tool_calls = { { name = "nap" }, { name = "quick" }, { name = "nap" },
        { name = "put" }, { name = "quick" } } } }
      w:tool("nap", function() task.sleep(60) return "slept" end)
      w:tool("quick", function() return "quick" end)
      w:tool("put", function() return "put" end, { permission = "write" })
      local started = reactor.now()
      local r = interrupted_at(w, "tool_result")
      assert.is_true(reactor.now() - started < 1)
      assert.equal("interrupted", r.status)
      w:check()
      local results = w:results()
      assert.matches("may have run", results[1])
      assert.equal("quick", results[2])
      assert.matches("may have run", results[3])
      assert.matches("not run", results[4])
      assert.matches("not run", results[5])
      assert.equal(5, #w:seen("tool_result"))
    end)

    it("while the endpoint answers keeps what came", function()
      local w <close> = make { { text = "half an ans" } }
      local play = require "terret.providers.scripted"
      local agent = w:open()
      agent.provider = setmetatable({ answer = function(request)
        local events = play.answer(request)
        table.insert(events, 2, { type = "wait", seconds = 60 })
        return events
      end }, { __index = play })
      local r = interrupted_at(w, "text")
      assert.equal("interrupted", r.status)
      assert.equal("half an ans", r.text)
      assert.equal("half an ans", w:view()[3].content)
      w:check()
      assert.is_true(r.usage.output > 0) -- it was paid for
    end)

    it("leaves a session that goes on", function()
      local w <close> = make { { text = "x", tool_calls = { { name = "nap" } } }, { text = "again" } }
      w:tool("nap", function() task.sleep(60) end)
      interrupted_at(w, "tool_call")
      assert.equal("again", w:prompt("go on").text)
      w:check()
    end)

    it("of the task that prompts ends the loop too", function()
      local w <close> = make { { text = "x", tool_calls = { { name = "nap" } } } }
      local agent = w:open()
      local closed = false
      w:tool("nap", function()
        local _guard <close> = setmetatable({}, { __close = function() closed = true end })
        task.sleep(60)
      end)
      local ok, err = pcall(task.run, function()
        local t = task.spawn(function() return agent:prompt("go") end)
        while #w:seen("tool_call") == 0 do task.sleep(0.0005) end
        task.cancel(t)
        return task.await(t)
      end)
      assert.is_true(ok or task.is_cancelled(err))
      assert.is_true(closed)
      w:check()
    end)
  end)

  describe("limit", function()
    it("of steps ends the run with its status", function()
      local w <close> = make(fill(9, CALL), { limits = { steps = 3 } })
      local r = w:prompt()
      assert.equal("limit", r.status)
      assert.matches("3 steps", r.message)
      assert.equal(3, r.steps)
      assert.equal("working", r.text)
      w:check()
    end)

    it("of tokens holds, also where the endpoint reports nothing", function()
      for _, usage in ipairs { { input = 900, output = 50 }, false } do
        local script = {}
        for i = 1, 50 do
          script[i] = { text = ("w"):rep(400), tool_calls = CALL.tool_calls, usage = usage or nil }
        end
        local w <close> = make(script, { limits = { tokens = 8000 } })
        local r = w:prompt()
        assert.equal("limit", r.status)
        assert.is_true(w.agent.budget.spent.tokens <= 8000)
        assert.is_true(r.steps > 1)
        w:check()
      end
    end)

    it("of money with an unknown price is a usage error", function()
      local w <close> = make({}, { model = "my-own", provider = "openai", limits = { cost = 1 } })
      local agent, message, code = w:open()
      assert.is_nil(agent)
      assert.matches("price of 'my-own'", message, 1, true)
      assert.equal("usage", code)
    end)

    it("of time cancels the loop in its wait", function()
      local w <close> = make({ { text = "x", tool_calls = { { name = "nap" } } } }, { limits = { seconds = 0.02 } })
      w:tool("nap", function() task.sleep(60) end)
      local r = w:prompt()
      assert.equal("limit", r.status)
      assert.matches("time", r.message)
      w:check()
    end)

    it("can't be passed by a loop that catches everything", function()
      local w <close> = make(fill(50, { text = "x" }), { limits = { steps = 2 } })
      local asked = 0
      w:open().loop = function(a)
        for _ = 1, 20 do
          local ok = pcall(a.ask, a, { prompt = "more" })
          if ok then asked = asked + 1 end
        end
        pcall(task.sleep, 0.001)
      end
      w:prompt()
      assert.equal(2, asked)
      assert.equal(2, w.agent.budget.spent.steps)
      w:check()
    end)

    it("can't be passed by two subagents together", function()
      local w <close> = make({ main = { { tool_calls = { { name = "agent", arguments = { prompt = "a" } },
        { name = "agent", arguments = { prompt = "b" } }, { name = "agent", arguments = { prompt = "c" } } } },
        { text = "end" } }, sub = fill(9, { text = "sub", delay = 0.002 }) }, { limits = { steps = 3 } })
      local r = w:prompt()
      assert.equal(3, w.agent.budget.spent.steps)
      assert.equal("limit", r.status)
      local refused = 0
      for _, text in ipairs(w:results()) do refused = refused + (text:find("limit", 1, true) and 1 or 0) end
      assert.equal(1, refused)
      w:check()
    end)
  end)

  describe("the endpoint", function()
    it("is tried again after a passing failure; nothing is stored of it", function()
      local w <close> = make { { error = "busy", class = "overload" }, { error = "busy", class = "rate_limit" },
        { text = "ok" } }
      local r = w:prompt()
      assert.equal("ok", r.text)
      assert.equal(2, #w:seen("retry"))
      assert.equal(1, r.steps)
      assert.equal(3, #w:view())
    end)

    it("that fails for good ends the turn with its status and words", function()
      for class, tries in pairs { auth = 1, quota = 1, bad_request = 1, overload = retry.attempts } do
        local w <close> = make(fill(20, { error = "no luck", class = class }))
        local r = w:prompt()
        assert.equal("endpoint", r.status)
        assert.equal("no luck", r.message)
        assert.equal(tries - 1, #w:seen("retry"))
        w:check()
      end
    end)

    it("whose answer was cut after shown text is asked to go on, and not repeated", function()
      local w <close> = make { { text = " and the second." } }
      local play, n = require "terret.providers.scripted", 0
      w:open().provider = setmetatable({ answer = function(request)
        n = n + 1
        if n > 1 then return play.answer(request) end
        return { { type = "text", text = "The first half" },
          { type = "error", message = "connection lost", class = "cut" } }
      end }, { __index = play })
      local r = w:prompt()
      assert.equal("done", r.status)
      assert.equal("The first half and the second.", r.text)
      local v = w:view()
      assert.same({ "The first half", " and the second." }, { v[3].content, v[5].content })
      assert.matches("Go on", v[4].content)
      w:check()
    end)

    it("that answers nothing at all is tried again and then said", function()
      local w <close> = make(fill(9, { text = "" }))
      local r = w:prompt()
      assert.equal("endpoint", r.status)
      assert.matches("nothing", r.message)
      w:check()
    end)

    it("that raises in its script fails the turn only", function()
      local w <close> = make { function() error("script broke") end, { text = "ok" } }
      assert.equal("failed", w:prompt().status)
      assert.equal("ok", w:prompt().text)
      w:check()
    end)
  end)

  describe("a full disk", function()
    -- A log that takes n more lines.
    local function fill_up(agent, n)
      local real = agent.session.log
      agent.session.log = { append = function(_, line)
        n = n - 1
        if n < 0 then return nil, "no space left on device", "no_space" end
        return real:append(line)
      end, sync = function() end, path = function() return real:path() end, close = function() real:close() end }
      return real
    end

    it("ends the turn with a clear message wherever it strikes; nothing runs that was not logged", function()
      for n = 0, 8 do
        local w <close> = make { CALL, { text = "end" } }
        local ran = false
        w:tool("echo", function()
          ran = true
          return "x"
        end)
        local agent = w:open()
        local real = fill_up(agent, n)
        local r = w:prompt()
        if ran then
          local logged = 0
          for _, rec in ipairs(w:records()) do
            if rec.type == "permission" or rec.tool_calls then logged = logged + 1 end
          end
          assert.equal(2, logged)
        end
        if r.status ~= "done" then
          assert.equal("failed", r.status, n)
          assert.matches("no space left", r.message)
          agent.session.log = real
          local again = w:resume()
          again.loop = function() end
          w:check()
        end
      end
    end)
  end)
end)

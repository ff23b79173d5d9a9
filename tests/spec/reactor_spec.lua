-- tests/spec/reactor_spec.lua - timers, signals and the turn of the loop.
-- What needs raw descriptors (hang-ups, numbers above 1024, orphans) is in tests/unit.
local reactor = require "terret.reactor"

local function pid()
  local p = io.popen("echo $PPID", "r")
  local id = p:read("l")
  p:close()
  return id
end

local PID = pid()

-- os.execute would ignore INT while it waits; io.popen does not.
local function kill(name)
  local p = io.popen("kill -" .. name .. " " .. PID)
  p:close()
end

local function contains(list, x)
  for _, v in ipairs(list) do
    if v == x then return true end
  end
  return false
end

describe("reactor.now", function()
  it("never goes back", function()
    local a = reactor.now()
    local b = reactor.now()
    assert.is_true(b >= a and b - a < 1)
  end)
end)

describe("reactor.poll", function()
  it("looks without waiting at 0", function()
    local start = reactor.now()
    assert.same({}, reactor.poll(0))
    assert.is_true(reactor.now() - start < 0.05)
  end)

  it("waits with nothing to wait for, and not less than asked", function()
    local start = reactor.now()
    assert.same({}, reactor.poll(0.02))
    local took = reactor.now() - start
    assert.is_true(took >= 0.02 and took < 0.5, "took " .. took)
  end)

  it("without a limit waits for the nearest deadline", function()
    local near <close> = reactor.timer(0.01)
    local far <close> = reactor.timer(100)
    local ready = reactor.poll()
    assert.is_true(contains(ready, near))
    assert.is_false(contains(ready, far))
  end)

  it("raises on wrong arguments", function()
    assert.has_error(function() reactor.poll(-1) end)
    assert.has_error(function() reactor.poll(0 / 0) end)
    assert.has_error(function() reactor.poll("soon") end)
  end)

  it("takes more nodes than it has room for, and fewer again", function()
    local timers = {}
    for i = 1, 100 do timers[i] = reactor.timer(0) end
    assert.equal(100, #reactor.poll(1))
    for i = 1, 100 do assert.is_true(timers[i]:ready()) end
    assert.same({}, reactor.poll(0))
    for i = 1, 300 do timers[i] = reactor.timer(100) end
    local last <close> = reactor.timer(0)
    assert.same({ last }, reactor.poll(1))
    for i = 1, 300 do timers[i]:close() end
    assert.equal(300, #reactor.poll(0))
  end)
end)

describe("reactor.timer", function()
  it("is ready when its time has come and stays so", function()
    local t <close> = reactor.timer(0.01)
    assert.is_false(t:ready())
    assert.same({ t }, reactor.poll(1))
    assert.is_true(t:ready())
    assert.is_true(t:ready())
  end)

  it("is reported once", function()
    local t <close> = reactor.timer(0)
    assert.same({ t }, reactor.poll(1))
    assert.same({}, reactor.poll(0))
  end)

  it("does not end a shorter wait", function()
    local t <close> = reactor.timer(100)
    assert.same({}, reactor.poll(0.005))
    assert.is_false(t:ready())
  end)

  it("may be without end", function()
    local t <close> = reactor.timer(math.huge)
    assert.same({}, reactor.poll(0))
    assert.is_false(t:ready())
  end)

  it("is ready when closed, and the next turn tells who waits", function()
    local t = reactor.timer(100)
    t:close()
    t:close()
    assert.is_true(t:ready())
    assert.same({ t }, reactor.poll(1))
    assert.same({}, reactor.poll(0))
  end)

  it("leaves the loop when it is collected", function()
    reactor.timer(0.001)
    collectgarbage()
    collectgarbage()
    assert.same({}, reactor.poll(0.005))
  end)

  it("leaves the loop at the end of its block", function()
    do
      local t <close> = reactor.timer(0)
      assert.is_truthy(t)
    end
    assert.same({}, reactor.poll(0))
  end)

  it("raises on wrong arguments", function()
    assert.has_error(function() reactor.timer() end)
    assert.has_error(function() reactor.timer(-1) end)
    assert.has_error(function() reactor.timer(0 / 0) end)
    assert.has_error(function() reactor.timer(1).ready({}) end)
  end)

  it("has no metamethods to call by hand", function()
    local t <close> = reactor.timer(1)
    assert.is_nil(t.__gc)
    assert.equal("terret", getmetatable(t))
  end)
end)

describe("reactor.signals", function()
  local signals

  setup(function() signals = assert(reactor.signals { "INT", "TERM" }) end)

  local function take_all()
    local list = {}
    for name in function() return signals:take() end do list[#list + 1] = name end
    return list
  end

  it("is one object; a further call adds names", function()
    assert.equal(signals, reactor.signals { "HUP" })
    assert.equal(signals, reactor.signals {})
  end)

  it("has nothing to take at first", function()
    assert.is_false(signals:ready())
    assert.is_nil(signals:take())
  end)

  it("delivers a signal that came before the wait", function()
    kill "INT"
    assert.is_true(contains(reactor.poll(5), signals))
    assert.is_true(signals:ready())
    assert.same({ "INT" }, take_all())
    assert.is_false(signals:ready())
  end)

  it("keeps the order, and repetitions of what is pressed twice", function()
    -- One at a time: the kernel itself merges what is pending twice.
    for _, name in ipairs { "INT", "TERM", "INT", "INT" } do
      kill(name)
      reactor.poll(0)
    end
    assert.same({ "INT", "TERM", "INT", "INT" }, take_all())
  end)

  it("ends a wait that is going on", function()
    -- The signal arrives in curl_multi_poll, which then reports no descriptor at all.
    local start = reactor.now()
    local p = io.popen("sleep 0.03; kill -TERM " .. PID)
    local seen = false
    while not seen and reactor.now() - start < 5 do seen = contains(reactor.poll(5), signals) end
    p:close()
    assert.is_true(seen)
    assert.is_true(reactor.now() - start < 2)
    assert.same({ "TERM" }, take_all())
  end)

  it("stays ready until everything is taken", function()
    kill "TERM"
    reactor.poll(0)
    kill "INT"
    assert.is_true(contains(reactor.poll(5), signals))
    assert.equal("TERM", signals:take())
    assert.is_true(contains(reactor.poll(0), signals))
    assert.is_true(signals:ready())
    take_all()
    assert.same({}, reactor.poll(0))
  end)

  it("survives a flood", function()
    local p = io.popen(("kill -INT %s; kill -TERM %s;"):format(PID, PID):rep(40))
    p:close()
    reactor.poll(0)
    local list = take_all()
    assert.is_true(#list >= 2 and #list <= 80, #list)
    assert.equal("INT", list[1])
    assert.is_nil(signals:take())
    assert.same({}, reactor.poll(0))
  end)

  it("counts a merged signal once", function()
    assert(reactor.signals { "WINCH" })
    for _ = 1, 3 do
      kill "WINCH"
      reactor.poll(0)
    end
    assert.same({ "WINCH" }, take_all())
  end)

  it("raises on names it does not know", function()
    assert.has_error(function() reactor.signals { "KILL" } end,
      "bad argument #1 to 'signals' (unknown signal 'KILL')")
    assert.has_error(function() reactor.signals { "CHLD" } end)
    assert.has_error(function() reactor.signals { 2 } end)
    assert.has_error(function() reactor.signals { {} } end)
    assert.has_error(function() reactor.signals() end)
    assert.has_error(function() reactor.signals "INT" end)
  end)
end)

describe("a script that loops", function()
  local exec, fs, task = require "terret.exec", require "terret.fs", require "terret.task"
  local exe = assert(fs.realpath("/proc/self/exe"))
  local HEAD = [[local reactor, task = require "terret.reactor", require "terret.task"
    local signals = reactor.signals { "INT", "TERM" }
    local function loop() io.write("ready\n") io.flush() while true do end end ]]

  -- Runs a script, sends it the signals in turn (numbers are seconds) once it says "ready".
  local function play(script, steps)
    local path = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-loop-"))
    local _ <close> = setmetatable({}, { __close = function() fs.remove(path, { recursive = true }) end })
    assert(fs.write(path .. "/s.lua", HEAD .. script))
    local argv = { exe, path .. "/s.lua" }
    if not exe:find("lua[%d.]*$") then table.insert(argv, 2, "--lua") end
    local env = exec.environ()
    env.LUA_PATH, env.LUA_CPATH = package.path, package.cpath
    return task.run(function()
      local p <close> = assert(exec.spawn { argv = argv, env = env, stream = true, timeout = 20 })
      local out = ""
      while not out:find("ready", 1, true) do
        task.await(p, 10)
        out = out .. assert(p:read(), out)
      end
      for _, step in ipairs(steps) do
        if type(step) == "number" then task.sleep(step) else p:kill(step) end
      end
      while true do
        local data = p:read()
        if not data then break end
        out = out .. data
        if data == "" then task.await(p) end
      end
      while not p:status() do task.await(p) end
      return out, p:status()
    end)
  end

  local IN_TASK = [[local ok, message = pcall(task.run, function() task.sleep(0) loop() end)
    task.await(signals)
    io.write(tostring(message), " ", signals:take(), " ", tostring(signals:take()), "\n")]]

  it("is ended by a second INT, also inside a task; both can be taken afterwards", function()
    local out, status = play(IN_TASK, { "INT", 0.12, "INT" })
    assert.equal(0, status.code, out)
    assert.matches("interrupted by a signal INT INT\n$", out)
    out = play("local ok, message = pcall(loop) io.write(message)", { "INT", 0.12, "INT" })
    assert.matches("interrupted by a signal$", out)
  end)

  it("is not ended by one signal, nor by several at once", function()
    local out, status = play([[local stop = reactor.now() + 0.4
      io.write("ready\n") io.flush() while reactor.now() < stop do end io.write("end\n")]], { "INT", "INT", "INT" })
    assert.equal("ready\nend\n", out)
    assert.equal(0, status.code)
  end)

  it("that holds out is killed by the third", function()
    local _, status = play("while true do pcall(loop) end", { "INT", 0.12, "INT", 0.12, "INT" })
    assert.matches("INT$", tostring(status.signal))
  end)
end)

-- Every event of the dispatch table: fired for real by the runtime, and with handlers that raise, hang,
-- return garbage or return nothing, each fails as its class says.
local events = require "terret.events"
local fs = require "terret.fs"
local task = require "terret.task"
local world = require "support.world"

-- Fields that fit the table's types.
local SAMPLE = { string = "x", number = 1, boolean = true, table = {} }
local function sample(row)
  local e = {}
  for _, fields in ipairs { row.has, row.may } do
    for key, kind in pairs(fields) do e[key] = SAMPLE[kind:gsub("%?$", "")] end
  end
  return e
end

local DEFAULT = { "the default" }
local function default_of(row)
  if row.class == "guard" then return function() return { verdict = "allow" } end end
  if row.class == "transform" and not row.answer then return nil end
  if row.class == "observe" then return nil end
  return function() return DEFAULT end
end

local BAD = {
  raises = function() error("boom") end,
  ["raises no string"] = function() error({}) end,
  hangs = function() while true do end end, -- luacheck: ignore
  ["hangs behind pcall"] = function()
    while true do pcall(function() while true do end end) end -- luacheck: ignore
  end,
  ["waits for ever"] = function()
    local never = { ready = function() return false end }
    while true do pcall(task.await, never) end
  end,
  ["allocates for ever"] = function()
    local t = {}
    while true do t[#t + 1] = ("x"):rep(1000) .. #t end
  end,
  ["returns garbage"] = function() return 42 end,
  ["returns a wrong table"] = function() return { nonesuch = true } end,
  ["changes what it must not"] = function(e) e.text = "y" end,
  ["passes on what it must not"] = function(_, next) return next { nonesuch = 1 } end,
  ["returns nothing"] = function() end,
}

describe("events:", function()
  local w
  before_each(function()
    events.anew(function() end)
    w = world.new { script = { { text = "hi" } } }
    w:open()
  end)
  after_each(function()
    w:close()
    events.anew(function() end)
  end)

  local function fire(row, e)
    return task.run(function() return events.fire(w.agent, row.name, e, default_of(row)) end)
  end

  it("are about thirty, each of one class, described", function()
    assert.is_true(#events.list >= 25 and #events.list <= 40)
    local seen = {}
    for _, row in ipairs(events.list) do
      assert.is_nil(seen[row.name])
      seen[row.name] = true
      assert.truthy(({ guard = 1, transform = 1, observe = 1, supply = 1 })[row.class], row.name)
      assert.truthy(#row.doc > 10 and #row.doc <= 100, row.name)
    end
  end)

  for _, row in ipairs(events.list) do
    describe(row.name, function()
      for how, handler in pairs(BAD) do
        it(("fails as a %s when a handler %s"):format(row.class, how), function()
          if how == "returns a wrong table" and row.answer == "any" then return end
          if how == "returns garbage" and row.answer == "any" then return end
          events.on(row.name, handler, { seconds = 0.005, wait = 0.005 })
          local after
          events.on(row.name, function(_, next)
            after = true
            return next()
          end, { priority = -1 })
          local e = sample(row)
          local got = fire(row, e)
          if row.class == "guard" then
            assert.equal("deny", got.verdict)
            assert.truthy(#got.reason > 0)
            return
          end
          assert.is_true(after, "the other handlers were not called")
          if row.answer then assert.equal(DEFAULT, got) else assert.equal(e, got) end
          local warned = #w:seen "warning"
          local quiet = how == "returns nothing" and row.class ~= "transform"
            or row.class == "observe" and how:find("^returns")
          assert.equal(quiet and 0 or 1, warned)
          if not quiet then assert.truthy(w:seen("warning")[1].text:find(row.name, 1, true)) end
        end)
      end

      it("passes through a handler that only calls next", function()
        events.on(row.name, function(_, next) return next() end)
        local e = sample(row)
        local got = fire(row, e)
        if row.class == "guard" then
          assert.equal("allow", got.verdict)
        elseif row.answer then
          assert.equal(DEFAULT, got)
        else
          assert.equal(e, got)
        end
        assert.equal(0, #w:logged "hook")
      end)
    end)
  end

  it("a handler's time doesn't run while it waits", function()
    events.on("prompt", function(_, next)
      task.sleep(0.06)
      return next { text = "waited" }
    end, { seconds = 0.03 })
    assert.equal("waited", fire(events.by_name.prompt, { text = "x" }).text)
  end)

  it("a handler's time doesn't run while others and the thing itself do", function()
    events.on("prompt", function(_, next) return next() end, { seconds = 0.01, priority = 2 })
    events.on("prompt", function(_, next)
      local t = os.clock()
      while os.clock() - t < 0.03 do end -- luacheck: ignore
      return next { text = "long" }
    end, { seconds = 1 })
    assert.equal("long", fire(events.by_name.prompt, { text = "x" }).text)
    assert.same({}, w:seen "warning")
  end)

  it("coroutines and tasks that a handler makes are on its leash", function()
    local co = require("terret.leash").coroutine()
    for _, f in ipairs {
      function() co.wrap(function() while true do end end)() end, -- luacheck: ignore
      function() co.resume(co.create(function() while true do end end)) end, -- luacheck: ignore
      function() task.await(task.spawn(function() while true do end end)) end, -- luacheck: ignore
    } do
      events.anew(function() end)
      events.on("tool.policy", f, { seconds = 0.02 })
      assert.equal("deny", fire(events.by_name["tool.policy"], { args = {} }).verdict)
    end
  end)

  it("cancelling passes through a handler", function()
    events.on("request", function(_, next)
      local ok, err = pcall(next)
      if not ok then error(err, 0) end
    end)
    w.cfg.script = function() return { text = "slow", delay = 30 } end
    local result = task.run(function()
      task.spawn(function()
        task.sleep(0.02)
        w.agent:interrupt()
      end)
      return w.agent:prompt("go")
    end)
    assert.equal("interrupted", result.status)
    assert.same({}, w:seen "warning")
  end)

  -- What the runtime does so that each event comes.
  local function everything()
    local tried, flaky = false, true
    local play = {}
    local function script(request)
      if request.messages:find("summary, for yourself", 1, true) then return { text = "a summary" } end
      local list = request.agent == "main" and play.main or play.sub
      return table.remove(list, 1) or { text = "end" }
    end
    w:close()
    w = world.new { limits = { steps = 14 }, mode = "ask", ask = function() return { verdict = "allow" } end }
    w.cfg.script = script
    w:tool("echo", function(args) return args.text or "" end, { repeats = 3, permission = "other" })
    local agent = assert(w:open())
    local function step(name, args) return { tool_calls = { { name = name, arguments = args or {} } } } end
    play.sub = { { text = "the report" } }
    play.main = { step("nonesuch"), step("write", { path = "a.txt", content = "x" }),
      step("bash", { command = "date" }),
      step("agent", { prompt = "find" }), step("echo"), step("echo"), step("echo"), { text = "done" } }
    local request = agent.request
    agent.request = function(self, options)
      if flaky and not tried then
        tried = true
        require("terret.fire")(self, "request.retry", { class = "x", message = "x", attempt = 1 }, false)
      end
      return request(self, options)
    end
    task.run(function()
      agent:prompt("go")
      local mark = agent:mark()
      agent:rewind(mark)
      local fork = agent:fork()
      fork.session:close()
      agent:say("user", ("long words "):rep(3000))
      agent:mark()
      agent:say("assistant", ("long words "):rep(3000))
      agent:say("user", ("long words "):rep(3000))
      agent:mark()
      agent:say("assistant", "short")
      agent.model_info.window = 8000
      agent:compact()
      play.main = {}
      for i = 1, 20 do play.main[i] = step("echo", { text = tostring(i) }) end
      agent:prompt("more")
    end)
    agent.session:close()
  end

  it("are all fired by the runtime, for those who listen", function()
    local heard = {}
    for _, row in ipairs(events.list) do
      events.on(row.name, function(e, next)
        heard[row.name] = true
        assert.equal(row.name, e.event)
        for key, kind in pairs(row.has) do
          local value = e[key]
          assert.truthy(value == nil and kind:find("?", 1, true) or type(value) == kind:gsub("%?$", ""),
            ("%s.%s is a %s"):format(row.name, key, type(value)))
        end
        return next()
      end)
    end
    everything()
    local missing = {}
    for _, row in ipairs(events.list) do
      if not heard[row.name] then missing[#missing + 1] = row.name end
    end
    assert.same({}, missing)
    local told = {}
    for _, e in ipairs(w:seen "warning") do told[#told + 1] = e.text end
    assert.same({}, told)
  end)

  it("cost little: 20 handlers add less than 0.2 ms to a turn", function()
    local reactor = require "terret.reactor"
    w:close()
    w = world.new {}
    w.cfg.script = function() return { text = "hi" } end
    local agent = assert(w:open())
    local function turns(n)
      local began = reactor.now()
      task.run(function() for _ = 1, n do agent:prompt("go") end end)
      return (reactor.now() - began) / n
    end
    local some = { "prompt", "prompt.check", "turn.start", "turn.end", "request", "usage", "budget.reserve", "note",
      "loop.select", "loop.stop", "session.open", "tool.call", "tool.policy", "tool.result", "exec", "exec.check",
      "file.write", "file.written", "tool.verdict", "compact" }
    for _, name in ipairs(some) do events.on(name, function(_, next) return next() end) end
    -- Taken in turns, the best of each: other work on the machine slows down both.
    local handlers, with, without = events.handlers, math.huge, math.huge
    turns(20)
    for _ = 1, 12 do
      events.handlers = {}
      without = math.min(without, turns(10))
      events.handlers = handlers
      with = math.min(with, turns(10))
    end
    -- In a sanitizer's build, or on a machine that is busy with others, a turn alone takes longer, too.
    local most = 0.0002 * math.max(1, without / 0.0001)
    assert.is_true(with - without < most, ("%.3f ms more"):format((with - without) * 1000))
    if os.getenv("TERRET_FIGURES") then
      print(("a turn: %.3f ms, with 20 handlers %.3f ms"):format(without * 1000, with * 1000))
    end
  end)

  it("say where they come from", function()
    local path = w.dir .. "/x.lua"
    assert(fs.write(path, "local t = ... ; t.on('prompt', function(e, next) return next{ text = 'new' } end)"))
    assert(loadfile(path))(events)
    assert.equal("new", fire(events.by_name.prompt, { text = "old" }).text)
    local record = w:logged("hook")[1]
    assert.equal("prompt", record.event)
    assert.equal("x", record.handler)
    assert.equal(path, record.file)
    assert.equal(require("terret.hash").sha256(fs.read(path)), record.hash)
    assert.same({ "text" }, record.changed)
  end)
end)

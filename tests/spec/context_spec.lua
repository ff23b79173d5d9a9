-- scripts/context.lua, and what must hold across it: stable bytes between batches, a view that its log
-- makes, results that the model saw before they are cut, sessions that never die.
local context = require "terret.context"
local retry = require "terret.retry"
local world = require "support.world"

local LINE = "the quick brown fox jumps over the lazy dog\n"

local function make(script, options)
  options = options or {}
  options.script = script
  options.window = options.window or 8000
  local w = world.new(options)
  w:tool("big", function(args) return LINE:rep(args.n or 100) .. (args.text or "") end)
  return w
end

local function call(n, text)
  return { text = "step", tool_calls = { { name = "big", arguments = { n = n, text = text } } } }
end

-- Records the bodies that the model is sent.
local function watched(w)
  local bodies = {}
  local script = w.cfg.script
  w.cfg.script = function(request)
    bodies[#bodies + 1] = request.messages
    return script(request)
  end
  return bodies
end

local function is_prefix(a, b)
  a = a:sub(1, -2) -- less the closing bracket
  return b:sub(1, #a) == a
end

local function kinds(w)
  local out = {}
  for _, e in ipairs(w:seen("compaction")) do out[#out + 1] = e.kind end
  return table.concat(out, " ")
end

describe("context", function()
  local first_wait
  before_each(function()
    first_wait = retry.first_wait
    retry.first_wait = 0.0001
  end)
  after_each(function() retry.first_wait = first_wait end)

  describe("bytes", function()
    it("are only appended between two batches, also after a resume", function()
      local w <close> = make({ call(3), call(3), { text = "one" }, call(3), { text = "two" }, { text = "three" } },
        { window = 128000 })
      local bodies = watched(w)
      w:prompt()
      w:prompt("more")
      w:resume()
      w:prompt("and more")
      assert.equal(6, #bodies)
      for i = 2, #bodies do assert.is_true(is_prefix(bodies[i - 1], bodies[i]), i) end
    end)

    it("of system prompt and tools are those of the first record", function()
      local w <close> = make({ { text = "one" }, { text = "two" } })
      w:prompt()
      local tools, system = w.agent.tools_json, w:view()[1].content
      w:put("AGENTS.md", "new instructions")
      local prompt = require "terret.prompt"
      local made = prompt.system
      prompt.system = function() return "another prompt, of another day" end
      local agent = w:resume()
      prompt.system = made
      assert.equal(tools, agent.tools_json)
      assert.equal(system, w:view()[1].content)
    end)

    it("change once at a strip, then are appended again", function()
      local w <close> = make({ call(150), call(150), call(150), call(150), call(1), call(1), { text = "end" } })
      local bodies = watched(w)
      w:prompt()
      local breaks = 0
      for i = 2, #bodies do breaks = breaks + (is_prefix(bodies[i - 1], bodies[i]) and 0 or 1) end
      assert.equal(#w:logged("batch") + #w:logged("compaction"), breaks)
      assert.is_true(breaks > 0 and breaks < 3, breaks)
      w:check()
    end)
  end)

  describe("strip", function()
    it("leaves a stub that names the whole, and never touches what is fresh", function()
      local w <close> = make({ call(150, "A"), call(150, "B"), call(150, "C"), call(150, "D"), { text = "end" } })
      local bodies = watched(w)
      w:prompt()
      assert.matches("strip", kinds(w))
      -- Each result was whole in the request that came after it.
      for i, mark in ipairs { "A", "B", "C", "D" } do
        assert.truthy(bodies[i + 1]:find(LINE:gsub("\n", "\\n"):rep(150) .. mark, 1, true), mark)
      end
      local stub = w:results()[1]
      assert.is_true(#stub < 500)
      local id = stub:match('recall{id="(b%d+)"}')
      assert.equal(LINE:rep(150) .. "A", w.agent.session:read_blob(id))
      w:check()
      w:resume()
      assert.equal(LINE:rep(150) .. "A", w.agent.session:read_blob(id))
      w:check()
    end)
  end)

  describe("compaction", function()
    local function long(n)
      local list = {}
      for i = 1, n do
        list[i] = call(1)
        list[i].text = ("thought %d "):format(i):rep(150)
      end
      return list
    end

    it("asks on the live prefix, under the same head", function()
      local script = long(40)
      local w <close> = make({})
      local bodies, summaries, n = {}, 0, 0
      w.cfg.script = function(request)
        bodies[#bodies + 1] = request.messages
        if request.messages:find("Write that summary now", 1, true) then
          summaries = summaries + 1
          assert(request.tool_choice == nil)
          assert(is_prefix(bodies[#bodies - 1], request.messages))
          return { text = "SUMMARY " .. summaries }
        end
        n = n + 1
        return script[n] or { text = "end" }
      end
      w:prompt("the task")
      assert.is_true(summaries >= 2, summaries)
      w:check()
      local v = w:view()
      assert.equal("user", v[2].role)
      assert.truthy(v[2].content:find("the task", 1, true))
      assert.truthy(v[2].content:find("SUMMARY " .. summaries, 1, true))
      -- Summaries replace each other; they don't pile up.
      assert.is_nil(v[2].content:find("SUMMARY " .. (summaries - 1), 1, true))
      local done = 0
      for _, e in ipairs(w:seen("compaction")) do
        if e.kind == "done" then
          done = done + 1
          assert.is_true(e.after < e.before)
        end
      end
      assert.equal(summaries, done)
    end)

    it("keeps the user's words, across several compactions", function()
      local w <close> = make({})
      w.cfg.script = function(request)
        if request.messages:find("Write that summary now", 1, true) then return { text = "summed up" } end
        return { text = ("answer "):rep(800) }
      end
      local agent = w:open()
      for i = 1, 6 do
        w:prompt("wish number " .. i)
        w:run(function() return agent:compact() end)
        w:check()
      end
      assert.is_true(#w:logged("compaction") >= 3)
      local whole = w.agent.session.view:render("", "")
      for i = 1, 6 do
        local _, count = whole:gsub("wish number " .. i, "")
        assert.equal(1, count, "wish " .. i)
      end
      w:resume()
      w:check()
    end)

    it("that fails makes a structural summary; the session lives", function()
      for _, broken in ipairs { { error = "no", class = "bad_request" },
        { text = "", tool_calls = { { name = "big" } } }, { error = "too long", class = "overflow" } } do
        local n, script = 0, long(12)
        local w <close> = make({})
        w.cfg.script = function(request)
          if request.messages:find("Write that summary now", 1, true) then return broken end
          n = n + 1
          return script[n] or { text = "end" }
        end
        local r = w:prompt("the task")
        assert.equal("done", r.status, r.message)
        assert.is_true(#w:seen("warning") > 0)
        assert.truthy(w:view()[2].content:find("no summary could be made", 1, true))
        assert.truthy(w:view()[2].content:find("the task", 1, true))
        w:check()
      end
    end)

    it("has nothing to do in a short conversation", function()
      local w <close> = make({ { text = "hi" } })
      w:prompt()
      assert.is_false(w:run(function(agent) return agent:compact() end))
      assert.equal(2, #w:records() - #w:logged("usage") - 1)
    end)
  end)

  describe("an endpoint that says too long", function()
    it("gets a shorter request, never the same again", function()
      local w <close> = make({}, { window = 128000 })
      local n, refused = 0, {}
      w.cfg.script = function(request)
        if #request.messages > 30000 then
          assert(not refused[request.messages], "the same body was sent again")
          refused[request.messages] = true
          return { error = "context_length_exceeded", class = "overflow" }
        end
        n = n + 1
        return n < 12 and call(100) or { text = "end" }
      end
      local r = w:prompt()
      assert.equal("done", r.status, r.message)
      assert.truthy(next(refused))
      w:check()
    end)

    it("keeps a fresh result whole as long as older things can go, also behind the user's words", function()
      local w <close> = make({}, { window = 128000 })
      local n, bodies = 0, {}
      w:tool("fresh", function(_, c)
        c.agent:say("user", "turn left", "steer")
        return LINE:rep(150) .. "FRESH"
      end)
      w.cfg.script = function(request)
        bodies[#bodies + 1] = request.messages
        if n == 7 and #request.messages > 20000 then return { error = "too long", class = "overflow" } end
        n = n + 1
        if n <= 6 then return call(100) end
        return n == 7 and { tool_calls = { { name = "fresh" } } } or { text = "end" }
      end
      assert.equal("done", w:prompt().status)
      assert.equal("strip", kinds(w))
      assert.truthy(bodies[#bodies]:find(LINE:gsub("\n", "\\n"):rep(150) .. "FRESH", 1, true))
      w:check()
    end)

    it("to a fresh result alone gets it as a stub: a session is never dead", function()
      local w <close> = make({}, { window = 128000 })
      w.cfg.script = function(request)
        if #request.messages > 20000 then return { error = "too long", class = "overflow" } end
        if not request.messages:find("left out", 1, true) then return call(1000) end
        return { text = "end" }
      end
      local r = w:prompt()
      assert.equal("done", r.status, r.message)
      assert.equal("strip", kinds(w))
      w:check()
    end)

    it("to everything fails the turn, and the next one starts small", function()
      local w <close> = make({}, { window = 128000 })
      local strict = true
      w.cfg.script = function() return strict and { error = "too long", class = "overflow" } or { text = "hello" } end
      assert.equal("endpoint", w:prompt().status)
      w:check()
      strict = false
      assert.equal("hello", w:prompt("again").text)
      w:check()
    end)
  end)

  it("caps the user's words only where they would fill the window", function()
    local w <close> = make({ { text = "ok" } }, { window = 40000 })
    w:prompt(("x"):rep(200000))
    local words = w:view()[2].content
    assert.is_true(#words < 70000)
    assert.truthy(words:find("recall{id=", 1, true))
    assert.equal(51200, context.cap_of(w.agent, 1))
    assert.equal(2000, context.cap_of(w.agent, 1000))
  end)

  -- A random walk over all that changes a view.  The seed is printed when it fails.
  describe("a random walk", function()
    local steps = {
      say = function(agent, random)
        agent.session:append { type = "message", role = "user", content = ("word "):rep(random(1, 50)) }
      end,
      ask = function(agent) agent:ask { prompt = "next" } end,
      act = function(agent)
        local reply = agent:ask { prompt = "call" }
        agent:act(reply.tool_calls)
      end,
      ask_only = function(agent) agent:ask { prompt = "calls that nobody runs" } end,
      compact = function(agent) agent:compact() end,
      overflow = function(agent) context.overflow(agent) end,
      rewind = function(agent, random)
        agent.session:answer_open("closed")
        agent:rewind(random(1, agent.session.next_id - 1))
        agent.session:answer_open("closed")
      end,
      todos = function(agent) agent.session:set_todos { { text = "x" } } end,
    }
    local names = {}
    for name in pairs(steps) do names[#names + 1] = name end
    table.sort(names)

    for seed = 1, 6 do
      it("keeps the view what its log makes, seed " .. seed, function()
        math.randomseed(seed)
        local random = math.random
        local w <close> = make({}, { window = 4000 })
        w.cfg.script = function(request)
          if request.messages:find("Write that summary now", 1, true) then
            return random() < 0.3 and { error = "x", class = "bad_request" } or { text = "sum " .. random(1000) }
          end
          local r = { text = ("t"):rep(random(1, 300)) }
          if random() < 0.7 then
            r.tool_calls = {}
            for i = 1, random(1, 3) do
              r.tool_calls[i] = { id = "dup", name = "big", arguments = { n = random(1, 40) } }
            end
          end
          return r
        end
        w:open()
        for i = 1, 60 do
          if random() < 0.06 then
            w:resume()
          elseif random() < 0.06 then
            local f = assert(w.agent.session:fork())
            assert.equal(w.agent.session.view:render("", ""), f.view:render("", ""))
            f:append { type = "message", role = "user", content = "in the fork" }
            w:check { session = f }
            f:close()
          else
            local name = names[random(#names)]
            local ok, err = pcall(w.run, w, function(agent) steps[name](agent, random) end)
            if not ok then error(("step %d, %s: %s"):format(i, name, tostring(err))) end
          end
          local agent = w.agent
          if #agent.session.open == 0 then w:check() end
        end
        w:resume()
        w:check()
      end)
    end
  end)
end)

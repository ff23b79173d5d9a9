-- scripts/toolcall.lua and agent:act: every call has exactly one result, whatever the model sends.
local reactor = require "terret.reactor"
local task = require "terret.task"
local toolcall = require "terret.toolcall"
local world = require "support.world"

-- One reply with these calls, then "done"; answers the world and the results in their order.
local function play(calls, options)
  options = options or {}
  options.script = { { tool_calls = calls }, { text = "done" } }
  local w = world.new(options)
  w:tool("echo", function(args) return args.text or "nothing" end)
  for name, tool in pairs(options.tools or {}) do
    if type(tool) == "function" then tool = { run = tool } end
    w:tool(name, tool.run, tool.fields)
  end
  return w
end

local function run(calls, options)
  local w <close> = play(calls, options)
  local result = w:prompt()
  w:check()
  return w:results(), result, w
end

describe("toolcall", function()
  describe("parse", function()
    it("makes arguments a JSON object and keeps what was sent when it can't", function()
      assert.equal('{"a":1}', toolcall.parse { name = "x", arguments = ' {"a" : 1} ' }.arguments)
      local call = toolcall.parse { name = "x", arguments = '{"a": "b' }
      assert.equal("{}", call.arguments)
      assert.equal('{"a": "b', call.raw)
      assert.matches("cut off", call.problem)
    end)

    it("takes nothing, blanks and null for no arguments", function()
      for _, given in ipairs { "", "  \n", "null", "{}" } do
        local call = toolcall.parse { name = "x", arguments = given }
        assert.is_nil(call.problem, given)
        assert.equal("{}", call.arguments)
      end
      assert.is_nil(toolcall.parse { name = "x" }.problem)
    end)

    it("refuses what is no object", function()
      for _, given in ipairs { "[]", "[1]", "3", '"text"', "true", "{,}", '{} {"a":1}', '{"a":1,"a":2}', "\0" } do
        assert.is_string(toolcall.parse({ name = "x", arguments = given }).problem, given)
      end
    end)

    it("says what it repaired", function()
      assert.equal("trailing_comma", toolcall.parse({ name = "x", arguments = '{"a":1,}' }).repairs)
    end)

    it("survives values of other types", function()
      for _, bad in ipairs { 7, true, {} } do
        local call = toolcall.parse { id = bad, name = bad, arguments = bad }
        assert.equal("", call.name)
        assert.equal("{}", call.arguments)
      end
    end)

    it("cuts a name that is no name", function()
      local call = toolcall.parse { name = ("x"):rep(10000) .. "\27[2J" }
      assert.equal(128, #call.name)
    end)
  end)

  describe("one result", function()
    it("for bad JSON, cut JSON, an unknown tool and wrong types, beside a good call", function()
      local results, result = run {
        { name = "echo", arguments = "{bad json" }, { name = "echo", arguments = '{"text":"x' },
        { name = "no_such_tool", arguments = "{}" }, { name = "echo", arguments = { text = { 1, 2 } } },
        { name = "echo", arguments = { text = "good" } } }
      assert.equal("done", result.status)
      assert.equal(5, #results)
      assert.matches("JSON", results[1])
      assert.matches("cut off", results[2])
      assert.matches("unknown tool 'no_such_tool'", results[3])
      assert.matches("echo", results[3]) -- names what there is
      assert.matches("text", results[4])
      assert.equal("good", results[5])
    end)

    it("for a tool that raises: a string, a table, nil, or an error that can't be shown", function()
      local nasty = setmetatable({}, { __tostring = function() error("no") end })
      local results, result = run({ { name = "boom", arguments = { n = 1 } }, { name = "boom", arguments = { n = 2 } },
        { name = "boom", arguments = { n = 3 } }, { name = "boom", arguments = { n = 4 } } },
        { tools = { boom = function(args) error(({ "text", { 1 }, nil, nasty })[args.n], 0) end } })
      assert.equal("done", result.status)
      assert.equal(4, #results)
      for _, r in ipairs(results) do assert.matches("failed", r) end
    end)

    it("for a tool that returns garbage", function()
      local given = { {}, 7, true, false, print }
      local calls = {}
      for i = 1, #given do calls[i] = { name = "odd", arguments = { n = i } } end
      calls[#calls + 1] = { name = "odd", arguments = { n = 99 } }
      local results, result = run(calls, { tools = { odd = function(args) return given[args.n] end } })
      assert.equal("done", result.status)
      assert.equal(6, #results)
      for i = 1, 5 do assert.is_true(#results[i] > 0) end
      assert.matches("without a message", results[6])
    end)

    it("for a tool that answers nil and a table as its message", function()
      local results = run({ { name = "odd" } }, { tools = { odd = function() return nil, { 1 } end } })
      assert.matches("table", results[1])
    end)

    it("for extra results that are no data", function()
      local extra = { f = print, t = { deep = {} } }
      extra.self = extra
      local results, _, w = run({ { name = "odd" } }, { tools = { odd = function() return "fine", extra end } })
      assert.equal("fine", results[1])
      assert.is_nil(w:seen("tool_result")[1].extra.f)
    end)

    it("for ids that are missing, doubled, empty, too long or hostile", function()
      local ids = { false, "same", "same", "", ("x"):rep(500), 'a"}\n\27[0m', "call_4_8", "call_4_8" }
      local calls = {}
      for i, id in ipairs(ids) do
        calls[i] = { id = id or nil, name = "echo", arguments = { text = tostring(i) } }
      end
      local results = run(calls)
      assert.same({ "1", "2", "3", "4", "5", "6", "7", "8" }, results)
    end)

    it("for an id that an earlier reply had", function()
      local w <close> = world.new { script = { { tool_calls = { { id = "a", name = "echo" } } },
        { tool_calls = { { id = "a", name = "echo" } } }, { text = "done" } } }
      w:tool("echo", function() return "here" end)
      assert.equal("done", w:prompt().status)
      w:check()
      local ids = {}
      for _, m in ipairs(w:view()) do ids[#ids + 1] = m.tool_call_id end
      assert.equal("a", ids[1])
      assert.not_equal("a", ids[2])
    end)

    it("of at most the cap for 10 MB in one line; the whole is kept", function()
      local big = ("0123456789"):rep(1000000)
      local w <close> = play({ { name = "big" } }, { tools = { big = function() return big end } })
      w:prompt()
      w:check()
      local r = w:results()[1]
      assert.is_true(#r < 52000, #r)
      local id = r:match('recall{id="(b%d+)"}')
      assert.equal(big, w.agent.session:read_blob(id))
      assert.matches("^0123456789", r)
      assert.matches("0123456789$", r)
    end)

    it("of valid text for NUL, broken UTF-8 and escape sequences", function()
      local w <close> = play({ { name = "bytes" } },
        { tools = { bytes = function() return "a\0b\xff\xfe\xed\xa0\x80c\27[31mred\27[0m" end } })
      w:prompt()
      w:check()
      local r = w:results()[1]
      assert.truthy(utf8.len(r))
      assert.is_nil(r:find("\0", 1, true))
      assert.is_nil(w.agent.session.view:render("", ""):find("[%z\1-\31\127]"))
    end)

    it("for many calls at once, which share a half of the window", function()
      local calls = {}
      for i = 1, 40 do calls[i] = { name = "big" } end
      local results = run(calls, { tools = { big = function() return ("line\n"):rep(20000) end } })
      local sum = 0
      for _, r in ipairs(results) do sum = sum + #r end
      assert.equal(40, #results)
      assert.is_true(sum < 128000 * 2, sum)
    end)
  end)

  describe("names", function()
    it("forgives case, separators and a prefix where one tool fits", function()
      local results = run { { name = "Echo", arguments = { text = "1" } },
        { name = "functions.echo", arguments = { text = "2" } } }
      assert.same({ "1", "2" }, results)
    end)

    it("does not guess where two fit", function()
      local results = run({ { name = "EC.HO" } }, { tools = { ["ec-ho"] = function() return "wrong" end } })
      assert.matches("unknown tool", results[1])
    end)

    it("are no patterns", function()
      local results = run { { name = ".*%", arguments = {} }, { name = "", arguments = {} } }
      assert.matches("unknown tool", results[1])
      assert.matches("unknown tool", results[2])
    end)
  end)

  describe("parallel calls", function()
    it("overlap and are stored in the order of the calls", function()
      local calls = {}
      for i = 1, 20 do calls[i] = { name = "nap", arguments = { n = i } } end
      local w <close> = play(calls, { tools = { nap = function(args)
        task.sleep(0.05 + (20 - args.n) * 0.001)
        return tostring(args.n)
      end } })
      local started = reactor.now()
      w:prompt()
      assert.is_true(reactor.now() - started < 0.5)
      for i, r in ipairs(w:results()) do assert.equal(tostring(i), r) end
      assert.equal(20, #w:results())
      w:check()
    end)

    it("keeps writers alone and in their place", function()
      local now, most, order = 0, 0, {}
      local function tool(name, writes)
        return { fields = { permission = writes and "write" or "none" }, run = function(args)
          now = now + 1
          if writes then most = math.max(most, now) end
          task.sleep(0.002)
          order[#order + 1] = name .. args.n
          now = now - 1
          return name
        end }
      end
      local results = run({ { name = "r", arguments = { n = 1 } }, { name = "w", arguments = { n = 2 } },
        { name = "w", arguments = { n = 3 } }, { name = "r", arguments = { n = 4 } },
        { name = "r", arguments = { n = 5 } } },
        { tools = { r = tool("r", false), w = tool("w", true) } })
      assert.same({ "r", "w", "w", "r", "r" }, results)
      assert.equal(1, most)
      assert.same({ "r1", "w2", "w3" }, table.move(order, 1, 3, 1, {}))
    end)
  end)

  describe("permission", function()
    local deny = { { verdict = "deny", rule = "tool(echo)", source = "test" } }

    it("denied calls are results and the run goes on", function()
      local results, result, w = run({ { name = "echo" } }, { rules = deny })
      assert.matches("^denied", results[1])
      assert.equal("done", result.status)
      assert.is_false(w:seen("permission")[1].allowed)
    end)

    it("what nobody can be asked is refused, and the status says so", function()
      local w <close> = play({ { name = "echo" } }, { mode = "ask", rules = { { verdict = "ask", rule = "tool(echo)",
        source = "test" } } })
      local result = w:prompt()
      assert.matches("refused", w:results()[1])
      assert.equal("refused", result.status)
      -- The next turn is judged by itself.
      w.cfg.script = function() return { text = "fine" } end
      assert.equal("done", w:prompt().status)
    end)

    it("asks one question at a time; an answer for the session covers the rest", function()
      local asked, open = 0, 0
      local function ui_ask(question)
        asked, open = asked + 1, open + 1
        assert.equal(1, open)
        task.sleep(0.002)
        open = open - 1
        return { verdict = "allow", scope = "session", rule = question.propose }
      end
      local results = run({ { name = "odd" }, { name = "odd" }, { name = "odd" } }, { mode = "ask", ask = ui_ask,
        tools = { odd = { run = function() return "ran" end, fields = { permission = "special" } } } })
      assert.same({ "ran", "ran", "ran" }, results)
      assert.equal(1, asked)
    end)

    it("a no, a nil and a user interface that fails are a no", function()
      for _, answer in ipairs { function() return { verdict = "deny", words = "no" } end, function() return nil end,
        function() error("broken") end } do
        local ran = false
        local results = run({ { name = "odd" } }, { mode = "ask", ask = answer, tools = { odd = function()
          ran = true
          return "ran"
        end }, rules = { { verdict = "ask", rule = "tool(odd)", source = "test" } } })
        assert.is_false(ran)
        assert.equal(1, #results)
      end
    end)

    it("a guard that fails denies", function()
      local w <close> = play({ { name = "echo", arguments = { text = "ran" } } })
      local agent = w:open()
      agent.permissions = { check = function() error("guard broke") end }
      assert.equal("done", w:prompt().status)
      assert.matches("guard broke", w:results()[1])
    end)
  end)

  it("arguments in which the redaction changes something are not run", function()
    local ran = false
    local w <close> = play({ { name = "leak", arguments = { text = "the key is topsecretvalue123" } } },
      { tools = { leak = function() ran = true return "ran" end } })
    w.cfg.api_key = "topsecretvalue123"
    assert.equal("done", w:prompt().status)
    assert.is_false(ran)
    assert.matches("secret of the user", w:results()[1])
  end)

  it("a tool that catches everything can still be interrupted", function()
    local w <close> = play({ { name = "stubborn" } }, { tools = { stubborn = function()
      for _ = 1, 3 do pcall(task.sleep, 60) end
      return "went on"
    end } })
    local agent = w:open()
    local result = task.run(function()
      task.spawn(function()
        while #w:seen("tool_call") == 0 do task.sleep(0.001) end
        agent:interrupt()
      end)
      return agent:prompt("go")
    end)
    assert.equal("interrupted", result.status)
    assert.equal(1, #w:results())
    w:check()
  end)
end)

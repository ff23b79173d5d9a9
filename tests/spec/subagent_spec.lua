-- The subagents of scripts/setup.lua: own context, fewer tools, one report, the budget of the tree.
local world = require "support.world"

local function make(script, options)
  options = options or {}
  options.script = script
  local w = world.new(options)
  w:tool("echo", function(args) return args.text or "" end)
  return w
end

describe("setup.subagent", function()
  local function with_sub(sub, options)
    local ask = { name = "agent", arguments = { prompt = "find it" } }
    return make({ main = { { tool_calls = { ask } }, { text = "end" } }, sub = sub }, options)
  end

  it("has its own context, and only its last message returns", function()
    local seen
    local w <close> = with_sub { function(request)
      seen = request.messages
      return { text = "thinking", tool_calls = { { name = "echo", arguments = { text = "secret detail" } } } }
    end, { text = "the report" } }
    w:prompt("the main task")
    assert.is_nil(seen:find("the main task", 1, true))
    assert.truthy(seen:find("find it", 1, true))
    assert.same({ "the report" }, w:results())
    assert.is_nil(w.agent.session.view:render("", ""):find("secret detail", 1, true))
    assert.equal(4, w.agent.budget.spent.steps)
    local states = {}
    for _, e in ipairs(w:seen("subagent")) do states[#states + 1] = e.state end
    assert.same({ "start", "done" }, states)
    w:check()
  end)

  it("can't call agent, todo or what writes, offered or not", function()
    local asked = {}
    for i, name in ipairs { "agent", "todo", "write", "edit", "Write", "writer" } do
      asked[i] = { name = name, arguments = { prompt = "x", path = "f", content = "x", items = {} } }
    end
    local said
    local w <close> = with_sub { { tool_calls = asked }, function(request)
      said = request.messages
      return { text = "report" }
    end }
    w:tool("writer", function() return "wrote" end, { writer = true })
    w:prompt()
    local _, count = said:gsub("unknown tool", "")
    assert.equal(#asked, count)
    assert.is_nil(w:get("f"))
    local list
    for _, e in ipairs(w:seen("subagent")) do list = list or e.id end
    local header = require("terret.session").read(w.agent.session.dir .. "/agents/" .. list .. "/log.jsonl")[1]
    for _, name in ipairs { "agent", "todo", "write", "edit" } do
      assert.is_nil(header.tools:find('"name":"' .. name .. '"', 1, true), name)
    end
  end)

  it("is not nested deeper than its limit", function()
    local w <close> = make { { text = "x" } }
    local agent = w:open()
    agent.depth = 3
    local report, message, code = agent:spawn { prompt = "x" }
    assert.is_nil(report)
    assert.is_string(message)
    assert.equal("denied", code)
  end)

  it("whose endpoint fails is a failed call, not a failed run", function()
    local w <close> = with_sub { { error = "no such model", class = "bad_request" } }
    local r = w:prompt()
    assert.equal("done", r.status)
    assert.matches("no such model", w:results()[1])
    w:check()
  end)

  it("does not take the notes that are meant for the main agent", function()
    local w <close> = make { main = { { tool_calls = { { name = "read", arguments = { path = "f" } } } },
      { tool_calls = { { name = "change" }, { name = "agent", arguments = { prompt = "x" } } } }, { text = "end" } },
      sub = { { text = "report" } } }
    w:put("f", "one")
    w:tool("change", function()
      w:put("f", "changed now")
      return "changed"
    end)
    w:prompt()
    assert.truthy(w.agent.session.view:render("", ""):find("changed on disk", 1, true))
    w:check()
  end)
end)

-- Extensions as files of the user: loaded, left out, reloaded; loops that are swapped while they run.
local events = require "terret.events"
local extensions = require "terret.extensions"
local fs = require "terret.fs"
local task = require "terret.task"
local world = require "support.world"

describe("extensions", function()
  local w
  before_each(function()
    events.anew(function() end)
    extensions.loaded = {}
    w = world.new {}
  end)
  after_each(function()
    w:close()
    events.anew(function() end)
  end)

  local function put(name, source)
    local path = ("%s/config/extensions/%s.lua"):format(w.dir, name)
    assert(fs.write(path, source, { parents = true }))
    return path
  end
  local function play(...)
    local list = { ... }
    w.cfg.script = function() return table.remove(list, 1) or { text = "end" } end
  end
  local function warnings()
    local out = {}
    for _, e in ipairs(w:seen "warning") do out[#out + 1] = e.text end
    return table.concat(out, "\n")
  end

  it("of the user's directory are loaded, in the order of their names", function()
    put("b", [[ require("terret").on("prompt", function(e, next) return next { text = e.text .. " b" } end) ]])
    put("a", [[ require("terret").on("prompt", function(e, next) return next { text = e.text .. " a" } end) ]])
    play { text = "x" }
    w:prompt("go")
    assert.truthy(w.agent.session.view:render("", ""):find("go a b", 1, true))
    assert.equal(2, #w:logged "hook")
    w:check()
  end)

  it("that are broken are named with file and line and left out", function()
    local broken = put("broken", "local x =\n\n= 5")
    put("raises", "\nerror('boom')")
    put("hangs", "while true do end")
    put("global", "x = 1")
    put("good", [[ require("terret").on("prompt", function(e, next) return next { text = "changed" } end) ]])
    put("wrong", [[ require("terret").on("nonesuch", print) ]])
    extensions.load_seconds = 0.05
    play { text = "x" }
    assert.equal("done", w:prompt("go").status)
    local said = warnings()
    assert.truthy(said:find(broken .. ":3:", 1, true), said)
    for _, words in ipairs { "raises.lua:2: boom", "hangs.lua", "sets the global 'x'", "no event 'nonesuch'" } do
      assert.truthy(said:find(words, 1, true), words)
    end
    assert.truthy(w.agent.session.view:render("", ""):find("changed", 1, true))
  end)

  it("that are broken and speak of guards deny", function()
    put("guard", [[
      local terret = require "terret"
      terret.on("tool.policy", function(e, next) return next() end)
      error("late")
    ]])
    play { tool_calls = { { name = "bash", arguments = { command = "true" } } } }
    w:prompt("go")
    assert.truthy(w:results()[1]:find("denied: .*guard.lua is broken"))
  end)

  it("are loaded anew by /reload, which hands their state over", function()
    local source = [[
      local terret, count = require "terret", 0
      terret.on("prompt", function(e, next)
        count = count + 1
        return next { text = "VERSION " .. count }
      end)
      return { save = function() return count end, restore = function(n) count = n end }
    ]]
    put("count", (source:gsub("VERSION", "one")))
    play {}
    w:prompt("go")
    put("count", (source:gsub("VERSION", "two")))
    local reload = require "terret.commands.reload"
    assert.equal("loaded anew", reload.run { agent = w.agent, cfg = w.cfg })
    w:prompt("go")
    assert.truthy(w.agent.session.view:render("", ""):find("two 2", 1, true))
    put("count", "error('no longer good')")
    local said = reload.run { agent = w.agent, cfg = w.cfg }
    assert.truthy(said:find("nothing was changed", 1, true))
    assert.truthy(said:find("count.lua:1: no longer good", 1, true))
    assert.truthy(said:find("stack traceback", 1, true))
    w:prompt("go")
    assert.truthy(w.agent.session.view:render("", ""):find("two 3", 1, true))
  end)

  it("of session.record change words and add fields, never the structure", function()
    put("log", [[
      require("terret").on("session.record", function(e, next)
        local record = require("terret").copy(e.record)
        if record.content then record.content = record.content:gsub("secret", "******") end
        record.type, record.role, record.call_id, record.team = "warning", "user", "x", "blue"
        return next { record = record }
      end)
    ]])
    w:tool("echo", function() return "a secret" end)
    play({ text = "the secret", tool_calls = { { name = "echo" } } }, { text = "end" })
    w:prompt("a secret, too")
    w:check()
    local said = w.agent.session.view:render("", "")
    assert.is_nil(said:find("secret", 1, true))
    assert.same({ "a ******" }, w:results())
    assert.equal("blue", w:logged("message")[1].team)
  end)

  it("registered by others stay at a reload; a project's changed file asks again", function()
    local heard = 0
    put("x", [[ require("terret").on("prompt", function(e, next) return next() end) ]])
    w:put(".terret/tools/hello.lua", [[return { name = "hello", description = "x", permission = "none", parameters = {},
      run = function() return "hello" end }]])
    w.cfg.trust = true
    play {}
    w:open()
    events.on("prompt", function(_, next)
      heard = heard + 1
      return next()
    end)
    local reload = require "terret.commands.reload"
    assert.equal("loaded anew", reload.run { agent = w.agent, cfg = w.cfg })
    w:prompt("go")
    assert.equal(1, heard)
    w.cfg.trust = nil
    assert.truthy(reload.run({ agent = w.agent, cfg = w.cfg }):find("isn't trusted", 1, true))
    assert.is_nil(require("terret.registry").project)
  end)

  it("a loop is swapped between two steps of a running turn", function()
    w:tool("echo", function() return "x" end)
    play({ tool_calls = { { name = "echo" } } }, { text = "from the new loop" })
    w:open()
    local trace = {}
    w.agent.loop = function(agent)
      local reply = agent:ask()
      agent:act(reply.tool_calls)
      agent.loop = function(again)
        trace[#trace + 1] = again == agent
        again:ask()
      end
      agent:ask()
      trace[#trace + 1] = "never"
    end
    local result = w:prompt("go")
    assert.equal("done", result.status)
    assert.equal("from the new loop", result.text)
    assert.same({ true }, trace)
    w:check()
  end)

  it("loop.select and loop.stop decide over a turn", function()
    put("loops", [[
      local terret = require "terret"
      terret.on("loop.select", function() return function(agent) agent:ask() end end)
      terret.on("loop.stop", function(e) if e.times == 0 then return "Is it really done?" end end)
    ]])
    play({ text = "done" }, { text = "yes" })
    assert.equal("yes", w:prompt("go").text)
  end)

  it("a supply answers for the user, and for nobody", function()
    put("ask", [[
      require("terret").on("tool.ask", function(e)
        if e.request.command == "echo fine" then return { verdict = "allow" } end
        return { verdict = "deny", words = "not that" }
      end)
    ]])
    w.cfg.mode, w.cfg.isolated = "ask", false
    w.cfg.rules = { { verdict = "ask", rule = "echo *", source = "test" } }
    play({ tool_calls = { { name = "bash", arguments = { command = "echo fine" } },
      { name = "bash", arguments = { command = "echo bad" } } } })
    assert.equal("done", w:prompt("go").status)
    assert.truthy(w:results()[1]:find("fine", 1, true))
    assert.truthy(w:results()[2]:find("not that", 1, true))
  end)

  it("arguments that a handler changed are validated and permitted again", function()
    put("args", [[
      require("terret").on("tool.call", function(e, next)
        return next { args = { command = e.args.command == "true" and 5 or "touch secret-place" } }
      end)
    ]])
    w.cfg.rules = { { verdict = "deny", rule = "touch *", source = "test" } }
    play({ tool_calls = { { name = "bash", arguments = { command = "true" } },
      { name = "bash", arguments = { command = "false" } } } })
    w:prompt("go")
    assert.truthy(w:results()[2]:find("denied", 1, true))
    assert.is_nil(w:get("secret-place"))
  end)

  it("hear of subagents, too", function()
    put("sub", [[
      require("terret").on("tool.policy", function(e, next)
        if e.depth > 0 then return "deny", "not in a subagent" end
        return next()
      end)
    ]])
    local said
    w.cfg.script = function(request)
      if request.agent == "main" then
        if request.turn == 1 then return { tool_calls = { { name = "agent", arguments = { prompt = "x" } } } } end
        return { text = "end" }
      end
      if request.turn == 1 then return { tool_calls = { { name = "bash", arguments = { command = "true" } } } } end
      said = request.messages
      return { text = "report" }
    end
    w:prompt("go")
    assert.truthy(said:find("denied: not in a subagent", 1, true))
  end)

  it("that can't be recorded end the turn", function()
    put("x", [[ require("terret").on("prompt", function(e, next) return next { text = "y" } end) ]])
    w:open()
    w.agent.session.log:close()
    local result = w:prompt("go")
    assert.equal("failed", result.status)
    w.agent.session.log = nil
  end)

  it("cost nothing at the start when there are none", function()
    local loaded = package.loaded["terret.extensions"]
    package.loaded["terret.extensions"] = nil
    w:open()
    assert.is_nil(package.loaded["terret.extensions"])
    package.loaded["terret.extensions"] = loaded
  end)

  describe("stuck:", function()
    local function same(n, text)
      return { text = text, tool_calls = { { name = "todo", arguments = { items = { { text = tostring(n),
        status = "pending" } } } } } }
    end

    it("the same step three times is told, then stopped", function()
      w.cfg.script = function() return same(1) end
      local result = w:prompt("go")
      assert.equal("limit", result.status)
      assert.truthy(result.message:find("repeats itself", 1, true))
      assert.equal(6, result.steps)
      assert.truthy(w.agent.session.view:render("", ""):find("Don't repeat them", 1, true))
      w:check()
    end)

    for period = 2, 4 do
      it("a circle of " .. period .. " steps", function()
        w.cfg.script = function(request) return same(request.turn % period) end
        local result = w:prompt("go")
        assert.equal("limit", result.status)
        assert.equal(6 * period, result.steps)
      end)
    end

    it("different steps are no circle, nor is polling within a tool's patience", function()
      w.cfg.script = function(request)
        if request.turn > 20 then return { text = "done" } end
        return same(request.turn)
      end
      assert.equal("done", w:prompt("go").status)
    end)

    it("a handler decides", function()
      put("stuck", [[ require("terret").on("loop.stuck", function(e) return { stop = "enough of " .. e.times } end) ]])
      w.cfg.script = function() return same(1) end
      local result = w:prompt("go")
      assert.equal("enough of 3", result.message)
      assert.equal(3, result.steps)
    end)
  end)

  it("task: a turn with handlers leaves no task behind", function()
    put("x", [[ require("terret").on("turn.end", function() end) ]])
    play {}
    w:prompt("go")
    assert.is_nil(task.current())
  end)
end)

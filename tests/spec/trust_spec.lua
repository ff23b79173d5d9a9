-- What a project brings: nothing before trust, then only what was hashed, and guards only stricter.
local events = require "terret.events"
local exec = require "terret.exec"
local extensions = require "terret.extensions"
local fs = require "terret.fs"
local registry = require "terret.registry"
local terret = require "support.terret"
local trust = require "terret.trust"
local world = require "support.world"

local GUARD = [[
local terret = require "terret"
terret.on("tool.policy", function(e, next)
  if e.command == "echo no" then return "allow" end
  return "deny", "the project says no"
end)
terret.on('tool.ask', function() return { verdict = "allow" } end)
]]

local TOOL = [[return { name = "hello", description = "Says hello.", permission = "none", parameters = {},
  run = function() return "hello" end }]]

describe("trust", function()
  local w
  before_each(function()
    events.anew(function() end)
    extensions.loaded = {}
    w = world.new { script = {} }
  end)
  after_each(function()
    w:close()
    registry.project = nil
    events.anew(function() end)
  end)

  local function trusted()
    assert(trust.remember(w.state, w.project, assert(trust.scan(w.project))))
  end
  local function warned()
    local out = {}
    for _, e in ipairs(w:seen "warning") do out[#out + 1] = e.text end
    return table.concat(out, "\n")
  end

  it("nothing runs before it, and one line says so", function()
    w:put(".terret/extensions/x.lua", "error('it ran')")
    w:put(".terret/tools/hello.lua", TOOL)
    local agent = w:open()
    assert.is_nil(agent.tools.hello)
    assert.equal(1, #w:seen "warning")
    assert.truthy(warned():find(w.project .. "/.terret isn't trusted", 1, true))
  end)

  it("is of a path and of contents; a change asks again", function()
    w:put(".terret/tools/hello.lua", TOOL)
    trusted()
    assert.equal("hello", w:open().tools.hello.name)
    assert.equal("trusted", trust.state(w.state, w.project, trust.scan(w.project)))
    w:put(".terret/tools/hello.lua", TOOL .. " ")
    assert.equal("changed", trust.state(w.state, w.project, trust.scan(w.project)))
    registry.project = nil
    assert.is_nil(w:open().tools.hello)
    assert.truthy(warned():find("has changed", 1, true))
    w:put(".terret/tools/hello.lua", TOOL)
    w:put(".terret/loops/more.lua", "return function() end")
    assert.equal("changed", trust.state(w.state, w.project, trust.scan(w.project)))
    assert.equal("new", trust.state(w.state, w.project .. "x", trust.scan(w.project)))
  end)

  it("loads the bytes that were hashed, not what lies there later", function()
    w:put(".terret/loops/mine.lua", "return function(agent) agent:say('assistant', 'first') end")
    trusted()
    w.cfg.trusted = assert(trust.load(w.cfg))
    registry.project = w.cfg.trusted
    w:put(".terret/loops/mine.lua", "error('second')")
    assert.equal("function", type(registry.load("loops", "mine")))
  end)

  it("covers its kinds only: no module, provider or setting", function()
    for _, path in ipairs { "scripts/permissions.lua", "providers/openai.lua", "sandbox/none.lua", "config.lua",
      "rules", "ui/plain.lua", "cli/demo.lua", "tools/x.txt", "tools/a/b.lua" } do
      w:put(".terret/" .. path, "error('it ran')")
    end
    assert.same({}, trust.scan(w.project))
  end)

  it("does not follow a link out of the project", function()
    assert(fs.write(w.dir .. "/secret.lua", "return 1"))
    assert(fs.mkdir(w.project .. "/.terret/tools", { parents = true }))
    local link <close> = assert(exec.spawn { argv = { "/bin/ln", "-s", w.dir .. "/secret.lua",
      w.project .. "/.terret/tools/x.lua" } })
    require("terret.task").await(link)
    local files = trust.scan(w.project)
    assert.is_true(files == nil or #files == 0)
    assert.truthy(w:open())
  end)

  it("a project's file replaces nothing", function()
    w:put(".terret/tools/bash.lua", TOOL)
    w:put(".terret/loops/react.lua", "error('it ran')")
    trusted()
    local agent = w:open()
    assert.equal("bash", agent.tools.bash.name)
    assert.equal("done", (function()
      w.cfg.script = function() return { text = "x" } end
      return w:prompt("go")
    end)().status)
  end)

  it("a project's guards are only stricter, its answers only no", function()
    w:put(".terret/extensions/guard.lua", GUARD)
    trusted()
    w.cfg.mode = "ask"
    w.cfg.rules = { { verdict = "deny", rule = "echo no", source = "user" } }
    local turns = { { tool_calls = { { name = "bash", arguments = { command = "echo no" } },
      { name = "bash", arguments = { command = "echo hi" } },
      { name = "write", arguments = { path = "f", content = "x" } } } }, { text = "end" } }
    w.cfg.script = function() return table.remove(turns, 1) end
    w:prompt("go")
    assert.truthy(w:results()[1]:find("^denied"), table.concat(w:results(), "\n"))
    assert.truthy(w:results()[2]:find("the project says no", 1, true))
    assert.truthy(w:results()[3]:find("the project says no", 1, true))
  end)

  it("describes files without running them", function()
    w:put(".terret/extensions/x.lua", GUARD)
    w:put(".terret/tools/hello.lua", TOOL)
    local files = trust.scan(w.project)
    assert.equal("an extension that hears tool.policy, tool.ask", trust.describe(files[1]))
    assert.equal("tool 'hello'", trust.describe(files[2]))
  end)

  describe("on the command line:", function()
    local home
    before_each(function() home = terret.home() end)
    after_each(function() home:close() end)
    local SCRIPT = [[return { { tool_calls = { { name = "hello" } } }, { text = "end" } }]]

    it("headless is untrusted, --trust is for one run", function()
      home:put("project/.terret/tools/hello.lua", TOOL)
      local r = home:play(SCRIPT, { "--output", "jsonl" })
      assert.is_false(terret.event(terret.events(r.out), "tool_result").ok)
      assert.truthy(r.out:find("isn't trusted", 1, true))
      r = home:play(SCRIPT, { "--output", "jsonl", "--trust" })
      assert.equal("hello", terret.event(terret.events(r.out), "tool_result").text, r.err)
      r = home:play(SCRIPT, { "--output", "jsonl" })
      assert.is_false(terret.event(terret.events(r.out), "tool_result").ok)
    end)

    it("terret trust shows and does not trust where nobody can be asked", function()
      assert.truthy(home:run({ "trust" }).out:find("nothing to trust", 1, true))
      home:put("project/.terret/tools/hello.lua", TOOL)
      home:put("project/.terret/extensions/e.lua", GUARD)
      local r = home:run { "trust" }
      assert.equal(1, r.code)
      assert.truthy(r.out:find("tool 'hello'", 1, true))
      assert.truthy(r.out:find("an extension that hears tool.policy", 1, true))
      assert.truthy(r.err:find("nobody can be asked", 1, true))
      assert.is_nil(home:get(home.state .. "/trust.json"))
    end)

    it("terret hooks prints the table, and who listens in which order", function()
      home:put(home.config .. "/extensions/late.lua", [[require("terret").on("tool.policy", print)]])
      home:put(home.config .. "/extensions/first.lua",
        [[require("terret").on("tool.policy", print, { priority = 5 })]])
      local r = home:run { "hooks" }
      assert.equal(0, r.code, r.err)
      for _, row in ipairs(events.list) do
        assert.truthy(("\n" .. r.out):find("\n" .. row.name .. " ", 1, true), row.name)
      end
      r = home:run { "hooks", "tool.policy" }
      assert.truthy(r.out:find("first.*late"))
      assert.truthy(r.out:find("a handler that fails denies", 1, true))
      assert.equal(2, home:run({ "hooks", "nonesuch" }).code)
    end)
  end)
end)

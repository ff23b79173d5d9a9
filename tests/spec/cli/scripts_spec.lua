-- terret tools, loops, providers, which, eject, check, init: what a user sees of the script files.
local fs = require "terret.fs"
local json = require "terret.json"
local terret = require "support.terret"

local TOOL = [[
-- mine.lua - not shown, since the description is there.
return { name = "mine", description = "Does \27[31mmy thing. And more.", permission = "none", parameters = {},
  run = function() return "x" end }
]]

describe("scripts on the command line", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local function run(...) return home:run { ... } end
  local function user(path, data) return home:put(home.config .. "/" .. path, data) end
  local function find(list, name)
    for _, e in ipairs(list) do
      if e.name == name then return e end
    end
  end

  describe("terret tools, loops, providers", function()
    it("list what ships", function()
      assert.truthy(find(json.decode(run("tools", "--json").out), "bash").description:find("sandbox", 1, true))
      local react = find(json.decode(run("loops", "--json").out), "react")
      assert.equal("the default loop: ask, act, until the model calls nothing", react.description)
      assert.same({}, react.problems)
      assert.truthy(find(json.decode(run("providers", "--json").out), "openai"))
    end)

    it("list the user's, with their path, safely", function()
      local path = user("tools/mine.lua", TOOL)
      assert.equal(path, find(json.decode(run("tools", "--json").out), "mine").path)
      local out = run("tools").out
      assert.truthy(out:find("mine       Does \\x1b[31mmy thing\n           " .. path, 1, true))
      assert.is_nil(out:find("\27", 1, true))
    end)

    it("name broken ones with the reason, and exit 0", function()
      user("tools/a.lua", "return {")
      user("tools/b.lua", "return { name = 'b', description = 'd', permission = 'none', run = function() end }")
      user("tools/c.lua", "return { name = 'c', description = 'd', permission = 'none',"
        .. " parameters = { x = { 'strin' } }, run = function() end }")
      user("loops/d.lua", "return 5")
      user("providers/e.lua", "error 'boom'")
      local r = run("tools", "--json")
      assert.equal(0, r.code)
      local list = json.decode(r.out)
      assert.truthy(find(list, "a").problems[1]:find("a.lua:1", 1, true))
      assert.truthy(find(list, "b").problems[1]:find("field 'parameters' must be a table", 1, true))
      assert.truthy(find(list, "c").problems[1]:find("no type 'strin'", 1, true))
      assert.truthy(run("loops").out:find("! ", 1, true))
      assert.truthy(find(json.decode(run("providers", "--json").out), "e").problems[1]:find("boom", 1, true))
    end)

    it("take the sandbox's modules from sandbox/, then from scripts/sandbox/", function()
      local name, env = "terret.sandbox.policy.secrets", { env = { TERRET_PATH = false } }
      local file = home:put("ask.lua", "return { { text = 'x' } }")
      local ask = { "-p", "x", "--provider", "scripted", "--script", file }
      local path = user("scripts/sandbox/policy/secrets.lua", "error 'mine'")
      assert.equal(path .. "\n", home:run({ "which", name }, env).out)
      assert.truthy(home:run(ask, env).err:find("mine", 1, true))
      path = user("sandbox/policy/secrets.lua", "error 'first'")
      assert.equal(path .. "\n", home:run({ "which", name }, env).out)
      assert.truthy(home:run(ask, env).err:find("first", 1, true))
    end)

    it("take no arguments", function()
      for _, kind in ipairs { "tools", "loops", "providers" } do assert.equal(2, run(kind, "x").code) end
    end)
  end)

  describe("terret which", function()
    it("says where a thing comes from", function()
      assert.truthy(run("which", "tools/bash").out:find("tools/bash.lua", 1, true))
      assert.truthy(run("which", "terret.task").out:find("task.lua", 1, true))
      assert.truthy(run("which", "terret.sandbox.policy").out:find("sandbox/policy.lua", 1, true))
      assert.equal("[C module in the executable]\n", run("which", "terret.json").out)
    end)

    it("names the user's file when it wins", function()
      local path = user("tools/bash.lua", TOOL)
      assert.equal(path .. "\n", home:run({ "which", "tools/bash" }, { env = { TERRET_PATH = false } }).out)
      local task = user("scripts/task.lua", "return {}")
      assert.equal(task .. "\n", home:run({ "which", "terret.task" }, { env = { TERRET_PATH = false } }).out)
    end)

    it("lists all that a bare word can mean", function()
      local out = run("which", "sandbox").out
      assert.truthy(out:find("cli/sandbox ", 1, true))
      assert.truthy(out:find("sandbox/init.lua", 1, true))
    end)

    it("fails on what isn't there, and on paths", function()
      for _, name in ipairs { "nonesuch", "tools/nonesuch", "../../etc/passwd", "/etc/passwd", "terret..x", "" } do
        local r = run("which", name)
        assert.equal(1, r.code, name)
        assert.equal("", r.out)
      end
      assert.equal(2, run("which").code)
    end)
  end)

  describe("terret eject", function()
    it("copies to the right place, where the copy wins", function()
      local r = run("eject", "loops/react")
      assert.equal(0, r.code, r.err)
      local path = home.config .. "/loops/react.lua"
      assert.equal(path .. "\n", r.out)
      assert.truthy(home:get(path):find("agent:ask()", 1, true))
      assert.equal(path .. "\n", home:run({ "which", "loops/react" }, { env = { TERRET_PATH = false } }).out)
      run("eject", "terret.retry")
      assert.truthy(home:get(home.config .. "/scripts/retry.lua"))
      run("eject", "sandbox/none")
      assert.truthy(home:get(home.config .. "/sandbox/none.lua"))
    end)

    it("never overwrites", function()
      local path = user("tools/edit.lua", "mine")
      local r = run("eject", "tools/edit")
      assert.equal(1, r.code)
      assert.equal("mine", home:get(path))
    end)

    it("refuses C modules, unknown names and names with several meanings", function()
      assert.truthy(run("eject", "terret.json").err:find("C module", 1, true))
      assert.truthy(run("eject", "nonesuch").err:find("there is no 'nonesuch'", 1, true))
      assert.truthy(run("eject", "sandbox").err:find("name one", 1, true))
      assert.equal(1, run("eject", "skills/nonesuch").code)
      assert.equal(2, run("eject").code)
      assert.is_nil((fs.stat(home.config)))
    end)
  end)

  describe("terret check", function()
    local function check(path, data, ...) return run("check", home:put(path, data), ...) end

    it("knows the kind by the directory", function()
      local r = check("tools/mine.lua", TOOL)
      assert.equal(0, r.code, r.err)
      assert.truthy(r.out:find("tool 'mine', permission none", 1, true))
      assert.equal(0, check("loops/x.lua", "return function() end").code)
      assert.equal(2, check("elsewhere/x.lua", "return function() end").code)
      assert.equal(0, check("elsewhere/x.lua", "return function() end", "--kind", "loops").code)
    end)

    it("says what is wrong, with file and line", function()
      local cases = {
        ["return {\n  a = \n}"] = "x.lua:3:", ["local a = 1\nb = 2\nreturn {}"] = "x.lua:2: sets the global 'b'",
        ["return { name = undefined }"] = "x.lua:1: undeclared global 'undefined'",
        ["return function() end"] = "must return a table", ["return { name = 'x' }"] = "field '",
        ["io.write 'x' return {}"] = "x.lua:1: calls io.write", ["os.execute 'x' return {}"] = "calls os.execute",
      }
      local tool = "return { name = 'x', description = '%s', permission = '%s', parameters = {}, run = print }"
      cases[tool:format(" ", "none")] = "description is empty"
      cases[tool:format("d", "all")] = "permission must be"
      for source, words in pairs(cases) do
        local r = check("tools/x.lua", source)
        assert.equal(1, r.code, source)
        assert.truthy(r.err:find(words, 1, true), r.err)
      end
    end)

    it("runs a configuration with nothing to call", function()
      assert.equal(0, check("config.lua", "return { model = 'm' }").code)
      assert.equal(1, check("config.lua", "return { model = os.getenv 'X' }").code)
      assert.equal(1, check("config.lua", "return 5").code)
    end)

    it("takes one file", function()
      assert.equal(2, run("check").code)
      assert.equal(2, run("check", "/nonexistent").code)
      assert.equal(2, run("check", "a", "--kind", "nonesuch").code)
    end)
  end)

  describe("terret init", function()
    it("writes files that terret itself accepts, and never overwrites", function()
      local r = run("init")
      assert.equal(0, r.code, r.err)
      local config = home.config .. "/config.lua"
      assert.equal(0, run("check", config).code)
      assert.equal("Lua 5.4", json.decode(home:get(home.config .. "/.luarc.json"))["runtime.version"])
      home:put(config, "return { model = 'mine' }")
      r = run("init")
      assert.equal(0, r.code)
      assert.truthy(r.out:find("kept   " .. config, 1, true))
      assert.equal("return { model = 'mine' }", home:get(config))
      assert.equal(2, run("init", "x").code)
    end)

    it("fails where it can't write", function()
      home:put("config", "a file in the way")
      assert.equal(1, run("init").code)
    end)

    it("names only settings that exist", function()
      run("init")
      local source = home:get(home.config .. "/config.lua")
      source = source:gsub("\n  %-%- ([%l_]+ = )", "\n  %1"):gsub("\n  %-%-   price", "\n  price")
      home:put(home.config .. "/config.lua", source)
      local r = home:play("return { { text = 'x' } }")
      assert.is_nil(r.err:find("unknown key", 1, true), r.err)
      assert.is_nil(r.err:find("config.lua", 1, true), r.err)
    end)
  end)
end)

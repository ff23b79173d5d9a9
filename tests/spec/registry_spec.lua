-- A directory is a registry: whose file wins, what a file must return, what is said of one that doesn't.
local fs = require "terret.fs"
local json = require "terret.json"
local registry = require "terret.registry"
local terret = require "support.terret"

-- Runs Lua in the executable, where the user's directory is one of the registry's.
local CHILD = [[
local registry, json = require "terret.registry", require "terret.json"
local function answer(value, message, code) return { value ~= nil, message, code } end
local out = {}
%s
print(json.encode(out))
]]

local TOOL = [[return { name = "%s", description = "Mine.", permission = "none", parameters = {},
  run = function() return "x" end }]]

-- Lua shortens a long file name in its messages from the left.
local function shown(path) return path:sub(-24) end

describe("registry", function()
  describe("check", function()
    local nothing = function() end
    local GOOD = {
      tools = { name = "a", description = "b", permission = "none", parameters = {}, run = nothing },
      providers = { name = "a", answer = nothing },
      sandbox = { name = "a", available = nothing, wrap = nothing },
      ui = { event = nothing },
      cli = { summary = "a", usage = "b", run = nothing },
      commands = { description = "a", run = nothing },
      agents = { description = "a" },
    }
    -- Those that may be missing, with a value of the wrong type.
    local OPTIONAL = { tools = { subject = 1, offered = "x", writer = "yes" }, ui = { ask = true, input = {} },
      providers = { encode = 1, build = {}, parse = "x" } }

    local function with(value, field, x)
      local copy = {}
      for key, y in pairs(value) do copy[key] = y end
      copy[field] = x
      return copy
    end

    it("hands back what keeps the contract", function()
      for kind, value in pairs(GOOD) do assert.equal(value, registry.check(kind, value, "f.lua")) end
    end)

    for kind, value in pairs(GOOD) do
      it("names each field of " .. kind .. " that is missing or of another type", function()
        for field, x in pairs(value) do
          if not (kind == "providers" and field == "answer") then
            local have, message, code = registry.check(kind, with(value, field, nil), "f.lua")
            assert.is_nil(have)
            assert.equal(("f.lua: field '%s' must be a %s, is nil"):format(field, type(x)), message)
            assert.equal("bad_script", code)
          end
          local _, message = registry.check(kind, with(value, field, 5), "f.lua")
          assert.equal(("f.lua: field '%s' must be a %s, is number"):format(field, type(x)), message)
        end
      end)
    end

    for kind, fields in pairs(OPTIONAL) do
      it("checks the fields of " .. kind .. " that may be missing", function()
        for field, x in pairs(fields) do
          local have, message = registry.check(kind, with(GOOD[kind], field, x), "f.lua")
          assert.is_nil(have)
          assert.is_truthy(message:find(("f.lua: field '%s' must be a "):format(field), 1, true), message)
        end
      end)
    end

    it("a provider has a network or an answer", function()
      local whole = { name = "a", encode = nothing, build = nothing, parse = nothing }
      assert.equal(whole, registry.check("providers", whole, "f.lua"))
      for _, field in ipairs { "encode", "build", "parse" } do
        local have, message, code = registry.check("providers", with(whole, field, nil), "f.lua")
        assert.is_nil(have)
        assert.equal("f.lua: a provider has encode, build and parse, or answer", message)
        assert.equal("bad_script", code)
      end
    end)

    it("a loop is a function", function()
      assert.equal(nothing, registry.check("loops", nothing, "f.lua"))
      local have, message, code = registry.check("loops", {}, "f.lua")
      assert.is_nil(have)
      assert.equal("f.lua: a loop file returns a function, this returns a table", message)
      assert.equal("bad_script", code)
    end)

    it("everything else is a table", function()
      for kind in pairs(GOOD) do
        for _, value in ipairs { 5, true, "x", nothing } do
          local have, message, code = registry.check(kind, value, "f.lua")
          assert.is_nil(have)
          assert.equal("f.lua: must return a table, returns a " .. type(value), message)
          assert.equal("bad_script", code)
        end
      end
      assert.same({}, registry.check("what", {}, "f.lua"))
    end)
  end)

  describe("of what ships", function()
    it("names are sorted, and each can be loaded", function()
      for _, kind in ipairs { "tools", "loops", "providers", "ui", "cli", "commands", "sandbox" } do
        local names = registry.names(kind)
        assert.is_true(#names > 0, kind)
        for i, name in ipairs(names) do
          assert.is_true(i == 1 or names[i - 1] < name)
          assert(registry.load(kind, name))
          assert.is_string(registry.where(kind, name))
          assert.is_false(registry.is_own(kind, name))
        end
      end
    end)

    it("files beside the backends are no backends", function()
      for _, name in ipairs(registry.names "sandbox") do assert.is_true(name ~= "init" and name ~= "policy") end
    end)

    it("nor can they be asked for as such", function()
      for _, name in ipairs { "init", "policy" } do
        assert.is_nil((registry.where("sandbox", name)))
        assert.equal("not_found", select(3, registry.load("sandbox", name)))
      end
    end)

    it("a kind that there isn't has no names", function() assert.same({}, registry.names "what") end)

    it("what there isn't is said with what there is", function()
      local value, message, code = registry.load("loops", "nope")
      assert.is_nil(value)
      assert.equal("not_found", code)
      assert.equal("no loops 'nope' (there are: " .. table.concat(registry.names "loops", ", ") .. ")", message)
      assert.is_nil((registry.where("loops", "nope")))
      assert.is_false(registry.is_own("loops", "nope"))
    end)

    it("a path is no name", function()
      for _, bad in ipairs { "", "../loops/react", "a/b", "/etc/passwd", "react.lua", ".", "..", "a b", "re\nact",
        "a.b", "react\0", "é" } do
        local value, message, code = registry.load("loops", bad)
        assert.is_nil(value)
        assert.equal(("'%s' is not a name"):format(bad), message)
        assert.equal("not_found", code)
      end
    end)
  end)

  describe("load_file", function()
    local dir
    before_each(function() dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-registry-")) end)
    after_each(function() fs.remove(dir, { recursive = true }) end)
    local function load(data)
      local path = dir .. "/my loop.lua"
      assert(fs.write(path, data, { sync = false }))
      local value, message, code = registry.load_file("loops", path)
      return value, message, code, path
    end

    it("takes a file of any name", function() assert.equal(7, load("return function() return 7 end")()) end)

    it("that isn't there is not found", function()
      local value, message, code = registry.load_file("loops", dir .. "/nope.lua")
      assert.is_nil(value)
      assert.equal("not_found", code)
      assert.is_truthy(message:find("nope.lua", 1, true))
    end)

    it("names file and line of a mistake, without a traceback", function()
      for source, words in pairs { ["return {"] = ":1: ", ["\nerror('boom')"] = ":2: boom",
        ["local x = nil + 1"] = ":1: attempt to perform arithmetic",
        ["return 5"] = ": a loop file returns a function, this returns a number",
        [""] = ": a loop file returns a function, this returns a nil" } do
        local value, message, code, path = load(source)
        assert.is_nil(value)
        assert.equal("bad_script", code)
        assert.is_truthy(message:find(shown(path) .. words, 1, true), message)
        assert.is_nil(message:find("traceback", 1, true))
      end
    end)

    it("takes an error that is no string, and no bytecode", function()
      local value, message, code = load("error({})")
      assert.is_nil(value)
      assert.is_string(message)
      assert.equal("bad_script", code)
      value, message, code = load(string.dump(function() return print end))
      assert.is_nil(value)
      assert.is_truthy(message:find("binary chunk", 1, true), message)
      assert.equal("bad_script", code)
    end)
  end)

  describe("of a trusted project", function()
    before_each(function()
      registry.project = { { kind = "loops", name = "zz-mine", path = "/p/.terret/loops/zz-mine.lua",
        text = "return function() return 1 end" }, { kind = "loops", name = "react", path = "/p/react.lua", text = "" },
        { kind = "loops", name = "zz-bad", path = "/p/zz-bad.lua", text = "return 5" } }
    end)
    after_each(function() registry.project = nil end)

    it("adds names", function()
      local names = registry.names "loops"
      assert.same({ "zz-bad", "zz-mine" }, { names[#names - 1], names[#names] })
      assert.equal(1, registry.load("loops", "zz-mine")())
      assert.equal("/p/.terret/loops/zz-mine.lua", (registry.where("loops", "zz-mine")))
      assert.is_true(registry.is_own("loops", "zz-mine"))
    end)

    it("replaces nothing", function()
      assert.is_function((registry.load("loops", "react")))
      assert.is_true(registry.where("loops", "react") ~= "/p/react.lua")
      assert.is_false(registry.is_own("loops", "react"))
      local count = 0
      for _, name in ipairs(registry.names "loops") do count = count + (name == "react" and 1 or 0) end
      assert.equal(1, count)
    end)

    it("is of its kind only, and keeps the contract", function()
      assert.is_nil((registry.where("tools", "zz-mine")))
      assert.equal("/p/zz-bad.lua: a loop file returns a function, this returns a number",
        select(2, registry.load("loops", "zz-bad")))
    end)
  end)

  describe("of the user", function()
    local home
    before_each(function() home = terret.home() end)
    after_each(function() home:close() end)

    local function child(code, env)
      local r = home:run({ "--lua", home:put("child.lua", CHILD:format(code)) },
        { env = env or { TERRET_PATH = false } })
      assert.equal(0, r.code, r.err)
      return assert(json.decode(r.out))
    end
    local function user(path, data) return home:put(home.config .. "/" .. path, data) end

    it("names are those of all directories, each once", function()
      user("tools/zz-new.lua", TOOL:format("zz-new"))
      user("tools/bash.lua", TOOL:format("bash"))
      user("tools/notes.txt", "")
      user("tools/.hidden.lua", "")
      user("tools/a.b.lua", "")
      user("tools/sub.lua/x.lua", "")
      user("agents/reader.md", "")
      user("tools/reader.md", "")
      local out = child [[out.tools, out.agents = registry.names "tools", registry.names "agents"]]
      local count = {}
      for _, name in ipairs(out.tools) do count[name] = (count[name] or 0) + 1 end
      assert.equal(1, count["zz-new"])
      assert.equal(1, count.bash)
      assert.equal(1, count.read)
      for _, name in ipairs { "notes", ".hidden", "a.b", "sub", "reader" } do assert.is_nil(count[name], name) end
      assert.same({ "reader" }, out.agents)
    end)

    it("a file wins over what ships, and TERRET_PATH over both", function()
      local path = user("tools/bash.lua", TOOL:format("bash"))
      local ASK = [[
        local tool = assert(registry.load("tools", "bash"))
        out.description, out.where = tool.description, (registry.where("tools", "bash"))
        out.own, out.read = registry.is_own("tools", "bash"), registry.is_own("tools", "read")
      ]]
      assert.same({ description = "Mine.", where = path, own = true, read = false }, child(ASK))
      local other = home:put("over/tools/bash.lua", (TOOL:format("bash"):gsub("Mine", "Over")))
      assert.same({ description = "Over.", where = other, own = false, read = false },
        child(ASK, { TERRET_PATH = home.dir .. "/over" }))
    end)

    it("that is broken is named with file and field, and doesn't fall back to what ships", function()
      local path = user("tools/bash.lua", "return { name = 'bash' }")
      local syntax = user("tools/read.lua", "return {")
      local raises = user("loops/react.lua", "\nerror 'boom'")
      local out = child [[
        out.field = answer(registry.load("tools", "bash"))
        out.syntax = answer(registry.load("tools", "read"))
        out.raises = answer(registry.load("loops", "react"))
      ]]
      assert.is_truthy(out.field[2]:find(path .. ": field '", 1, true), out.field[2])
      assert.is_truthy(out.syntax[2]:find(shown(syntax) .. ":1:", 1, true), out.syntax[2])
      assert.is_truthy(out.raises[2]:find(shown(raises) .. ":2: boom", 1, true), out.raises[2])
      for _, a in pairs(out) do
        assert.is_false(a[1])
        assert.equal("bad_script", a[3])
      end
    end)

    it("can't add or replace a subcommand", function()
      user("cli/zz.lua", "return { summary = 'a', usage = 'b', run = function() return 0 end }")
      user("cli/tools.lua", "return { summary = 'a', usage = 'b', run = function() return 9 end }")
      local out = child [[
        out.zz, out.own = registry.where("cli", "zz") or false, registry.is_own("cli", "tools")
      ]]
      assert.same({ zz = false, own = false }, out)
      assert.equal(0, home:run({ "tools" }, { env = { TERRET_PATH = false } }).code)
    end)
  end)
end)

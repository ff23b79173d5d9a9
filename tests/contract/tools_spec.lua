-- Every tool that is found keeps the contract of tools: a newcomer's file is tested unasked.
local agents = require "support.agent"
local json = require "terret.json"
local registry = require "terret.registry"
local schema = require "terret.schema"
local task = require "terret.task"
local toolcall = require "terret.toolcall"

local PERMISSIONS = { read = true, write = true, exec = true, net = true, none = true }

-- What a model may send for a parameter: values of every type, and strings that mean harm.
local JUNK = { [["text"]], "5", "-1", "0.5", "9007199254740993", "1e308", "true", "null", "[]", "{}", "[[[[]]]]",
  [[{"a":{"b":[null]}}]], [[""]], [["../../../etc/passwd"]], [["/dev/zero"]], [["a\u0000b"]], [["%s%n%["]],
  [["\u001b[2J\u202e"]], [["-rf"]], [["\ud800"]], '"' .. ("x"):rep(70000) .. '"' }

-- Whole argument texts that are no JSON object, or hardly one.
local WHOLE = { "", "{", "null", "[]", "5", '"x"', "{}{}", '{"a":1,"a":2}', ("["):rep(3000), '{"path":', "\0",
  "\255\254",
  "```json\n{}\n```", "{'a': True}" }

describe("tools:", function()
  local a
  lazy_setup(function()
    -- Subagents (the tool `agent`) answer at once.
    a = agents.open { script = function() return { text = "done" } end, limits = { steps = 100000, seconds = 120 } }
    a:put("a.txt", "one\ntwo\n")
  end)
  lazy_teardown(function() a:close() end)

  local count = 0
  -- One call as a model sends it; exactly one result comes back.
  local function call(name, arguments)
    count = count + 1
    local parsed = toolcall.parse { id = "t" .. count, name = name, arguments = arguments }
    local results = task.run(function() return table.pack(toolcall.run(a.agent, parsed)) end)
    assert.equal(1, results.n)
    local message = results[1]
    assert.equal("tool", message.role)
    assert.equal(parsed.id, message.call_id)
    assert.equal("string", type(message.content))
    assert.is_true(#message.content > 0)
    assert.equal("boolean", type(message.ok))
    assert.is_nil(message.content:find("the tool '" .. name .. "' failed", 1, true), message.content)
    assert.is_nil(message.content:find("terret failed in this call", 1, true), message.content)
    return message
  end

  it("an unknown one has one result that names those there are", function()
    local message = call("nonesuch", "{}")
    assert.is_false(message.ok)
    assert.truthy(message.content:find("nonesuch", 1, true))
    assert.truthy(message.content:find("read, recall", 1, true))
    call("", "{}")
    call(("x"):rep(1000), "{}")
  end)

  for _, name in ipairs(registry.names("tools")) do
    describe(name, function()
      local tool = assert(registry.load("tools", name))
      local compiled = schema.compile(tool.parameters)
      local properties = json.decode(compiled.json).properties or {}

      -- Arguments that fit, but for one parameter.
      local function with(key, junk)
        local parts = {}
        for other, p in pairs(properties) do
          local value = ({ string = [["a.txt"]], integer = "1", number = "1", boolean = "false", array = "[]",
            object = "{}" })[p.type] or "null"
          if p.enum then value = json.encode(p.enum[1]) end
          if other ~= key then parts[#parts + 1] = json.encode(other) .. ":" .. value end
        end
        parts[#parts + 1] = json.encode(key) .. ":" .. junk
        return "{" .. table.concat(parts, ",") .. "}"
      end

      it("is described", function()
        assert.equal(name, tool.name)
        assert.truthy(tool.description:find("%S"))
        assert.is_true(#tool.description < 1000)
        assert.is_true(PERMISSIONS[tool.permission])
      end)

      it("has a schema that is a JSON object schema, the same each time", function()
        local decoded = assert(json.decode(compiled.json))
        assert.equal("object", decoded.type)
        assert.equal(compiled.json, schema.compile(tool.parameters).json)
        assert.equal(compiled.json, json.canonical(compiled.json))
        for key, p in pairs(properties) do assert.truthy(p.description, key .. " has no description") end
      end)

      it("answers what is no JSON object", function()
        for _, text in ipairs(WHOLE) do call(name, text) end
      end)

      it("refuses wrong types in any parameter without a crash", function()
        for key in pairs(properties) do
          for _, junk in ipairs(JUNK) do call(name, with(key, junk)) end
        end
      end)

      it("names a parameter that is missing, and one that it doesn't know", function()
        for _, key in ipairs(json.decode(compiled.json).required or {}) do
          local args = with("zzz", "1"):gsub(json.encode(key):gsub("%p", "%%%0") .. ":", '"zz_' .. key .. '":')
          local message = call(name, args)
          assert.is_false(message.ok)
          assert.truthy(message.content:find(key, 1, true))
        end
        if next(properties) then
          assert.truthy(call(name, with("zzz", "1")).content:find("zzz", 1, true))
        end
      end)
    end)
  end

  it("none of it crashed a tool", function() assert.same({}, a:warnings()) end)
end)

-- scripts/providers/scripted.lua: answers from a file, without a network.
local fs = require "terret.fs"
local scripted = require "terret.providers.scripted"
local world = require "support.world"

local function load_text(name, text)
  local w <close> = world.new()
  local path = w.dir .. "/" .. name
  assert(fs.write(path, text))
  return scripted.load(path)
end

local function events(reply, turn)
  return scripted.answer { script = { reply }, turn = turn or 1, messages = "[]", model = "m" }
end

local function kinds(list)
  local out = {}
  for i, e in ipairs(list) do out[i] = e.type end
  return table.concat(out, " ")
end

describe("providers.scripted", function()
  it("loads a list from Lua or JSON, and a function from Lua", function()
    assert.equal("hi", load_text("a.lua", 'return { { text = "hi" } }')[1].text)
    assert.equal("hi", load_text("a.json", '[{"text":"hi"}]')[1].text)
    assert.is_function(load_text("a.lua", "return function() end"))
  end)

  it("says what is wrong with a file", function()
    for name, text in pairs { ["syntax.lua"] = "return {", ["raise.lua"] = "error('no')", ["number.lua"] = "return 7",
      ["nothing.lua"] = "", ["broken.json"] = "[", ["number.json"] = "7", ["bytes.lua"] = "\27Lua" } do
      local script, message, code = load_text(name, text)
      assert.is_nil(script, name)
      assert.is_string(message)
      assert.equal("bad_script", code)
    end
    local script, _, code = scripted.load("/nonexistent/x.lua")
    assert.same({ nil, "not_found" }, { script, code })
  end)

  it("plays a reply as events in their order", function()
    local list = events { reasoning = "hm", text = "hi", delay = 0, tool_calls = { { name = "a" },
      { id = "x", name = "b", arguments = '{"raw' }, { name = "c", arguments = { z = 1, a = 2 } } } }
    assert.equal("wait reasoning text tool_call tool_call tool_call usage finish", kinds(list))
    assert.same({ "{}", '{"raw', '{"a":2,"z":1}' }, { list[4].arguments, list[5].arguments, list[6].arguments })
    assert.equal("tool_calls", list[8].reason)
    assert.is_true(list[7].usage.estimated)
    assert.equal("stop", events({ text = "x" })[3].reason)
  end)

  it("plays errors, given usage and a given end", function()
    local list = events { error = "busy", class = "overload" }
    assert.same({ "error", "busy", "overload" }, { list[1].type, list[1].message, list[1].class })
    assert.equal("bad_request", events({ error = "x" })[1].class)
    assert.same({ input = 7 }, events({ text = "x", usage = { input = 7 } })[2].usage)
    assert.equal("length", events({ text = "x", finish = "length" })[3].reason)
  end)

  it("ends with a clear error when the script is over", function()
    assert.matches("no further answer", events({ text = "x" }, 2)[1].message)
  end)

  it("gives a function the whole request", function()
    local got
    scripted.answer { script = function(request)
      got = request
      return { text = "x" }
    end, turn = 3, messages = "[1]", model = "m" }
    assert.same({ 3, "[1]", "m" }, { got.turn, got.messages, got.model })
  end)
end)

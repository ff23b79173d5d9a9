-- scripts/arguments.lua: arguments out of text, with repairs where there is one reading only.
local arguments = require "terret.arguments"
local faults = require "support.faults"
local json = require "terret.json"

describe("arguments", function()
  for _, case in ipairs(faults.load()) do
    local unit = case.unit
    if unit and not unit.raw:find("^deep:") then
      it(("of %s: %s"):format(case.id, case.title), function()
        local args, detail = arguments.parse(unit.raw)
        if unit.expect == "error" then
          assert.is_nil(args)
          assert.is_string(detail)
        else
          assert.is_table(args, detail)
          for key, value in pairs(unit.expect) do assert.equal(tostring(value), tostring(args[key])) end
        end
      end)
    end
  end

  it("takes nothing, blanks and null for none", function()
    for _, given in ipairs { "", " \n", "null", " null " } do assert.same({}, (arguments.parse(given))) end
  end)

  it("takes the same object several times for one", function()
    assert.same({ a = 1 }, (arguments.parse('{"a":1} {"a": 1}\n{"a":1}')))
    local args, message = arguments.parse('{"a":1}{"a":2}')
    assert.is_nil(args)
    assert.matches("different", message)
    assert.same({ a = "}{" }, (arguments.parse('{"a":"}{"}{"a":"}{"}')))
  end)

  it("takes an object behind a sentence, and no other text around one", function()
    local args, repairs = arguments.parse('Here you go: {"a":1}')
    assert.same({ { a = 1 }, { "prose" } }, { args, repairs })
    for _, bad in ipairs { 'x["{"] {"a":1}', '{"a":1} done', "echo {x}", "{} and then", 'say "hi" {"a":1}',
      ("word "):rep(100) .. '{"a":1}', 'Here you go: {"a":1', 'Here you go: {"a":1}{"a":2}' } do
      assert.is_nil((arguments.parse(bad)), bad)
    end
  end)

  it("closes nothing by guess", function()
    for _, bad in ipairs { '{"a":"b', '{"a":', "{", '{"a":1', '[{"a":1}', '{"a":{"b":1}' } do
      local args, _, code = arguments.parse(bad)
      assert.is_nil(args, bad)
      assert.equal("truncated", bad:sub(1, 1) == "{" and code or "truncated", bad)
    end
  end)

  it("refuses what is no object, or not one", function()
    for _, bad in ipairs { "[]", "3", "true", '"x"', '{"a":1,"a":2}', '{"a":NaN}', "\0", ("["):rep(100000),
      ('{"a":'):rep(5000) .. "1" .. ("}"):rep(5000) } do
      local args, message = arguments.parse(bad)
      assert.is_nil(args)
      assert.is_string(message)
    end
  end)

  it("is quick with hostile text", function()
    local started = os.clock()
    for _, bad in ipairs { ("{"):rep(300000), ('{"'):rep(200000), ("{}"):rep(200000), ('{"a":"\\'):rep(50000),
      json.encode(("\\"):rep(100000)) } do
      arguments.parse(bad)
    end
    assert.is_true(os.clock() - started < 1)
  end)
end)

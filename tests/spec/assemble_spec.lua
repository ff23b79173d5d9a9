-- scripts/assemble.lua: tool calls out of fragments, whatever endpoints make of index, id and name.
local assemble = require "terret.assemble"

-- Fragments as {index, id, name, arguments}; answers "id name arguments" of each call.
local function put(list)
  local calls = assemble.new()
  for _, f in ipairs(list) do
    calls:add { index = f[1] or nil, id = f[2] or nil, name = f[3] or nil, arguments = f[4] or nil }
  end
  local out = {}
  for i, c in ipairs(calls:finish()) do out[i] = ("%s %s %s"):format(c.id or "-", c.name, c.arguments) end
  return out
end

describe("assemble", function()
  local cases = {
    ["pieces of one call"] = { { { 0, "a", "t", "" }, { 0, nil, nil, '{"x"' }, { 0, nil, nil, ":1}" } },
      { 'a t {"x":1}' } },
    ["interleaved calls"] = { { { 0, "a", "t", '{"x"' }, { 1, "b", "u", '{"y"' }, { 0, nil, nil, ":1}" },
      { 1, nil, nil, ":2}" } }, { 'a t {"x":1}', 'b u {"y":2}' } },
    ["two calls on one index"] = { { { 0, "a", "t", '{"x":1}' }, { 0, "b", "t", '{"x":2}' } },
      { 'a t {"x":1}', 'b t {"x":2}' } },
    ["calls without index and id, one behind the other"] = { { { nil, nil, "t", '{"x":1}' },
      { nil, nil, "u", '{"x":2}' } }, { '- t {"x":1}', '- u {"x":2}' } },
    ["the same tool twice without index and id"] = { { { nil, nil, "t", '{"x":1}' }, { nil, nil, "t", '{"x":2}' } },
      { '- t {"x":1}', '- t {"x":2}' } },
    ["pieces without index and id"] = { { { nil, "a", "t", '{"x"' }, { nil, nil, nil, ":1}" } }, { 'a t {"x":1}' } },
    ["pieces that carry the id but no index"] = { { { nil, "a", "t", '{"x"' }, { nil, "b", "u", '{"y"' },
      { nil, "a", nil, ":1}" }, { nil, "b", nil, ":2}" } }, { 'a t {"x":1}', 'b u {"y":2}' } },
    ["id, name and type again in each piece"] = { { { 0, "a", "t", '{"x"' }, { 0, "a", "t", ":1" },
      { 0, "a", "t", "}" } }, { 'a t {"x":1}' } },
    ["a name in pieces"] = { { { 0, "a", "re", "" }, { 0, nil, "ad", "{}" } }, { "a read {}" } },
    ["a name that comes late, and an id that comes late"] = { { { 0, nil, "", "" }, { 0, "a", "t", "{}" } },
      { "a t {}" } },
    ["another id in the middle of arguments"] = { { { 0, "a", "t", '{"x"' }, { 0, "b", nil, ":1}" } },
      { 'a t {"x":1}' } },
    ["an index of its own for each piece"] = { { { 0, "a", "t", "" }, { 1, nil, nil, '{"x"' }, { 2, nil, nil, ":1}" } },
      { 'a t {"x":1}' } },
    ["an index of its own and the same id"] = { { { 0, "a", "t", '{"x"' }, { 1, "a", "t", ":1}" } },
      { 'a t {"x":1}' } },
    ["a name in one entry, the arguments in the next"] = { { { 0, "a", "t", "" }, { 1, nil, nil, '{"x":1}' } },
      { 'a t {"x":1}' } },
    ["the whole arguments again"] = { { { 0, "a", "t", '{"x"' }, { 0, nil, nil, ":1}" }, { 0, nil, nil, '{"x":1}' } },
      { 'a t {"x":1}' } },
    ["the whole arguments behind a part of them"] = { { { 0, "a", "t", "{" }, { 0, nil, nil, '{"x":1}' } },
      { 'a t {"x":1}' } },
    ["arguments that grow with each piece"] = { { { 0, "a", "t", '{"x"' }, { 0, nil, nil, '{"x":1' },
      { 0, nil, nil, '{"x":1}' } }, { 'a t {"x":1}' } },
    ["one call sent twice"] = { { { 0, "a", "t", '{"x":1}' }, { 1, "a", "t", '{"x":1}' } }, { 'a t {"x":1}' } },
    ["two calls with one id"] = { { { 0, "a", "t", '{"x":1}' }, { 1, "a", "t", '{"x":2}' } },
      { 'a t {"x":1}', 'a t {"x":2}' } },
    ["entries that are nothing"] = { { { 0, "", "", "" }, { 1, "a", "t", "{}" } }, { "a t {}" } },
    ["arguments that are cut off"] = { { { 0, "a", "t", '{"x":"1' } }, { 'a t {"x":"1' } },
    ["two different objects"] = { { { 0, "a", "t", '{"x":1}' }, { 0, nil, nil, '{"x":2}' } },
      { 'a t {"x":1}{"x":2}' } },
    ["arguments behind no name"] = { { { 0, nil, nil, '{"x":1}' } }, { '-  {"x":1}' } },
  }
  for title, c in pairs(cases) do
    it("reads " .. title, function() assert.same(c[2], put(c[1])) end)
  end

  it("takes arguments that are an object", function()
    assert.same({ 'a t {"x":[1]}' }, put { { 0, "a", "t", { x = require("terret.json").array { 1 } } } })
  end)

  it("keeps what else a fragment carries", function()
    local calls = assemble.new()
    calls:add { index = 0, id = "a", name = "t", arguments = "{}", extra = { s = '"1"' } }
    calls:add { index = 0, extra = { z = "2" } }
    assert.same({ s = '"1"', z = "2" }, calls:finish()[1].extra)
  end)

  it("reads each fragment a bounded number of times", function()
    local calls = assemble.new()
    local started = os.clock()
    for i = 1, 30000 do calls:add { index = 0, id = "x" .. i, arguments = '{"a":1}' } end
    for i = 1, 30000 do calls:add { index = i, arguments = '"}' } end
    calls:finish()
    assert.is_true(os.clock() - started < 1)
  end)
end)

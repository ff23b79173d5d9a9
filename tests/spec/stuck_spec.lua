-- scripts/stuck.lua: when repeating is a circle, and when it isn't.
local stuck = require "terret.stuck"

-- An agent as far as stuck.lua looks at it.
local function agent(cfg)
  local said = {}
  return { cfg = cfg or {}, tools = { look = { repeats = 5 } }, say = function(_, _, words) said[#said + 1] = words end,
    shared = {} }, said
end

local function step(a, name, arguments, result)
  return pcall(stuck.watch, a, { { name = name, arguments = arguments } }, { { content = result } })
end

describe("stuck", function()
  it("tells the model once, then ends the turn", function()
    local a, said = agent()
    for _ = 1, 3 do assert.is_true(step(a, "bash", "{}", "same")) end
    assert.equal(1, #said)
    assert.matches("3 times", said[1])
    local ok, err
    for _ = 1, 3 do ok, err = step(a, "bash", "{}", "same") end
    assert.is_false(ok)
    assert.equal("limit", err.status)
    assert.equal(1, #said)
  end)

  it("only tells where the user set a limit of steps", function()
    local a, said = agent { own_steps = true }
    for _ = 1, 50 do assert.is_true(step(a, "bash", "{}", "same")) end
    assert.equal(1, #said)
  end)

  it("takes other results for progress, twice as long", function()
    local a, said = agent()
    for i = 1, 5 do assert.is_true(step(a, "bash", "{}", "result " .. i)) end
    assert.equal(0, #said)
    assert.is_true(step(a, "bash", "{}", "result 6"))
    assert.equal(1, #said)
  end)

  it("sees a circle of several steps", function()
    local a, said = agent()
    for i = 1, 6 do assert.is_true(step(a, "bash", tostring(i % 2), "same")) end
    assert.equal(1, #said)
  end)

  it("leaves a tool that may repeat its own patience", function()
    local a, said = agent()
    for _ = 1, 4 do assert.is_true(step(a, "look", "{}", "same")) end
    assert.equal(0, #said)
    assert.is_true(step(a, "look", "{}", "same"))
    assert.equal(1, #said)
  end)

  it("has nothing against work", function()
    local a, said = agent()
    for i = 1, 100 do assert.is_true(step(a, "bash", "{}" .. i, "same")) end
    assert.equal(0, #said)
  end)
end)

-- scripts/budget.lua: limits are reserved before and settled after, in the whole tree.
local budget = require "terret.budget"

describe("budget", function()
  it("without limits refuses nothing", function()
    local b = budget.new()
    for _ = 1, 5 do
      b:settle(assert(b:reserve { steps = 1, tokens = 1e9, cost = 1e9 }), { steps = 1, tokens = 5, cost = 1 })
    end
    assert.same({ steps = 5, tokens = 25, cost = 5 }, b.spent)
  end)

  it("gives what a limit allows and not one more", function()
    local b = budget.new { steps = 2 }
    assert(b:reserve { steps = 1 })
    assert(b:reserve { steps = 1 })
    local held, message, code = b:reserve { steps = 1 }
    assert.same({ nil, "the limit of 2 steps is reached", "limit" }, { held, message, code })
  end)

  it("counts what is held, so that two requests together can't pass a limit", function()
    local b = budget.new { tokens = 100 }
    local first = assert(b:reserve { tokens = 60 })
    assert.is_nil(b:reserve { tokens = 60 })
    b:settle(first, { tokens = 30 })
    assert(b:reserve { tokens = 60 })
    assert.is_nil(b:reserve { tokens = 60 })
  end)

  it("counts in all levels above, and keeps to the tightest", function()
    local top = budget.new { steps = 3, cost = 1 }
    local a, b = budget.new({ steps = 2 }, top), budget.new({}, top)
    local held = assert(a:reserve { steps = 1, cost = 0.5 })
    a:settle(held, { steps = 1, cost = 0.25, input = 10, cached = 4, output = 2 })
    assert.same({ steps = 1, tokens = 0, cost = 0.25 }, top.spent)
    assert.same({ input = 10, cached = 4, output = 2 }, top.usage)
    assert(a:reserve { steps = 1, cost = 0.5 })
    assert.matches("2 steps", (select(2, a:reserve { steps = 1 })))
    assert.matches("1 USD", (select(2, b:reserve { steps = 1, cost = 0.3 })))
    assert(b:reserve { steps = 1, cost = 0.25 })
    assert.matches("3 steps", (select(2, b:reserve { steps = 1 })))
  end)

  it("takes nothing where one level refuses", function()
    local top = budget.new { steps = 5 }
    local sub = budget.new({ steps = 0 }, top)
    assert.is_nil(sub:reserve { steps = 1 })
    assert.equal(0, top.held.steps)
    assert.equal(0, sub.held.steps)
  end)

  it("gives a reservation back once", function()
    local b = budget.new { tokens = 10 }
    local held = assert(b:reserve { tokens = 10 })
    b:settle(held, {})
    b:settle(held, {})
    assert.equal(0, b.held.tokens)
    assert(b:reserve { tokens = 10 })
    assert.is_nil(b:reserve { tokens = 1 })
  end)

  it("does not wrap around, whatever is booked", function()
    local b = budget.new { tokens = 1000 }
    for _ = 1, 3 do
      b:settle(assert(budget.new({}, nil):reserve {}), {})
      b:settle({ want = {} }, { tokens = math.maxinteger, input = math.maxinteger, cost = 1e308 })
    end
    assert.is_true(b.spent.tokens > 1000 and b.usage.input > 1000 and b.spent.cost < math.huge)
    assert.is_nil(b:reserve { tokens = 1 })
  end)

  it("knows what the limits leave", function()
    local sub = budget.new({ tokens = 50 }, budget.new { tokens = 40, cost = 2 })
    assert(sub:reserve { tokens = 10, cost = 0.5 })
    assert.same({ 30, 1.5 }, { sub:left "tokens", sub:left "cost" })
    assert.is_nil(sub:left "steps")
  end)

  it("knows a limit that lies above", function()
    local sub = budget.new({}, budget.new { cost = 1 })
    assert.is_true(sub:limits_any("cost"))
    assert.is_false(sub:limits_any("tokens"))
  end)

  it("ends with its time, the least of all levels", function()
    local top = budget.new { seconds = 100 }
    local sub = budget.new({ seconds = 50 }, top)
    assert.is_true(sub:seconds_left() <= 50)
    assert.is_true(top:seconds_left() > 50)
    assert.is_nil(budget.new():seconds_left())
    local over = budget.new({}, budget.new { seconds = 0 })
    local held, message, code = over:reserve { steps = 1 }
    assert.is_nil(held)
    assert.matches("seconds", message)
    assert.equal("limit", code)
  end)
end)

-- scripts/models.lua: windows and prices; what is not known is unknown, not zero.
local models = require "terret.models"

describe("models", function()
  it("finds a model behind a vendor, a tag or a date", function()
    local plain = models.find "gpt-4o"
    assert.equal(128000, plain.window)
    for _, name in ipairs { "openai/gpt-4o", "gpt-4o:online", "gpt-4o-2024-08-06", "x/y/gpt-4o:free" } do
      assert.same(plain, models.find(name), name)
    end
  end)

  it("knows no price of an unknown model", function()
    local m = models.find "my-own"
    assert.is_nil(m.price)
    assert.equal(128000, m.window)
    assert.is_nil(models.cost(m.price, { input = 1 }))
  end)

  it("lets the user's table win, and fills what it leaves out", function()
    local extra = { ["gpt-4o"] = { window = 5, price = { input = 1, output = 2 } }, odd = { price = { input = 1 } } }
    local m = models.find("openai/gpt-4o", extra)
    assert.equal(5, m.window)
    assert.same({ input = 1, cached = 1, output = 2 }, m.price)
    assert.is_nil(models.find("odd", extra).price)
  end)

  it("gives each caller its own table", function()
    models.find("gpt-4o").window = 1
    assert.equal(128000, models.find("gpt-4o").window)
  end)

  it("computes what a request costs", function()
    local price = { input = 2, cached = 1, output = 10 }
    assert.near(2e-6 * 60 + 1e-6 * 40 + 10e-6 * 5, models.cost(price, { input = 100, cached = 40, output = 5 }), 1e-12)
    assert.equal(0, models.cost(price, {}))
    price.write = 2.5
    local usage = { input = 100, cached = 40, written = 50 }
    assert.near(2e-6 * 10 + 1e-6 * 40 + 2.5e-6 * 50, models.cost(price, usage), 1e-12)
    price.write = nil
    assert.near(2e-6 * 60 + 1e-6 * 40, models.cost(price, usage), 1e-12)
    -- More cached than sent would give money back.
    assert.is_true(models.cost(price, { input = 10, cached = 1000 }) >= 0)
  end)
end)

-- scripts/context/plan.lua: pure decisions over sizes.
local plan = require "terret.context.plan"

local PRICES = { cached = 0.1, write = 1, output = 5 }

-- "s u a t t a t" -> items of 100 tokens; a digit after a letter is its tokens in hundreds.
local function items(shape)
  local roles = { s = "system", u = "user", a = "assistant", t = "tool" }
  local out = {}
  for letter, n in shape:gmatch("(%l)(%d*)") do
    out[#out + 1] = { role = roles[letter], tokens = 100 * (tonumber(n) or 1), size = 350 * (tonumber(n) or 1),
      id = #out + 1 }
  end
  return out
end

local function ids(list)
  local out = {}
  for i, e in ipairs(list) do out[i] = e.id end
  return table.concat(out, " ")
end

describe("context.plan", function()
  it("knows three profiles, the dearer one keeping more", function()
    local eco, balanced, rich = plan.limits(200000, nil, "eco"), plan.limits(200000, nil, "balanced"),
      plan.limits(200000, nil, "rich")
    assert.same(eco, plan.limits(200000))
    assert.is_true(eco.keep < balanced.keep and balanced.keep < rich.keep)
    assert.is_true(eco.set < balanced.set and balanced.set < rich.set)
    assert.is_true(eco.a2 < balanced.a2 and balanced.a2 < rich.a2)
    assert.equal(170000 - 8192, eco.high)
    assert.equal(170000 - 50000, plan.limits(200000, 100000).high)
  end)

  describe("due", function()
    local limits = plan.limits(200000)

    -- Requests until a compaction is due, at a size that stays.
    local function requests(total, more, prices)
      local meter, size = { rent = 0 }, { total = total, fixed = 4000 }
      for key, value in pairs(more or {}) do size[key] = value end
      for n = 1, 2000 do
        if plan.due(meter, limits, prices or PRICES, size) then return n end
      end
    end

    it("is never below the soft limit", function()
      assert.is_nil(requests(limits.soft))
      assert.truthy(requests(limits.soft + 1))
    end)
    it("comes sooner the more is carried", function()
      local small, large = requests(60000), requests(120000)
      assert.is_true(large < small, large .. " " .. small)
      assert.is_true(large > 3)
    end)
    it("prefers the beginning of a task", function()
      assert.is_true(requests(100000, { task = true }) < requests(100000))
    end)
    it("has paid no more rent than the price of the compaction allows", function()
      for total = 50000, 160000, 10000 do
        local rent = (requests(total, { task = true }) - 1) * 0.1 * (total - 4000 - limits.keep - plan.summary)
        local price = 5000 + 4 * (0.1 * total + 1500 + 400) + 0.1 * total + 0.9 * (limits.keep + limits.set + 1100)
        assert.is_true(rent < limits.a2 * price)
      end
    end)
    it("is at once when the cache has gone and much is there", function()
      assert.equal(1, requests(120000, { cold = true }))
      assert.is_nil(requests(45000, { cold = true }))
    end)
    it("is never where the cache costs nothing", function()
      assert.is_nil(requests(160000, nil, { cached = 0, write = 1, output = 0 }))
    end)
    it("is soon where nothing is cached", function()
      assert.is_true(requests(100000, nil, { cached = 1, write = 1, output = 5 }) < requests(100000))
    end)
    it("does not come again and again where a compaction can't save more", function()
      local meter = { rent = 0, floor = 90000 }
      for _ = 1, 500 do
        assert.is_false(plan.due(meter, limits, PRICES, { total = 80000, fixed = 4000 }))
      end
    end)
  end)

  describe("tail", function()
    it("begins at a message of the user or the assistant and holds about enough", function()
      assert.equal(5, plan.tail(items "suatatata", 500))
      assert.equal(7, plan.tail(items "suatatata", 250))
      assert.equal(9, plan.tail(items "suatatata", 1))
      assert.equal(2, plan.tail(items "suatatata", 1e9))
    end)
    it("never tears parallel results from their call", function()
      assert.equal(10, plan.tail(items "suatatttta", 500))
      assert.equal(5, plan.tail(items "suatatttta", 600))
      assert.equal(7, plan.tail(items "suatatatu", 1))
    end)
    it("holds what the model has not seen yet", function()
      assert.equal(3, plan.tail(items "suat50", 1))
      assert.equal(5, plan.tail(items "suatat9t9t9", 1))
    end)
    it("counts in real tokens", function()
      assert.equal(7, plan.tail(items "suatatata", 500, 2))
    end)
  end)

  it("strips old long results, but no stubs and nothing pinned", function()
    local list = items "suat9atat9at9at9"
    list[8].pinned, list[10].stub = true, true
    assert.equal("4", ids(plan.strip(list, 11, 600)))
    assert.equal("4 12", ids(plan.strip(list, 99, 600)))
    assert.equal("", ids(plan.strip(list, 4, 600)))
  end)

  describe("drop", function()
    it("takes the oldest exchanges whole, the user's words last", function()
      local list = items "suattuatuat"
      assert.equal("3 4 5", ids(plan.drop(list, 9, 1)))
      assert.equal("3 4 5 7 8", ids(plan.drop(list, 9, 301)))
      assert.equal("3 4 5 6 7 8", ids(plan.drop(list, 9, 501)))
      assert.equal("", ids(plan.drop(list, 9, 0)))
    end)
    it("passes over an exchange with something pinned", function()
      local list = items "suattuatuat"
      list[5].pinned = true
      assert.equal("7 8", ids(plan.drop(list, 9, 1)))
      list[6].pinned = true
      assert.equal("7 8", ids(plan.drop(list, 9, 1e9)))
    end)
    it("leaves instructions and the first words alone", function()
      assert.equal("3 4 5 6 7", ids(plan.drop(items "suatata", 99, 1e9)))
    end)
  end)

  describe("working_set", function()
    local function with(paths)
      local list = items "suatatatatatat"
      for i, path in pairs(paths) do list[i].touched, list[i].read = path, path end
      return list
    end
    it("is the latest read of each file before the tail, oldest first", function()
      assert.equal("6 8", ids(plan.working_set(with { [4] = "a", [6] = "b", [8] = "a" }, 9, 1000)))
    end)
    it("has nothing that the tail holds, and fits its budget", function()
      assert.equal("6", ids(plan.working_set(with { [4] = "a", [6] = "b", [10] = "a" }, 9, 1000)))
      assert.equal("6", ids(plan.working_set(with { [4] = "a", [6] = "b" }, 9, 150)))
      assert.equal("", ids(plan.working_set(with { [4] = "a", [6] = "b" }, 9, 150, 2)))
    end)
    it("takes the files that were touched last", function()
      local list = with { [4] = "a", [6] = "b" }
      list[12].touched = "a" -- an edit in the tail
      assert.equal("4 6", ids(plan.working_set(list, 9, 1000)))
      assert.equal("6", ids(plan.working_set(list, 9, 100)))
    end)
    it("has no more than eight files, no stubs, nothing pinned", function()
      local list = { { role = "system", tokens = 1 } }
      for i = 2, 21 do list[i] = { role = "tool", tokens = 1, id = i, read = "f" .. i, touched = "f" .. i } end
      list[21].stub, list[20].pinned = true, true
      assert.equal("14 15 16 17 18 19", ids(plan.working_set(list, 22, 1000)))
    end)
  end)
end)

-- scripts/calibrate.lua: the estimate comes close to what the endpoint counts, also in the next session.
local calibrate = require "terret.calibrate"
local context = require "terret.context"
local fs = require "terret.fs"
local json = require "terret.json"
local tokens = require "terret.tokens"
local world = require "support.world"

local TEXTS = { ("local function f(x) return x * 2 end\n"):rep(60), ("The log is the truth. "):rep(120),
  ('{"id": 17, "name": "eleven", "tags": ["a", "b"]}\n'):rep(50),
  ("2026-01-02 10:11:12 INFO started worker 7\n"):rep(60) }

-- An endpoint with another vocabulary, which counts tools and templates in its own way.
local function counted(factor, fixed)
  local w = world.new { window = 100000 }
  local n = 0
  w:tool("work", function() return TEXTS[n % #TEXTS + 1] end)
  w.predicted, w.counts = {}, {}
  w.cfg.script = function(request)
    n = n + 1
    w.predicted[#w.predicted + 1] = context.size(w.agent)
    local count = math.floor(factor * (tokens.estimate(request.messages) + w.agent.fixed_tokens)) + fixed
    w.counts[#w.counts + 1] = count
    return { text = "step", tool_calls = n % 8 ~= 0 and { { name = "work" } } or nil,
      usage = { input = count, output = 5 } }
  end
  return w
end

local function off(w, i) return math.abs(w.predicted[i] / w.counts[i] - 1) end

describe("calibration", function()
  for _, case in ipairs { { 1.35, 900 }, { 0.8, -500 }, { 1.0, 0 }, { 1.1, 2000 } } do
    it(("is within 1%% after three answers (%g, %d)"):format(case[1], case[2]), function()
      local w <close> = counted(case[1], case[2])
      w:prompt()
      assert.equal(8, #w.counts)
      for i = 4, 8 do assert.is_true(off(w, i) < 0.01, ("answer %d: %.3f"):format(i, off(w, i))) end
    end)
  end

  it("is remembered by model for the next session", function()
    local w <close> = counted(1.5, 0)
    w:prompt()
    local first = off(w, 1)
    w.predicted, w.counts, w.agent = {}, {}, nil
    w:prompt("a new session")
    assert.is_true(off(w, 1) < first / 3, ("%.3f, then %.3f"):format(first, off(w, 1)))
    assert.equal(1.0, calibrate.load(w.state, "another model"))
    assert.is_true(math.abs(calibrate.load(w.state, "gpt-4o") - w.agent.ratio) < 0.01)
  end)

  it("is not led astray by nonsense, nor by a broken file", function()
    for _, usage in ipairs { { input = 10 }, { input = 10000000 }, { input = 4000, estimated = true }, {} } do
      local agent = { cfg = { model = "m" }, ratio = 1.0, session = { epoch = 1 } }
      calibrate.learn(agent, usage, 3000, {})
      assert.equal(1.0, agent.ratio)
      assert.is_nil(agent.anchor)
    end
    local dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-calibrate-"))
    for _, data in ipairs { "", "nonsense", "[]", "17", '{"m":"x"}', '{"m":-1}', '{"m":1e9}', '{"m":null}' } do
      assert(fs.write(dir .. "/calibration.json", data))
      assert.equal(1.0, calibrate.load(dir, "m"))
    end
    fs.remove(dir, { recursive = true })
    assert.equal(1.0, calibrate.load(dir, "m"))
    assert.equal(1.0, calibrate.load(nil, "m"))
  end)

  it("leaves the other models in the file alone, and keeps it small", function()
    local w <close> = counted(1.5, 0)
    assert(fs.write(w.state .. "/calibration.json", '{"other":1.25}'))
    w:prompt()
    assert.equal(1.25, calibrate.load(w.state, "other"))
    local many = {}
    for i = 1, 300 do many["m" .. i] = 1.5 end
    assert(fs.write(w.state .. "/calibration.json", json.encode(many)))
    local agent = { cfg = { model = "m", state_dir = w.state }, ratio = 1.0, session = { epoch = 1 } }
    calibrate.learn(agent, { input = 4000 }, 3000, {})
    assert.is_true(#assert(fs.read(w.state .. "/calibration.json")) < 100)
  end)

  it("still holds after something was shortened", function()
    local w <close> = counted(1.3, 2000)
    w:prompt()
    w:run(function(agent) context.overflow(agent) end)
    w:prompt("again")
    assert.is_true(off(w, 9) < 0.03, off(w, 9))
  end)
end)

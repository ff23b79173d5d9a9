-- scripts/context.lua and context/summary.lua: early compaction, what stays word for word, the breaker.
local context = require "terret.context"
local retry = require "terret.retry"
local world = require "support.world"

local ASK = "Write that summary now"

local function asks(request) return request.messages:find(ASK, 1, true) ~= nil end

-- A world whose model calls `work` n times with answers of `bytes` and then ends; summary(request, k)
-- answers the k-th question for a summary.
local function busy(n, summary, options)
  options = options or {}
  options.window = options.window or 20000
  local w = world.new(options)
  local step, asked = 0, {}
  w:tool("work", function(args) return ("result %d "):format(args.n):rep(args.size or 1) end,
    { parameters = { n = { "number", "n" }, size = { "number?", "times" } } })
  w.cfg.script = function(request)
    if asks(request) then
      asked[#asked + 1] = request
      return summary(request, #asked)
    end
    step = step + 1
    if step > n then return { text = "end" } end
    return { text = ("thought %d "):format(step):rep(options.think or 20),
      tool_calls = { { name = "work", arguments = { n = step, size = options.size or 40 } } } }
  end
  return w, asked
end

describe("compaction", function()
  local first_wait
  before_each(function()
    first_wait = retry.first_wait
    retry.first_wait = 0.0001
  end)
  after_each(function() retry.first_wait = first_wait end)

  local function summed(_, k) return { text = "SUMMARY " .. k } end

  describe("early", function()
    it("is made when the rent has paid for it, far below the window", function()
      local largest = 0
      local w, asked = busy(300, summed, { window = 200000, size = 300, models = { ["gpt-4o"] = { window = 200000,
        price = { input = 1, cached = 0.1, output = 5 } } } })
      local _closing <close> = w
      w.ui.event = function(e) if e.type == "usage" then largest = math.max(largest, e.context) end end
      assert.equal("done", w:prompt("the task").status)
      assert.is_true(#asked > 1, #asked)
      assert.is_true(largest < 0.7 * 200000, largest)
      assert.equal(0, #w:logged("batch"))
      w:check()
    end)

    it("is not made where carrying costs nothing", function()
      local w, asked = busy(100, summed, { window = 200000, size = 300, base_url = "http://127.0.0.1:1/v1",
        models = { ["gpt-4o"] = { window = 200000 } } })
      local _closing <close> = w
      w:prompt("the task")
      assert.equal(0, #asked)
    end)

    it("is made at once when a long session is gone on with after its cache has expired", function()
      local function resumed(idle)
        local w, asked = busy(60, summed, { window = 200000, size = 300, models = { ["gpt-4o"] = { window = 200000,
          price = { input = 1, cached = 0.1, output = 5 } } } })
        w:prompt("the task")
        local before = #asked
        w:resume()
        assert.is_true(w.agent.session.idle >= 0 and w.agent.session.idle < 60)
        w.agent.session.idle = idle
        w:prompt("go on")
        w:check()
        w:close()
        return #asked - before
      end
      assert.equal(0, resumed(10))
      assert.equal(1, resumed(86400))
    end)

    it("that fails is not tried again; the session goes on", function()
      local w, asked = busy(150, function() return { error = "no", class = "bad_request" } end, { window = 200000,
        size = 300, models = { ["gpt-4o"] = { window = 200000, price = { input = 1, cached = 0.1, output = 5 } } } })
      local _closing <close> = w
      assert.equal("done", w:prompt("the task").status)
      assert.equal(1, #asked)
      assert.equal(0, #w:logged("compaction"))
    end)
  end)

  describe("breaker", function()
    -- One compaction under pressure: the thoughts alone fill the window.
    local function pressed(summary, options)
      options = options or {}
      options.think, options.size = 300, 1
      return busy(40, summary, options)
    end

    it("asks for less after a refusal, then goes on", function()
      local w, asked = pressed(function(_, k)
        return k == 1 and { error = "no", class = "bad_request" } or { text = "SUMMARY " .. k }
      end)
      local _closing <close> = w
      assert.equal("done", w:prompt("the task").status)
      assert.is_true(#asked >= 2)
      assert.is_true(#asked[2].messages < 0.8 * #asked[1].messages)
      assert.truthy(w:view()[2].content:find("SUMMARY", 1, true))
      assert.truthy(w:view()[2].content:find("the task", 1, true))
      w:check()
    end)

    it("asks another model if one is configured", function()
      local models = {}
      local w = pressed(function(request)
        models[#models + 1] = request.model
        return request.model == "other" and { text = "OTHER'S" } or { text = "", tool_calls = { { name = "work" } } }
      end, { summary_model = "other" })
      local _closing <close> = w
      assert.equal("done", w:prompt("the task").status)
      assert.same({ "gpt-4o", "gpt-4o", "other" }, table.move(models, 1, 3, 1, {}))
      assert.truthy(w:view()[2].content:find("OTHER'S", 1, true))
      w:check()
    end)

    it("makes a summary without a model, and stops asking: no loop of failing bills", function()
      local w, asked = pressed(function() return { error = "no", class = "bad_request" } end)
      local _closing <close> = w
      local before = #w:seen("warning")
      assert.equal("done", w:prompt("the task").status)
      assert.is_true(#w:logged("compaction") >= 3, #w:logged("compaction"))
      assert.is_true(#asked <= 4, #asked)
      assert.is_true(#w:seen("warning") > before)
      assert.truthy(w:view()[2].content:find("no summary could be made", 1, true))
      w:check()
    end)

    it("asks again by hand", function()
      local strict = true
      local w, asked = pressed(function()
        return strict and { error = "no", class = "bad_request" } or { text = "OK" }
      end)
      local _closing <close> = w
      w:prompt("the task")
      local n = #asked
      strict = false
      w:prompt(("more "):rep(2000))
      assert.is_true(w:run(function(agent) return agent:compact("keep the figures") end))
      assert.equal(n + 1, #asked)
      assert.truthy(asked[#asked].messages:find("keep the figures", 1, true))
      assert.truthy(w:view()[2].content:find("OK", 1, true))
    end)

    it("leaves the context alone when the endpoint is away", function()
      local w, asked = pressed(function() return { error = "bad key", class = "auth" } end)
      local _closing <close> = w
      w:prompt("the task")
      w:run(function(agent) return agent:compact() end)
      assert.is_true(#asked > 0)
      assert.is_nil(w:logged("batch")[1])
      w:check()
    end)
  end)

  describe("keeps", function()
    -- A session with a few real reads and edits, compacted by hand.
    local function compacted(steps, options)
      options = options or {}
      options.window = 4000
      local w = world.new(options)
      local n = 0
      w.cfg.script = function(request)
        if asks(request) then return { text = "SUMMARY" } end
        n = n + 1
        return steps[n] or { text = ("closing words "):rep(150) }
      end
      w:put("a.txt", "first line of a\nsecond line of a\n")
      w:put("b.txt", "only line of b\n")
      w:prompt("the task")
      w:prompt("and this wish")
      return w
    end
    local function read(path) return { tool_calls = { { name = "read", arguments = { path = path } } } } end
    local function edit(path, old, new)
      return { tool_calls = { { name = "edit", arguments = { path = path, old_string = old, new_string = new } } } }
    end

    it("the latest read of the files that were touched, and their names", function()
      local w <close> = compacted { read "a.txt", read "b.txt", edit("a.txt", "first", "FIRST") }
      local saved = context.cap
      assert.is_true(w:run(function(agent)
        agent.model_info.window = 40000 -- a working set of some size
        agent.cfg.context = "rich"
        local keep = require "terret.context.plan".profiles.rich
        local old = keep.keep
        keep.keep = 0.001
        local ok = agent:compact()
        keep.keep = old
        return ok
      end))
      assert.equal(saved, context.cap)
      local words = w:view()[2].content
      assert.truthy(words:find("the task", 1, true))
      assert.truthy(words:find("Files read: b.txt, a.txt", 1, true) or words:find("Files read: a.txt, b.txt", 1, true))
      assert.truthy(words:find("Files changed: a.txt", 1, true))
      assert.truthy(words:find("<file a.txt (as it was read; changed since)>", 1, true))
      assert.truthy(words:find("second line of a", 1, true))
      assert.truthy(words:find("only line of b", 1, true))
      w:check()
      w:resume()
      w:check()
    end)

    it("the list of steps as it is now", function()
      local w <close> = compacted { { tool_calls = { { name = "todo", arguments = { items = {
        { text = "first step", status = "done" }, { text = "second step" } } } } } } }
      for i = 1, 3 do w:prompt("wish " .. i) end
      assert.is_true(w:run(function(agent) return agent:compact() end))
      assert.truthy(w:view()[2].content:find("<todo>\n[x] first step\n[ ] second step\n</todo>", 1, true))
      w:check()
    end)

    it("the names of files across several compactions", function()
      local w <close> = compacted { read "a.txt", read "b.txt" }
      for i = 1, 3 do
        w:prompt("wish " .. i)
        w:run(function(agent) return agent:compact() end)
        w:check()
      end
      assert.is_true(#w:logged("compaction") >= 2)
      local words = w:view()[2].content
      assert.truthy(words:find("Files read: a.txt, b.txt", 1, true), words)
      local _, count = words:gsub("the task", "")
      assert.equal(1, count)
    end)
  end)
end)

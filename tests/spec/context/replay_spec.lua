-- scripts/context/replay.lua, context/policies.lua and `terret ctx replay`.
local json = require "terret.json"
local plan = require "terret.context.plan"
local policies = require "terret.context.policies"
local replay = require "terret.context.replay"
local terret = require "support.terret"

local LONG = "a line that is long enough to be counted "

local function message(role, content, more)
  local m = { role = role, content = content }
  for key, value in pairs(more or {}) do m[key] = value end
  return m
end

local function call(id, name, args)
  return { id = id, ["function"] = { name = name, arguments = json.encode(args) } }
end

-- A session as agents have them: files are read, edits quote what was read lately, and now and then long ago.
local function made(calls, seed)
  local state = seed or 7
  local function random(n) -- the same on every platform
    state = (state * 1103515245 + 12345) % 2147483648
    return state // 65536 % n + 1
  end
  local list = { message("system", ("S"):rep(12000)), message("user", "the task") }
  local results = {}
  for i = 1, calls do
    local path, id = "src/file" .. random(12) .. ".c", "call" .. i
    if i % 3 == 0 and #results > 0 then
      local back = random(10) <= 8 and random(8) or random(60)
      local quoted = results[math.max(1, #results - back + 1)]
      list[#list + 1] = message("assistant", "edits", { tool_calls = { call(id, "edit", { path = quoted.path,
        old_string = quoted.lines[random(#quoted.lines)], new_string = LONG .. "new " .. i }) } })
      list[#list + 1] = message("tool", "edited " .. i, { tool_call_id = id, name = "edit" })
    else
      local lines = {}
      for k = 1, 10 + random(60) do lines[k] = ("%s%d of %d"):format(LONG, k, i) end
      results[#results + 1] = { path = path, lines = lines }
      list[#list + 1] = message("assistant", "reads", { tool_calls = { call(id, "read", { path = path }) } })
      list[#list + 1] = message("tool", table.concat(lines, "\n"), { tool_call_id = id, name = "read" })
    end
    if i % 8 == 0 then list[#list + 1] = message("user", "go on, please " .. i) end
  end
  return list
end

local function run(list, policy, options) return replay.run(replay.items(list), policies[policy], options) end

describe("context replay", function()
  it("bills the prompt, and the prefix of the request before at the cached price", function()
    local list = { message("system", ("s"):rep(29000)), message("user", ("u"):rep(29000)),
      message("assistant", "one"), message("user", "again"), message("assistant", "two") }
    local r = run(list, "append")
    local first = (2 * 29000 + 2 * replay.overhead) / 2.9
    local added = (3 + 5 + 2 * replay.overhead) / 2.9
    local hit = first // 128 * 128
    assert.equal(2, r.calls)
    assert.is_true(math.abs(r.cost - (first + 0.1 * hit + (first + added - hit))) < 0.01)
    assert.equal(hit, r.cached)
    assert.equal(1, r.kept)
  end)

  it("has no hit below 1,024 tokens", function()
    local list = { message("system", "s"), message("user", "u"), message("assistant", "one"), message("user", "again"),
      message("assistant", "two") }
    assert.equal(0, run(list, "append").cached)
  end)

  it("counts what is quoted while it is visible, and reads again what is not", function()
    local line = LONG .. "42"
    local list = { message("system", "s"), message("user", "u"),
      message("assistant", "", { tool_calls = { call("1", "bash", { command = "x" }) } }),
      message("tool", ("filler of a good length\n"):rep(500) .. line, { tool_call_id = "1", name = "bash" }),
      message("assistant", "It says:\n" .. line) }
    local whole = run(list, "append")
    assert.equal(1, whole.kept)
    assert.equal(#line, whole.quoted)
    assert.equal(0, whole.rereads)
    local cut = run(list, "seed")
    assert.equal(0, cut.kept)
    assert.equal(1, cut.rereads)
    assert.is_true(cut.cost > 0)
  end)

  it("sees quotes in arguments, and none where nothing was quoted", function()
    local line = LONG .. "42"
    local list = { message("system", "s"), message("user", line),
      message("assistant", "", { tool_calls = { call("1", "read", { path = "a" }) } }),
      message("tool", "    7\t" .. line, { tool_call_id = "1", name = "read" }),
      message("assistant", "", { tool_calls = { call("2", "edit", { edits = { { old = "x\n  " .. line } } }) } }) }
    assert.equal(#line, run(list, "append").quoted)
    list[4].content = "something else that is long"
    assert.equal(0, run(list, "append").quoted)
  end)

  it("is the same each time", function()
    local list = made(60)
    for _, name in ipairs(policies.names) do
      local a, b = run(list, name, { window = 40000 }), run(list, name, { window = 40000 })
      assert.equal(a.cost, b.cost)
      assert.equal(a.kept, b.kept)
    end
  end)

  it("never sends more than the window, but for the one that has none", function()
    local list = made(150)
    for _, name in ipairs(policies.names) do
      for _, window in ipairs { 20000, 40000 } do
        local largest = run(list, name, { window = window }).largest
        if name ~= "append" then assert.is_true(largest <= window, name .. " " .. largest) end
      end
    end
  end)

  it("ranks eco before the policies that wait for the window, at a window that fills", function()
    local list = made(450)
    local figures = {}
    for _, name in ipairs { "eco", "balanced", "rich", "pi", "append" } do figures[name] = run(list, name) end
    assert.is_true(figures.eco.cost <= 0.62 * figures.pi.cost, figures.eco.cost / figures.pi.cost)
    assert.is_true(figures.eco.kept >= 0.9, figures.eco.kept)
    assert.is_true(figures.eco.cost < figures.balanced.cost and figures.balanced.cost < figures.rich.cost)
    assert.is_true(figures.rich.kept >= figures.eco.kept)
    assert.is_true(figures.pi.cost < figures.append.cost)
    assert.equal(1, figures.append.kept)
  end)

  it("makes no early compaction where the cache costs nothing", function()
    assert.is_true(run(made(150), "eco", { cached = 0, output = 0 }).compactions
      < run(made(150), "eco", { cached = 1 }).compactions)
  end)

  it("has a policy for each profile", function()
    for name in pairs(plan.profiles) do assert.truthy(policies[name].before) end
    for _, name in ipairs(policies.names) do assert.is_string(policies[name].about) end
  end)

  describe("command", function()
    local home
    lazy_setup(function() home = terret.home() end)
    lazy_teardown(function() home:close() end)

    local function lines(list)
      local out = {}
      for i, m in ipairs(list) do out[i] = json.encode(m) end
      return table.concat(out, "\n") .. "\n"
    end

    it("prints a row for each policy", function()
      local path = home:put("session.jsonl", lines(made(40)))
      local r = home:run { "ctx", "replay", path, "--policy", "pi,eco" }
      assert.equal(0, r.code, r.err)
      assert.truthy(r.out:find("\npi +%d+ %(1.00%)"))
      assert.truthy(r.out:find("\neco +%d+ "))
      assert.truthy(r.out:find("40 requests", 1, true))
      local all = home:run { "ctx", "replay", path, "--json", "--window", "30000" }
      local list = json.decode(all.out)
      assert.equal(#policies.names, #list)
      assert.equal(40, list[1].calls)
      local free = json.decode(home:run({ "ctx", "replay", path, "--json", "--cached", "0", "--output", "0" }).out)
      assert.is_true(free[1].cost < list[1].cost)
    end)

    it("replays a session of our own by its id", function()
      local script = home:put("s.lua", [[return {
        { text = "look", tool_calls = { { name = "bash", arguments = { command = "echo hello" } } } },
        { text = "done" } }]])
      local run_it = home:run { "-p", "go", "--provider", "scripted", "--script", script, "--output", "json",
        "--mode", "yolo", "--sandbox", "none" }
      local id = json.decode(run_it.out).session
      local r = home:run { "ctx", "replay", id, "--json", "--policy", "eco,append" }
      assert.equal(0, r.code, r.err)
      local list = json.decode(r.out)
      assert.equal(2, list[1].calls)
      assert.is_true(list[1].largest > 1000) -- the system prompt and the tools are in it
    end)

    it("says what is wrong", function()
      local broken = home:put("broken.jsonl", '{"role":"user","content":"x"}\n{"role":\n')
      for _, case in ipairs { { { "replay", "nonesuch" }, 1, "no session" }, { { "replay", broken }, 1, "line 2" },
        { { "replay", "/no/such.jsonl" }, 1, "such" }, { { "replay", broken, "--policy", "nope" }, 2, "no policy" },
        { { "replay" }, 2, "usage" }, { { "what" }, 2, "usage" },
        { { "replay", broken, "--window", "0" }, 2, "--window" },
        { { "replay", broken, "--cached", "x" }, 2, "--cached" },
        { { "replay", broken, "--write", "-1" }, 2, "--write" },
        { { "replay", home:put("empty.jsonl", "") }, 1, "no conversation" } } do
        local r = home:run { "ctx", table.unpack(case[1]) }
        assert.equal(case[2], r.code, r.err)
        assert.truthy(r.err:find(case[3], 1, true), r.err)
      end
    end)
  end)
end)

-- tests/spec/ui/headless_spec.lua - mirrors scripts/ui/quiet.lua and scripts/ui/jsonl.lua.
local agents = require "support.agent"
local fake = require "ui.fake"
local json = require "terret.json"
local jsonl = require "terret.ui.jsonl"
local quiet = require "terret.ui.quiet"
local registry = require "terret.registry"
local schema = require "terret.schema"

local RESULT = { status = "done", text = "hello", steps = 1, session = "s",
  usage = { input = 3, cached = 0, output = 2 } }

local function with(t, more)
  local out = {}
  for k, v in pairs(t) do out[k] = v end
  for k, v in pairs(more) do out[k] = v end
  return out
end

-- One event of each kind that the runtime sends.
local EVENTS = {
  { type = "session", session = "s", dir = "/d", model = "m", project = "/p" },
  { type = "text", delta = "héllo\n\27" }, { type = "reasoning", delta = "hm" },
  { type = "tool_call", id = "1", name = "bash", arguments = '{"command":"ls","n":12345678901234567890}' },
  { type = "permission", id = "1", tool = "bash", verdict = "ask", allowed = false, reason = "r", rule = "x" },
  { type = "tool_progress", id = "1", text = "..." },
  { type = "tool_result", id = "1", name = "bash", ok = true, text = "x", seconds = 0.5, extra = { code = 0 } },
  { type = "usage", input = 3, cached = 0, output = 2, cost = 0.1, context = 10, window = 100 },
  { type = "compaction", kind = "start", tokens = 10 }, { type = "compaction", kind = "strip", results = 1 },
  { type = "compaction", kind = "done", before = 10, after = 5 }, { type = "compaction", kind = "drop", messages = 2 },
  { type = "retry", text = "busy", class = "overload", attempt = 1, seconds = 0.5 },
  { type = "subagent", id = "2", state = "start", prompt = "p" }, { type = "subagent", id = "2", state = "done" },
  { type = "text", delta = "x", agent = "2" }, { type = "warning", text = "w\nw" }, { type = "error", text = "e" },
  { type = "an_unknown_one", x = print },
}

local function lines_of(file)
  local list = {}
  for line in file:text():gmatch("([^\n]*)\n") do list[#list + 1] = assert(json.decode(line)) end
  return list
end

describe("the headless interfaces", function()
  it("keep the contract of a user interface", function()
    for _, name in ipairs { "quiet", "jsonl" } do
      local ui = assert(registry.load("ui", name)).new { out = fake.file(), err = fake.file() }
      assert.equal("function", type(ui.event))
      assert.is_nil(ui.ask)
      for _, e in ipairs(EVENTS) do ui.event(e) end
      assert.is_true(ui.finish(RESULT))
    end
  end)
end)

describe("terret.ui.quiet", function()
  local function run(events, result, terminal)
    local out, err = fake.file(), fake.file()
    local ui = quiet.new { out = out, err = err, terminal = terminal }
    for _, e in ipairs(events) do ui.event(e) end
    ui.finish(result)
    return out:text(), err:text()
  end

  it("prints the final text alone, and what went wrong beside it", function()
    local out, err = run(EVENTS, RESULT)
    assert.equal("hello\n", out)
    assert.equal("terret: retry 1 in 0.5 s: busy\nterret: warning: w\\nw\nterret: error: e\n", err)
  end)

  it("escapes for a terminal and keeps the bytes for a pipe", function()
    local result = with(RESULT, { text = "a\27[1mb\255\n" })
    assert.equal("a\\x1b[1mb\u{fffd}\n", (run({}, result, true)))
    assert.equal("a\27[1mb\u{fffd}\n", (run({}, result, false)))
  end)

  it("says how a run ended that isn't done", function()
    local out, err = run({}, with(RESULT, { status = "limit", text = "", message = "the limit\nis reached" }))
    assert.equal("", out)
    assert.equal("terret: limit: the limit\\nis reached\n", err)
  end)

  it("says that nobody can read the answer", function()
    local err = fake.file()
    local ok, message = quiet.new({ out = fake.file(true), err = err, terminal = false }).finish(RESULT)
    assert.is_nil(ok)
    assert.equal("no space left on device", message)
    assert.matches("can't be written", err:text())
  end)
end)

describe("terret.ui.jsonl", function()
  local function documented()
    local root = debug.getinfo(1, "S").source:match("^@(.*)tests/spec/ui/[^/]*$")
    local file = assert(io.open((root == "" and "." or root) .. "/docs/jsonl.md"))
    local doc = file:read("a")
    file:close()
    return schema.compile(assert(json.decode(doc:match("```json\n(.-)```")))), doc
  end

  it("writes what docs/jsonl.md says", function()
    local out = fake.file()
    local ui = jsonl.new { out = out, err = fake.file() }
    for _, e in ipairs(EVENTS) do ui.event(e) end
    ui.finish(with(RESULT, { cost = 0.2, message = "m" }))
    local s = documented()
    local list = lines_of(out)
    assert.equal(#EVENTS, #list) -- the unknown one is left out, the result comes last
    for _, e in ipairs(list) do
      local ok, notes = s:validate(e)
      assert.is_truthy(ok, json.encode(e) .. " " .. tostring(notes))
      assert.same({}, notes, json.encode(e))
    end
    assert.equal("session", list[1].type)
    assert.equal("result", list[#list].type)
    assert.is_true(out.flushes >= #list)
  end)

  it("writes it in a real turn as well", function()
    local out = fake.file()
    local ui = jsonl.new { out = out, err = fake.file() }
    local run <close> = agents.open { ui = ui, script = { { text = "a", reasoning = "hm", tool_calls = {
      { name = "todo", arguments = { items = { { text = "x" } } } }, { name = "write", arguments = { path = "f",
        content = "1\n" } }, { name = "nothing", arguments = "{" } } }, { error = "busy", class = "bad_request" } } }
    run.agent:emit("session", { session = "s", dir = "/d", model = "m", project = "/p" })
    ui.finish(run:prompt("go"))
    local s, seen = documented(), {}
    for _, e in ipairs(lines_of(out)) do
      local ok, notes = s:validate(e)
      assert.is_truthy(ok, json.encode(e) .. " " .. tostring(notes))
      assert.same({}, notes, json.encode(e))
      seen[e.type] = (seen[e.type] or 0) + 1
    end
    assert.equal(3, seen.tool_call)
    assert.equal(3, seen.tool_result)
    assert.equal(1, seen.result)
    assert.is_true(seen.usage >= 1 and seen.text >= 1 and seen.reasoning >= 1)
  end)

  it("has a schema that refuses what isn't documented", function()
    local s, doc = documented()
    assert.is_nil((s:validate { type = "text" }))
    assert.is_nil((s:validate { type = "text", delta = "x", more = 1 }))
    assert.is_nil((s:validate { type = "other", delta = "x" }))
    for line in doc:match("```\n%$.-```"):gmatch("{[^\n]*}\n") do
      local ok, notes = s:validate(assert(json.decode(line)))
      assert.is_truthy(ok, line .. tostring(notes))
    end
  end)

  it("gives arguments as an object, digits and all", function()
    local out = fake.file()
    local ui = jsonl.new { out = out }
    ui.event(EVENTS[4])
    assert.matches('"arguments":{"command":"ls","n":12345678901234567890}', out:text(), 1, true)
    ui.event { type = "tool_call", id = "1", name = "x", arguments = "{broken" }
    assert.equal("{broken", lines_of(out)[2].arguments)
  end)

  it("leaves out what a tool added that is no JSON", function()
    local out = fake.file()
    jsonl.new({ out = out }).event { type = "tool_result", id = "1", name = "x", ok = true, text = "t", seconds = 1,
      extra = { f = print } }
    assert.same({ type = "tool_result", id = "1", name = "x", ok = true, text = "t", seconds = 1 }, lines_of(out)[1])
  end)

  it("prints only the result when that is wanted", function()
    local out, err = fake.file(), fake.file()
    local ui = jsonl.new { out = out, err = err, only_result = true }
    for _, e in ipairs(EVENTS) do ui.event(e) end
    ui.finish(RESULT)
    assert.same({ with(RESULT, { type = "result" }) }, lines_of(out))
    assert.matches("terret: warning: w\\nw", err:text(), 1, true)
  end)

  it("goes on when nobody reads", function()
    local err = fake.file()
    local ui = jsonl.new { out = fake.file(true), err = err }
    for _, e in ipairs(EVENTS) do ui.event(e) end
    assert.is_nil((ui.finish(RESULT)))
    assert.equal("terret: the output can't be written: no space left on device\n", err:text())
  end)
end)

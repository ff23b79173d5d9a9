-- The whole path over HTTP: a mock endpoint that streams, the real tools, the real sandbox, a small C
-- project whose test fails.  Malformed and unknown calls, a refused command, parallel calls, a subagent, a
-- compaction and a resume on the way; the bodies that arrive are the witnesses.
local exec = require "terret.exec"
local fs = require "terret.fs"
local json = require "terret.json"
local mock = require "support.mock"
local retry = require "terret.retry"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local world = require "support.world"

local CALC = "/* " .. ("calc adds numbers, and nothing else.\n"):rep(40)
  .. "*/\nint add(int a, int b) {\n    return a - b;\n}\n"
local TEST = [[
#include <stdio.h>
int add(int, int);
int main(void) {
    int got = add(2, 3);
    printf(got == 5 ? "PASS\n" : "FAIL: add(2, 3) = %d\n", got);
    return got != 5;
}
]]
local MAKE = "test:\n\t@cc -o /tmp/calc_test calc.c test.c && /tmp/calc_test\n"

local REPORT = ("test.c expects add(2, 3) to be 5.\n"):rep(300)

local function call(id, name, arguments)
  return { id, name, type(arguments) == "table" and json.encode(arguments) or arguments }
end

local function over_http(m, options)
  local all = { provider = "openai", model = "mock-model", base_url = m.url, api_key = "sk-mock-0123456789",
    secrets = { "sk-mock-0123456789" }, window = 16000, timeouts = { first_byte = 10, idle = 10 } }
  for key, value in pairs(options or {}) do all[key] = value end
  return world.new(all)
end

-- The bodies of the main agent's requests, and of the others.
local function bodies(m)
  local main, sub, summary = {}, {}, {}
  for _, r in ipairs(m:requests()) do
    local list = r.body:find("You are a subagent", 1, true) and sub
      or r.body:find("Write that summary now", 1, true) and summary or main
    list[#list + 1] = r.body
  end
  return main, sub, summary
end

local function up_to_messages(body) return (body:gsub("%]}$", "")) end

local function assert_prefix(a, b)
  a = up_to_messages(a)
  assert.equal(a, b:sub(1, #a))
end

-- Runs a script in the executable, with a limit of 32 or 64 KiB on files and these variables.
local function in_child(script, variables)
  local w <close> = world.new()
  local path = w.dir .. "/child.lua"
  assert(fs.write(path, script))
  local p <close> = assert(exec.spawn { argv = { "/bin/sh", "-c", (variables or "") .. ' ulimit -f 64; exec "$0" "$@"',
    os.getenv("TERRET") or "build/terret", "--lua", path } })
  task.await(p)
  local out = p:output()
  return out.head .. out.tail, p:status()
end

describe("over HTTP", function()
  local first_wait
  before_each(function()
    first_wait = retry.first_wait
    retry.first_wait = 0.0001
  end)
  after_each(function() retry.first_wait = first_wait end)

  it("a job survives whatever the model does, a compaction and a resume", function()
    if not sandbox.pick("auto") then pending("no sandbox works here") end
    local m <close> = mock.start { answers = {
      mock.error(429, "slow down", { headers = { "Retry-After: 0" } }),
      mock.chat { text = "Let me look.", tool_calls = {
        call("c1", "read", '{"path": "calc.c'), call("c2", "find_file", { name = "calc.c" }),
        call("c3", "bash", { command = "curl http://example.com/" }), call("c4", "read", { path = "calc.c" }),
        call("c4", "bash", { command = "make test" }) } },
      mock.chat { tool_calls = { call("c5", "agent", { prompt = "What does test.c expect of add?" }) } },
      mock.chat { match = "You are a subagent", tool_calls = {
        call("s1", "bash", { command = "cat test.c; echo no > made" }),
        call("s2", "edit", { path = "calc.c", old_string = "a - b", new_string = "0" }) } },
      mock.chat { match = "You are a subagent", text = REPORT },
      mock.chat { text = "add subtracts. I will fix it." },
      mock.chat { match = "Write that summary now", text = "add in calc.c subtracts; fix it." },
      mock.chat { tool_calls = { call("c6", "edit", { path = "calc.c", old_string = "return a - b;",
        new_string = "return a + b;" }) } },
      mock.chat { tool_calls = { call("c7", "bash", { command = "make test" }) } },
      mock.chat { text = "Fixed: the test passes." },
    } }
    local w <close> = over_http(m, { rules = { { verdict = "deny", rule = "curl *", source = "test" } } })
    w:put("calc.c", CALC)
    w:put("test.c", TEST)
    w:put("Makefile", MAKE)

    local r = w:prompt("make test fails; fix it")
    assert.equal("done", r.status, r.message)
    w:check()
    local results = w:results()
    assert.equal(6, #results)
    assert.matches("cut off", results[1])
    assert.matches("unknown tool 'find_file'", results[2])
    assert.matches("^denied", results[3])
    assert.matches("return a %- b", results[4])
    assert.matches("FAIL: add%(2, 3%) = %-1", results[5])
    assert.matches("expects add", results[6])
    assert.is_nil(w:get("made")) -- the subagent's commands find the project read-only
    assert.equal(CALC, w:get("calc.c"))
    assert.equal(1, #w:seen("retry"))

    assert.is_true(w:run(function(agent) return agent:compact() end))
    w:check()
    w:resume()
    w:check()
    r = w:prompt("go on")
    assert.equal("done", r.status, r.message)
    assert.equal("Fixed: the test passes.", r.text)
    assert.matches("a %+ b", w:get("calc.c"))
    results = w:results()
    assert.matches("PASS", results[#results])
    w:check()

    local main, sub, summary = bodies(m)
    assert.same({ 7, 2, 1 }, { #main, #sub, #summary })
    assert.equal(main[1], main[2]) -- the same body after the 429
    for i = 2, 4 do assert_prefix(main[i - 1], main[i]) end
    assert_prefix(main[4], summary[1]) -- same head, same prefix, one more message
    for i = 6, 7 do assert_prefix(main[i - 1], main[i]) end
    assert_prefix(sub[1], sub[2])
    -- Across compaction and resume the head and the system prompt are the same bytes.
    local head = main[1]:match('^.-"role":"system"}')
    assert.equal(head, main[5]:sub(1, #head))
    for _, body in ipairs(main) do
      local value = assert(json.decode(body))
      assert.is_nil(world.flaw(value.messages))
      assert.equal("mock-model", value.model)
    end
    assert.is_nil(json.encode(w:records()):find("sk-mock", 1, true))
  end)

  it("another process makes the same view of the log", function()
    local m <close> = mock.start { answers = { mock.chat { text = "one", tool_calls = { call("x", "nope", "{") } },
      mock.chat { text = "two \u{1F600}" } } }
    local w <close> = over_http(m)
    w:prompt("hi")
    local live = w.agent.session.view:render("", "")
    w.agent.session:close()
    local out, status = in_child(([[
      local session = require "terret.session"
      local s = assert(session.resume { dir = %q, encode = require("terret.providers.openai").encode })
      io.write(s.view:render("", ""))]]):format(w.agent.session.dir))
    assert.equal(0, status.code)
    assert.equal(live, out)
  end)

  it("a date to wait for is right where summer time is kept", function()
    local out = in_child([[
      local retry = require "terret.retry"
      print(retry.retry_after("Wed, 21 Oct 2015 07:29:00 GMT", 1445412480),
        retry.retry_after("Thu, 15 Jan 2015 12:01:30 GMT", 1421323200))]],
      "export TZ=CET-1CEST,M3.5.0,M10.5.0/3;")
    assert.equal("60\t90\n", out)
  end)

  it("an answer that is cut is continued, and a dead endpoint is said", function()
    local cut = mock.chat { text = "The answer is", usage = false }
    while #cut > 2 do table.remove(cut) end
    cut[#cut + 1] = "cut"
    local m <close> = mock.start { answers = { cut, mock.chat { text = " forty-two." },
      mock.error(401, "no such key") } }
    local w <close> = over_http(m)
    local r = w:prompt("what?")
    assert.equal("The answer is forty-two.", r.text)
    local list = m:requests()
    assert_prefix(list[1].body, list[2].body)
    w:check()
    r = w:prompt("again")
    assert.equal("endpoint", r.status)
    assert.matches("no such key", r.message)
    w:check()
  end)

  it("a context that is too long is shortened, not sent again", function()
    local function long() return mock.chat { text = ("long "):rep(400) } end
    local m <close> = mock.start { answers = { long(), long(), long(),
      mock.error(400, "This model's maximum context length is 1000 tokens"), mock.chat { text = "short" } } }
    local w <close> = over_http(m)
    for _ = 1, 3 do w:prompt("more") end
    local r = w:prompt("more")
    assert.equal("short", r.text, r.message)
    local list = m:requests()
    assert.is_true(#list[5].body < #list[4].body)
    w:check()
  end)

  it("an interrupt in the stream keeps what came and closes the connection", function()
    local half = mock.chat { text = "half of it", usage = false }
    while #half > 2 do table.remove(half) end
    half[#half + 1] = "stall"
    local m <close> = mock.start { answers = { half } }
    local w <close> = over_http(m)
    local agent = w:open()
    local r = task.run(function()
      task.spawn(function()
        while #w:seen("text") == 0 do task.sleep(0.001) end
        agent:interrupt()
      end)
      return agent:prompt("go")
    end)
    assert.equal("interrupted", r.status)
    assert.equal("half of it", r.text)
    w:check()
  end)

  it("a disk that is full ends the turn with a message, and what was logged is whole", function()
    local w <close> = world.new()
    local out, status = in_child(([[
      local setup, task = require "terret.setup", require "terret.task"
      local todo = { name = "todo", arguments = { items = {} } }
      local agent = assert(setup.open({ model = "gpt-4o", provider = "scripted", project = %q, cwd = %q, home = %q,
        state_dir = %q, config_dir = %q, mode = "yolo", limits = {},
        script = function() return { text = ("x"):rep(9000), tool_calls = { todo } } end },
        { event = function() end }))
      local r = task.run(function() return agent:prompt("fill it") end)
      print(r.status, r.message)]]):format(w.project, w.project, w.dir .. "/home", w.state, w.dir .. "/config"))
    assert.equal(0, status.code, out .. tostring(status.signal))
    assert.matches("^failed\t.*log can't be written", out)
    w.cfg.script = function() return { text = "room again" } end
    w:open { continue = true }
    assert.equal("room again", w:prompt("go on").text)
    w:check()
  end)
end)

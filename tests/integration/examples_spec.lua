-- The examples: within their forty lines, and their specs pass with `terret test`.  Also terret run, hooks.json
-- and agent types, as a user has them.
local fs = require "terret.fs"
local json = require "terret.json"
local terret = require "support.terret"

local here = debug.getinfo(1, "S").source:match("^@(.*)/tests/integration/[^/]*$") or "."
here = assert(fs.realpath(here))

describe("examples", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  it("have less than 40 lines each", function()
    for _, kind in ipairs { "extensions", "loops", "tools", "providers" } do
      for _, e in ipairs(assert(fs.list(here .. "/examples/" .. kind))) do
        local _, lines = assert(fs.read(here .. "/examples/" .. kind .. "/" .. e.name)):gsub("\n", "")
        assert.is_true(lines < 40, e.name)
      end
    end
  end)

  it("pass their specs", function()
    local r = home:run { "test", here .. "/examples/spec/extensions_spec.lua" }
    assert.equal(0, r.code, r.out .. r.err)
    assert.truthy(r.out:find("0 failures / 0 errors", 1, true), r.out)
  end)

  it("a spec that fails is an exit status", function()
    assert.equal(1, home:run({ "test", home:put("x_spec.lua", "it('x', function() assert.is_true(false) end)") }).code)
    assert.equal(2, home:run({ "test" }).code)
  end)

  it("load as extensions, and terret hooks shows them", function()
    for _, e in ipairs(assert(fs.list(here .. "/examples/extensions"))) do
      home:put(home.config .. "/extensions/" .. e.name, assert(fs.read(here .. "/examples/extensions/" .. e.name)))
    end
    local r = home:run { "hooks" }
    assert.equal("", r.err)
    for _, name in ipairs { "company policy", "format", "cost warning", "redact", "approve" } do
      assert.truthy(r.out:find(name, 1, true), name)
    end
  end)
end)

describe("terret run", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  it("orchestrates agents over the scripting interface", function()
    local path = home:put("many.lua", [[
      local terret, task = require "terret", require "terret.task"
      local agent = assert(terret.new_agent { provider = "scripted", mode = "yolo", script = function(request)
        if request.agent == "main" then return { text = "main" } end
        return { text = '{"n": ' .. #request.messages:match("count (x*)") .. '}' }
      end })
      local sums = 0
      task.scope(function(s)
        for i = 1, 3 do
          s:spawn(function()
            local report = assert(agent:spawn { prompt = "count " .. ("x"):rep(i),
              schema = { n = { "integer", "how many" } } })
            sums = sums + report.value.n
          end)
        end
      end)
      print(sums, agent:prompt("hi").text, (...))
      agent.session:close()
      return 7
    ]])
    local r = home:run { "run", path, "an argument" }
    assert.equal("6\tmain\tan argument\n", r.out, r.err)
    assert.equal(7, r.code)
  end)

  it("names what is wrong", function()
    local r = home:run { "run", home:put("x.lua", "\nlocal x = = 1") }
    assert.equal(1, r.code)
    assert.truthy(r.err:find("x.lua:2:", 1, true))
    r = home:run { "run", home:put("x.lua", "\nerror('boom')") }
    assert.equal(1, r.code)
    assert.truthy(r.err:find("x.lua:2: boom", 1, true))
    assert.equal(2, home:run({ "run" }).code)
    assert.equal(2, home:run({ "run", "nonesuch.lua" }).code)
  end)
end)

describe("hooks.json", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local SCRIPT = [[return { { tool_calls = { { name = "bash", arguments = { command = "date" } } } },
    { text = "one" }, { text = "two" }, { text = "three" } }]]

  local function play(hooks, where)
    home:put(where or home.config .. "/hooks.json", json.encode { hooks = hooks })
    local r = home:play(SCRIPT, { "--output", "jsonl", "--mode", "yolo", where and "--trust" or nil })
    local list = terret.events(r.out)
    return terret.event(list, "tool_result"), terret.event(list, "result"), r
  end
  local function hook(command, matcher)
    return { { matcher = matcher, hooks = { { type = "command", command = command } } } }
  end

  it("PreToolUse refuses with exit status 2, with JSON, and when it fails", function()
    local result = play { PreToolUse = hook([[grep -q "tool_name.:.Bash" && { echo not this >&2; exit 2; }]], "Bash") }
    assert.truthy(result.text:find("denied: not this", 1, true), result.text)
    result = play { PreToolUse = hook([[echo '{"hookSpecificOutput": {"permissionDecision": "deny",
      "permissionDecisionReason": "by json"}}']], "Bash|Write") }
    assert.truthy(result.text:find("denied: by json", 1, true), result.text)
    result = play { PreToolUse = hook("exit 3") }
    assert.truthy(result.text:find("denied: the guard", 1, true), result.text)
    result = play { PreToolUse = hook("exit 2", "Write") }
    assert.is_true(result.ok)
  end)

  it("PostToolUse adds to the result, Stop makes the turn go on", function()
    local result, final = play {
      PostToolUse = hook([[echo '{"hookSpecificOutput": {"additionalContext": "it is late"}}']]),
      Stop = hook([[grep -q '"stop_hook_active":true' || { echo 'run the tests' >&2; exit 2; }]]) }
    assert.truthy(result.text:find("(hook: it is late)", 1, true), result.text)
    assert.equal("two", final.text)
  end)

  it("UserPromptSubmit refuses a prompt", function()
    local _, final, r = play { UserPromptSubmit = hook("echo no prompts today >&2; exit 2") }
    assert.equal("refused", final.status)
    assert.truthy(final.message:find("no prompts today", 1, true))
    assert.equal(3, r.code)
  end)

  it("SessionStart runs outside the sandbox, a project's hook in it", function()
    play { SessionStart = hook("cat > ../outside") }
    assert.truthy(home:get("outside"):find('"hook_event_name":"SessionStart"', 1, true))
    play({ SessionStart = hook("cat > ../inside; cat > inside-too") }, "project/.terret/hooks.json")
    assert.is_nil(home:get("inside"))
  end)

  it("what is not supported is named, and nothing of the file is used", function()
    local _, _, r = play { PreToolUse = hook("exit 2"), Nonesuch = hook("true") }
    assert.truthy(r.out:find("'Nonesuch' is not supported", 1, true))
    assert.is_true(terret.event(terret.events(r.out), "tool_result").ok)
  end)
end)

describe("agent types", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local function play(kind)
    return home:play(([[
      return function(request)
        if request.agent ~= "main" then
          if request.turn > 1 then return { text = request.model .. " " .. request.messages } end
          return { tool_calls = { { name = "bash", arguments = { command = "date" } } } }
        end
        if request.turn > 1 then return { text = request.messages } end
        return { tool_calls = { { name = "agent", arguments = { prompt = "look", type = %q } } } }
      end
    ]]):format(kind), { "--mode", "yolo" }).out
  end

  it("from Markdown and from Lua: prompt, tools, model", function()
    home:put(home.config .. "/agents/scout.md",
      "---\ndescription: Looks around.\ntools: read, grep\nmodel: small\n---\nYou are a scout.\n")
    home:put(home.config .. "/agents/guide.lua",
      "return { description = 'x', prompt = 'You are a guide.', tools = { 'bash' }, budget = { steps = 5 } }")
    local out = play "scout"
    assert.truthy(out:find("You are a scout.", 1, true), out)
    assert.truthy(out:find("small [", 1, true), out)
    assert.truthy(out:find("unknown tool 'bash'; there are: grep, read", 1, true), out)
    out = play "guide"
    assert.truthy(out:find("You are a guide.", 1, true), out)
    assert.is_nil(out:find("unknown tool", 1, true))
    assert.truthy(play("nonesuch"):find("no agents 'nonesuch'", 1, true))
  end)
end)

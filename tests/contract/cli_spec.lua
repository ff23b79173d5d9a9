-- Every subcommand that is found, and the rule of the one file: a script that is dropped into its
-- directory is used, with nothing listed anywhere.
local registry = require "terret.registry"
local terret = require "support.terret"

describe("subcommands:", function()
  local home
  lazy_setup(function() home = terret.home() end)
  lazy_teardown(function() home:close() end)

  for _, name in ipairs(registry.names("cli")) do
    describe(name, function()
      local command = assert(registry.load("cli", name))

      it("says what it does, on one line", function()
        assert.is_true(#command.summary > 0 and #command.summary <= 70)
        assert.is_nil(command.summary:find("\n", 1, true))
        assert.truthy(command.usage:find("terret " .. name, 1, true))
      end)

      it("has options that can be told apart", function()
        local seen = { help = true, h = true }
        for _, o in ipairs(command.options or {}) do
          assert.truthy(o.name:find("^%l[%l%d%-]*$"))
          assert.truthy(o.help and o.help:find("%S"), o.name)
          assert.is_nil(seen[o.name])
          seen[o.name] = true
          if o.short then
            assert.is_nil(seen[o.short])
            seen[o.short] = true
          end
        end
      end)

      it("has --help", function()
        local r = home:run { name, "--help" }
        assert.equal(0, r.code, r.err)
        assert.truthy(r.out:find(command.summary, 1, true))
        assert.equal("", r.err)
      end)

      it("refuses an option that it doesn't know", function()
        local r = home:run { name, "--nonesuch" }
        assert.equal(command.usage_status or 2, r.code)
        assert.truthy(r.err:find("nonesuch", 1, true))
        assert.equal("", r.out)
      end)
    end)
  end

  it("are all in terret --help", function()
    local out = home:run({ "--help" }).out
    for _, name in ipairs(registry.names("cli")) do
      assert.truthy(out:find("\n  " .. name .. " ", 1, true), name)
    end
  end)
end)

describe("one file:", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local CALLS_TOOL = [[
    return { { text = "Calling.", tool_calls = { { name = "dropped", arguments = { word = "tea" } } } },
      { text = "The end." } }
  ]]

  it("a tool is offered and called", function()
    home:put(home.config .. "/tools/dropped.lua", [[
      return { name = "dropped", description = "Says a word backwards.", permission = "none",
        parameters = { word = { "string", "the word" } },
        run = function(args) return "backwards: " .. args.word:reverse() end }
    ]])
    local r = home:play(CALLS_TOOL, { "--output", "jsonl", "--mode", "yolo" })
    assert.equal(0, r.code, r.err)
    local result = terret.event(terret.events(r.out), "tool_result", "dropped")
    assert.is_true(result.ok)
    assert.equal("backwards: aet", result.text)
  end)

  it("a tool that is broken is left out and named, and the run goes on", function()
    home:put(home.config .. "/tools/dropped.lua", "return { name = 'dropped' }")
    local r = home:play(CALLS_TOOL, { "--output", "jsonl", "--mode", "yolo" })
    assert.equal(0, r.code, r.err)
    local list = terret.events(r.out)
    assert.truthy(terret.event(list, "warning").text:find("tool 'dropped' left out", 1, true))
    assert.is_false(terret.event(list, "tool_result", "dropped").ok)
  end)

  it("a loop runs", function()
    home:put(home.config .. "/loops/twice.lua", [[
      return function(agent)
        agent:ask()
        agent:ask { prompt = "And once more." }
      end
    ]])
    local r = home:play("return { { text = 'one' }, { text = 'two' } }", { "--loop", "twice", "--output", "json" })
    assert.equal(0, r.code, r.err)
    local result = terret.events(r.out)[1]
    assert.equal("two", result.text)
    assert.equal(2, result.steps)
  end)

  it("a provider without a network answers", function()
    home:put(home.config .. "/providers/parrot.lua", [[
      return { name = "parrot", answer = function(request)
        return { { type = "text", text = "Squawk: " .. request.messages:match('(%l+)","role":"user"}%]$'):sub(-5) },
          { type = "finish", reason = "stop" } }
      end }
    ]])
    local r = home:run { "-p", "polly", "--provider", "parrot" }
    assert.equal(0, r.code, r.err)
    assert.equal("Squawk: polly\n", r.out)
  end)

  it("a replaced built-in wins", function()
    home:put(home.config .. "/loops/react.lua", "return function(agent) agent:say('assistant', 'mine') end")
    local r = home:play("return {}", {}, { env = { TERRET_PATH = false } })
    assert.equal(0, r.code, r.err)
    local id = home:run({ "session", "list", "--json" }).out:match('"id":"(.-)"')
    assert.truthy(home:run({ "session", "show", id }).out:find("\n\nmine\n", 1, true))
  end)

  it("a guard that is replaced and doesn't load stops everything", function()
    home:put(home.config .. "/scripts/permissions.lua", "error 'boom'")
    local r = home:play("return { { text = 'x' } }", {}, { env = { TERRET_PATH = false } })
    assert.equal(1, r.code)
    assert.truthy(r.err:find("nothing runs", 1, true))
    assert.equal("", r.out)
  end)

  it("a guard without its functions stops everything, another broken module says so in a line", function()
    for name, c in pairs { permissions = { "return {}", "nothing runs: it has no function 'new'" },
      prompt = { "return {}", "replace terret's own" }, context = { "x x", "context.lua:1: syntax error" } } do
      local path = home:put(home.config .. "/scripts/" .. name .. ".lua", c[1])
      local r = home:play("return { { text = 'x' } }", {}, { env = { TERRET_PATH = false } })
      assert.equal(1, r.code)
      assert.truthy(r.err:find(c[2], 1, true), r.err)
      assert.equal(1, select(2, r.err:gsub("\n", "")), r.err)
      assert(os.remove(path))
    end
  end)

  it("a time-out of the sandbox that is no time is a usage error", function()
    for _, bad in ipairs { "1e308", "1e309", "-1", "nan", "x" } do
      local r = home:run { "sandbox", "--timeout=" .. bad, "--", "true" }
      assert.equal(125, r.code)
      assert.equal(1, select(2, r.err:gsub("\n", "")), r.err)
    end
  end)

  it("the examples work when they are dropped in", function()
    local here = debug.getinfo(1, "S").source:match("^@(.*)/tests/contract/[^/]*$") or "."
    local fs = require "terret.fs"
    for _, kind in ipairs { "tools", "loops", "providers" } do
      for _, e in ipairs(assert(fs.list(here .. "/examples/" .. kind))) do
        local path = home:put(home.config .. "/" .. kind .. "/" .. e.name, assert(fs.read(here .. "/examples/" .. kind
          .. "/" .. e.name)))
        assert.equal(0, home:run({ "check", path }).code, path)
      end
    end
    home:put("project/a.txt", "one two\n")
    local script = [[
      return { { tool_calls = { { name = "wc", arguments = { path = "a.txt" } } } }, { text = "x" } }
    ]]
    local r = home:play(script, { "--loop", "verify", "--output", "jsonl", "--mode", "yolo" })
    assert.equal(0, r.code, r.err)
    assert.equal("1 lines, 2 words, 8 bytes", terret.event(terret.events(r.out), "tool_result", "wc").text)
  end)
end)

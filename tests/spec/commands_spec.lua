-- tests/spec/commands_spec.lua - mirrors scripts/slash.lua and scripts/commands/, over a real agent with a
-- scripted model.
local fs = require "terret.fs"
local registry = require "terret.registry"
local setup = require "terret.setup"
local slash = require "terret.slash"
local task = require "terret.task"

local dir, agent, ctx, stopped

-- A conversation of n turns.
local function open(turns)
  dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-commands-"))
  for _, name in ipairs { "project", "home", "state" } do assert(fs.mkdir(dir .. "/" .. name)) end
  local cfg = { provider = "scripted", model = "scripted", project = dir .. "/project", cwd = dir .. "/project",
    home = dir .. "/home", state_dir = dir .. "/state", config_dir = dir .. "/home/config", cache_dir = dir .. "/cache",
    mode = "ask", rules = {}, sandbox = "none", rw = {}, limits = {},
    script = function(request) return { text = "answer " .. request.turn } end }
  stopped = 0
  local ui = { event = function() end, stop = function() stopped = stopped + 1 end }
  agent = assert(setup.open(cfg, ui))
  ctx = { agent = agent, ui = ui, cfg = cfg }
  task.run(function()
    for i = 1, turns or 0 do assert.equal("done", agent:prompt("question " .. i).status) end
  end)
end

local function run(words, busy) return task.run(slash.run, ctx, words, busy) end

describe("slash commands", function()
  before_each(function() open(0) end)
  after_each(function()
    agent.session:close()
    fs.remove(dir, { recursive = true })
  end)

  it("are told from words that begin with a slash", function()
    for words, want in pairs { ["/help"] = "help", ["/model  gpt 5 "] = "model", ["/?"] = "help", ["/a-b"] = "a-b" } do
      assert.equal(want, (slash.parse(words)), words)
    end
    assert.same({ "model", "gpt 5" }, { slash.parse("/model  gpt 5 ") })
    assert.same({ "compact", "a\nb" }, { slash.parse("/compact a\nb") })
    for _, words in ipairs { "/usr/bin is full", "/", "/ help", "help", " /help", "/Help", "//", "/help!", "/?x" } do
      assert.is_nil((slash.parse(words)), words)
    end
  end)

  it("keep their contract, and answer something in an empty session", function()
    local names = registry.names("commands")
    assert.is_true(#names >= 14)
    for _, name in ipairs(names) do
      local command = assert(registry.load("commands", name))
      assert.is_true(#command.description > 0 and #command.description < 80, name)
      local reply = run("/" .. name)
      assert.equal("string", type(reply), name)
      assert.is_nil(reply:find("failed", 1, true), name .. ": " .. reply)
      run("/" .. name .. " \27[31m%s %d ../x")
    end
  end)

  it("say what there is when there is none of the name", function()
    assert.matches("^no command /nothing; there are: /clear /compact /context /cost /drop /help", run("/nothing x"))
  end)

  it("that fail don't end the session", function()
    ctx.agent = nil
    assert.matches("^/cost failed: ", run("/cost"))
  end)

  it("wait for the end of the turn where they change it", function()
    assert.matches("has to wait", run("/clear", true))
    assert.matches("requests", run("/cost", true))
  end)

  it("/help lists all", function()
    local reply = run("/help")
    for _, name in ipairs(registry.names("commands")) do assert.matches("/" .. name, reply, 1, true) end
  end)

  it("/quit stops the interface", function()
    assert.equal("", run("/quit"))
    assert.equal(1, stopped)
  end)
end)

describe("slash commands in a conversation", function()
  before_each(function() open(3) end)
  after_each(function()
    agent.session:close()
    fs.remove(dir, { recursive = true })
  end)

  it("/clear empties it, and the next prompt begins anew", function()
    assert.equal("cleared", run("/clear"))
    assert.equal(1, #agent.session.entries)
    assert.equal("the conversation is empty", run("/clear"))
    task.run(agent.prompt, agent, "again")
    assert.equal(3, #agent.session.entries)
  end)

  it("/rewind goes back to before a message", function()
    local reply = run("/rewind")
    assert.matches("   3  question 1\n   2  question 2\n   1  question 3\n", reply, 1, true)
    local entries = #agent.session.entries
    assert.equal("back to before: question 2", run("/rewind 2"))
    assert.equal(entries - 4, #agent.session.entries)
    assert.matches("no message 2", run("/rewind 2"))
    for _, wrong in ipairs { "0", "-1", "1.5", "x", "99" } do
      assert.matches("no message", run("/rewind " .. wrong), 1, true)
    end
    assert.equal("back to before: question 1", run("/rewind 1"))
    assert.equal("nothing was said yet", run("/rewind"))
  end)

  it("/cost and /context count", function()
    assert.matches("^3 requests · in [%d.k]+ out %d+ · the model's price is unknown$", run("/cost"))
    local reply = run("/context")
    assert.matches("tokens %(%d+%%%)", reply)
    assert.matches("user messages +%d+  3", reply)
    assert.matches("assistant messages +%d+  3", reply)
  end)

  it("/todo, /tools and /skills list", function()
    assert.equal("the list is empty", run("/todo"))
    agent.session:set_todos { { text = "one", status = "done" }, { text = "two", status = "in_progress" } }
    assert.equal("[x] one\n[>] two", run("/todo"))
    assert.matches("  bash +exec +Runs a command", run("/tools"))
    agent.skills = { { name = "s", description = "does\nthings" }, { name = "t", problems = { "no name" } },
      { name = "s", description = "hidden", shadowed = true } }
    assert.equal("  s                    does things\n  t                    can't be used: no name", run("/skills"))
    agent.skills = {}
    assert.equal("there are no skills", run("/skills"))
  end)

  it("/model changes it", function()
    assert.equal("the model is scripted", run("/model"))
    assert.matches("gpt%-4o from now on", run("/model gpt-4o"))
    assert.equal("gpt-4o", ctx.cfg.model)
    assert.equal(128000, agent.model_info.window)
    assert.matches("one word", run("/model a b"))
    ctx.cfg.limits.cost = 1
    assert.matches("price of 'unknown'", run("/model unknown"))
    assert.equal("gpt-4o", ctx.cfg.model)
  end)

  it("/mode changes who is asked", function()
    assert.matches("> ask ", run("/mode"), 1, true)
    assert.equal("ask", agent.permissions:check({ class = "write", path = ctx.cfg.project .. "/x" }).verdict)
    assert.matches("^mode plan", run("/mode plan"))
    assert.equal("deny", agent.permissions:check({ class = "write", path = ctx.cfg.project .. "/x" }).verdict)
    assert.matches("no mode 'root'", run("/mode root"))
  end)

  it("/loop changes the loop", function()
    assert.matches("^the loop is react; there are: .*react", run("/loop"))
    local path = dir .. "/mine.lua"
    assert(fs.write(path, "return function(agent) agent:say('assistant', 'mine') end"))
    assert.matches("from the next step on", run("/loop " .. path))
    assert.equal("done", task.run(agent.prompt, agent, "x").status)
    local before = agent.loop
    assert.matches("no loops 'nothing'", run("/loop nothing"))
    assert(fs.write(path, "return 3"))
    assert.matches("returns a function", run("/loop " .. path))
    assert.equal(before, agent.loop)
  end)

  it("/resume lists the sessions", function()
    local reply = run("/resume")
    assert.matches(agent.session.id .. "  question 1  (this one)", reply, 1, true)
    for i = 1, 12 do
      assert(fs.write(("%s/../2000%02d/log.jsonl"):format(agent.session.dir, i), i % 2 == 0 and "junk\n" or "{}\n",
        { parents = true }))
    end
    reply = run("/resume")
    assert.matches("  200012  (nothing was said)", reply, 1, true)
    assert.matches("and 3 older ones", reply, 1, true)
  end)

  it("/compact asks the model for a summary, or says that it gains nothing", function()
    assert.equal("string", type(run("/compact the names")))
  end)
end)

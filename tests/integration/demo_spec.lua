-- terret demo: the executable, a scripted model, real tools, the real sandbox (where one works).
local fs = require "terret.fs"
local json = require "terret.json"
local sandbox = require "terret.sandbox"
local terret = require "support.terret"

local BACKEND = sandbox.pick("auto") and "auto" or "none"

local BROKEN = [[
local answers = require "terret.demo.model"
return { answers[1], answers[2], answers[3], { text = "That will do." } }
]]

describe("terret demo", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local function demo(...) return home:run { "demo", "--sandbox", BACKEND, ... } end

  it("mends the project and says where everything is", function()
    local r = demo()
    assert.equal("", r.err)
    assert.equal(0, r.code)
    local project = r.out:match("project  (%S+)")
    local log = r.out:match("session  (%S+)")
    assert.truthy(home:get(project .. "/duration.c"):find("number = 0;\n    }", 1, true))
    assert.truthy(log:find(home.state, 1, true), "the log is not in the state directory")
    local first = json.decode(home:get(log):match("[^\n]*"))
    assert.equal("session", first.type)
    assert.equal(project, first.project)
  end)

  it("shows the failing test, the refused edit and the passing test, in this order", function()
    local out = demo().out
    local at = 1
    for _, words in ipairs { "FAIL 1h30m = 11400, expected 5400", "old_string was not found in duration.c",
      "ok 1h30m = 5400", "Checked apart from the model: the test passes" } do
      local from = out:find(words, at, true)
      assert.truthy(from, "missing, or out of order: " .. words)
      at = from
    end
  end)

  it("fits a screen or two, without control characters", function()
    local out = demo().out
    assert.is_nil(out:find("[%z\1-\8\11-\31\127]"))
    assert.is_true(select(2, out:gsub("\n", "")) < 90)
  end)

  it("logs a session that `terret session` can check and show", function()
    local id = demo().out:match("terret session show (%S+)")
    assert.equal(0, home:run({ "session", "check", id }).code)
    local shown = home:run { "session", "show", id }
    assert.truthy(shown.out:find("> The test fails.", 1, true))
  end)

  it("runs without a sandbox when that is typed, and nothing is refused", function()
    local r = home:run { "demo", "--sandbox", "none" }
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("(sandbox: none)", 1, true))
  end)

  it("makes no repository and no state outside its directories", function()
    local project = demo().out:match("project  (%S+)")
    assert.is_nil((fs.stat(project .. "/.git")))
    assert.is_nil((fs.stat(home.dir .. "/home")))
  end)

  it("fails when the model doesn't mend it", function()
    local r = demo("--script", home:put("broken.lua", BROKEN))
    assert.equal(1, r.code)
    assert.truthy(r.err:find("of the two edits", 1, true))
    assert.truthy(r.out:find("project  ", 1, true), "the project is named also then")
    assert.is_nil(r.out:find("Checked apart", 1, true))
  end)

  it("fails when the answers end too early", function()
    local r = demo("--script", home:put("none.lua", "return {}"))
    assert.equal(1, r.code)
    assert.truthy(r.err:find("the run ended with 'endpoint'", 1, true))
  end)

  it("does not take the model's word: a deleted test is noticed", function()
    local r = demo("--script", home:put("liar.lua", [[
      local a = require "terret.demo.model"
      local call = { name = "bash", arguments = { command = "echo 'int main(void) { return 1; }' > test_duration.c" } }
      return { a[1], a[2], a[3], a[4], a[5], { text = "now", tool_calls = { call } }, a[6] }
    ]]))
    assert.equal(1, r.code)
    assert.truthy(r.err:find("fail", 1, true))
  end)

  it("says the step to take where no sandbox works", function()
    for _, name in ipairs { "bubblewrap", "landlock", "seatbelt" } do
      home:put(home.config .. "/sandbox/" .. name .. ".lua", ([[
        return { name = "%s", available = function() return false, "install the thing" end, wrap = function() end }
      ]]):format(name))
    end
    local r = home:run { "demo" }
    assert.equal(1, r.code)
    assert.truthy(r.err:find("no sandbox works here", 1, true))
    assert.truthy(r.err:find("bubblewrap: install the thing", 1, true))
    assert.truthy(r.err:find("terret demo --sandbox none", 1, true))
    assert.equal("", r.out)
  end)

  it("refuses what it doesn't know", function()
    assert.equal(2, home:run({ "demo", "extra" }).code)
    assert.equal(2, home:run({ "demo", "--what" }).code)
    assert.equal(1, home:run({ "demo", "--sandbox", "nonesuch" }).code)
    assert.equal(1, home:run({ "demo", "--script", "/nonexistent" }).code)
  end)
end)

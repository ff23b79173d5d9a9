-- terret doctor and terret models: against nothing, a mock endpoint and a dead port.
local json = require "terret.json"
local mock = require "support.mock"
local sandbox = require "terret.sandbox"
local terret = require "support.terret"

local WORKS = sandbox.pick("auto") ~= nil
local DEAD = "http://127.0.0.1:9/v1"

describe("terret doctor", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local function doctor(args, options) return home:run({ "doctor", table.unpack(args or {}) }, options) end

  it("is content offline, and warns that no endpoint is set", function()
    local r = doctor()
    assert.equal(WORKS and 0 or 1, r.code)
    assert.truthy(r.out:find("\nwarn  no endpoint is set", 1, true))
    assert.truthy(r.out:find("ok    terret ", 1, true))
    for line in r.out:gmatch("[^\n]+") do
      local level = line:match("^(%l+) +.")
      assert.is_true(level == "ok" or level == "warn" or level == "fail", line)
    end
  end)

  it("asks the endpoint for its models", function()
    local server <close> = mock.start { models = { "alpha", "beta" } }
    local r = doctor({ "--base-url", server.url }, { env = { TERRET_MODEL = "beta" } })
    assert.truthy(r.out:find("ok    endpoint " .. server.url .. ", without a key, 2 models", 1, true))
    assert.truthy(r.out:find("ok    model beta", 1, true))
    r = doctor({ "--base-url", server.url }, { env = { TERRET_MODEL = "gamma" } })
    assert.truthy(r.out:find("warn  model gamma is not in the endpoint's list", 1, true))
    r = doctor({ "--base-url", server.url })
    assert.truthy(r.out:find("warn  no model is set", 1, true))
  end)

  it("fails on an endpoint that can't be reached", function()
    local r = doctor { "--base-url", DEAD }
    assert.equal(1, r.code)
    assert.truthy(r.out:find("fail  endpoint " .. DEAD, 1, true))
  end)

  it("fails on a broken configuration and checks the rest", function()
    home:put(home.config .. "/config.lua", "return { modle = 1 }")
    local r = doctor()
    assert.equal(1, r.code)
    assert.truthy(r.out:find("fail  configuration: ", 1, true))
    assert.truthy(r.out:find("unknown key 'modle'", 1, true))
    assert.truthy(r.out:find("sessions are kept in", 1, true))
  end)

  it("fails on a guard that doesn't load, warns of a broken tool", function()
    home:put(home.config .. "/scripts/shell.lua", "error 'boom'")
    home:put(home.config .. "/tools/bad.lua", "return 1")
    local r = doctor({}, { env = { TERRET_PATH = false } })
    assert.equal(1, r.code)
    assert.truthy(r.out:find("fail  the guard terret.shell does not load", 1, true))
    assert.truthy(r.out:find("warn  tools/bad: ", 1, true))
  end)

  it("fails where no sandbox works, with each reason", function()
    for _, name in ipairs { "bubblewrap", "landlock", "seatbelt" } do
      home:put(home.config .. "/sandbox/" .. name .. ".lua", ([[
        return { name = "%s", available = function() return false, "install\nthe thing" end, wrap = function() end }
      ]]):format(name))
    end
    local r = doctor()
    assert.equal(1, r.code)
    assert.truthy(r.out:find("fail  sandbox bubblewrap: install the thing", 1, true))
    assert.truthy(r.out:find("fail  no sandbox works", 1, true))
  end)

  it("fails where the state directory can't be written", function()
    home:put("state", "a file in the way")
    local r = doctor()
    assert.equal(1, r.code)
    assert.truthy(r.out:find("fail  " .. home.state .. " can't be written", 1, true))
  end)

  it("takes no arguments", function() assert.equal(2, doctor({ "x" }).code) end)
end)

describe("terret models", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  it("lists what the endpoint has, and what is known about it", function()
    local server <close> = mock.start { models = { "gpt-4o", "zeta" } }
    local r = home:run({ "models", "--base-url", server.url }, { env = { TERRET_MODEL = "zeta" } })
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("  gpt%-4o +128000 tokens, 2.5/10 USD"))
    assert.truthy(r.out:find("\n* zeta\n", 1, true))
    local list = json.decode(home:run({ "models", "--base-url", server.url, "--json" }).out)
    assert.equal("gpt-4o", list[1].id)
    assert.equal(2.5, list[1].price.input)
    assert.is_nil(list[2].price)
  end)

  it("keeps hostile names off the terminal", function()
    local server <close> = mock.start { answers = { { body = '{"data":[{"id":"a\\u001b[2J"},{"id":5},7,null]}' } } }
    local r = home:run { "models", "--base-url", server.url }
    assert.equal(0, r.code, r.err)
    assert.is_nil(r.out:find("\27", 1, true))
  end)

  it("exits 2 without an endpoint, 5 when it can't be asked", function()
    local r = home:run { "models" }
    assert.equal(2, r.code)
    assert.truthy(r.err:find("no endpoint is set", 1, true))
    assert.equal(5, home:run({ "models", "--base-url", DEAD }).code)
    local server <close> = mock.start { answers = { mock.error(401, "no"), { body = "<html>" }, { body = "[]" } } }
    for _ = 1, 3 do assert.equal(5, home:run({ "models", "--base-url", server.url }).code) end
    assert.equal(2, home:run({ "models", "x" }).code)
  end)
end)

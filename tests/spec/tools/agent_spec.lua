-- scripts/tools/agent.lua
local fake = require "support.fakecall"

local call

local function has(text, words)
  assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
end

describe("agent", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  it("returns the report of the subagent", function()
    local got
    call.agent = { spawn = function(_, options)
      got = options
      return { text = "found it", status = "done", session = "s1" }
    end }
    local text, extra = fake.run("agent", { prompt = "look", type = "explore" }, call)
    assert.equal("found it", text)
    assert.same({ prompt = "look", type = "explore" }, got)
    assert.equal("s1", extra.session)
  end)

  it("says an empty or unfinished report", function()
    call.agent = { spawn = function() return { text = " ", status = "limit" } end }
    assert.equal("(the subagent ended without a report)\n[status: limit]", (fake.run("agent", { prompt = "x" }, call)))
  end)

  it("fails as the spawn failed, and without one", function()
    has(select(2, fake.run("agent", { prompt = "x" }, call)), "not available")
    call.agent = { spawn = function() return nil, "too deep", "denied" end }
    local text, message, code = fake.run("agent", { prompt = "x" }, call)
    assert.same({ "too deep", "denied" }, { message, code })
    assert.is_nil(text)
    has(select(2, fake.run("agent", { prompt = " " }, call)), "empty")
  end)
end)

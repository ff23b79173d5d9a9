-- scripts/session/fork.lua, and --fork and -r with a record.
local fork = require "terret.session.fork"
local fs = require "terret.fs"
local session_mod = require "terret.session"
local world = require "support.world"

local function make()
  local w = world.new { script = { { text = "one" }, { text = "two" }, { tool_calls = { { name = "big" } } },
    { text = "three" }, { text = "four" }, { text = "five" } } }
  w:tool("big", function() return ("a line of a long result\n"):rep(5000) end)
  w:prompt("first")
  w:prompt("second")
  w:prompt("third")
  return w
end

-- The record after which the n-th answer stands.
local function answer(w, n)
  for _, r in ipairs(w:records()) do
    if r.type == "message" and r.role == "assistant" then
      n = n - 1
      if n == 0 then return r.id end
    end
  end
end

local function texts(w)
  local out = {}
  for _, m in ipairs(w:view()) do
    if m.role == "assistant" then out[#out + 1] = m.content end
  end
  return table.concat(out, " ")
end

describe("a fork that stands by itself", function()
  it("begins at any record, and leaves the other as it is", function()
    local w <close> = make()
    local old, at = w.agent.session, answer(w, 1)
    local before = assert(fs.read(old.dir .. "/log.jsonl"))
    assert(w:open { fork = ("%s@%d"):format(old.id, at) })
    assert.is_true(w.agent.session.id ~= old.id)
    assert.equal("one", texts(w))
    w:prompt("another way")
    assert.equal("one four", texts(w))
    w:check()
    assert.equal(before, fs.read(old.dir .. "/log.jsonl"))
    assert.equal(2, #session_mod.list(w.state, w.project))
    w:resume()
    assert.equal("one four", texts(w))
    w:check()
  end)

  it("has all of it without a record, and reads the blobs of the other", function()
    local w <close> = make()
    local view = w.agent.session.view:render("", "")
    assert(w:open { fork = w.agent.session.id })
    assert.equal(view, w.agent.session.view:render("", ""))
    local id = w:results()[1]:match('recall{id="(b%d+)"}')
    assert.truthy(w.agent.session:read_blob(id))
    local own = w.agent.session:save_blob("mine")
    assert.is_true(own ~= id)
    -- And a fork of the fork.
    assert(w:open { fork = w.agent.session.id })
    assert.equal(view, w.agent.session.view:render("", ""))
    assert.equal("mine", w.agent.session:read_blob(own))
    assert.truthy(w.agent.session:read_blob(id))
    local inner <close> = setmetatable({ session = assert(w.agent.session:fork()) }, { __close = function(x)
      x.session:close()
    end })
    assert.truthy(inner.session:read_blob(id))
  end)

  it("answers a call that it cuts off", function()
    local w <close> = make()
    assert(w:open { fork = ("%s@%d"):format(w.agent.session.id, answer(w, 3)) })
    assert.matches("interrupted", w:results()[1])
    w:check()
  end)

  it("refuses what is not there", function()
    local w <close> = make()
    local dir = w.agent.session.dir
    local _, _, code = fork.at(dir, 99999)
    assert.equal("not_found", code)
    _, _, code = fork.at(dir .. "x")
    assert.equal("not_found", code)
    assert(fs.write(dir .. "/log.jsonl", '{"id":1,"type":"warning"}\n'))
    _, _, code = fork.at(dir)
    assert.equal("bad_session", code)
    local agent, _, why = w:open { fork = "nonesuch@3" }
    assert.is_nil(agent)
    assert.equal("usage", why)
  end)
end)

describe("a resume of any record", function()
  it("goes on from there in the same session", function()
    local w <close> = make()
    local id, at = w.agent.session.id, answer(w, 2)
    w.agent.session:close()
    assert(w:open { resume = ("%s@%d"):format(id, at) })
    assert.equal(id, w.agent.session.id)
    assert.equal("one two", texts(w))
    w:prompt("on")
    assert.equal("one two four", texts(w))
    w:check()
    w.agent.session:close()
    local agent, _, code = w:open { resume = id .. "@99999" }
    assert.is_nil(agent)
    assert.equal("not_found", code)
    assert(w:open { resume = id }) -- the lock is free
  end)
end)

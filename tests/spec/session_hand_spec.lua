-- scripts/session/hand.lua: drop, pin, unpin and undo, through a real agent; and their slash commands.
local hand = require "terret.session.hand"
local plan = require "terret.context.plan"
local slash = require "terret.slash"
local world = require "support.world"

-- Ten turns, each with a call.
local function make()
  local w = world.new { window = 8000 }
  w:tool("work", function(args) return ("result %d of some length. "):format(args.n):rep(10) end)
  local n = 0
  w.cfg.script = function(request)
    if request.messages:find("Write that summary now", 1, true) then return { text = "SUMMARY" } end
    n = n + 1
    if n % 2 == 0 then return { text = "answer " .. n } end
    return { text = "step " .. n, tool_calls = { { name = "work", arguments = { n = n } },
      { name = "work", arguments = { n = 100 + n } } } }
  end
  for i = 1, 10 do w:prompt("wish " .. i) end
  return w
end

local function body(w) return w.agent.session.view:render("", "") end

-- The n-th entry of a role, from the first.
local function nth(w, role, n)
  for _, e in ipairs(w.agent.session.entries) do
    if e.role == role then
      n = n - 1
      if n == 0 then return e end
    end
  end
end

describe("by hand", function()
  it("a message is dropped with the results of its calls, and comes back", function()
    local w <close> = make()
    local session, before = w.agent.session, body(w)
    local ids = assert(hand.drop(session, nth(w, "assistant", 1).id))
    assert.equal(3, #ids)
    assert.is_nil(body(w):find("result 1 of", 1, true))
    w:check()
    w:resume()
    w:check()
    local undone = assert(hand.undo(w.agent.session))
    assert.equal("batch", w:records()[undone].type)
    assert.equal(before, body(w))
    w:check()
    w:resume()
    assert.equal(before, body(w))
    assert.is_nil(hand.undo(w.agent.session))
    w:prompt("goes on")
    w:check()
  end)

  it("a result is dropped with its call; a range grows to whole exchanges", function()
    local w <close> = make()
    local first, last = nth(w, "tool", 4), nth(w, "tool", 7)
    local ids = assert(hand.drop(w.agent.session, last.id, first.id))
    assert.is_true(#ids >= 9)
    for _, n in ipairs { 3, 103, 5, 105, 7, 107 } do
      assert.is_nil(body(w):find(("result %d of"):format(n), 1, true), n)
    end
    assert.truthy(body(w):find("result 1 of", 1, true))
    assert.truthy(body(w):find("result 9 of", 1, true))
    w:check()
  end)

  it("the system prompt and the first words stay", function()
    local w <close> = make()
    local session = w.agent.session
    local _, _, code = hand.drop(session, session.entries[2].id)
    assert.equal("denied", code)
    _, _, code = hand.drop(session, session.entries[1].id)
    assert.equal("not_found", code)
    _, _, code = hand.drop(session, 99999)
    assert.equal("not_found", code)
    assert(hand.drop(session, session.entries[2].id, session.entries[#session.entries].id))
    assert.equal(2, #session.entries)
    w:check()
  end)

  it("what is pinned is passed over by drop, strip and compaction", function()
    local w <close> = make()
    local session = w.agent.session
    local e = nth(w, "tool", 1)
    assert(hand.pin(session, e.id))
    assert.is_true(nth(w, "tool", 1).pinned)
    assert.is_true(nth(w, "assistant", 1).pinned) -- the whole exchange
    assert(hand.drop(session, session.entries[3].id, nth(w, "tool", 4).id))
    assert.truthy(body(w):find("result 1 of", 1, true))
    assert.equal(0, #plan.strip({ {}, {}, { role = "tool", size = 9999, pinned = true } }, 99, 1))
    assert.is_true(w:run(function(agent) return agent:compact() end))
    assert.equal("summary", session.entries[2].kind)
    assert.truthy(session.entries[2].content:find('<pinned role="tool">\nresult 1 of', 1, true))
    w:check()
    -- And by the next one.
    for i = 11, 20 do w:prompt("wish " .. i) end
    w:run(function(agent) return agent:compact() end) -- false where the window asked for one just before
    assert.is_true(#w:logged("compaction") >= 2)
    local _, count = session.entries[2].content:gsub("\nresult 1 of", "")
    assert.equal(1, count)
    w:resume()
    w:check()
  end)

  it("a pin is taken back by unpin and by undo", function()
    local w <close> = make()
    local session = w.agent.session
    local e = nth(w, "user", 3)
    local before = body(w)
    assert(hand.pin(session, e.id))
    assert(hand.pin(session, e.id, nil, false))
    assert.is_nil(nth(w, "user", 3).pinned)
    assert(hand.undo(session)) -- the unpin
    assert.is_true(nth(w, "user", 3).pinned)
    assert(hand.undo(session)) -- the pin
    assert.is_nil(nth(w, "user", 3).pinned)
    assert.equal(before, body(w))
    w:resume()
    assert.is_nil(nth(w, "user", 3).pinned)
  end)

  it("a compaction is taken back by its number, and an undo too", function()
    local w <close> = make()
    local session, before = w.agent.session, body(w)
    assert.is_true(w:run(function(agent) return agent:compact() end))
    local record = w:logged("compaction")[1].id
    local after = body(w)
    assert.equal(record, hand.undo(session, record))
    assert.equal(before, body(w))
    w:check()
    assert(hand.undo(session, w:logged("undo")[1].id))
    assert.equal(after, body(w))
    w:check()
    local _, _, code = hand.undo(session, 1)
    assert.equal("not_found", code)
  end)

  it("a fork has what its parent took back, and checks as whole", function()
    local w <close> = make()
    assert(hand.drop(w.agent.session, nth(w, "assistant", 1).id))
    assert(hand.undo(w.agent.session))
    local fork = assert(w.agent.session:fork())
    assert.equal(body(w), fork.view:render("", ""))
    local check = require "terret.session.check"
    local said = {}
    check.check(fork.dir .. "/log.jsonl", function(format, ...) said[#said + 1] = format:format(...) end)
    assert.same({}, said)
    fork:close()
  end)

  it("is not done while calls run", function()
    local w <close> = make()
    local session = w.agent.session
    assert(hand.drop(session, nth(w, "assistant", 1).id))
    session:append { type = "message", role = "assistant", content = "", tool_calls = { { id = "z", name = "work",
      arguments = "{}" } } }
    local _, _, code = hand.undo(session)
    assert.equal("busy", code)
  end)

  it("/context, /drop, /pin and /unpin", function()
    local w <close> = make()
    local ctx = { agent = w.agent, cfg = w.cfg, ui = w.ui }
    local function run(words) return w:run(function() return slash.run(ctx, words) end) end
    local shown = run "/context all"
    assert.truthy(shown:find("profile eco", 1, true))
    assert.truthy(shown:find("wish 3", 1, true))
    local id = shown:match("\n +(%d+)  assistant")
    assert.truthy(run("/context"):find("largest of", 1, true))
    assert.truthy(run("/drop " .. id):find("3 messages are out", 1, true))
    assert.is_nil(run("/context all"):find("\n +" .. id .. "  "))
    assert.truthy(run("/drop undo"):find("taken back", 1, true))
    assert.truthy(run("/pin " .. id):find("3 messages are pinned", 1, true))
    assert.truthy(run("/context all"):find(" pinned", 1, true))
    assert.truthy(run("/unpin " .. id):find("unpinned", 1, true))
    assert.is_nil(run("/context all"):find(" pinned", 1, true))
    for _, words in ipairs { "/drop", "/drop x", "/pin 5-", "/drop 99999999999999999999", "/unpin -1" } do
      assert.truthy(run(words):find("N-M", 1, true), words)
    end
    assert.truthy(run("/drop 9999"):find("no message 9999", 1, true))
    assert.truthy(run("/drop 1-" .. id):find("no message 1 ", 1, true))
  end)
end)

-- scripts/sentinel.lua: what the cache should have held, what it did, and who is to blame.
local sentinel = require "terret.sentinel"
local world = require "support.world"

local PAD = ("some words that fill the context\n"):rep(1200) -- about 8,000 tokens

-- A world whose endpoint counts four bytes a token and caches what `cached(prompt, shared)` says.
local function counted(script, cached, options)
  local w = world.new(options)
  local n, last = 0, nil
  w.cfg.script = function(request)
    local body = request.messages:sub(1, -2)
    local shared = last and sentinel.common(last, body) or 0
    last = body
    n = n + 1
    local reply = script[n] or { text = "end" }
    reply.usage = { input = #body // 4, output = 10, cached = cached(#body // 4, shared // 4 // 128 * 128, n) }
    return reply
  end
  return w
end

local function call() return { text = "go", tool_calls = { { name = "echo", arguments = { text = "x" } } } } end

local function run(w, words)
  w:tool("echo", function() return PAD end)
  w:prompt(words or "go")
  return w:logged("usage")
end

local function told(w)
  local out = {}
  for _, e in ipairs(w:seen("warning")) do
    if e.text:find("^cache:") then out[#out + 1] = e.text end
  end
  return out
end

describe("sentinel", function()
  it("finds the common beginning of two texts", function()
    for _, case in ipairs { { "", "", 0 }, { "abc", "abc", 3 }, { "abc", "abd", 2 }, { "abc", "ab", 2 },
      { "abc", "x", 0 }, { "abcdef", "abcdefgh", 6 }, { "abcdefgh", "abcxefgh", 3 } } do
      assert.equal(case[3], sentinel.common(case[1], case[2]))
    end
    local long = ("x"):rep(100000)
    for _, at in ipairs { 1, 2, 50000, 99999, 100000 } do
      assert.equal(at - 1, sentinel.common(long, long:sub(1, at - 1) .. "y" .. long:sub(at + 1)))
    end
  end)

  it("predicts what is cached, and says nothing when it was", function()
    local w <close> = counted({ call(), call(), { text = "end" } }, function(_, shared) return shared end)
    local usage = run(w)
    assert.equal(3, #usage)
    assert.is_nil(usage[1].predicted)
    for i = 2, 3 do
      assert.is_true(math.abs(usage[i].predicted - usage[i].cached) <= 128, usage[i].predicted)
      assert.is_nil(usage[i].lost)
    end
    assert.same({}, told(w))
  end)

  it("says that the provider missed", function()
    local w <close> = counted({ call(), call(), call(), { text = "end" } }, function(_, shared, n)
      return n == 3 and 0 or shared
    end)
    local usage = run(w)
    assert.equal("missed", usage[3].why)
    assert.equal(usage[3].predicted, usage[3].lost)
    assert.is_nil(usage[4].lost)
    local lines = told(w)
    assert.equal(1, #lines)
    assert.matches("^cache: %d+ of %d+ tokens were not read from it; the provider missed", lines[1])
    assert.is_nil(lines[1]:find("\n", 1, true))
  end)

  it("forgives a small miss", function()
    local w <close> = counted({ call(), call(), { text = "end" } }, function(_, shared)
      return math.max(0, shared - sentinel.least + 256)
    end)
    run(w)
    assert.same({}, told(w))
  end)

  it("says which field we changed, and where", function()
    local w <close> = counted({ call(), call(), { text = "end" } }, function(_, shared) return shared end)
    w:tool("echo", function() return PAD end)
    local agent = w:open()
    local encode = agent.session.encode
    w:prompt("go")
    -- Something encodes an old message anew, with other bytes.
    local store, list = agent.session.store, agent.session.view:list()
    list[2] = store:add(encode { role = "user", content = "other words" })
    agent.session.view:replace(list)
    w:prompt("again")
    local usage = w:logged("usage")
    assert.equal("changed", usage[4].why)
    local lines = told(w)
    assert.equal(1, #lines)
    assert.matches("we changed messages%[2%] %(byte %d+%)", lines[1])
  end)

  it("names a changed head", function()
    local agent = { sent = {}, session = { epoch = 1 }, emit = function(self, _, e) self.said = e.text end }
    local function body(tools, more)
      return ('{"model":"m","tools":[%s],"messages":[{"role":"user","content":"%s"}%s]}'):format(tools,
        (PAD:gsub("\n", "")), more or "")
    end
    local function ask(text, cached)
      local guess = sentinel.before(agent, text, nil, "m")
      return sentinel.after(agent, guess, { input = #text // 4, cached = cached })
    end
    ask(body "1", 0)
    assert.is_nil(ask(body("1", ',{"role":"assistant"}'), 9000).lost)
    local r = ask(body("2", ',{"role":"assistant"}'), 0)
    assert.equal("changed", r.why)
    assert.equal(0, r.predicted)
    assert.matches("we changed tools %(byte 23%)", agent.said)
  end)

  it("still predicts a hit when a field before the prompt changed, and blames that on a miss", function()
    local agent = { sent = {}, session = { epoch = 1 }, emit = function(self, _, e) self.said = e.text end }
    local function ask(limit, cached)
      local text = ('{"max_tokens":%d,"model":"m","messages":[{"role":"user","content":"%s"}]}'):format(limit,
        (PAD:gsub("\n", "")))
      return sentinel.after(agent, sentinel.before(agent, text, nil, "m"), { input = #text // 4, cached = cached })
    end
    ask(4096, 0)
    local hit = ask(16, 9000)
    assert.is_true(hit.predicted > 7000)
    assert.is_nil(hit.lost)
    assert.equal("changed", ask(17, 0).why)
    assert.matches("we changed max_tokens %(byte 16%)", agent.said)
  end)

  it("passes over marks of a cache, and a tail that is not stored", function()
    local agent = { sent = {}, session = { epoch = 1 }, emit = function(self, _, e) self.said = e.text end }
    local function message(text, mark) return ('{%s"text":"%s"}'):format(mark or "", text) end
    local MARK = '"cache_control":{"type":"ephemeral"},'
    local first = '{"messages":[' .. message(PAD:gsub("\n", ""), MARK)
    local tail = message "the time"
    local function ask(text, t, cached)
      local r = sentinel.after(agent, sentinel.before(agent, text, t, "m"), { input = #text // 4, cached = cached })
      return r
    end
    ask(first .. "," .. tail .. "]}", tail, 0)
    local moved = first:gsub(MARK, "", 1) .. "," .. message("new", MARK) .. "]}"
    local r = ask(moved, nil, 0)
    assert.equal("missed", r.why) -- and not "changed"
    assert.is_true(r.predicted > 7000)
  end)

  it("does not complain of what was shortened on purpose", function()
    local w <close> = counted({ call(), call(), { text = "end" } }, function(_, shared) return shared end)
    run(w)
    w:run(function(agent) agent.context.overflow(agent) end)
    w:prompt("again")
    local usage = w:logged("usage")
    assert.equal("shortened", usage[4].why)
    assert.same({}, told(w))
  end)

  it("blames the time when the cache has expired", function()
    local w <close> = counted({ call(), { text = "end" } }, function(_, shared, n) return n == 3 and 0 or shared end)
    run(w)
    for _, last in pairs(w.agent.sent) do last.at = last.at - 1000 end
    w:prompt("again")
    assert.equal("expired", w:logged("usage")[3].why)
    assert.matches("seconds had passed", told(w)[1])
  end)

  it("learns that nothing is cached here, and stops complaining", function()
    local script = {}
    for i = 1, 8 do script[i] = call() end
    local w <close> = counted(script, function() return 0 end, { window = 200000 })
    run(w)
    assert.is_true(w.agent.uncached)
    assert.is_true(#told(w) < 4, #told(w))
  end)

  it("says nothing where the endpoint reports no cached tokens", function()
    local w <close> = counted({ call(), call() }, function() return nil end)
    local usage = run(w)
    assert.is_nil(usage[3].lost)
    assert.truthy(usage[3].predicted)
    assert.same({}, told(w))
  end)
end)

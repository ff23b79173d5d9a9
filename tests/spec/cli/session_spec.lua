-- scripts/cli/session.lua: real logs made by the executable, and damaged ones made by hand.
local fs = require "terret.fs"
local json = require "terret.json"
local terret = require "support.terret"

local TWO_STEPS = [[
return { { text = "I note it.", tool_calls = { { name = "todo",
    arguments = { items = { { text = "one", status = "done" } } } } } }, { text = "All *done*." } }
]]
local HEAD = { v = 1, id = 1, type = "session", session = "X", project = "/p", model = "m", system = "S", tools = "[]",
  time = "2025-01-01T00:00:00Z" }

describe("terret session", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local function play(script)
    local r = home:play(script or TWO_STEPS, { "--output", "json", "--mode", "yolo" })
    assert.equal(0, r.code, r.err)
    return json.decode(r.out).session
  end

  local function session(...) return home:run { "session", ... } end

  -- A log by hand: records (tables or text); its id.
  local function craft(id, records, tail)
    local lines = {}
    for i, r in ipairs(records) do lines[i] = type(r) == "string" and r or json.encode(r) end
    home:put(home.state .. "/sessions/0000/" .. id .. "/log.jsonl", table.concat(lines, "\n") .. "\n" .. (tail or ""))
    return id
  end

  describe("list", function()
    it("shows the sessions of this project", function()
      assert.truthy(session("list").out:find("no sessions of this project", 1, true))
      local id = play()
      local r = session("list")
      assert.equal(0, r.code)
      assert.truthy(r.out:find(id .. "    2 steps  go", 1, true))
    end)

    it("shows other projects only with --all", function()
      craft("20250101-000000-aaaaaa", { HEAD })
      assert.is_nil(session("list").out:find("aaaaaa", 1, true))
      local all = session("list", "--all").out
      assert.truthy(all:find("20250101-000000-aaaaaa", 1, true))
      assert.truthy(all:find("    /p\n", 1, true))
    end)

    it("speaks JSON", function()
      local id = play()
      local list = json.decode(session("list", "--json").out)
      assert.equal(1, #list)
      assert.equal(id, list[1].id)
      assert.equal("go", list[1].prompt)
      assert.equal(2, list[1].steps)
      assert.equal(home.project, list[1].project)
      assert.equal("[]\n", home:run({ "session", "list", "--json" }, { cwd = home.dir }).out)
    end)

    it("names a log that can't be read and goes on", function()
      craft("20250101-000000-bbbbbb", { "garbage" })
      craft("20250101-000000-aaaaaa", { HEAD })
      local out = session("list", "--all").out
      assert.truthy(out:find("bbbbbb    0 steps  (the log can't be read)", 1, true))
      assert.truthy(out:find("aaaaaa", 1, true))
    end)

    it("shows the user's words, not what terret put before them", function()
      craft("a", { HEAD, { id = 2, parent = 1, type = "message", role = "user",
        content = '<instructions from="/x">\nBe <b>.\n</instructions>\n\n<skills>\n- x\n</skills>\n\n'
          .. "the real prompt" } })
      assert.truthy(session("list", "--all").out:find("steps  the real prompt", 1, true))
    end)
  end)

  describe("show", function()
    it("is a transcript", function()
      local out = session("show", play()).out
      for _, words in ipairs { "> go", "I note it.", "* todo {", "  1 of 1 done", "All *done*." } do
        assert.truthy(out:find(words, 1, true), words)
      end
    end)

    it("takes a unique beginning of the id", function()
      craft("20250101-000000-aaaaaa", { HEAD })
      craft("20250102-000000-aaaaaa", { HEAD })
      assert.equal(0, session("show", "20250102").code)
      local r = session("show", "2025")
      assert.equal(1, r.code)
      assert.truthy(r.err:find("beginning of 2 sessions", 1, true))
      assert.equal(1, session("show", "nonesuch").code)
      assert.equal(1, session("show", "").code)
    end)

    it("shortens results but with --full", function()
      local long = ("line\n"):rep(100)
      craft("a", { HEAD, { id = 2, parent = 1, type = "message", role = "tool", call_id = "c", name = "x",
        content = long } })
      assert.truthy(session("show", "a").out:find("[88 more lines]", 1, true))
      local _, lines = session("show", "a", "--full").out:gsub("  line\n", "")
      assert.is_true(lines >= 99)
    end)

    it("never sends what a model said to the terminal raw", function()
      craft("a", { HEAD, { id = 2, parent = 1, type = "message", role = "assistant",
        content = "\27[2J\27]0;owned\7 \u{202e}evil", tool_calls = json.array { { id = "c", name = "\27[31mx",
        arguments = '{"a":"\27[0m"}' } } } })
      local r = session("show", "a")
      assert.equal(0, r.code)
      assert.is_nil(r.out:find("[%z\1-\8\11-\31\127]"))
      assert.is_nil(r.out:find("\u{202e}", 1, true))
    end)

    it("survives records of the wrong shape", function()
      craft("a", { HEAD, { id = 2, parent = 1, type = "message", role = "assistant", content = "x", tool_calls = 5 },
        { id = 3, parent = 2, type = "message", role = "assistant", content = "y", tool_calls = { 1, { name = {} } } },
        { id = 4, parent = 3, type = "message", role = "user", content = 7 },
        { id = 5, parent = 4, type = "batch", replace = 1, drop = "x" }, { id = 6, parent = 5, type = "warning" } })
      assert.equal(0, session("show", "a").code)
      assert.equal(0, session("export", "a").code)
      assert.equal("", session("list", "--all").err)
    end)

    it("ends on a log whose parents run in a circle", function()
      craft("a", { HEAD, { id = 2, parent = 3, type = "warning", text = "a" },
        { id = 3, parent = 2, type = "warning", text = "b" }, { id = 4, parent = 4, type = "warning", text = "c" } })
      assert.equal(0, session("show", "a").code)
      assert.equal(1, session("check", "a").code)
    end)
  end)

  describe("check", function()
    it("is content with what terret wrote", function()
      local r = session("check", play())
      assert.equal(0, r.code, r.out)
      assert.truthy(r.out:find("in 1 log, 0 problems", 1, true))
    end)

    local function complains(words, ...)
      local r = session("check", craft("a", ...))
      assert.equal(1, r.code)
      assert.truthy(r.out:find(words, 1, true), r.out)
    end

    local CALL = { id = 2, parent = 1, type = "message", role = "assistant", content = "",
      tool_calls = { { id = "c1", name = "bash", arguments = "{}" } } }

    it("finds a torn last line, and leaves it", function()
      complains("the last line is torn (9 bytes)", { HEAD }, '{"id":2,"')
      local path = home.state .. "/sessions/0000/a/log.jsonl"
      assert.equal('{"id":2,"', home:get(path):sub(-9))
    end)
    it("finds unreadable lines", function() complains("1 lines can't be read", { HEAD, "garbage" }) end)
    it("finds a call without a result", function()
      complains("call c1 (bash) in record 2 has no result", { HEAD, CALL })
    end)
    it("finds a result without a call", function()
      complains("record 2 is a result of no open call (zz)",
        { HEAD, { id = 2, parent = 1, type = "message", role = "tool", call_id = "zz", content = "" } })
    end)
    it("finds a missing parent", function()
      complains("record 3: its parent 2 is missing", { HEAD, { id = 3, parent = 2, type = "warning" } })
    end)
    it("finds a log without its first record", function()
      complains("does not begin with a session record", { { id = 1, type = "warning" } })
    end)
    it("does not count calls of a branch that was left", function()
      local id = craft("a", { HEAD, CALL, { id = 3, parent = 2, type = "rewind", to = 1 } })
      assert.equal(0, session("check", id).code)
    end)
    it("looks into the logs of subagents too", function()
      craft("a", { HEAD })
      home:put(home.state .. "/sessions/0000/a/agents/sub/log.jsonl", "garbage\n")
      local r = session("check", "a")
      assert.equal(1, r.code)
      assert.truthy(r.out:find("sub: 1 lines can't be read", 1, true))
      assert.truthy(r.out:find("in 2 logs", 1, true))
    end)
  end)

  describe("check --repair", function()
    local path
    before_each(function() path = home.state .. "/sessions/0000/a/log.jsonl" end)
    local WORDS = { id = 2, parent = 1, type = "message", role = "user", content = "words" }

    -- Repairs; good lines must be there byte for byte, then the log is fine.
    local function mends(good, records, tail)
      craft("a", records, tail)
      local r = session("check", "a", "--repair")
      assert.equal(0, r.code, r.err)
      local data = home:get(path)
      for _, record in ipairs(good) do assert.truthy(data:find(json.encode(record) .. "\n", 1, true)) end
      local after = session("check", "a")
      assert.equal(0, after.code, after.out)
      return r.out, data
    end

    it("leaves a good log alone", function()
      local before = table.concat({ json.encode(HEAD), json.encode(WORDS) }, "\n") .. "\n"
      local out, data = mends({ HEAD, WORDS }, { HEAD, WORDS })
      assert.equal("", out)
      assert.equal(before, data)
      assert.is_nil(home:get(path .. ".bad"))
    end)
    it("moves unreadable lines aside", function()
      local out = mends({ HEAD, WORDS }, { HEAD, "garbage", WORDS, '{"no":"record"}' })
      assert.truthy(out:find("2 lines moved to log.jsonl.bad", 1, true))
      assert.equal('garbage\n{"no":"record"}\n', home:get(path .. ".bad"))
    end)
    it("keeps one of records that stand there twice", function()
      craft("a", { HEAD, WORDS, WORDS })
      assert.truthy(session("check", "a").out:find("record 2 stands there twice", 1, true))
      local _, data = mends({ HEAD, WORDS }, { HEAD, WORDS, WORDS })
      assert.equal(2, select(2, data:gsub("\n", "")))
    end)
    it("saves a record behind NUL bytes, and moves lines of them aside", function()
      local last = { id = 3, parent = 2, type = "warning" }
      local zeros = ("\0"):rep(4096)
      local _, data = mends({ HEAD, WORDS, last }, { HEAD, zeros .. json.encode(WORDS), zeros, last })
      assert.is_nil(data:find("\0", 1, true))
    end)
    it("cuts a torn tail and answers calls that have no result", function()
      local call = { id = 2, parent = 1, type = "message", role = "assistant", content = "",
        tool_calls = { { id = "c1", name = "bash", arguments = "{}" } } }
      local out = mends({ HEAD, call }, { HEAD, call }, '{"id":3,"par')
      assert.truthy(out:find("torn", 1, true))
      assert.truthy(out:find("1 calls without a result", 1, true))
      assert.equal('{"id":3,"par', home:get(path .. ".torn"))
    end)
    it("adds to what an earlier repair moved aside", function()
      mends({ HEAD }, { HEAD, "one" })
      mends({ HEAD }, { HEAD, "two" })
      assert.equal("one\ntwo\n", home:get(path .. ".bad"))
    end)
    it("refuses a log without its first record, and changes nothing it can read", function()
      craft("a", { { id = 1, type = "warning" } })
      local before = home:get(path)
      local r = session("check", "a", "--repair")
      assert.equal(1, r.code)
      assert.truthy(r.err:find("can't be repaired", 1, true))
      assert.equal(before, home:get(path))
    end)
    it("refuses a session that is in use", function()
      craft("a", { HEAD, "garbage" })
      local handle <close> = assert(require("terret.log").open(path, { create = false }))
      local r = session("check", "a", "--repair")
      assert.equal(1, r.code)
      assert.truthy(r.err:find("in use", 1, true))
      assert.truthy(handle)
    end)
  end)

  describe("export", function()
    it("gives the messages as they are sent", function()
      local out = session("export", play(), "--format", "openai").out
      local body = assert(json.decode(out))
      local roles = {}
      for i, m in ipairs(body.messages) do roles[i] = m.role end
      assert.same({ "system", "user", "assistant", "tool", "assistant" }, roles)
      assert.equal(body.messages[3].tool_calls[1].id, body.messages[4].tool_call_id)
      assert.is_true(#body.tools > 0)
      assert.equal("All *done*.", body.messages[5].content)
    end)

    it("gives Markdown that a result can't break out of", function()
      craft("a", { HEAD, { id = 2, parent = 1, type = "message", role = "tool", call_id = "c", name = "x",
        content = "```\n# not a heading of ours\n````\nend" } })
      local out = session("export", "a").out
      assert.truthy(out:find("\n`````\n```\n# not a heading", 1, true))
      assert.truthy(out:find("\nend\n`````\n", 1, true))
    end)

    it("refuses other formats", function() assert.equal(2, session("export", "a", "--format", "pdf").code) end)
  end)

  describe("cost", function()
    local function usage(id, input, cost)
      return { id = id, parent = id - 1, type = "usage", input = input, cached = 1, output = 2, cost = cost }
    end

    it("adds up the usage records, subagents too, and copies of a fork once", function()
      craft("a", { HEAD, usage(2, 100, 0.5), usage(3, 10, 0.25) })
      local forked = { v = 1, id = 1, type = "session", session = "F", from = { session = "a", record = 2 } }
      home:put(home.state .. "/sessions/0000/a/agents/F/log.jsonl", json.encode(forked) .. "\n"
        .. json.encode(usage(2, 100, 0.5)) .. "\n" .. json.encode(usage(3, 7, 0.125)) .. "\n")
      local sum = json.decode(session("cost", "a", "--json").out)
      assert.equal(117, sum.input)
      assert.equal(3, sum.requests)
      assert.equal(0.875, sum.cost)
      assert.equal(2, #sum.agents)
      local out = session("cost", "a").out
      assert.truthy(out:find("total", 1, true))
      assert.truthy(out:find("0.8750 USD", 1, true))
    end)

    it("adds up what was lost to misses", function()
      local head = {}
      for key, value in pairs(HEAD) do head[key] = value end
      head.model = "gpt-4o"
      local lost = usage(3, 10000, 0.25)
      lost.predicted, lost.lost, lost.why = 9000, 8000, "missed"
      craft("a", { head, usage(2, 100, 0.5), lost })
      local sum = json.decode(session("cost", "a", "--json").out)
      assert.equal(8000, sum.lost)
      assert.equal(1, sum.misses)
      assert.equal(0.01, sum.lost_cost)
      assert.truthy(session("cost", "a").out:find("8000 tokens (0.0100 USD) lost to 1 cache misses", 1, true))
    end)

    it("says that a price is not known rather than 0", function()
      craft("a", { HEAD, usage(2, 100) })
      assert.truthy(session("cost", "a").out:find("price unknown", 1, true))
      assert.is_nil(json.decode(session("cost", "a", "--json").out).cost)
    end)
  end)

  describe("rm", function()
    it("removes a session, and only that", function()
      craft("aa", { HEAD })
      craft("ab", { HEAD })
      assert.equal(1, session("rm", "a").code)
      assert.equal(0, session("rm", "aa").code)
      assert.is_nil((fs.stat(home.state .. "/sessions/0000/aa")))
      assert.truthy(fs.stat(home.state .. "/sessions/0000/ab/log.jsonl"))
    end)

    it("leaves one that is in use", function()
      craft("a", { HEAD })
      local held = assert(require("terret.log").open(home.state .. "/sessions/0000/a/log.jsonl", { create = false }))
      local r = session("rm", "a")
      held:close()
      assert.equal(1, r.code)
      assert.truthy(r.err:find("in use", 1, true))
      assert.truthy(fs.stat(home.state .. "/sessions/0000/a"))
    end)

    it("never follows an id out of its directory", function()
      craft("a", { HEAD })
      for _, id in ipairs { "../0000", "..", "/", "0000/a" } do assert.equal(1, session("rm", id).code) end
      assert.truthy(fs.stat(home.state .. "/sessions/0000/a"))
    end)
  end)

  it("says its usage", function()
    for _, args in ipairs { {}, { "what" }, { "show" }, { "list", "x" }, { "show", "a", "b" }, { "list", "--full" } } do
      local r = session(table.unpack(args))
      assert.equal(2, r.code)
      assert.truthy(r.err ~= "")
    end
    local help = session("show", "--help")
    assert.equal(0, help.code)
    assert.truthy(help.out:find("--full", 1, true))
  end)
end)

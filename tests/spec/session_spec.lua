-- scripts/session.lua and scripts/view.lua: the log is the truth; the view is a pure function of it.
local fs = require "terret.fs"
local json = require "terret.json"
local openai = require "terret.providers.openai"
local session = require "terret.session"
local world = require "support.world"

local function scratch()
  local dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-session-"))
  return setmetatable({ path = dir }, { __close = function() fs.remove(dir, { recursive = true }) end })
end

local function create(dir, more)
  local options = { state_dir = dir.path, project = "/p", encode = openai.encode,
    header = { model = "m", provider = "openai", system = "be good", tools = "[]" } }
  for k, v in pairs(more or {}) do options[k] = v end
  return assert(session.create(options))
end

local function say(s, role, content, more)
  local r = { type = "message", role = role, content = content }
  for k, v in pairs(more or {}) do r[k] = v end
  return assert(s:append(r))
end

local function call(s, content, ...)
  local calls = {}
  for i, id in ipairs { ... } do calls[i] = { id = id, name = "t", arguments = "{}" } end
  return say(s, "assistant", content, { tool_calls = calls })
end

local function result(s, id, content) return say(s, "tool", content, { call_id = id, name = "t" }) end

local function body(s) return s.view:render("[", "]") end

local function shape(s)
  local out = {}
  for _, m in ipairs(assert(json.decode(body(s)))) do out[#out + 1] = m.role:sub(1, 1) .. ":" .. (m.content or "") end
  return table.concat(out, " ")
end

local function resume(s)
  local dir = s.dir
  s:close()
  return assert(session.resume { dir = dir, encode = openai.encode })
end

describe("session", function()
  it("is a directory of the owner alone, with a log of one record a line", function()
    local dir <close> = scratch()
    local s = create(dir)
    say(s, "user", "hi\nthere")
    assert.equal(448, fs.stat(s.dir).mode & 511)
    assert.equal(384, fs.stat(s.dir .. "/log.jsonl").mode & 511)
    local lines = {}
    for line in io.lines(s.dir .. "/log.jsonl") do lines[#lines + 1] = assert(json.decode(line)) end
    assert.equal(2, #lines)
    assert.same({ 1, "session", 1, nil }, { lines[1].id, lines[1].type, lines[1].v, lines[1].parent })
    assert.same({ 2, "message", 1 }, { lines[2].id, lines[2].type, lines[2].parent })
    s:close()
  end)

  it("can't be opened twice at once", function()
    local dir <close> = scratch()
    local s = create(dir)
    local again, message, code = session.resume { dir = s.dir, encode = openai.encode }
    assert.is_nil(again)
    assert.is_string(message)
    assert.equal("locked", code)
    s:close()
  end)

  it("gives the same bytes after a resume", function()
    local dir <close> = scratch()
    local s = create(dir)
    say(s, "user", "one")
    call(s, "", "a", "b")
    result(s, "a", "A")
    result(s, "b", "B\27[0m \u{1F600}")
    local before = body(s)
    local r, repairs = resume(s)
    assert.equal(before, body(r))
    assert.same({}, repairs)
    assert.equal("be good", r.header.system)
    r:close()
  end)

  describe("view", function()
    it("merges neighbouring user messages", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "one")
      say(s, "user", "two")
      assert.equal("s:be good u:one\n\ntwo", shape(s))
      say(s, "assistant", "three")
      say(s, "user", "four")
      assert.equal("s:be good u:one\n\ntwo a:three u:four", shape(s))
      s:close()
    end)

    it("leaves out a result without a call, and a second one", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "one")
      result(s, "ghost", "no")
      call(s, "", "a")
      result(s, "a", "A")
      result(s, "a", "again")
      assert.equal("s:be good u:one a: t:A", shape(s))
      s:close()
    end)

    it("answers a call that was passed over", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "one")
      call(s, "x", "a", "b")
      result(s, "b", "B")
      say(s, "user", "two")
      assert.is_nil(world.flaw(assert(json.decode(body(s)))))
      assert.equal(0, #s.open)
      s:close()
    end)

    it("merges users after a drop", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "one")
      local a = say(s, "assistant", "two")
      say(s, "user", "three")
      assert(s:append { type = "batch", drop = { a } })
      assert.equal("s:be good u:one\n\nthree", shape(s))
      s:close()
    end)

    it("keeps results with their calls when the call is dropped", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "one")
      local a = call(s, "x", "a")
      result(s, "a", "A")
      say(s, "assistant", "end")
      assert(s:append { type = "batch", drop = { a } })
      assert.equal("s:be good u:one a:end", shape(s))
      s:close()
    end)

    it("keeps what follows a compaction, also a second one within the first one's tail", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "u")
      local ids = {}
      for i = 1, 4 do
        ids[i] = call(s, "a" .. i, "c" .. i)
        result(s, "c" .. i, "r" .. i)
      end
      assert(s:append { type = "compaction", content = "S1", from = ids[2] })
      assert.equal("s:be good u:S1 a:a2 t:r2 a:a3 t:r3 a:a4 t:r4", shape(s))
      assert(s:append { type = "compaction", content = "S2", from = ids[4] })
      assert.equal("s:be good u:S2 a:a4 t:r4", shape(s))
      assert(s:append { type = "compaction", content = "S3" })
      assert.equal("s:be good u:S3", shape(s))
      local before = body(s)
      local r = resume(s)
      assert.equal(before, body(r))
      r:close()
    end)
  end)

  describe("rewind", function()
    it("goes back to a record and erases nothing", function()
      local dir <close> = scratch()
      local s = create(dir)
      local one = say(s, "user", "one")
      say(s, "assistant", "two")
      say(s, "user", "three")
      assert(s:rewind(one))
      assert.equal("s:be good u:one", shape(s))
      say(s, "assistant", "other")
      assert.equal("s:be good u:one a:other", shape(s))
      assert.equal(6, #session.read(s.dir .. "/log.jsonl"))
      local before = body(s)
      local r = resume(s)
      assert.equal(before, body(r))
      -- Back to the branch that was left, by an id on it.
      assert(r:rewind(4))
      assert.equal("s:be good u:one a:two u:three", shape(r))
      r:close()
    end)

    it("to a rewind goes where that one went", function()
      local dir <close> = scratch()
      local s = create(dir)
      local one = say(s, "user", "one")
      say(s, "assistant", "two")
      assert(s:rewind(one))
      assert(s:rewind(4))
      assert.equal("s:be good u:one", shape(s))
      local before = body(s)
      local r = resume(s)
      assert.equal(before, body(r))
      r:close()
    end)

    it("refuses an id that is not there", function()
      local dir <close> = scratch()
      local s = create(dir)
      local ok, message, code = s:rewind(99)
      assert.is_nil(ok)
      assert.matches("99", message)
      assert.equal("not_found", code)
      s:close()
    end)

    it("opens calls again whose results lie behind it", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "u")
      local a = call(s, "", "a")
      result(s, "a", "A")
      assert.equal(0, #s.open)
      assert(s:rewind(a))
      assert.equal("a", s.open[1].id)
      result(s, "a", "B")
      assert.equal("s:be good u:u a: t:B", shape(s))
      s:close()
    end)
  end)

  describe("fork", function()
    it("is a session of its own that begins with the same bytes", function()
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "u")
      local f = assert(s:fork())
      assert.equal(body(s), body(f))
      say(f, "assistant", "fork")
      say(s, "assistant", "main")
      assert.equal("s:be good u:u a:fork", shape(f))
      assert.equal("s:be good u:u a:main", shape(s))
      local before = body(f)
      local r = resume(f)
      assert.equal(before, body(r))
      assert.equal(s.id, r.header.from.session)
      r:close()
      s:close()
    end)

    it("keeps no blob over the limit", function()
      local most = session.blob_max
      session.blob_max = 4
      local _ <close> = setmetatable({}, { __close = function() session.blob_max = most end })
      local dir <close> = scratch()
      local s = create(dir)
      assert.is_string(s:save_blob("four"))
      assert.equal("too_large", (select(3, s:save_blob("fives"))))
      s:close()
    end)

    it("keeps the ids of blobs valid: its parents' and its own, also after a resume", function()
      local dir <close> = scratch()
      local s = create(dir)
      local old = assert(s:save_blob("old"))
      local f = assert(s:fork())
      local r = resume(f)
      assert.equal("old", r:read_blob(old))
      local new = assert(r:save_blob("new"))
      assert.not_equal(old, new)
      assert.equal("old", r:read_blob(old))
      local deep = assert(r:fork())
      assert.equal("old", deep:read_blob(old))
      assert.equal("new", deep:read_blob(new))
      for _, x in ipairs { deep, r, s } do x:close() end
    end)
  end)

  describe("blobs", function()
    it("are read by id and by nothing else", function()
      local dir <close> = scratch()
      local s = create(dir)
      local id = assert(s:save_blob("data"))
      assert.equal("data", s:read_blob(id))
      for _, bad in ipairs { "../log.jsonl", "b", "b1/../../log.jsonl", "", "b99", "B1", "b1\0" } do
        local data, message, code = s:read_blob(bad)
        assert.is_nil(data, bad)
        assert.is_string(message)
        assert.equal("not_found", code, bad)
      end
      local r = resume(s)
      assert.equal("data", r:read_blob(id))
      assert.not_equal(id, (r:new_blob()))
      r:close()
    end)
  end)

  describe("a log that was damaged", function()
    local function damaged(edit)
      local dir <close> = scratch()
      local s = create(dir)
      say(s, "user", "u")
      call(s, "x", "a", "b")
      result(s, "a", "A")
      result(s, "b", "B")
      say(s, "assistant", "end")
      local path = s.dir .. "/log.jsonl"
      s:close()
      local lines = {}
      for line in io.lines(path) do lines[#lines + 1] = line end
      edit(lines)
      assert(fs.write(path, table.concat(lines, "\n") .. (lines.torn and "" or "\n")))
      local r, repairs, code = session.resume { dir = path:match("^(.*)/"), encode = openai.encode }
      if not r then return nil, repairs, code end
      local out = shape(r)
      assert.is_nil(world.flaw(assert(json.decode(body(r)))))
      local before = body(r)
      local again = resume(r)
      assert.equal(before, body(again))
      again:close()
      return out, table.concat(repairs, "; ")
    end

    it("is repaired at a torn last line, and says so", function()
      local out, said = damaged(function(lines)
        lines[6], lines.torn = lines[6]:sub(1, 30), true
      end)
      assert.equal("s:be good u:u a:x t:A t:B", out)
      assert.matches("torn", said)
    end)

    it("answers calls that a kill left open, and says that they may have run", function()
      local out, said = damaged(function(lines) lines[5], lines[6] = nil, nil end)
      assert.matches("^s:be good u:u a:x t:A t:interrupted.*may have run$", out)
      assert.matches("1 calls", said)
    end)

    it("stays a conversation when any one line is unreadable", function()
      for at = 2, 6 do
        local out, said = damaged(function(lines) lines[at] = "{broken" end)
        assert.matches("^s:be good", out)
        assert.matches("unreadable", said)
      end
    end)

    it("stays a conversation when any one line is gone", function()
      for at = 2, 6 do
        assert.matches("^s:be good", (damaged(function(lines) table.remove(lines, at) end)))
      end
    end)

    it("is refused when it does not begin with a session", function()
      local out, message, code = damaged(function(lines) table.remove(lines, 1) end)
      assert.is_nil(out)
      assert.is_string(message)
      assert.equal("bad_session", code)
    end)

    it("may hold a circle of parents", function()
      damaged(function(lines) lines[4] = lines[4]:gsub('"parent":%d+', '"parent":6') end)
    end)
  end)

  it("applies nothing that could not be written", function()
    local dir <close> = scratch()
    local s = create(dir)
    say(s, "user", "u")
    local before, real = body(s), s.log
    s.log = { append = function() return nil, "no space left", "no_space" end,
      path = function() return real:path() end }
    local id, message, code = s:append { type = "message", role = "assistant", content = "lost" }
    assert.same({ nil, "the session log can't be written: no space left", "no_space" }, { id, message, code })
    assert.equal(before, body(s))
    assert.is_nil(s:rewind(1))
    assert.equal(before, body(s))
    s.log = real
    assert.equal(3, say(s, "assistant", "kept"))
    s:close()
  end)

  it("lists sessions by their last use, and finds one by the beginning of its id", function()
    local dir <close> = scratch()
    local a, b = create(dir), create(dir)
    assert(os.execute(("touch -d 2001-01-01 %s/log.jsonl"):format(b.dir)))
    local list = session.list(dir.path, "/p")
    assert.equal(2, #list)
    assert.equal(a.id, list[1].id)
    assert.equal(a.dir, session.find(dir.path, a.id))
    assert.equal("ambiguous", select(3, session.find(dir.path, a.id:sub(1, 4))))
    assert.equal("not_found", select(3, session.find(dir.path, "nope")))
    assert.equal("not_found", select(3, session.find(dir.path, "")))
    assert.same({}, session.list(dir.path, "/other"))
    a:close()
    b:close()
  end)

  it("without a state directory leaves nothing behind", function()
    local s = assert(session.create { project = "/p", encode = openai.encode, ephemeral = true,
      header = { system = "x", tools = "[]" } })
    local dir = s.dir
    assert.truthy(fs.stat(dir))
    s:close()
    assert.is_nil(fs.stat(dir))
  end)
end)

-- terret.log: a line is there whole or not at all; one writer; what a crash leaves is cut off.
local fs = require "terret.fs"
local log = require "terret.log"
local reactor = require "terret.reactor"

local tmp

local function path(name) return tmp .. "/" .. (name or "log") end

local function put(name, data)
  local f = assert(io.open(path(name), "wb"))
  f:write(data)
  f:close()
end

local function get(name)
  local f = io.open(path(name), "rb")
  if not f then return nil end
  local data = f:read("a")
  f:close()
  return data
end

local function child(before, text)
  put("child.lua", text)
  local exe = assert(fs.realpath("/proc/self/exe"))
  local flag = exe:match("lua[%d.]*$") and "" or "--lua"
  local p = assert(io.popen(("cd '%s' && { %s; LUA_CPATH='%s' exec '%s' %s child.lua; } 2>&1"):format(
    tmp, before, package.cpath, exe, flag)))
  local out = p:read("a")
  p:close()
  return out
end

local function refused(code, ok, message, got)
  assert.is_nil(ok)
  assert.is_string(message)
  assert.equal(code, got)
  return message
end

-- All lines with their offsets, and what is torn.
local function read_all(name)
  local r <close> = assert(log.read(path(name)))
  local lines, offsets = {}, {}
  while true do
    local line, offset = r:next()
    if not line then return lines, offsets, r:torn() end
    lines[#lines + 1], offsets[#offsets + 1] = line, offset
  end
end

local function wait_for(l)
  local limit = reactor.now() + 10
  while not l:ready() do
    assert(reactor.now() < limit, "the sync never ends")
    reactor.poll(1)
  end
end

describe("terret.log", function()
  before_each(function() tmp = assert(fs.mkdtemp("/tmp/terret-log-")) end)
  after_each(function() assert(fs.remove(tmp, { recursive = true })) end)

  describe("append", function()
    it("writes lines, and goes on where it was", function()
      local l = assert(log.open(path()))
      assert.equal(0, l:size())
      assert.is_true(l:append('{"a":1}'))
      assert.is_true(l:append(""))
      assert.equal(9, l:size())
      assert.equal(path(), l:path())
      l:close()
      l = assert(log.open(path()))
      assert.equal(9, l:size())
      assert.equal(0, l:repaired())
      assert.is_true(l:append("ä\xff\r\t"))
      l:close()
      assert.equal('{"a":1}\n\nä\xff\r\t\n', get())
      assert.is_nil(get "log.torn")
    end)

    it("makes a private file, if it may", function()
      refused("not_found", log.open(path(), { create = false }))
      log.open(path()):close()
      assert.equal(tonumber("600", 8), fs.stat(path()).mode)
      log.open(path(), { create = false }):close()
    end)

    it("raises on what would break the file", function()
      local l <close> = assert(log.open(path()))
      assert.error_matches(function() l:append("a\nb") end, "line end")
      assert.error_matches(function() l:append("a\0b") end, "NUL")
      assert.error(function() l:append({}) end)
      assert.equal("", get())
      assert.error_matches(function() log.open("a\0b") end, "NUL")
      assert.error_matches(function() log.open(path(), { sink = 1 }) end, "unknown option")
      assert.error_matches(function() log.open(path(), { sync = "often" }) end, "sync")
    end)

    it("is closed by close, and twice", function()
      local l = assert(log.open(path()))
      l:close()
      l:close()
      assert.is_true(l:ready())
      for _, method in ipairs { "append", "sync", "size", "path", "repaired", "sync_error" } do
        assert.error_matches(function() l[method](l, "x") end, "closed")
      end
    end)

    -- The limit stands for a full disk; the soft one is lifted again in the same process by
    -- opening it anew in the next one.
    it("takes a line back that doesn't fit", function()
      local out = child([[trap "" XFSZ; ulimit -f 1]], [[
        local l = assert(require "terret.log".open("log"))
        local line = ("x"):rep(299)
        for i = 1, 5 do
          local ok, message, code = l:append(line)
          io.write(ok and "ok" or code, " ", l:size(), "\n")
        end
        print(l:append("fits"), l:size())]])
      local size = #get()
      assert.equal(0, (size - 5) % 300)
      assert.truthy(out:find("too_large " .. size - 5 .. "\n", 1, true))
      assert.truthy(out:find("true\t" .. size .. "\n", 1, true))
      local lines, _, torn = read_all()
      assert.equal("fits", lines[#lines])
      assert.equal(0, torn)
    end)
  end)

  describe("open", function()
    it("lets one writer in", function()
      local l = assert(log.open(path()))
      assert.truthy(refused("locked", log.open(path())):find("in use by another terret", 1, true))
      local out = child(":", [[print(select(3, require "terret.log".open("log")))]])
      assert.equal("locked\n", out)
      assert.is_true(l:append("still mine"))
      l:close()
      log.open(path()):close()
    end)

    it("loses the lock with the collected log", function()
      log.open(path()):append("x")
      collectgarbage()
      log.open(path()):close()
    end)

    it("refuses what is no regular file, and never opens it", function()
      assert(os.execute(("cd '%s' && mkfifo pipe && mkdir dir && : > file && ln -s file link"):format(tmp)))
      for _, name in ipairs { "pipe", "dir", "link" } do
        refused("not_regular", log.open(path(name)))
        refused("not_regular", log.read(path(name)))
      end
      refused("not_regular", log.open("/dev/full"))
      refused("not_regular", log.open("/dev/null"))
      refused("not_found", log.open(path "none/log"))
      refused("not_found", log.read(path "none"))
      refused("not_directory", log.open(path "file/log"))
    end)
  end)

  describe("repair", function()
    local function repaired(before, after, torn)
      put("log", before)
      os.remove(path "log.torn")
      local l <close> = assert(log.open(path()))
      assert.equal(#torn, l:repaired())
      assert.equal(#after, l:size())
      assert.equal(after, get())
      assert.equal(torn ~= "" and torn or nil, get "log.torn")
      assert.is_true(l:append("next"))
      assert.equal(after .. "next\n", get())
    end

    it("cuts off a line without its end", function()
      repaired("one\ntwo\nthr", "one\ntwo\n", "thr")
      repaired("thr", "", "thr")
      repaired("one\n", "one\n", "")
      repaired("", "", "")
      repaired("\n", "\n", "")
    end)

    it("cuts off what a file system filled with NUL bytes", function()
      repaired("one\n" .. ("\0"):rep(10), "one\n", ("\0"):rep(10))
      repaired("one\n\0\0\0two\n", "one\n", "\0\0\0two\n")
      repaired("one\n\0\n\0\nx\0\n", "one\n", "\0\n\0\nx\0\n")
      repaired("\0\0\0\n", "", "\0\0\0\n")
      repaired("\0\none\n", "\0\none\n", "") -- what is before a whole line stays
    end)

    it("looks back as far as it must", function()
      for _, n in ipairs { 65534, 65535, 65536, 65537, 131072, 200000 } do
        local long = ("x"):rep(n)
        repaired(long .. "\n", long .. "\n", "")
        repaired("one\n" .. long, "one\n", long)
        repaired("one\n" .. long .. "\ntwo", "one\n" .. long .. "\n", "two")
        repaired("one\n\0" .. long .. "\n", "one\n", "\0" .. long .. "\n")
      end
    end)

    it("keeps all that was ever torn, in a file of its own", function()
      put("log", "one\ntorn")
      log.open(path()):close()
      put("log", "one\nagain")
      log.open(path()):close()
      assert.equal("tornagain", get "log.torn")
      assert.equal(tonumber("600", 8), fs.stat(path "log.torn").mode)
    end)

    it("cuts nothing that it can't keep", function()
      put("log", "one\ntorn")
      assert.is_true(fs.mkdir(path "log.torn"))
      refused("exists", log.open(path()))
      assert.equal("one\ntorn", get())
      assert.is_true(fs.remove(path "log.torn"))
      put("log", "one\n" .. ("x"):rep(3000))
      local out = child([[trap "" XFSZ; ulimit -f 1]],
        [[print(select(3, require "terret.log".open("log")))]])
      assert.equal("too_large\n", out)
      assert.equal(3004, #get())
      assert.equal("", get "log.torn")
    end)
  end)

  describe("sync", function()
    it("asks, and the reactor says when", function()
      local l = assert(log.open(path()))
      assert.is_true(l:ready())
      for i = 1, 5 do
        assert.is_true(l:append("line " .. i))
        l:sync()
        l:sync()
        wait_for(l)
      end
      assert.is_nil(l:sync_error())
      l:close()
    end)

    it("hands the log out of poll", function()
      local l <close> = assert(log.open(path()))
      l:append("x")
      l:sync()
      local found
      for _ = 1, 100 do
        for _, w in ipairs(reactor.poll(1)) do found = found or rawequal(w, l) end
        if found then break end
      end
      assert.is_true(found)
      wait_for(l)
    end)

    it("may be closed or dropped while it runs", function()
      for _ = 1, 5 do
        local l = assert(log.open(path()))
        l:append("x")
        l:sync()
        l:close()
      end
      for _ = 1, 5 do
        local l = assert(log.open(path()))
        l:append("x")
        l:sync()
        l = nil -- luacheck: ignore
        collectgarbage()
      end
      assert.equal(("x\n"):rep(10), get())
    end)

    it("takes many requests at once", function()
      local l <close> = assert(log.open(path()))
      for _ = 1, 300 do l:sync() end
      wait_for(l)
      assert.is_true(l:ready())
    end)

    it("is done by append with record, by nobody with none", function()
      for _, mode in ipairs { "record", "none" } do
        local l <close> = assert(log.open(path(mode), { sync = mode }))
        assert.is_true(l:append("x"))
        l:sync()
        assert.is_true(l:ready())
        assert.is_nil(l:sync_error())
        assert.equal("x\n", get(mode))
      end
    end)

    it("leaves no descriptor and no thread", function()
      local function count(dir) return #assert(fs.list("/proc/self/" .. dir)) end
      local function round()
        local l = assert(log.open(path()))
        l:append("x")
        l:sync()
        log.open(path())
        log.read(path()):close()
        l:close()
        log.open(path "none/log")
      end
      round()
      collectgarbage()
      local fds, threads = count "fd", count "task"
      for _ = 1, 5 do round() end
      collectgarbage()
      assert.equal(fds, count "fd")
      assert.equal(threads, count "task")
    end)
  end)

  describe("reader", function()
    it("gives lines and offsets, stops at the torn tail", function()
      put("log", "one\n\nthree\0x\ntor")
      local lines, offsets, torn = read_all()
      assert.same({ "one", "", "three\0x" }, lines)
      assert.same({ 0, 4, 5 }, offsets)
      assert.equal(3, torn)
      put("empty", "")
      lines, offsets, torn = read_all "empty"
      assert.same({}, lines)
      assert.same({}, offsets)
      assert.equal(0, torn)
    end)

    it("takes lines of every length around its buffer", function()
      local want, data, at = {}, {}, {}
      local offset = 0
      for i, n in ipairs { 0, 65535, 65536, 65537, 1, 131071, 131072, 131073, 300000, 2, 65534 } do
        want[i] = string.char(96 + i):rep(n)
        data[i] = want[i] .. "\n"
        at[i] = offset
        offset = offset + n + 1
      end
      put("log", table.concat(data))
      local lines, offsets = read_all()
      assert.is_true(table.concat(want, ",") == table.concat(lines, ","))
      assert.same(at, offsets)
    end)

    it("goes on when more was appended", function()
      local l <close> = assert(log.open(path()))
      local r <close> = assert(log.read(path()))
      assert.is_nil(r:next())
      l:append("one")
      assert.equal("one", r:next())
      assert.is_nil(r:next())
      l:append("two")
      local line, offset = r:next()
      assert.equal("two", line)
      assert.equal(4, offset)
    end)

    it("forgets a tail that its writer took back", function()
      put("log", "one\npart")
      local r <close> = assert(log.read(path()))
      assert.equal("one", r:next())
      assert.is_nil(r:next())
      assert.equal(4, r:torn())
      put("log", "one\nother\n")
      assert.equal("other", r:next())
      assert.is_nil(r:next())
      assert.equal(0, r:torn())
    end)

    it("is closed by close, and twice", function()
      put("log", "x\n")
      local r = assert(log.read(path()))
      r:close()
      r:close()
      assert.error_matches(function() r:next() end, "closed")
      assert.error_matches(function() r:torn() end, "closed")
      assert.error_matches(function() log.read("a\0") end, "NUL")
    end)
  end)

  it("is fast enough that nobody thinks about it", function()
    local l = assert(log.open(path()))
    local line = ("x"):rep(500)
    local start = reactor.now()
    for _ = 1, 10000 do l:append(line) end
    local appended = reactor.now() - start
    l:close()
    start = reactor.now()
    log.open(path()):close()
    local lines = read_all()
    local read = reactor.now() - start
    assert.equal(10000, #lines)
    -- Generous: machines are busy and sanitizers slow; normal is under 5 us and 10 ms.
    assert.is_true(appended / 10000 < 200e-6, ("append: %.1f us"):format(appended / 10000 * 1e6))
    assert.is_true(read < 0.5, ("read: %.1f ms"):format(read * 1e3))
  end)
end)

-- tests/spec/landlock_spec.lua - mirrors sandbox/landlock.c.
local exec = require "terret.exec"
local fs = require "terret.fs"
local landlock = require "terret.landlock"
local reactor = require "terret.reactor"

local function run(script, ruleset, more)
  local o = { argv = { "/bin/sh", "-c", script }, drop = true, landlock = ruleset and ruleset:fd() }
  for key, value in pairs(more or {}) do o[key] = value end
  local p = assert(exec.spawn(o))
  while not p:ready() do reactor.poll(1) end
  local status, out = p:status(), p:output().head
  p:close()
  return out, status
end

local SYSTEM = { "/usr", "/bin", "/lib", "/lib64", "/etc", "/proc", "/dev/null", "/no/such/path" }

describe("terret.landlock", function()
  local abi = landlock.abi()
  if abi == 0 then
    it("says that it is not here", function()
      local r, message, code = landlock.ruleset {}
      assert.is_nil(r)
      assert.matches("landlock: not ", message)
      assert.equal("unsupported", code)
    end)
    return
  end

  local dir
  lazy_setup(function()
    dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-landlock-"))
    for _, name in ipairs { "rw", "ro", "other" } do
      assert(fs.mkdir(dir .. "/" .. name))
      assert(fs.write(dir .. "/" .. name .. "/file", name .. "\n"))
    end
  end)
  lazy_teardown(function() fs.remove(dir, { recursive = true }) end)

  local function ruleset(options)
    options.read = options.read or {}
    table.move(SYSTEM, 1, #SYSTEM, #options.read + 1, options.read)
    options.exec = options.exec or SYSTEM
    options.write = options.write or {}
    table.insert(options.write, "/dev/null")
    return landlock.ruleset(options)
  end

  it("raises on wrong arguments", function()
    local function bad(options, message)
      assert.error_matches(function() landlock.ruleset(options) end, message)
    end
    bad(nil, "table expected")
    bad({ reed = {} }, "unknown option 'reed'")
    bad({ read = "/" }, "'read' must be a list of paths")
    bad({ write = { 3 } }, "'write' must be a list of paths")
    bad({ exec = { "/a\0b" } }, "'exec' must be a list of paths")
    bad({ scoped = 1 }, "'scoped' must be a boolean")
    bad({ net = "yes" }, "'net' must be a boolean")
    bad({ net = { listen = {} } }, "unknown option 'listen'")
    bad({ abi = 0 }, "'abi' must be an integer")
    if abi >= 4 then
      bad({ net = { bind = { 65536 } } }, "'net.bind' must be a list of ports")
      bad({ net = { connect = { "80" } } }, "'net.connect' must be a list of ports")
    end
  end)

  it("names what an older kernel can't hold", function()
    local names = { "refer", "truncate", "net", "ioctl", "scoped" }
    for level = 1, math.min(abi, 6) do
      local r, missing = assert(landlock.ruleset { abi = level })
      assert.same(table.move(names, level, #names, 1, {}), missing)
      r:close()
      r, missing = assert(landlock.ruleset { abi = level, net = true, scoped = false })
      local left = {}
      for i = level, #names do
        if names[i] ~= "net" and names[i] ~= "scoped" then left[#left + 1] = names[i] end
      end
      assert.same(left, missing)
      r:close()
    end
  end)

  it("is closed by close, twice too", function()
    local r = landlock.ruleset {}
    assert.is_true(r:fd() > 2)
    r:close()
    r:close()
    assert.error_matches(function() r:fd() end, "the ruleset is closed")
  end)

  it("denies everything that is not allowed", function()
    local r = assert(landlock.ruleset {})
    local p, message, code = exec.spawn { argv = { "/bin/true" }, drop = true, landlock = r:fd() }
    assert.is_nil(p)
    assert.equal("exec '/bin/true': Permission denied", message)
    assert.equal("denied", code)
    r:close()
  end)

  it("allows to read and to write where it is said, also once more", function()
    local r = assert(ruleset { read = { dir .. "/rw", dir .. "/ro" }, write = { dir .. "/rw" } })
    for _ = 1, 2 do
      assert.equal("rw\n", (run("cat " .. dir .. "/rw/file", r)))
      assert.equal("ro\n", (run("cat " .. dir .. "/ro/file", r)))
      for _, command in ipairs { "cat %s/other/file", "ls %s/other", "ls %s", "echo x > %s/ro/file", "rm -f %s/ro/file",
        "touch %s/ro/new", "mkdir %s/ro/new", "mv %s/rw/file %s/ro/file", "ln -s x %s/ro/link", "mkfifo %s/ro/fifo" } do
        local _, status = run(command:gsub("%%s", dir), r)
        assert.not_equal(0, status.code, command)
      end
      local out, status = run(("cd %s/rw && echo x > new && mkdir d && mv new d/ && ln -s x l && rm -r d l && echo ok")
        :format(dir), r)
      assert.equal("ok\n", out)
      assert.equal(0, status.code)
    end
    r:close()
  end)

  it("keeps execution apart", function()
    local r = assert(ruleset { read = { dir }, write = { dir .. "/rw" } })
    local script = ("cp /bin/true %s/rw/program; %s/rw/program"):format(dir, dir)
    local _, status = run(script, r)
    assert.equal(126, status.code)
    r:close()
    r = assert(ruleset { read = { dir }, write = { dir .. "/rw" }, exec = { dir .. "/rw", table.unpack(SYSTEM) } })
    assert.equal(0, select(2, run(script, r)).code)
    r:close()
    os.remove(dir .. "/rw/program")
  end)

  it("allows a single file", function()
    local r = assert(ruleset { read = { dir .. "/other/file" } })
    assert.equal("other\n", (run("cat " .. dir .. "/other/file", r)))
    assert.not_equal(0, select(2, run("ls " .. dir .. "/other", r)).code)
    r:close()
  end)

  it("denies truncation, or says that it can't", function()
    local script = ("truncate -s 0 %s/ro/file"):format(dir)
    local r, missing = assert(ruleset { read = { dir } })
    if missing[1] == "truncate" or missing[2] == "truncate" then return end
    assert.not_equal(0, select(2, run(script, r)).code)
    assert.equal("ro\n", (fs.read(dir .. "/ro/file")))
    r:close()
  end)

  it("is what a refusal names when the directory can't be looked at", function()
    local path = ("x"):rep(300)
    local r, message, code = landlock.ruleset { read = { "/" .. path } }
    assert.is_nil(r)
    assert.equal("/" .. path .. ": File name too long", message)
    assert.equal("name_too_long", code)
  end)

  describe("the network", function()
    if abi < 4 or not fs.stat("/usr/bin/perl") then
      pending("needs ABI 4 and perl")
      return
    end

    -- errno of bind to a free port and of connect to a closed one
    local function try(r)
      local script = [[/usr/bin/perl -e 'use Socket; socket(S, PF_INET, SOCK_STREAM, 0) or die;
        print bind(S, sockaddr_in(0, INADDR_LOOPBACK)) ? 0 : $!+0, " ";
        socket(C, PF_INET, SOCK_STREAM, 0) or die;
        print connect(C, sockaddr_in(1, INADDR_LOOPBACK)) ? 0 : $!+0']]
      return (run(script, r))
    end

    it("is denied, allowed, or allowed by port", function()
      local denied = ruleset { net = false }
      assert.equal("13 13", try(denied))
      denied:close()
      local allowed = ruleset { net = true }
      assert.equal("0 111", try(allowed))
      allowed:close()
      local connect = ruleset { net = { connect = { 1 } } }
      assert.equal("13 111", try(connect))
      connect:close()
      local bind = ruleset { net = { bind = { 0 } } }
      assert.equal("0 13", try(bind))
      bind:close()
    end)
  end)

  it("scopes signals", function()
    if abi < 6 then return pending("needs ABI 6") end
    local sleeper = assert(exec.spawn { argv = { "sleep", "100" } })
    local r = ruleset {}
    assert.not_equal(0, select(2, run("kill -TERM " .. sleeper:pid(), r)).code)
    assert.is_nil(sleeper:status())
    r:close()
    r = ruleset { scoped = false }
    if fs.whoami().uid ~= 0 then assert.equal(0, select(2, run("kill -TERM " .. sleeper:pid(), r)).code) end
    r:close()
    sleeper:close()
  end)
end)

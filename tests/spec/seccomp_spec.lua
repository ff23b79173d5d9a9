-- tests/spec/seccomp_spec.lua - mirrors sandbox/seccomp.c.  What a filter does is seen from inside: perl
-- makes the system calls.
local exec = require "terret.exec"
local fs = require "terret.fs"
local reactor = require "terret.reactor"
local seccomp = require "terret.seccomp"

-- The numbers of a few calls.
local CALLS = {
  x86_64 = { socket = 41, getpid = 39, ioctl = 16, unshare = 272, personality = 135, clone3 = 435 },
  aarch64 = { socket = 198, getpid = 172, ioctl = 29, unshare = 97, personality = 92, clone3 = 435 },
}
local EPERM, EACCES, EINVAL, ENOTTY, ENOSYS, EAFNOSUPPORT = 1, 13, 22, 25, 38, 97

local function run(argv, filter)
  local p = assert(exec.spawn { argv = argv, drop = true, seccomp = filter })
  while not p:ready() do reactor.poll(1) end
  local status, out = p:status(), p:output().head
  p:close()
  return out, status
end

local machine = run({ "uname", "-m" }):match("%S+")
local calls = CALLS[machine]
local perl = fs.stat("/usr/bin/perl") ~= nil and calls ~= nil

-- errno of a system call under a filter; 0: it was let through and worked; the signal that ended it.
local function errno(filter, name, ...)
  local words = { calls[name] or name, ... }
  for i, word in ipairs(words) do words[i] = tostring(word) end
  local script = ("$r = syscall(%s); print $r == -1 ? $!+0 : 0"):format(table.concat(words, ", "))
  local out, status = run({ "/usr/bin/perl", "-e", script }, filter)
  return status.signal or tonumber(out)
end

describe("terret.seccomp", function()
  if not seccomp.filter { rules = {} } then
    pending("not on this system")
    return
  end

  it("makes bytes of instructions, the same for the same rules", function()
    local one, skipped = seccomp.filter { rules = { "mount", { "ioctl", arg = 1, equals = 0x5412 } } }
    assert.equal(0, #one % 8)
    assert.is_true(#one > 8)
    assert.same({}, skipped)
    assert.equal(one, (seccomp.filter { rules = { "mount", { "ioctl", arg = 1, equals = 0x5412 } } }))
    assert.not_equal(one, (seccomp.filter { rules = { "mount" } }))
  end)

  it("tells which names are not here", function()
    local filter, skipped = seccomp.filter { rules = { "no_such_call", "mount", { "nor_this", arg = 0, equals = 1 },
      "" } }
    assert.same({ "no_such_call", "nor_this", "" }, skipped)
    assert.equal((seccomp.filter { rules = { "mount" } }), filter)
  end)

  it("takes a rule twice", function()
    assert.equal((seccomp.filter { rules = { "mount" } }), (seccomp.filter { rules = { "mount", "mount" } }))
  end)

  it("raises on wrong arguments", function()
    local function bad(options, message)
      assert.error_matches(function() seccomp.filter(options) end, message)
    end
    bad(nil, "table expected")
    bad({}, "'rules' must be a list")
    bad({ rules = "mount" }, "'rules' must be a list")
    bad({ rules = {}, deny = {} }, "unknown option 'deny'")
    bad({ rules = {}, action = "EWHAT" }, "'action' must be 'kill' or the name of an error, not 'EWHAT'")
    bad({ rules = {}, foreign = 3 }, "'foreign' must be a string")
    bad({ rules = { 3 } }, "begins with a system call's name")
    bad({ rules = { {} } }, "begins with a system call's name")
    bad({ rules = { { "mount", ag = 1 } } }, "unknown key 'ag' in a rule")
    bad({ rules = { { "mount", "umount" } } }, "unknown key '2' in a rule")
    bad({ rules = { { "mount", action = "allow" } } }, "'action' must be")
    bad({ rules = { { "ioctl", arg = 1 } } }, "has one of 'equals', 'bits', 'except'")
    bad({ rules = { { "ioctl", arg = 1, equals = 1, bits = 1 } } }, "has one of")
    bad({ rules = { { "ioctl", arg = 6, equals = 1 } } }, "'arg' must be an integer from 0 to 5")
    bad({ rules = { { "ioctl", arg = 1, equals = -1 } } }, "'equals' must be an integer")
    bad({ rules = { { "ioctl", arg = 1, equals = 1 << 32 } } }, "'equals' must be an integer")
    bad({ rules = { { "ioctl", arg = 1, bits = 0 } } }, "'bits' must be an integer")
    bad({ rules = { { "socket", arg = 0, except = 1 } } }, "table expected")
    bad({ rules = { { "socket", arg = 0, except = {} } } }, "'except' is empty")
    bad({ rules = { { "socket", arg = 0, except = { 256 } } } }, "integers from 0 to 255")
    bad({ rules = { { "socket", arg = 0, except = { "1" } } } }, "integers from 0 to 255")
  end)

  it("refuses a rule that has a condition without 'arg'", function()
    assert.error_matches(function() seccomp.filter { rules = { { "ioctl", equals = 1 } } } end, "needs 'arg'")
    assert.error_matches(function() seccomp.filter { rules = { { "ioctl", bits = 1 } } } end, "needs 'arg'")
    assert.error_matches(function() seccomp.filter { rules = { { "ioctl", except = { 1 } } } } end, "needs 'arg'")
  end)

  describe("a filter", function()
    if not perl then
      pending("needs perl, on x86-64 or arm64")
      return
    end

    it("without rules lets everything pass", function()
      local filter = seccomp.filter { rules = {} }
      assert.equal(0, errno(filter, "getpid"))
      assert.equal(ENOTTY, errno(filter, "ioctl", 0, 0x5412, 0))
    end)

    it("refuses with the action, the rule's own or the usual one", function()
      local filter = seccomp.filter { action = "EACCES", rules = { "unshare", { "clone3", action = "ENOSYS" },
        { "personality", action = "kill" } } }
      assert.equal(EACCES, errno(filter, "unshare", 0))
      assert.equal(ENOSYS, errno(filter, "clone3", 0, 0))
      assert.equal("SYS", errno(filter, "personality", "0xffffffff"))
      assert.equal(0, errno(filter, "getpid"))
      assert.equal(EINVAL, errno(nil, "clone3", 0, 0))
    end)

    it("compares the low 32 bits", function()
      local filter = seccomp.filter { rules = { { "ioctl", arg = 1, equals = 0x5412 } } }
      for _, request in ipairs { "0x5412", "0x100005412", "0x8000000000005412", "0xffffffff00005412" } do
        assert.equal(EPERM, errno(filter, "ioctl", 0, request, 0))
      end
      for _, request in ipairs { "0x5411", "0x5413", "0x15412", "0x541200000000" } do
        assert.equal(ENOTTY, errno(filter, "ioctl", 0, request, 0))
      end
    end)

    it("refuses any of the bits", function()
      local filter = seccomp.filter { rules = { { "unshare", arg = 0, bits = 0x10020000 } } }
      assert.equal(EPERM, errno(filter, "unshare", "0x10000000"))
      assert.equal(EPERM, errno(filter, "unshare", "0x00020000"))
      assert.equal(EPERM, errno(filter, "unshare", "0x10020400"))
      assert.equal(EPERM, errno(filter, "unshare", "0x110000000"))
      assert.equal(0, errno(filter, "unshare", "0x400"))
      assert.equal(0, errno(filter, "unshare", 0))
    end)

    it("refuses all but the listed values", function()
      local filter = seccomp.filter { action = "EAFNOSUPPORT",
        rules = { { "socket", arg = 0, except = { 10, 1, 2 } } } }
      for _, family in ipairs { 1, 2, 10 } do assert.not_equal(EAFNOSUPPORT, errno(filter, "socket", family, 1, 0)) end
      for _, family in ipairs { 0, 3, 9, 11, 16, 40, 44, 255, "0x100000003", "0x100000028" } do
        assert.equal(EAFNOSUPPORT, errno(filter, "socket", family, 1, 0))
      end
      filter = seccomp.filter { rules = { { "personality", arg = 0, except = { 0 } } } }
      assert.equal(0, errno(filter, "personality", 0))
      assert.equal(EPERM, errno(filter, "personality", 1))
      filter = seccomp.filter { rules = { { "personality", arg = 0, except = { 255 } } } }
      assert.equal(EPERM, errno(filter, "personality", 0))
      assert.equal(EPERM, errno(filter, "personality", 256))
    end)

    it("ends programs of another architecture, or refuses their calls", function()
      if machine ~= "x86_64" then return pending("needs x32") end
      local x32 = "0x40000000 | 39"
      assert.equal("SYS", errno(seccomp.filter { rules = {} }, x32))
      assert.equal(ENOSYS, errno(seccomp.filter { rules = {}, foreign = "ENOSYS" }, x32))
    end)

    it("is inherited", function()
      local filter = seccomp.filter { rules = { "unshare" } }
      local out = run({ "sh", "-c", "sh -c 'unshare -n true'; grep Seccomp: /proc/self/status" }, filter)
      assert.matches("Operation not permitted", out)
      assert.matches("Seccomp:\t2", out)
    end)
  end)
end)

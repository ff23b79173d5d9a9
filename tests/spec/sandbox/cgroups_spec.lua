-- terret.sandbox.policy.cgroups: over trees of plain files, and over the real one where it is ours.

local cgroups = require "terret.sandbox.policy.cgroups"
local exec = require "terret.exec"
local fs = require "terret.fs"
local task = require "terret.task"

local LIMITS = { nproc = 30, memory = 64 << 20 }

describe("sandbox.policy.cgroups", function()
  local base

  before_each(function() base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/cgroups-"))) end)
  after_each(function() assert(fs.remove(base, { recursive = true })) end)

  local function mkdir(path) assert(fs.mkdir(base .. path, { parents = true })) end
  local function put(path, text) assert(fs.write(base .. path, text, { parents = true, sync = false })) end
  local function get(path) return (fs.read(path)) end

  local function version1(own)
    return { own = own, mountinfo = ("30 25 0:26 / %s/pids rw,nosuid - cgroup cgroup rw,pids\n"
      .. "31 25 0:27 /outer %s/memory rw shared:3 - cgroup cgroup rw,memory\n"
      .. "22 25 0:5 / /proc rw - proc proc rw\n"):format(base, base) }
  end

  local function version2(own)
    return { own = own, mountinfo = ("29 23 0:25 / %s/unified rw - cgroup2 cgroup2 rw,nsdelegate\n"):format(base) }
  end

  it("makes one in each tree of version 1", function()
    mkdir("/pids")
    mkdir("/memory/mine")
    local group <close> = cgroups.new(LIMITS, version1("8:pids:/\n4:memory:/outer/mine\n0::/\n"))
    assert.same({ nproc = true, memory = true }, group.holds)
    assert.equal(2, #group.procs)
    assert.matches(base .. "/memory/mine/terret-", group.dirs[2], 1, true)
    assert.equal("30", get(group.dirs[1] .. "/pids.max"))
    assert.equal(tostring(64 << 20), get(group.dirs[2] .. "/memory.limit_in_bytes"))
  end)

  it("makes one for all in version 2, where the controllers are handed on", function()
    mkdir("/unified/user/app/term")
    put("/unified/user/cgroup.subtree_control", "cpu memory pids\n")
    put("/unified/user/app/cgroup.subtree_control", "\n")
    local group <close> = cgroups.new(LIMITS, version2("0::/user/app/term\n"))
    assert.same({ nproc = true, memory = true }, group.holds)
    assert.equal(1, #group.procs)
    assert.matches(base .. "/unified/user/terret-", group.dirs[1], 1, true)
    assert.equal("0", get(group.dirs[1] .. "/memory.swap.max"))
  end)

  it("makes none where nothing is handed on, or nothing is mounted", function()
    mkdir("/unified/user")
    for _, text in ipairs { version2("0::/user\n"), version1("8:pids:/gone\n"), { own = "", mountinfo = "" } } do
      local group <close> = cgroups.new(LIMITS, text)
      assert.same({}, group.procs)
      assert.same({}, group.holds)
    end
  end)

  it("counts what was hit since the last look", function()
    mkdir("/pids")
    local group <close> = cgroups.new({ nproc = 5 }, version1("8:pids:/\n"))
    local events = group.dirs[1]:sub(#base + 1) .. "/pids.events"
    assert.same({}, group:hit())
    put(events, "max 3\n")
    assert.same({ nproc = true }, group:hit())
    assert.same({}, group:hit())
    put(events, "max 4\n")
    assert.same({ nproc = true }, group:hit())
  end)

  it("sweeps away what a terret left that is gone", function()
    mkdir("/pids/terret-999999999-1")
    mkdir(("/pids/terret-%d-77"):format(fs.whoami().pid))
    cgroups.new({ nproc = 5 }, version1("8:pids:/\n")):close()
    assert.is_nil(fs.stat(base .. "/pids/terret-999999999-1"))
    assert.is_truthy(fs.stat(("%s/pids/terret-%d-77"):format(base, fs.whoami().pid)))
  end)

  it("holds for real commands", function()
    local group <close> = cgroups.new(LIMITS)
    if not group.holds.nproc then return pending("no cgroup of ours here") end
    local process = exec.spawn { argv = { "/bin/sh", "-c", "while :; do sleep 5 & done" }, cgroups = group.procs,
      timeout = 5 }
    if not process then return pending("no process may be moved here") end
    task.await(process)
    assert.is_false(process:status().timed_out)
    assert.is_true(group:hit().nproc)
    process:close()
  end)
end)

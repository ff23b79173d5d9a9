-- sandbox/landlock.lua: what it allows, and what it means for real commands.

local fs = require "terret.fs"
local landlock = require "terret.sandbox.landlock"
local policy = require "terret.sandbox.policy"
local sandbox = require "terret.sandbox"
local task = require "terret.task"

local works, why = landlock.available()

describe("sandbox.landlock", function()
  local base, home, project, p

  local function write(path, text) assert(fs.write(path, text or "x", { parents = true, sync = false })) end
  local function mkdir(path) assert(fs.mkdir(path, { parents = true })) end

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/landlock-")))
    home, project = base .. "/home", base .. "/home/p"
    mkdir(project)
    mkdir(base .. "/tmp")
    write(home .. "/.ssh/id", "SECRET")
    write(home .. "/outside/f", "plain\n")
    write(project .. "/in", "project\n")
  end)
  after_each(function()
    if p then sandbox.close(p) end
    assert(fs.remove(base, { recursive = true }))
  end)

  local function new(options)
    local o = { project = project, home = home, tmp = base .. "/tmp" }
    for k, v in pairs(options or {}) do o[k] = v end
    p = assert(policy.new(o))
    return p
  end

  local function run(command, options)
    local process <close> = assert(sandbox.spawn(landlock, p, { "/bin/sh", "-c", command }, options))
    task.await(process)
    return process:output().head, process:status(), sandbox.finish(process)
  end

  describe("around", function()
    local function has(list, path)
      for _, x in ipairs(list) do
        if x == path then return true end
      end
      return false
    end

    it("lists what is beside what is left out, and no links", function()
      assert(os.execute(("ln -s .ssh '%s/link'"):format(home)))
      local list = landlock.around { home .. "/.ssh" }
      assert.is_true(has(list, home .. "/outside"))
      assert.is_true(has(list, project))
      assert.is_true(has(list, "/usr"))
      for _, path in ipairs { home, home .. "/.ssh", home .. "/link", base, "/" } do
        assert.is_false(has(list, path))
      end
      assert.same({ home .. "/outside", project }, landlock.around({ home .. "/.ssh", base }, home))
    end)

    it("is everything when nothing is left out", function() assert.same({ "/" }, landlock.around {}) end)
  end)

  if not works then
    pending("landlock does not work here: " .. tostring(why))
    return
  end

  it("says that it is no isolation, so that commands are asked about", function()
    assert.is_false(landlock.isolated)
    assert.equal("landlock", assert(sandbox.pick("landlock")).name)
  end)

  it("writes in the project and its own directories only", function()
    new()
    local out = run("echo y > f && cat f in; echo x > ~/outside/g; echo t > $TMPDIR/t && cat $TMPDIR/t; "
      .. "truncate -s 0 ~/outside/f; rm ~/outside/f; mv ~/outside ~/o")
    assert.matches("^y\nproject\n", out)
    assert.matches("\nt\n", out)
    assert.is_nil(fs.stat(home .. "/outside/g"))
    assert.equal("plain\n", (fs.read(home .. "/outside/f")))
  end)

  it("writes nothing in a read-only project", function()
    new { readonly = true }
    run("echo x > f")
    assert.is_nil(fs.stat(project .. "/f"))
    assert.equal("project\n", (run("cat in")))
  end)

  it("reads no secret", function()
    for _, options in ipairs { {}, { project = home, rw = { home } } } do
      new(options)
      local out = run("cat ~/.ssh/id; ln -s ~/.ssh s; cat s/id; ln ~/.ssh/id n; cat n; mv ~/.ssh ~/moved; "
        .. "cat ~/moved/id")
      assert.is_nil(out:find("SECRET", 1, true))
    end
  end)

  it("has no network and no sockets, but pairs of them", function()
    new()
    local out = run([[python3 -c "
import socket
for f in (1, 2, 10, 40):
    try: socket.socket(f); print('open', f)
    except OSError as e: print(e.errno)
socket.socketpair(); print('pair')"]])
    if out:find("not found", 1, true) then return pending("no python3 here") end
    assert.matches("^13\n13\n13\n%d+\npair\n$", out)
  end)

  it("undoes changes of hooks, of git's configuration and of links, and keeps harmless ones", function()
    new()
    local _, first = run("git init -q")
    if first.code ~= 0 then return pending("no git here") end
    write(project .. "/.git/hooks/pre-commit", "#!/bin/sh\n")
    new()
    local _, _, notes = run("git config core.fsmonitor evil; git config user.name n; "
      .. "ln -sf ../../evil .git/hooks/pre-commit; echo x > .git/hooks/post-checkout; echo ../evil > .git/commondir")
    assert.equal("#!/bin/sh\n", (fs.read(project .. "/.git/hooks/pre-commit")))
    assert.equal("file", assert(fs.stat(project .. "/.git/hooks/pre-commit", { follow = false })).type)
    assert.is_nil(fs.stat(project .. "/.git/hooks/post-checkout"))
    assert.is_nil(fs.stat(project .. "/.git/commondir"))
    local config = fs.read(project .. "/.git/config")
    assert.is_nil(config:find("fsmonitor", 1, true))
    assert.matches("name = n", config, 1, true)
    assert.equal(4, #notes, table.concat(notes, "; "))
  end)

  it("has a limit of processes", function()
    new { limits = { nproc = 30 } }
    local _, status, notes = task.run(run, "while :; do sleep 1 & done", { timeout = 10 })
    assert.is_false(status.timed_out)
    assert.matches("30 processes", notes[1])
  end)

  it("has no rights and no new privileges", function()
    new()
    local out = run("cat /proc/self/status; cp /bin/true su; chmod 4755 su; stat -c %a su")
    assert.matches("CapEff:%s+0000000000000000", out)
    assert.matches("NoNewPrivs:%s+1", out)
    assert.is_nil(out:find("\n4755", 1, true))
  end)
end)

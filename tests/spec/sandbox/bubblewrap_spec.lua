-- bubblewrap: the argument list, and what it means for real commands.

local fs = require "terret.fs"
local exec = require "terret.exec"
local sandbox = require "terret.sandbox"
local bubblewrap = require "terret.sandbox.bubblewrap"
local mounts = require "terret.sandbox.bubblewrap.mounts"
local policy = require "terret.sandbox.policy"
local syscalls = require "terret.sandbox.policy.syscalls"
local task = require "terret.task"

local works, why = bubblewrap.available()

describe("sandbox.bubblewrap", function()
  local base, home, project, p

  local function write(path, text) assert(fs.write(path, text or "x", { parents = true, sync = false })) end
  local function mkdir(path) assert(fs.mkdir(path, { parents = true })) end

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/bwrap-")))
    home, project = base .. "/home", base .. "/home/p"
    mkdir(project)
    mkdir(home .. "/outside")
    write(home .. "/.ssh/id", "SECRET")
    write(home .. "/.netrc", "SECRET")
    mkdir(home .. "/.config/terret/skills")
    write(home .. "/.config/terret/config.lua", "SECRET")
    write(home .. "/.config/terret/skills/s.md", "skill")
    mkdir(base .. "/tmp")
  end)
  after_each(function() assert(fs.remove(base, { recursive = true })) end)

  local function new(options)
    local o = { project = project, home = home, tmp = base .. "/tmp" }
    for k, v in pairs(options or {}) do o[k] = v end
    p = assert(policy.new(o))
    return p
  end

  -- Runs a shell command; its output and status.
  local function run(command, options)
    local process = assert(sandbox.spawn(bubblewrap, p, { "/bin/sh", "-c", command }, options))
    task.await(process)
    local status, output = process:status(), process:output()
    local notes = sandbox.finish(process)
    process:close()
    return output.head, status, notes
  end

  if not works then
    it("says why it does not work", function()
      assert.is_string(why)
      local plan, _, code = bubblewrap.wrap(new(), { "true" }, {})
      assert.is_nil(plan)
      assert.equal("no_sandbox", code)
    end)
    pending("bwrap does not work here: " .. tostring(why))
    return
  end

  describe("mounts", function()
    -- The place in the list of a mount with these words.
    local function index(list, ...)
      local want = { ... }
      for i, m in ipairs(list) do
        local same = true
        for k, word in ipairs(want) do same = same and m[k] == word end
        if same then return i end
      end
    end

    local function session(options) return mounts.session(new(options), {}) end

    it("hide last, and an outer place comes before an inner one", function()
      mkdir(project .. "/inner")
      local list = session { rw = { home .. "/outside", project .. "/inner" } }
      local bind, inner = index(list, "bind", project, project), index(list, "bind", project .. "/inner")
      local secret = index(list, "tmpfs", home .. "/.ssh", "mode=0000")
      assert.is_true(bind < inner and inner < secret)
      assert.is_truthy(index(list, "ro-bind", "/dev/null", home .. "/.netrc"))
    end)

    it("make the ancestors of hidden places mounts when those are writable", function()
      assert.is_truthy(index(session { project = home, rw = { home } }, "bind", home .. "/.config"))
    end)

    it("are options of bwrap too", function()
      assert.same({ "--bind", "/a", "/b", "--perms", "0700", "--tmpfs", "/c", "--remount-ro", "/c" },
        mounts.options { { "bind", "/a", "/b" }, { "tmpfs", "/c", "mode=0700" }, { "remount-ro", "/c" } })
    end)

    it("of a command pin git and cover secrets that are new or were replaced", function()
      mkdir(project .. "/.git/hooks")
      new()
      local covered = mounts.covered(p)
      local list = mounts.command(p, p:guarded(), covered, {})
      assert.is_true(index(list, "bind", project .. "/.git") < index(list, "ro-bind", project .. "/.git/hooks"))
      assert.is_nil(index(list, "ro-bind", "/dev/null", home .. "/.netrc"))
      write(home .. "/.netrc.new", "SECRET2")
      assert(fs.rename(home .. "/.netrc.new", home .. "/.netrc"))
      mkdir(home .. "/.gnupg")
      p.hidden_until = 0
      list = mounts.command(p, p:guarded(), covered, {})
      assert.is_truthy(index(list, "ro-bind", "/dev/null", home .. "/.netrc"))
      assert.is_truthy(index(list, "tmpfs", home .. "/.gnupg", "mode=0000"))
    end)

    it("cover of the kernel's list only what is a socket", function()
      new()
      write(home .. "/outside/plain")
      local row = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 "
      assert.same({}, mounts.sockets(p, "Num       RefCount Protocol Flags    Type St Inode Path\n"
        .. row .. home .. "/outside/s\n" .. row .. "@abstract\n" .. row .. home .. "/outside/plain\n"
        .. row .. "/tmp/hidden-anyway\n0000000000000000: 00000002 00000000 00000000 0002 01 99\n"))
    end)
  end)

  describe("session", function()
    it("has one set of namespaces, and closes it", function()
      new()
      local first = assert(bubblewrap.wrap(p, { "true" }, {})).join
      assert.equal(first, assert(bubblewrap.wrap(p, { "true" }, {})).join)
      sandbox.close(p)
      assert.same({}, first:names())
      local again = assert(bubblewrap.wrap(p, { "true" }, {})).join
      assert.not_equal(first, again)
      assert.equal("ok\n", (run("echo ok")))
      bubblewrap.close(p)
      bubblewrap.close(p)
    end)

    it("is opened once by calls that come together", function()
      new()
      local joins = {}
      task.run(function()
        task.scope(function(scope)
          for i = 1, 3 do scope:spawn(function() joins[i] = assert(bubblewrap.wrap(p, { "true" }, {})).join end) end
        end)
      end)
      assert.equal(joins[1], joins[2])
      assert.equal(joins[1], joins[3])
    end)

    it("is opened by the next call when the first was cancelled", function()
      new()
      task.run(function()
        local t = task.spawn(function() bubblewrap.wrap(p, { "true" }, {}) end)
        task.sleep(0)
        task.cancel(t)
        pcall(task.await, t)
        assert(bubblewrap.wrap(p, { "true" }, {}))
      end)
      assert.equal("ok\n", (run("echo ok")))
    end)

    it("leaves no process behind when it is open", function()
      new()
      run("true")
      local find = "pgrep -x -P " .. fs.whoami().pid .. " bwrap || true"
      local left = assert(exec.spawn { argv = { "/bin/sh", "-c", find } })
      task.await(left)
      assert.equal("", left:output().head)
      left:close()
    end)

    it("shares the loopback among its commands and with no other session", function()
      new()
      local serve = "import socket,sys; s=socket.create_server(('127.0.0.1',4711)); print('up',flush=True); "
        .. "c=s.accept()[0]; c.sendall(b'hello')"
      local server = sandbox.spawn(bubblewrap, p, { "python3", "-c", serve }, { stream = true })
      if not server then return pending("no python3 here") end
      local said = ""
      while not said:find("up\n", 1, true) do
        task.await(server)
        said = said .. assert(server:read(), said)
      end
      local fetch = "python3 -c \"import socket; print(socket.create_connection(('127.0.0.1',4711)).recv(9))\""
      local mine = p
      new()
      assert.matches("refused", (run(fetch)))
      p = mine
      assert.equal("b'hello'\n", (run(fetch)))
      server:close()
    end)
  end)

  it("lets no system call of the filter's list through", function()
    new()
    local out = run("cp /bin/true su; chmod 4755 su; chmod 2755 su; chmod 755 su && stat -c %a su")
    assert.matches("755\n$", out)
    local names = {}
    for _, rule in ipairs(syscalls.REFUSED) do names[type(rule) == "table" and rule[1] or rule] = true end
    for _, name in ipairs { "mount", "io_uring_setup", "keyctl", "bpf", "setns" } do assert.is_true(names[name]) end
    out = run([[python3 -c "
import socket
for family, kind in ((40, 1), (38, 5), (17, 3), (16, 3)):
    try: socket.socket(family, kind, 16 if family == 16 else 0); print('open', family)
    except OSError as e: print(e.errno)
socket.socket(16, 3, 0); socket.socket(2, 1); socket.socket(10, 2); socket.socket(1, 1); socket.socketpair()
print('ordinary')"]])
    if out:find("not found", 1, true) then return pending("no python3 here") end
    assert.equal("97\n97\n97\n97\nordinary\n", out)
  end)

  describe("command", function()
    it("writes in the project only", function()
      new()
      local out, status = run("echo y > f && cat f; echo x > ~/outside/f; cd ~ && mv p q")
      assert.matches("^y\n", out)
      assert.not_equal(0, status.code)
      assert.equal("y\n", (fs.read(project .. "/f")))
      assert.is_nil(fs.stat(home .. "/outside/f"))
      assert.is_truthy(fs.stat(project))
    end)

    it("starts in the project, or where it is told", function()
      new()
      mkdir(project .. "/sub")
      assert.equal(project .. "\n", (run("pwd")))
      assert.equal(project .. "/sub\n", (run("pwd", { cwd = project .. "/sub" })))
    end)

    it("writes nothing in a read-only project", function()
      new { readonly = true }
      local _, status = run("echo x > f")
      assert.not_equal(0, status.code)
      assert.is_nil(fs.stat(project .. "/f"))
    end)

    it("writes where --rw says", function()
      new { rw = { home .. "/outside" } }
      assert.equal("ok\n", (run("echo x > ~/outside/f && echo ok")))
    end)

    it("reads no secret, also not through links or by moving", function()
      new()
      local out = run("ln -s ~/.ssh s; cat s/id ~/.ssh/id ~/.netrc ~/.config/terret/config.lua; mv ~/.ssh ~/t; "
        .. "ln ~/.netrc n; cat n; chmod 755 ~/.ssh; ls -A ~/.ssh; cat /proc/self/root" .. home .. "/.netrc")
      assert.is_nil(out:find("SECRET", 1, true))
      assert.equal("skill", (run("cat ~/.config/terret/skills/s.md")))
    end)

    it("reads no secret in a writable home directory either", function()
      new { project = home, rw = { home } }
      local out = run("cat .ssh/id .netrc; mv .ssh s; mv .config c; cat s/id c/terret/config.lua; echo x > n; cat n")
      assert.is_nil(out:find("SECRET", 1, true))
      assert.matches("x\n$", out)
      assert.equal("SECRET", (fs.read(home .. "/.ssh/id")))
    end)

    it("has a /tmp, /var/tmp and /dev/shm that last over calls", function()
      new()
      run("echo 1 > /tmp/a; echo 2 > /var/tmp/b; echo 3 > /dev/shm/c")
      assert.equal("1\n2\n3\n", (run("cat /tmp/a /var/tmp/b /dev/shm/c")))
      assert.is_nil(fs.stat("/tmp/a"))
      local r = assert(p:resolve("/tmp/a", "read"))
      assert.equal("1\n", (r.root:read(r.rel)))
    end)

    it("sees no process, socket directory or key of the host", function()
      new()
      local out = run("ls -A /run; ls -d /proc/[0-9]* | wc -l; ls /proc/self/fd | wc -l; test -t 0 || echo notty; cat")
      local runs = out:match("^(.-)%d+\n")
      assert.is_nil(runs:find("dbus", 1, true))
      assert.is_true(tonumber(out:match("(%d+)\n%d+\nnotty")) < 8)
      assert.equal("4", out:match("(%d+)\nnotty"))
    end)

    it("has no capabilities, no new privileges and no user namespace", function()
      new()
      local out = run("grep -E 'Cap(Eff|Bnd)|NoNewPrivs' /proc/self/status; unshare -U echo nested 2>&1")
      assert.matches("CapEff:%s+0000000000000000", out)
      assert.matches("CapBnd:%s+0000000000000000", out)
      assert.matches("NoNewPrivs:%s+1", out)
      assert.is_nil(out:find("\nnested", 1, true))
    end)

    it("can't change the kernel's settings, even as root", function()
      new()
      local out = run("for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/hostname /proc/sysrq-trigger; do "
        .. "test -w $f && echo writable $f; done")
      assert.equal("", out)
    end)

    it("can't connect to a socket of the host by its path", function()
      local server = exec.spawn { stream = true, argv = { "python3", "-c", [[
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(1)
print("bound", flush=True)
time.sleep(60)]], home .. "/outside/s" } }
      if not server then return pending("no python3 here") end
      task.await(server)
      assert.matches("^bound", server:read())
      new()
      local connect = "import socket; socket.socket(socket.AF_UNIX).connect('" .. home .. "/outside/s')"
      local out = run('python3 -c "' .. connect .. '"; ls -l ~/outside/s')
      server:close()
      assert.matches("ConnectionRefusedError", out, 1, true)
      assert.matches("^c", out:match("([^\n]*)\n$"))
    end)

    it("has namespaces of its own, for System V memory and queues too", function()
      new()
      local out = run("for n in user mnt pid net ipc uts; do readlink /proc/self/ns/$n; done")
      local process <close> = assert(exec.spawn { argv = { "/bin/sh", "-c",
        "for n in user mnt pid net ipc uts; do readlink /proc/self/ns/$n; done" } })
      task.await(process)
      local host = {}
      for line in process:output().head:gmatch("[^\n]+") do host[line] = true end
      local n = 0
      for line in out:gmatch("[^\n]+") do
        assert.is_nil(host[line], line)
        n = n + 1
      end
      assert.equal(6, n)
    end)

    it("has loopback only", function()
      new()
      assert.equal("lo\n", (run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")))
    end)

    it("has no terminal", function()
      new()
      local out = run("exec 3<>/dev/tty; echo $?")
      assert.is_nil(out:find("^0"))
    end)

    it("has the process and file limits, and says which was reached", function()
      new { limits = { nproc = 40, fsize = 4096 } }
      -- In a task, where root's processes are counted also without a cgroup.
      local out, _, notes = task.run(run, "i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; sleep 4; echo all")
      assert.is_nil(out:find("all", 1, true))
      if fs.whoami().uid == 0 then assert.matches("the limit of 40 processes was reached", notes[1]) end
      _, _, notes = run("exec head -c 100000 /dev/zero > big")
      assert.is_true(assert(fs.stat(project .. "/big")).size <= 4096)
      assert.matches("'fsize'", notes[1])
    end)

    it("has a memory limit", function()
      new { limits = { memory = 64 << 20 } }
      local out, status, notes = task.run(run, "x=a; while :; do x=$x$x; done", { timeout = 20 })
      assert.equal("KILL", status.signal, out)
      assert.matches("64 MB of memory", notes[1])
    end)

    it("ends with all that it started", function()
      new()
      local mark = "7" .. tostring(fs.whoami().pid) .. ".25"
      local _, status = run(("setsid sleep %s & sleep %s & exit 3"):format(mark, mark))
      assert.equal(3, status.code)
      _, status = run(("setsid sleep %s & sleep %s"):format(mark, mark), { timeout = 0.2, grace = 0.1 })
      assert.is_true(status.timed_out)
      local left = assert(exec.spawn { argv = { "/bin/sh", "-c", "pgrep -f 'sleep " .. mark .. "$' || true" } })
      task.await(left)
      assert.equal("", left:output().head)
      left:close()
    end)

    it("keeps git's hooks and configuration, commits otherwise", function()
      local env = "export HOME=$PWD GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e; "
      new()
      local _, first = run("git init -q")
      if first.code ~= 0 then return pending("no git here") end
      mkdir(project .. "/.git/hooks")
      new()
      local out, status, notes = run(env .. "echo a > a; git add a && git commit -qm a && git stash list && echo done; "
        .. "echo x > .git/hooks/pre-commit; git config alias.x '!evil'; mv .git g; mv .git/hooks h; rm -f .git/config; "
        .. "echo ../evil > .git/commondir; mkdir .terret")
      assert.matches("done\n", out, 1, true)
      assert.is_number(status.code)
      assert.is_nil(fs.stat(project .. "/.git/hooks/pre-commit"))
      assert.is_nil(assert(fs.read(project .. "/.git/config")):find("alias"))
      assert.is_nil(fs.stat(project .. "/g"))
      assert.is_nil(fs.stat(project .. "/.git/commondir"))
      assert.is_nil(fs.stat(project .. "/.terret"))
      assert.equal(3, #notes)
      assert.matches("alias.x", table.concat(notes), 1, true)
    end)

    it("takes over harmless changes of git's configuration", function()
      new()
      local _, first = run("git init -q -b main")
      if first.code ~= 0 then return pending("no git here") end
      new()
      local out, _, notes = run("git remote add o https://h/p && git config user.name Someone && "
        .. "git config branch.main.remote o && git config core.hooksPath evil; git config core.hooksPath; "
        .. "readlink .git/config")
      assert.matches("^evil\n/run/terret/git/1/config\n", out)
      local config = assert(fs.read(project .. "/.git/config"))
      assert.matches('[remote "o"]\n\turl = https://h/p\n', config, 1, true)
      assert.matches("name = Someone", config, 1, true)
      assert.is_nil(config:find("hooksPath"))
      assert.matches("core.hookspath", notes[1], 1, true)
      assert.equal("", (run("git config core.hooksPath")))
      assert.equal("https://h/p\n", (run("git remote get-url o; ls .git | grep -i lock")))
    end)

    it("makes submodules and worktrees that work and name no programs", function()
      new()
      local env = "export HOME=$PWD GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e; "
      local _, first = run(env .. "git init -q -b main; git init -q lib; cd lib && echo a > a && git add a && "
        .. "git commit -qm a; cd ..; echo b > b; git add b; git commit -qm b")
      if first.code ~= 0 then return pending("no git here") end
      new()
      local out, status, notes = run(env .. "git -c protocol.file.allow=always submodule --quiet add ./lib sub && "
        .. "git worktree add -q wt && git -C wt status --short && git commit -qam sub "
        .. "&& git -C sub config core.fsmonitor evil && echo done")
      assert.equal(0, status.code, out)
      assert.same(1, #notes, table.concat(notes, "; "))
      assert.matches("core.fsmonitor", notes[1], 1, true)
      assert.matches("submodule \"sub\"", assert(fs.read(project .. "/.git/config")), 1, true)
      assert.equal("1\n", (run("git -C sub log --oneline | wc -l; git -C wt status --short")))
    end)

    it("leaves nothing behind in the project", function()
      new()
      run("true")
      assert.same({}, fs.list(project))
    end)

    it("that can't start is refused with the reason", function()
      new()
      local function refusal(argv, options)
        local process, message, code = sandbox.spawn(bubblewrap, p, argv, options)
        assert.is_nil(process)
        return message, code
      end
      assert.same({ "exec '/no/such/program': No such file or directory", "not_found" },
        { refusal { "/no/such/program" } })
      assert.same({ "exec '/etc/passwd': Permission denied", "denied" }, { refusal { "/etc/passwd" } })
      assert.matches("cwd '/no/such/directory'", (refusal({ "true" }, { cwd = "/no/such/directory" })))
    end)

    it("works in paths with spaces and line ends", function()
      mkdir(home .. "/a \n'b")
      new { project = home .. "/a \n'b" }
      assert.equal("ok\n", (run("echo ok > f; cat f")))
    end)
  end)
end)

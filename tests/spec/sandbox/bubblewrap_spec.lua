-- bubblewrap: the argument list, and what it means for real commands.

local fs = require "terret.fs"
local exec = require "terret.exec"
local sandbox = require "terret.sandbox"
local bubblewrap = require "terret.sandbox.bubblewrap"
local policy = require "terret.sandbox.policy"
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
    process:close()
    return output.head, status, sandbox.finish(process)
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

  local function index(argv, ...)
    local want = { ... }
    for i = 1, #argv do
      local same = true
      for k, word in ipairs(want) do same = same and argv[i + k - 1] == word end
      if same then return i end
    end
  end

  describe("argument list", function()
    it("hides last and ends with the command", function()
      mkdir(project .. "/.git/hooks")
      local plan = assert(bubblewrap.wrap(new(), { "cmd", "-x", "a b" }, {}))
      local a = plan.argv
      local ro, bind = index(a, "--ro-bind", "/", "/"), index(a, "--bind", project, project)
      local pin, hooks = index(a, "--bind", project .. "/.git", project .. "/.git"),
        index(a, "--ro-bind", project .. "/.git/hooks")
      local secret = index(a, "--tmpfs", home .. "/.ssh")
      assert.is_true(ro < bind and bind < pin and pin < hooks and hooks < secret)
      assert.same({ "cmd", "-x", "a b" }, table.move(a, #a - 2, #a, 1, {}))
      assert.equal(home .. "/.netrc", a[index(a, "--ro-bind", "/dev/null", home .. "/.netrc") + 2])
    end)

    it("has every namespace, no capabilities and a session of its own", function()
      local a = assert(bubblewrap.wrap(new(), { "true" }, {})).argv
      for _, word in ipairs { "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
        "--new-session", "--die-with-parent" } do assert.is_truthy(index(a, word), word) end
      assert.is_truthy(index(a, "--cap-drop", "ALL"))
    end)

    it("is made anew when a secret appears", function()
      local a = assert(bubblewrap.wrap(new(), { "true" }, {})).argv
      assert.is_nil(index(a, "--tmpfs", home .. "/.gnupg"))
      mkdir(home .. "/.gnupg")
      p.hidden_until = 0
      a = assert(bubblewrap.wrap(p, { "true" }, {})).argv
      assert.is_truthy(index(a, "--tmpfs", home .. "/.gnupg"))
    end)

    it("makes the ancestors of hidden places mounts when those are writable", function()
      local a = assert(bubblewrap.wrap(new { project = home, rw = { home } }, { "true" }, {})).argv
      assert.is_truthy(index(a, "--bind", home .. "/.config", home .. "/.config"))
    end)

    it("reads only what is a socket from the kernel's list", function()
      new()
      local lines = { "Num       RefCount Protocol Flags    Type St Inode Path",
        "0000000000000000: 00000002 00000000 00010000 0001 01 12345 " .. home .. "/outside/s",
        "0000000000000000: 00000002 00000000 00010000 0001 01 12345 @abstract",
        "0000000000000000: 00000002 00000000 00010000 0001 01 12345 " .. home .. "/outside/plain",
        "0000000000000000: 00000002 00000000 00010000 0001 01 12345 /tmp/hidden-anyway",
        "0000000000000000: 00000002 00000000 00000000 0002 01 99" }
      write(home .. "/outside/plain")
      local i = 0
      local function iterate()
        i = i + 1
        return lines[i]
      end
      assert.same({}, bubblewrap.sockets(p, iterate))
    end)
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

    it("has loopback only", function()
      new()
      assert.equal("lo\n", (run("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")))
    end)

    it("has no terminal", function()
      new()
      local out = run("exec 3<>/dev/tty; echo $?")
      assert.is_nil(out:find("^0"))
    end)

    it("has the process and file limits", function()
      new { limits = { nproc = 40, fsize = 4096 } }
      local out = run("i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); done; echo all")
      if fs.whoami().uid ~= 0 then assert.is_nil(out:find("all", 1, true)) end -- root has no process limit
      run("head -c 100000 /dev/zero > big")
      assert.is_true(assert(fs.stat(project .. "/big")).size <= 4096)
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
        .. "echo x > .git/hooks/pre-commit; echo x >> .git/config; mv .git g; mv .git/hooks h; rm -f .git/config; "
        .. "echo ../evil > .git/commondir; mkdir .terret")
      assert.matches("done\n", out, 1, true)
      assert.is_number(status.code)
      assert.is_nil(fs.stat(project .. "/.git/hooks/pre-commit"))
      assert.is_nil(assert(fs.read(project .. "/.git/config")):find("x\n$"))
      assert.is_nil(fs.stat(project .. "/g"))
      assert.is_nil(fs.stat(project .. "/.git/commondir"))
      assert.is_nil(fs.stat(project .. "/.terret"))
      assert.equal(2, #notes)
    end)

    it("leaves nothing behind in the project", function()
      new()
      run("true")
      assert.same({}, fs.list(project))
    end)

    it("has a status like env(1)'s", function()
      new()
      local function code(argv)
        local process = assert(sandbox.spawn(bubblewrap, p, argv))
        task.await(process)
        local status, output = process:status(), process:output()
        process:close()
        return status.code, bubblewrap.failure(status, output.head)
      end
      assert.equal(127, (code { "/no/such/program" }))
      assert.equal(126, (code { "/etc/passwd" }))
      assert.equal(128 + 9, (code { "/bin/sh", "-c", "kill -9 $$" }))
      assert.equal(7, (code { "/bin/sh", "-c", "exit 7" }))
      assert.is_nil(select(2, code { "/bin/sh", "-c", "exit 1" }))
    end)

    it("says when it could not start", function()
      new()
      local out, status = run("true", { cwd = "/no/such/directory" })
      assert.matches("no/such/directory", assert(bubblewrap.failure(status, out)), 1, true)
    end)

    it("works in paths with spaces and line ends", function()
      mkdir(home .. "/a \n'b")
      new { project = home .. "/a \n'b" }
      assert.equal("ok\n", (run("echo ok > f; cat f")))
    end)
  end)
end)

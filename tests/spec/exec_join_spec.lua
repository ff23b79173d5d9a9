-- tests/spec/exec_join_spec.lua - runtime/exec_contain.h and exec_namespaces.h: commands that join
-- the namespaces which bubblewrap made once.  Runs as whoever starts it; as root once more as an
-- ordinary user, who gets two nested user namespaces.
local exec = require "terret.exec"
local fs = require "terret.fs"
local reactor = require "terret.reactor"
local seccomp = require "terret.seccomp"

local BWRAP = "/usr/bin/bwrap"
local AGAIN = "TERRET_SPEC_AS_USER" -- set in the run as an ordinary user
local NOBODY = 65534

local function wait(p)
  while not p:ready() do reactor.poll(1) end
  return p
end

local function eventually(f)
  local limit = reactor.now() + 5
  while not f() do
    if reactor.now() > limit then return false end
    reactor.poll(0.002)
  end
  return true
end

local function slurp(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("a")
  file:close()
  return text
end

-- Reads a stream until the pattern is there.
local function read_until(p, pattern)
  local text = ""
  while not text:find(pattern) do
    local data = wait(p):read()
    if not data then return nil, text end
    text = text .. data
  end
  return text
end

-- A session's sandbox --------------------------------------------------------------------------

-- What a backend does: start the holder, wait until its mounts are done, open its namespaces.
-- With --info-fd 1 bwrap says on its output which process is inside; what runs inside gets that
-- output closed, and says on stderr that it is there.
local function open_session(options)
  local argv = { BWRAP, "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
    "--unshare-cgroup-try", "--new-session", "--die-with-parent", "--cap-drop", "ALL" }
  local function add(...)
    for _, word in ipairs { ... } do argv[#argv + 1] = word end
  end
  if options.nested ~= true then add("--disable-userns") end
  add("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp")
  for _, word in ipairs(options.mounts or {}) do add(word) end
  add("--info-fd", "1", "--chdir", "/", "--", "/bin/sh", "-c", "echo ready >&2; exec sleep 2147483647")
  local holder, message = exec.spawn { argv = argv, stream = true, env = { PATH = "/usr/bin:/bin" } }
  if not holder then return nil, message end
  local said, rest = read_until(holder, "ready\n")
  if not said then
    holder:close()
    return nil, rest
  end
  local namespaces = assert(exec.namespaces(math.tointeger(said:match('"child%-pid": (%d+)'))))
  return { holder = holder, join = namespaces }
end

local function close_session(session)
  session.join:close()
  session.holder:close()
end

-- /proc is new in each command.  What only root's number protects there is made read-only, as
-- bwrap's own /proc is.
local PROC = {}
if fs.whoami().uid == 0 then
  for _, name in ipairs { "sys", "sysrq-trigger", "irq", "bus", "fs", "scsi", "acpi", "driver", "mtrr" } do
    PROC[#PROC + 1] = { "ro-bind-try", "/proc/" .. name, "/proc/" .. name }
  end
end

local NEW_NAMESPACES = 0x7e020080 -- CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME

-- An example of a policy; what is not there in this kernel is skipped.
local FILTER = {
  foreign = "kill",
  action = "EPERM",
  rules = {
    "mount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "setns", "add_key", "request_key", "keyctl", "bpf", "perf_event_open", "userfaultfd",
    "io_uring_setup", "io_uring_enter", "io_uring_register", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "open_by_handle_at", "acct", "swapon", "swapoff", "reboot", "syslog",
    { "unshare", arg = 0, bits = NEW_NAMESPACES },
    { "clone", arg = 0, bits = NEW_NAMESPACES & ~0x80 }, -- CLONE_NEWTIME is in clone's signal number
    { "clone3", action = "ENOSYS" }, -- its flags are in memory: libc then tries clone
    { "ioctl", arg = 1, equals = 0x5412 }, -- TIOCSTI
    { "ioctl", arg = 1, equals = 0x541c }, -- TIOCLINUX
    { "socket", arg = 0, except = { 1, 2, 10, 16 }, action = "EAFNOSUPPORT" }, -- unix, IPv4, IPv6, netlink
  },
}

-- ------------------------------------------------------------------------------------------------

local filter = seccomp.filter(FILTER)
local WEAK = seccomp.filter { rules = { "acct" } } -- what the rest holds alone
local session, why
if not fs.stat(BWRAP) then
  why = "bwrap is not installed"
else
  session, why = open_session {}
  if session then close_session(session) end
end
local works = session ~= nil

local function perl_here() return fs.stat("/usr/bin/perl") ~= nil end

local function options_of(command, more)
  local o = { join = session.join, mounts = PROC, seccomp = filter, env = { PATH = "/usr/bin:/bin" }, cwd = "/" }
  o.argv = type(command) == "table" and command or { "/bin/sh", "-c", command }
  for key, value in pairs(more or {}) do o[key] = value end
  return o
end

local function start(command, more) return assert(exec.spawn(options_of(command, more))) end

local function run(command, more)
  local p = wait(start(command, more))
  local status, output = p:status(), p:output()
  p:close()
  return output.head .. output.tail, status, output
end

-- How many processes of the host sleep that long.
local function count(mark)
  local n = 0
  for _, entry in ipairs(assert(fs.list("/proc"))) do
    if entry.name:find("^%d+$") and slurp("/proc/" .. entry.name .. "/cmdline") == "sleep\0" .. mark .. "\0" then
      n = n + 1
    end
  end
  return n
end

local function sleepers(n, mark) return eventually(function() return count(mark) == n end) end

-- Starts three processes that are easy to find and hard to keep together.
local serial = 0
local function stragglers()
  serial = serial + 1
  local mark = ("%d.%06d"):format(100 + serial, fs.whoami().pid)
  return mark, ("trap '' TERM; sleep %s & setsid sleep %s & (setsid sh -c 'trap \"\" TERM; sleep %s; :' &) ; ")
    :format(mark, mark, mark)
end

local function host()
  local words = {}
  for word in slurp("/proc/self/cmdline"):gmatch("[^%z]+") do words[#words + 1] = word end
  return words[1], words[2] == "--lua" and words[2] or nil
end

describe("terret.exec joining namespaces", function()
  if not works then
    pending("needs a bwrap that works: " .. tostring(why))
    return
  end

  lazy_setup(function()
    reactor.poll(0)
    session = assert(open_session {})
  end)
  lazy_teardown(function() close_session(session) end)

  describe("the namespaces of a process", function()
    it("are those that differ from ours", function()
      local names = {}
      for _, name in ipairs(session.join:names()) do names[name] = true end
      for _, name in ipairs { "owner", "user", "mnt", "net", "ipc", "uts" } do assert.is_true(names[name]) end
      local nested = assert(open_session { nested = true })
      local n = #nested.join:names() -- as root one user namespace is enough
      assert.equal(fs.whoami().uid == 0 and #session.join:names() - 1 or #session.join:names(), n)
      close_session(nested)
    end)

    it("are not ours", function()
      local ns, message, code = exec.namespaces(fs.whoami().pid)
      assert.is_nil(ns)
      assert.matches("it has no mount namespace of its own", message)
      assert.equal("io", code)
    end)

    it("of no process are not found", function()
      assert.equal("not_found", select(3, exec.namespaces(0x7fffffff)))
      assert.error_matches(function() exec.namespaces(0) end, "a process expected")
      assert.error_matches(function() exec.namespaces("x") end, "number expected")
    end)

    it("are closed by close, twice too", function()
      local other = assert(open_session {})
      close_session(other)
      other.join:close()
      assert.same({}, other.join:names())
      assert.error_matches(function() run("true", { join = other.join }) end, "the namespaces are closed")
    end)
  end)

  it("raises on wrong options", function()
    local function bad(options, message)
      assert.error_matches(function() exec.spawn(options_of("true", options)) end, message)
    end
    bad({ join = 3 }, "'join' must be terret.exec.namespaces")
    bad({ mounts = "x" }, "'mounts' must be a list")
    bad({ mounts = { "x" } }, "each of 'mounts' must be a list of words")
    bad({ mounts = { { "bind", "/" } } }, "unknown or missing words")
    bad({ mounts = { { "bond", "/", "/" } } }, "unknown or missing words")
    bad({ mounts = { { "remount-ro", "/", "/" } } }, "unknown or missing words")
    bad({ mounts = { { "bind", "/", 3 } } }, "each word of 'mounts' must be a string")
    bad({ mounts = { { "bind", "/", "/a\0b" } } }, "NUL")
    bad({ seccomp = "1234567" }, "is no filter")
    bad({ seccomp = "" }, "is no filter")
    bad({ seccomp = ("x"):rep(8 * 4097) }, "is no filter")
    bad({ cgroups = "x" }, "'cgroups' must be a list")
    bad({ cgroups = { "/a", 3 } }, "each of 'cgroups' must be a string")
    bad({ drop = 1 }, "'drop' must be a boolean")
    bad({ landlock = -1 }, "'landlock' must be an integer")
    assert.error_matches(function() exec.spawn { argv = { "true" }, mounts = {} } end, "'mounts' needs 'join'")
  end)

  describe("a command", function()
    it("has its own processes and /proc", function()
      local out = run("echo $$; for p in /proc/[0-9]*; do read -r n < $p/comm; echo $n; done")
      local lines = {}
      for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
      assert.equal("2", lines[1])
      assert.equal("sh", lines[3])
      assert.equal(3, #lines)
      -- Process 1 turns into its own program just after the command has started.
      assert.equal("terret-init\0",
        (run("until grep -q ^terret-init /proc/1/cmdline; do :; done; cat /proc/1/cmdline")))
    end)

    it("can't look into process 1", function()
      for _, what in ipairs { "< environ", "< maps", "> mem", "< root/etc/passwd", "< cwd/etc/passwd", "> fd/0" } do
        local out, status = run("cd /proc/1 && echo x " .. what)
        assert.matches("Permission denied", out)
        assert.not_equal(0, status.code)
      end
    end)

    it("has no rights", function()
      local out = run("cat /proc/self/status")
      for _, set in ipairs { "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb" } do
        assert.equal("0000000000000000", out:match(set .. ":\t(%x+)"))
      end
      assert.equal("1", out:match("NoNewPrivs:\t(%d)"))
      assert.equal("2", out:match("Seccomp:\t(%d)"))
    end)

    it("has the user's own number", function()
      local me = fs.whoami()
      assert.equal(me.uid .. "\n" .. me.gid .. "\n", (run("id -u; id -g")))
      assert.matches("^%s*" .. me.uid .. " ", (run("cat /proc/self/uid_map")))
    end)

    it("can't make namespaces, with the filter or without", function()
      for _, f in ipairs { filter, WEAK } do
        for _, flag in ipairs { "-U", "-r", "-n", "-m", "-p" } do
          local out, status = run("unshare " .. flag .. " true", { seccomp = f })
          assert.matches("unshare failed", out)
          assert.not_equal(0, status.code)
        end
      end
    end)

    it("can't mount or uncover", function()
      for _, command in ipairs { "umount /proc", "umount -l /tmp", "mount -t tmpfs x /mnt", "mount -o remount,rw /" } do
        for _, f in ipairs { filter, WEAK } do
          local _, status = run(command, { seccomp = f })
          assert.not_equal(0, status.code)
        end
      end
    end)

    it("can't type into a terminal", function()
      local number = run("uname -m"):match("x86_64") and 16 or 29
      if not perl_here() then return pending("needs perl") end
      for _, request in ipairs { "0x5412", "0x100005412", "0xffffffff00005412", "0x541c" } do
        local script = ("$b = 'x'; syscall(%d, 0, %s, $b); print $!+0"):format(number, request)
        assert.equal("1", (run { "perl", "-e", script })) -- EPERM
      end
      local script = ("$b = 'x'; syscall(%d, 0, 0x5413, $b); print $!+0"):format(number)
      assert.equal("25", (run { "perl", "-e", script })) -- ENOTTY: others reach the descriptor
    end)

    it("has keys of its own", function()
      if not perl_here() then return pending("needs perl") end
      local number = run("uname -m"):match("x86_64") and 250 or 219
      local script = ("print syscall(%d, 0, -3, 0)"):format(number) -- the session keyring's id
      local keys = { seccomp = WEAK }
      local one, two = run({ "perl", "-e", script }, keys), run({ "perl", "-e", script }, keys)
      if one == "-1" then return pending("this kernel has no keys") end
      assert.not_equal(one, two)
      assert.equal("-1", (run { "perl", "-e", script }))
    end)

    it("inherits three descriptors", function()
      assert.matches("^0\n1\n2\n3\n$", (run { "ls", "/proc/self/fd" }))
      assert.matches("^0\n1\n2\n3\n4\n7\n$", (run({ "ls", "/proc/self/fd" }, { fds = { [3] = 1, [7] = 0 } })))
    end)

    it("is in a session without a terminal", function()
      local out = run("read -r stat < /proc/self/stat; echo $stat; exec 2>&1; : < /dev/tty")
      local pid, group, leader, terminal = out:match("^(%d+) %b() %a %d+ (%d+) (%d+) (%-?%d+)")
      assert.same({ "2", "2", "2", "0" }, { pid, group, leader, terminal })
      assert.matches("/dev/tty", out:match("\n(.*)"))
    end)

    it("gets input, environment, directory, limits and stderr as any other", function()
      local out, status, output = run("cat; pwd; echo $A; ulimit -n; echo bad >&2; exit 3", {
        stdin = "in\n", cwd = "/usr", env = { A = "b", PATH = "/usr/bin:/bin" }, rlimits = { nofile = 64 },
        merge = false })
      assert.equal("in\n/usr\nb\n64\n", out)
      assert.equal("bad\n", output.stderr)
      assert.equal(3, status.code)
    end)
  end)

  describe("commands", function()
    it("share /tmp", function()
      run("echo shared > /tmp/note")
      assert.equal("shared\n", (run("cat /tmp/note")))
      assert.is_nil(fs.stat("/tmp/note"))
    end)

    it("share the loopback", function()
      if not perl_here() then return pending("needs perl") end
      local server = start({ "perl", "-e", [[
        use Socket; $| = 1;
        socket(S, PF_INET, SOCK_STREAM, 0) or die; bind(S, sockaddr_in(0, INADDR_LOOPBACK)) or die;
        listen(S, 5); print +(sockaddr_in(getsockname(S)))[0], "\n";
        while (accept(C, S)) { print C "hello\n"; close C }]] }, { stream = true })
      local port = read_until(server, "\n"):match("%d+")
      local client = [[use Socket; socket(S, PF_INET, SOCK_STREAM, 0) or die;
        connect(S, sockaddr_in(shift, INADDR_LOOPBACK)) or die "$!\n"; print <S>]]
      assert.equal("hello\n", (run { "perl", "-e", client, port }))
      local p = wait(assert(exec.spawn { argv = { "perl", "-e", client, port } }))
      assert.matches("refused", p:output().head) -- the host's loopback is another one
      p:close()
      server:close()
      assert.matches("refused", (run { "perl", "-e", client, port }))
    end)

    it("can't see or end each other", function()
      local mark, script = stragglers()
      local first = start(script .. "echo up; exec sleep 1000", { stream = true })
      read_until(first, "up\n")
      assert.is_true(sleepers(3, mark))
      local out = run("cat /proc/[0-9]*/cmdline; kill -9 -- -1; for i in $(seq 3 40); do kill -9 $i; done 2>&-; true")
      assert.is_nil(out:find(mark, 1, true))
      local _, status = run("kill -9 " .. first:pid() .. " " .. session.holder:pid())
      assert.not_equal(0, status.code)
      assert.equal(3, count(mark))
      assert.is_nil(first:status())
      first:close()
      assert.equal(0, count(mark))
    end)

    it("run in parallel", function()
      local all = {}
      for i = 1, 20 do all[i] = start("echo " .. i .. "; sleep 0.01; exit " .. i) end
      for i = 1, 20 do
        wait(all[i])
        while not all[i]:status() do reactor.poll(1) end
        assert.equal(i, all[i]:status().code)
        assert.equal(i .. "\n", all[i]:output().head)
        all[i]:close()
      end
    end)
  end)

  describe("mounts", function()
    it("are the command's own", function()
      local mounts = { { "tmpfs", "/mnt", "mode=0755" }, { "ro-bind", "/tmp", "/tmp" },
        { "ro-bind-try", "/no/such", "/no/such" }, { "bind-try", "/no/such", "/tmp" }, { "bind", "/usr", "/mnt" },
        { "tmpfs", "/srv", "mode=0000" }, { "remount-ro", "/srv" } }
      for _, m in ipairs(PROC) do mounts[#mounts + 1] = m end
      local out, status = run("ls /mnt; touch /tmp/a; ls /srv; chmod 755 /srv; exit 4", { mounts = mounts })
      assert.equal(4, status.code)
      assert.matches("bin\n", out)
      assert.matches("touch: cannot touch '/tmp/a': Read%-only file system", out)
      assert.matches("ls: cannot open directory '/srv': Permission denied", out)
      assert.matches("chmod: [^\n]*Read%-only file system", out)
      status = select(2, run("touch /tmp/a && ls /srv"))
      assert.equal(0, status.code)
      assert.equal("", (run("ls /mnt | grep bin")))
    end)

    it("put a symbolic link over a file, which stays where it is", function()
      run("echo own > /tmp/own; echo other > /tmp/other; ln -sf /tmp/other /tmp/link")
      local out = run("cat /tmp/own; echo changed > /tmp/own; rm -f /tmp/own; mv /tmp/link /tmp/own; readlink /tmp/own",
        { mounts = { { "bind-link", "/tmp/link", "/tmp/own" } } })
      assert.matches("^other\nrm: [^\n]*busy\nmv: [^\n]*\n/tmp/other\n$", out)
      assert.equal("own\nchanged\n", (run("cat /tmp/own /tmp/other")))
    end)

    it("make the parts of /proc read-only that root could write", function()
      local out, status = run("echo 1 > /proc/sys/kernel/panic; echo x > /proc/sysrq-trigger")
      assert.not_equal(0, status.code)
      assert.matches("/proc/sys/kernel/panic", out)
      assert.matches("/proc/sysrq%-trigger", out)
    end)

    it("that fail are a refusal", function()
      local p, message, code = exec.spawn(options_of("true", { mounts = { { "ro-bind", "/no/such", "/mnt" } } }))
      assert.is_nil(p)
      assert.equal("mount '/mnt': No such file or directory", message)
      assert.equal("not_found", code)
      assert.equal("mount '/mnt': Invalid argument",
        select(2, exec.spawn(options_of("true", { mounts = { { "remount-ro", "/mnt" } } }))))
    end)
  end)

  describe("the end", function()
    it("tells code and signal exactly", function()
      for _, code in ipairs { 0, 1, 2, 126, 127, 128, 130, 137, 143, 255 } do
        local _, status = run("exit " .. code)
        assert.equal(code, status.code)
        assert.is_nil(status.signal)
      end
      for _, name in ipairs { "TERM", "KILL", "INT", "SEGV", "ABRT", "PIPE", "HUP", "USR1" } do
        local _, status = run("ulimit -c 0; kill -" .. name .. " $$")
        assert.equal(name, status.signal)
        assert.is_nil(status.code)
      end
    end)

    it("of the command is the end of all", function()
      local mark, script = stragglers()
      local _, status = run(script .. "exit 5")
      assert.equal(5, status.code)
      assert.equal(0, count(mark))
    end)

    it("by time-out is TERM, then KILL", function()
      local _, status = run({ "sleep", "100" }, { timeout = 0.02 })
      assert.equal("TERM", status.signal)
      assert.is_true(status.timed_out)
      _, status = run("trap 'exit 9' TERM; sleep 100 & wait", { timeout = 0.1, grace = 10 })
      assert.equal(9, status.code)
      local mark, script = stragglers()
      _, status = run(script .. "while :; do sleep " .. mark .. "; done", { timeout = 0.1, grace = 0.02 })
      assert.equal("KILL", status.signal)
      assert.equal(0, count(mark))
    end)

    it("by kill or close leaves nothing", function()
      for _, how in ipairs { "kill", "close" } do
        local mark, script = stragglers()
        local p = start(script .. "echo up; sleep " .. mark, { stream = true })
        read_until(p, "up\n")
        assert.is_true(sleepers(4, mark))
        p[how](p, how == "kill" and "KILL" or nil)
        if how == "kill" then
          while not p:status() do reactor.poll(1) end
          assert.equal("KILL", p:status().signal)
          p:close()
        end
        assert.is_true(sleepers(0, mark))
      end
      local p = start({ "sleep", "100" })
      p:kill("INT")
      assert.equal("INT", wait(p):status().signal)
      p:close()
    end)

    it("can't be put off by a signal to process 1", function()
      local _, status = run("kill -9 1; kill -STOP 1; kill -TERM 1; sleep 100")
      assert.equal("TERM", status.signal) -- passed on
    end)

    it("comes with ours, even by SIGKILL", function()
      local mark, script = stragglers()
      local path = os.tmpname()
      local file = assert(io.open(path, "w"))
      file:write(([[
        local exec, reactor = require "terret.exec", require "terret.reactor"
        local h = assert(exec.spawn { stream = true, argv = { %q, "--unshare-user", "--unshare-pid", "--ro-bind", "/",
          "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent", "--info-fd", "1", "sh", "-c",
          "echo ready >&2; exec sleep %s" } })
        local said = ""
        while not said:find "ready" do
          while not h:ready() do reactor.poll(1) end
          said = said .. assert(h:read(), said)
        end
        local ns = assert(exec.namespaces(math.tointeger(said:match('"child%%-pid": (%%d+)'))))
        local p = assert(exec.spawn { argv = { "sh", "-c", %q }, join = ns, stream = true })
        while not p:ready() do reactor.poll(1) end
        io.write(p:read()) io.flush()
        while true do reactor.poll(10) end]]):format(BWRAP, mark, script .. "echo up; sleep " .. mark))
      file:close()
      local exe, switch = host()
      local env = exec.environ()
      env.LUA_CPATH = package.cpath
      local p = assert(exec.spawn { argv = { exe, switch or path, switch and path }, env = env,
        stream = true })
      assert(read_until(p, "up\n"))
      assert.is_true(sleepers(5, mark)) -- the holder's is one of them
      p:kill("KILL")
      wait(p)
      while not p:status() do reactor.poll(1) end
      assert.is_true(sleepers(0, mark))
      p:close()
      os.remove(path)
    end)
  end)

  describe("a refusal", function()
    local function refused(more, want, code)
      local before = #assert(fs.list("/proc/self/fd"))
      local p, message, got = exec.spawn(options_of({ "true" }, more))
      assert.is_nil(p)
      assert.equal(want, message)
      assert.equal(code, got)
      assert.equal(before, #assert(fs.list("/proc/self/fd")))
    end

    it("names program, directory or filter", function()
      refused({ argv = { "no-such-program" } }, "exec 'no-such-program': No such file or directory", "not_found")
      refused({ argv = { "/etc/passwd" } }, "exec '/etc/passwd': Permission denied", "denied")
      refused({ cwd = "/no/such" }, "cwd '/no/such': No such file or directory", "not_found")
      refused({ seccomp = ("\255"):rep(8) }, "seccomp: Invalid argument", "io")
      refused({ landlock = 0 }, "landlock: File descriptor in bad state", "io")
      refused({ cgroups = { "/dev/null", "/no/such" } }, "cgroup '/no/such': No such file or directory", "not_found")
    end)

    it("of a directory that is hidden comes in spite of our rights", function()
      local mounts = { { "tmpfs", "/mnt", "mode=0000" } }
      refused({ cwd = "/mnt/", mounts = mounts }, "cwd '/mnt/': Permission denied", "denied")
    end)
  end)

  it("finds the program where the command is, not where we are", function()
    run("mkdir -p /tmp/bin; printf '#!/bin/sh\\necho inside\\n' > /tmp/bin/thing; chmod +x /tmp/bin/thing")
    assert.equal("inside\n", (run({ "thing" }, { env = { PATH = "/no:bin:/tmp/bin" } })))
    assert.is_nil((exec.spawn { argv = { "thing" }, env = { PATH = "/tmp/bin" } }))
  end)

  it("drops all rights without namespaces too, and still dies with us", function()
    local p = wait(assert(exec.spawn { argv = { "cat", "/proc/self/status" }, drop = true, seccomp = filter }))
    local out = p:output().head
    p:close()
    assert.equal("0000000000000000", out:match("CapEff:\t(%x+)"))
    assert.equal("1", out:match("NoNewPrivs:\t(%d)"))
    assert.equal("2", out:match("Seccomp:\t(%d)"))
  end)

  it("leaves us as we were", function()
    local me = fs.whoami()
    run("true")
    assert.equal(me.uid, fs.stat("/proc/self/mem").uid) -- else root: we would be closed to our own user
    assert.equal("0", slurp("/proc/self/status"):match("NoNewPrivs:\t(%d)"))
  end)

  it("holds as an ordinary user", function()
    if os.getenv(AGAIN) or fs.whoami().uid ~= 0 then return end
    local exe, switch = host()
    local argv = { "setpriv", "--reuid=" .. NOBODY, "--regid=" .. NOBODY, "--clear-groups" }
    local function readable(path)
      local p = wait(assert(exec.spawn { argv = { "setpriv", argv[2], argv[3], argv[4], "test", "-r", path } }))
      while not p:status() do reactor.poll(1) end
      return p:status().code == 0
    end
    -- A checkout below a closed home directory can't be read by anybody else: nothing to try there.
    local module = switch and exe or package.searchpath("terret.exec", package.cpath)
    for _, path in ipairs { exe, "tests/run.lua", module } do
      if not readable(path) then return end
    end
    argv[#argv + 1] = exe
    if switch then argv[#argv + 1] = switch end
    table.move({ "tests/run.lua", "-o", "TAP", "tests/spec/exec_join_spec.lua" }, 1, 4, #argv + 1, argv)
    local env = exec.environ()
    env[AGAIN], env.HOME, env.TMPDIR = "1", "/", "/tmp"
    local p = assert(exec.spawn { argv = argv, env = env, timeout = 60 })
    wait(p)
    while not p:status() do reactor.poll(1) end
    local out, status = p:output().head, p:status()
    p:close()
    assert.equal(0, status.code, out)
    assert.is_nil(out:find("not ok", 1, true), out)
  end)
end)

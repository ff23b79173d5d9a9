-- tests/spec/exec_spec.lua - mirrors runtime/exec.c.
local exec = require "terret.exec"
local reactor = require "terret.reactor"

local function wait(p)
  while not p:ready() do reactor.poll(1) end
  return p
end

-- Runs to the end; options may be a shell script.
local function run(options)
  if type(options) == "string" then options = { argv = { "sh", "-c", options } } end
  local p = wait(assert(exec.spawn(options)))
  local status, output = p:status(), p:output()
  p:close()
  return output.head .. output.tail, status, output
end

-- Turns the reactor until f() is true; false after a time that is long for any machine.
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

-- Gone, or a zombie that only waits for its parent.
local function is_dead(pid)
  local stat = slurp("/proc/" .. pid .. "/stat")
  return not stat or stat:match("%) (%a)") == "Z"
end

-- The first output of a stream process.
local function first_output(p)
  local data = ""
  while data == "" do
    wait(p)
    data = p:read()
  end
  return data
end

-- Our descriptors, without opening the directory (which would be one).
local function open_fds()
  local n = 0
  for i = 0, 255 do
    local file = io.open("/proc/self/fd/" .. i .. "/.", "r")
    local _, _, code = io.open("/proc/self/fd/" .. i .. "/x", "r")
    if file then file:close() end
    if file or code == 20 or code == 13 then n = n + 1 end
  end
  return n
end

-- The number of an open file, found by its content.
local function fd_of(content)
  for i = 3, 255 do
    if slurp("/proc/self/fd/" .. i) == content then return i end
  end
end

local function temp(content)
  local path = os.tmpname()
  if content then
    local file = assert(io.open(path, "wb"))
    file:write(content)
    file:close()
  else
    os.remove(path)
  end
  return path
end

-- This host's own command line, to start another one.
local function host()
  local words = {}
  for word in slurp("/proc/self/cmdline"):gmatch("[^%z]+") do words[#words + 1] = word end
  return words[1], words[2] == "--lua" and words[2] or nil
end

describe("terret.exec", function()
  local fds_before
  before_each(function()
    collectgarbage()
    fds_before = fds_before or open_fds()
  end)
  after_each(function()
    collectgarbage()
    assert.equal(fds_before, open_fds())
    local children = slurp("/proc/thread-self/children")
    if children then assert.equal("", children) end
  end)

  -- The first turn opens descriptors that stay (libcurl's).
  lazy_setup(function() reactor.poll(0) end)

  describe("a command", function()
    it("gives its output and code", function()
      local p = assert(exec.spawn { argv = { "sh", "-c", "echo out; echo err >&2; exit 3" } })
      assert.is_nil(p:status())
      assert.is_true(p:pid() > 1)
      wait(p)
      assert.same({ head = "out\nerr\n", tail = "", total = 8, elided = 0, blob_bytes = 0 },
        p:output())
      local status = p:status()
      assert.is_true(status.seconds > 0 and status.seconds < 5)
      status.seconds = nil
      assert.same({ code = 3, timed_out = false, killed = false }, status)
      p:close()
    end)

    it("tells the signal that ended it", function()
      for _, name in ipairs { "SEGV", "KILL", "ABRT", "TERM", "PIPE", "XFSZ" } do
        local _, status = run("ulimit -c 0; kill -" .. name .. " $$")
        assert.equal(name, status.signal)
        assert.is_nil(status.code)
      end
      local _, status = run("kill -40 $$")
      assert.equal("40", status.signal)
    end)

    it("keeps stderr apart when it should", function()
      local out, _, output = run { merge = false, err_head = 4,
        argv = { "sh", "-c", "echo out; echo error >&2" } }
      assert.equal("out\n", out)
      assert.equal("erro", output.stderr)
      assert.equal(4, output.total)
    end)

    it("gets /dev/null or bytes as stdin", function()
      assert.equal("/dev/null\n", run("readlink /proc/self/fd/0"))
      assert.equal("", run("cat"))
      assert.equal("", run { argv = { "cat" }, stdin = "" })
      local bytes = ("0123456789abcde\0"):rep(65536)
      assert.equal(bytes, run { argv = { "cat" }, stdin = bytes, head = #bytes })
      local _, status = run { argv = { "true" }, stdin = bytes } -- nobody reads it
      assert.equal(0, status.code)
    end)

    it("passes any bytes unchanged", function()
      local all = {}
      for i = 0, 255 do all[#all + 1] = string.char(i) end
      local bytes = table.concat(all)
      assert.equal(bytes, run { argv = { "cat" }, stdin = bytes })
    end)

    it("has exactly the given environment", function()
      local out = run { argv = { "/usr/bin/env" }, env = { A = "1", B = "x=y z", C = "" } }
      local lines = {}
      for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
      table.sort(lines)
      assert.same({ "A=1", "B=x=y z", "C=" }, lines)
      assert.equal("", run { argv = { "/usr/bin/env" }, env = {} })
      assert.equal(os.getenv("PATH") .. "\n", run("echo $PATH"))
    end)

    it("runs in its directory", function()
      assert.equal("/usr\n", run { argv = { "pwd" }, cwd = "/usr" })
      assert.equal("", run { argv = { "bin/env" }, cwd = "/usr", env = {} })
    end)

    it("is looked up in PATH of its environment", function()
      local dir = temp()
      assert(run { argv = { "mkdir", dir } })
      assert(run { stdin = "#!/bin/sh\necho mine\n",
        argv = { "sh", "-c", "cat > $0/tool; chmod +x $0/tool; echo > $0/plain; mkdir $0/folder", dir } })
      local env = { PATH = "/nowhere:" .. dir .. ":/bin" }
      assert.equal("mine\n", run { argv = { "tool" }, env = env })
      local code = select(3, exec.spawn { argv = { "plain" }, env = env })
      assert.equal("denied", code)
      code = select(3, exec.spawn { argv = { "folder" }, env = env })
      assert.equal("denied", code)
      for _, path in ipairs { "", ":", ".", "bin:.:" } do
        code = select(3, exec.spawn { argv = { "tool" }, env = { PATH = path }, cwd = dir })
        assert.equal("not_found", code)
      end
      run { argv = { "rm", "-r", dir } }
    end)

    it("leads a session without our signal settings", function()
      local out = run("cat /proc/$$/stat")
      local pid, session = out:match("^(%d+) %b() %a %d+ %d+ (%d+)")
      assert.equal(pid, session)
      out = run { argv = { "grep", "Sig[BI]", "/proc/self/status" } }
      assert.equal("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n", out)
    end)

    it("has its limits", function()
      local out = run { argv = { "cat", "/proc/self/limits" }, rlimits = {
        core = 0, nofile = 99, fsize = 4096, cpu = 7, as = 1 << 30, nproc = 5000 } }
      local function limit(name) return out:match("\nMax " .. name .. " +(%d+) +(%d+)") end
      assert.same({ "0", "0" }, { limit("core file size") })
      assert.same({ "99", "99" }, { limit("open files") })
      assert.same({ "4096", "4096" }, { limit("file size") })
      assert.same({ "7", "8" }, { limit("cpu time") })
      assert.same({ "1073741824", "1073741824" }, { limit("address space") })
      assert.same({ "5000", "5000" }, { limit("processes") })
      local path = temp ""
      local _, status = run { argv = { "sh", "-c", "exec head -c 9999 /dev/zero > $0", path },
        rlimits = { fsize = 4096 } }
      assert.equal("XFSZ", status.signal)
      os.remove(path)
    end)

    it("is one of many", function()
      local list = {}
      for i = 1, 64 do
        list[i] = assert(exec.spawn { argv = { "sh", "-c", "echo $0", tostring(i) } })
      end
      for i, p in ipairs(list) do
        assert.equal(i .. "\n", wait(p):output().head)
        assert.equal(0, p:status().code)
        p:close()
      end
    end)
  end)

  describe("descriptors", function()
    local list_fds = [[i=0; while [ $i -lt 128 ]; do
      [ -e /proc/$$/fd/$i ] && printf '%d ' $i; i=$((i+1)); done]]

    it("are three, whatever we have open", function()
      local files = {}
      for i = 1, 40 do files[i] = assert(io.open("/dev/null")) end -- without close-on-exec
      assert.equal("0 1 2 ", run(list_fds))
      for _, file in ipairs(files) do file:close() end
    end)

    it("are the named ones too, also crosswise", function()
      local paths = { temp "first", temp "second" }
      local a, b = io.open(paths[1]), io.open(paths[2])
      local x, y = fd_of "first", fd_of "second"
      local p = { argv = { "sh", "-c", list_fds }, fds = { [7] = x, [9] = x, [63] = y } }
      assert.equal("0 1 2 7 9 63 ", run(p))
      local script = ("cat <&%d; cat <&%d"):format(x, y)
      assert.equal("secondfirst", run { argv = { "sh", "-c", script }, fds = { [x] = y, [y] = x } })
      a:close()
      b:close()
      for _, path in ipairs(paths) do os.remove(path) end
    end)

    it("must exist", function()
      local p, message, code = exec.spawn { argv = { "true" }, fds = { [3] = 999999 } }
      assert.is_nil(p)
      assert.equal("fds: Bad file descriptor", message)
      assert.equal("io", code)
    end)

    it("can be closed by number", function()
      local path = temp "to close"
      local file = io.open(path)
      local fd = fd_of "to close"
      assert.is_true(exec.close(fd))
      assert.is_false(exec.close(fd))
      assert.is_nil(file:close())
      os.remove(path)
      assert.error_matches(function() exec.close(2) end, "above 2")
      assert.error_matches(function() exec.close(1 << 40) end, "above 2")
    end)
  end)

  describe("a refusal", function()
    local function refused(options, want_message, want_code)
      local p, message, code = exec.spawn(options)
      assert.is_nil(p)
      assert.equal(want_message, message)
      assert.equal(want_code, code)
    end

    it("names the program", function()
      refused({ argv = { "no-such-program" } },
        "exec 'no-such-program': No such file or directory", "not_found")
      refused({ argv = { "/no/such" } }, "exec '/no/such': No such file or directory", "not_found")
      refused({ argv = { "" } }, "exec '': No such file or directory", "not_found")
      refused({ argv = { "/dev/null" } }, "exec '/dev/null': Permission denied", "denied")
      refused({ argv = { "/dev/null/x" } }, "exec '/dev/null/x': Not a directory", "not_directory")
      local long = "/" .. ("x"):rep(5000)
      assert.equal("name_too_long", select(3, exec.spawn { argv = { long } }))
      assert.equal("not_found", select(3, exec.spawn { argv = { long:sub(2) } }))
    end)

    it("names the directory", function()
      refused({ argv = { "true" }, cwd = "/no/such" },
        "cwd '/no/such': No such file or directory", "not_found")
      refused({ argv = { "true" }, cwd = "/dev/null" },
        "cwd '/dev/null': Not a directory", "not_directory")
    end)

    it("is told for too many arguments", function()
      refused({ argv = { "true", ("x"):rep(3 << 20) } },
        "exec 'true': Argument list too long", "too_large")
    end)
  end)

  it("raises on wrong arguments", function()
    local cases = {
      { "no table", "table expected" },
      { {}, "'argv' must be a list" },
      { { argv = "true" }, "'argv' must be a list" },
      { { argv = {} }, "'argv' is empty" },
      { { argv = { "a", 2 } }, "each of 'argv' must be a string" },
      { { argv = { "a\0b" } }, "each of 'argv' holds a NUL" },
      { { argv = { "true" }, timout = 3 }, "unknown option 'timout'" },
      { { argv = { "true" }, env = "x" }, "'env' must be a table" },
      { { argv = { "true" }, env = { ["A=B"] = "x" } }, "empty or holds '='" },
      { { argv = { "true" }, env = { [""] = "x" } }, "empty or holds '='" },
      { { argv = { "true" }, env = { ["A\0"] = "x" } }, "name of 'env' holds a NUL" },
      { { argv = { "true" }, env = { A = "x\0y" } }, "value of 'env' holds a NUL" },
      { { argv = { "true" }, env = { A = 1 } }, "value of 'env' must be a string" },
      { { argv = { "true" }, env = { "x" } }, "name of 'env' must be a string" },
      { { argv = { "true" }, cwd = "a\0b" }, "'cwd' holds a NUL" },
      { { argv = { "true" }, blob = "a\0b" }, "'blob' holds a NUL" },
      { { argv = { "true" }, fds = 3 }, "'fds' must be a table" },
      { { argv = { "true" }, fds = { [2] = 1 } }, "keys from 3 to 63" },
      { { argv = { "true" }, fds = { [64] = 1 } }, "keys from 3 to 63" },
      { { argv = { "true" }, fds = { [3] = -1 } }, "no descriptor" },
      { { argv = { "true" }, fds = { [3] = "1" } }, "no descriptor" },
      { { argv = { "true" }, rlimits = { cores = 1 } }, "unknown option 'cores'" },
      { { argv = { "true" }, rlimits = { core = -1 } }, "'core' must be an integer" },
      { { argv = { "true" }, rlimits = 1 }, "'rlimits' must be a table" },
      { { argv = { "true" }, head = -1 }, "'head' must be an integer" },
      { { argv = { "true" }, timeout = -1 }, "'timeout' must be a number" },
      { { argv = { "true" }, timeout = 0 / 0 }, "'timeout' must be a number" },
      { { argv = { "true" }, merge = 1 }, "'merge' must be a boolean" },
    }
    for _, case in ipairs(cases) do assert.error_matches(function() exec.spawn(case[1]) end, case[2]) end
  end)

  describe("output", function()
    it("keeps head and tail at every size", function()
      local text = "abcdefghijkl"
      for n = 0, #text do
        local _, _, output = run { argv = { "cat" }, stdin = text:sub(1, n), head = 3, tail = 4 }
        assert.equal(text:sub(1, math.min(n, 3)), output.head)
        assert.equal(n > 3 and text:sub(math.max(4, n - 3), n) or "", output.tail)
        assert.equal(n, output.total)
        assert.equal(math.max(0, n - 7), output.elided)
      end
      local _, _, output = run { argv = { "echo", "abc" }, head = 0, tail = 0 }
      assert.same({ head = "", tail = "", total = 4, elided = 4, blob_bytes = 0 }, output)
    end)

    it("goes to the blob when it is longer than both", function()
      local path = temp()
      local _, _, output = run { argv = { "cat" }, stdin = "12345678", head = 4, tail = 4, blob = path }
      assert.is_nil(output.blob)
      assert.is_nil(slurp(path))
      _, _, output = run { argv = { "sh", "-c", "echo 1234567; echo 89" }, head = 4, tail = 4, blob = path }
      assert.same({ head = "1234", tail = "\n89\n", total = 11, elided = 3, blob = path,
        blob_bytes = 11 }, output)
      assert.equal("1234567\n89\n", slurp(path))
      assert.equal("600\n", run { argv = { "stat", "-c", "%a", path } })
      os.remove(path)
    end)

    it("of megabytes costs little and is whole in the blob", function()
      local path = temp()
      local _, status, output = run { argv = { "seq", "7000000" }, blob = path }
      assert.equal(0, status.code)
      assert.equal(54888896, output.total)
      assert.equal(output.total, output.blob_bytes)
      assert.equal(output.total - 2 * 65536, output.elided)
      assert.equal("1\n2\n3\n", output.head:sub(1, 6))
      assert.equal("\n7000000\n", output.tail:sub(-9))
      assert.equal(65536, #output.tail)
      local same, cmp = run { argv = { "sh", "-c", "seq 7000000 | cmp - $0", path } }
      assert.equal("", same)
      assert.equal(0, cmp.code)
      os.remove(path)
    end)

    it("stops filling the blob at its limit", function()
      for max = 0, 12 do
        local path = temp()
        local _, _, output = run { argv = { "echo", "1234567890" }, head = 2, tail = 3, blob = path,
          blob_max = max }
        assert.equal(("1234567890\n"):sub(1, max), slurp(path))
        assert.equal(math.min(max, 11), output.blob_bytes)
        assert.equal(max < 11 and "cut at the limit of " .. max .. " bytes" or nil, output.blob_error)
        assert.equal("890\n", "8" .. output.tail)
        os.remove(path)
      end
    end)

    it("survives a blob that can't be written", function()
      local path = temp "there"
      local function error_of(blob)
        local _, status, output = run { argv = { "seq", "1000" }, head = 9, tail = 9, blob = blob }
        assert.equal(0, status.code)
        assert.equal(3893, output.total)
        assert.is_nil(output.blob)
        return output.blob_error
      end
      assert.equal("File exists", error_of(path))
      assert.equal("there", slurp(path))
      assert.equal("No such file or directory", error_of("/no/such/file"))
      run { argv = { "ln", "-sf", "/no/such", path } }
      assert.equal("File exists", error_of(path))
      os.remove(path)
    end)

    it("streams, and makes a fast child wait", function()
      local p = assert(exec.spawn { argv = { "head", "-c", "4000000", "/dev/zero" }, stream = true })
      -- More than a full pipe (64 KiB) beyond 1 MiB can only have been written when we took 1 MiB.
      local io_file, written = "/proc/" .. p:pid() .. "/io", 0
      while written < (1 << 20) + (1 << 16) do
        reactor.poll(0.01)
        written = tonumber(slurp(io_file):match("wchar: (%d+)"))
      end
      for _ = 1, 5 do reactor.poll(0.01) end
      assert.is_nil(p:status())
      local sum, most = 0, 0
      while true do
        local data = wait(p):read()
        if not data then break end
        sum, most = sum + #data, math.max(most, #data)
      end
      assert.equal(4000000, sum)
      assert.is_true(most >= 1 << 20 and most < 3 << 20)
      assert.equal(0, p:status().code)
      assert.is_nil(p:read())
      p:close()
    end)

    it("streams before the end", function()
      local p = assert(exec.spawn { argv = { "sh", "-c", "echo a; exec sleep 100" }, stream = true })
      assert.equal("a\n", first_output(p))
      assert.equal("", p:read())
      assert.is_false(p:ready())
      p:kill("KILL")
      wait(p)
      assert.is_nil(p:read())
      assert.equal("a\n", p:output().head)
      p:close()
    end)

    it("of a command that closed its output does not end it", function()
      local p = assert(exec.spawn { argv = { "sh", "-c", "exec >&- 2>&-; exec sleep 100" },
        stream = true })
      for _ = 1, 10 do reactor.poll(0.001) end
      assert.is_false(p:ready())
      assert.equal("", p:read())
      p:close()
    end)
  end)

  describe("the end", function()
    it("comes with the main process, and the group goes with it", function()
      local start = reactor.now()
      local out, status = run("sleep 100 & echo $!")
      assert.is_true(reactor.now() - start < 10)
      assert.equal(0, status.code)
      assert.is_true(eventually(function() return is_dead(out:match("%d+")) end))
    end)

    it("is not delayed by a process that left the group and keeps the pipe", function()
      local path = temp ""
      local _, status = run { argv = { "sh", "-c",
        "setsid sh -c 'echo $$ > $0; exec yes' $0 & until [ -s $0 ]; do :; done; exit 5", path } }
      assert.equal(5, status.code)
      local pid = slurp(path):match("%d+")
      run { argv = { "kill", "-KILL", pid } }
      assert.is_true(eventually(function() return is_dead(pid) end))
      os.remove(path)
    end)

    it("by time-out is TERM first", function()
      local _, status = run { argv = { "sleep", "100" }, timeout = 0.01 }
      assert.equal("TERM", status.signal)
      assert.is_true(status.timed_out)
      assert.is_false(status.killed)
      _, status = run { argv = { "sh", "-c", "trap 'echo bye; exit 7' TERM; sleep 100 & wait" },
        timeout = 0.1, grace = 10 }
      assert.equal(7, status.code)
      assert.is_true(status.timed_out)
    end)

    local stubborn = "trap '' TERM INT; echo up; while :; do sleep 100; done"

    it("by time-out is KILL after the grace", function()
      local _, status = run { argv = { "sh", "-c", stubborn }, timeout = 0.1, grace = 0.02 }
      assert.equal("KILL", status.signal)
      assert.is_true(status.timed_out)
      assert.is_true(status.seconds >= 0.12)
    end)

    it("by kill is KILL after the grace", function()
      local p = assert(exec.spawn { argv = { "sh", "-c", stubborn }, stream = true, grace = 0.02 })
      first_output(p)
      p:kill("INT")
      assert.is_true(eventually(function()
        p:kill() -- a further one gives it no more time
        p:read()
        return p:status()
      end))
      local status = p:status()
      assert.equal("KILL", status.signal)
      assert.is_true(status.killed)
      assert.is_false(status.timed_out)
      p:kill() -- too late, no error
      p:close()
    end)

    it("by kill with a signal's name", function()
      for _, name in ipairs { "TERM", "INT", "KILL" } do
        local p = assert(exec.spawn { argv = { "sleep", "100" } })
        p:kill(name)
        assert.equal(name, wait(p):status().signal)
        assert.error_matches(function() p:kill("NOPE") end, "invalid option")
        p:close()
      end
    end)

    it("still takes what is in the pipe", function()
      local p = assert(exec.spawn { argv = { "yes" }, stream = true })
      local function blocked() return slurp("/proc/" .. p:pid() .. "/stat"):match("%) (%a)") == "S" end
      assert.is_true(eventually(function() return p:output().total >= 1 << 20 end))
      assert.is_true(eventually(blocked)) -- nobody reads, so the pipe is full
      local before = p:output().total
      p:kill("KILL")
      assert.is_true(eventually(function() return p:status() end))
      assert.is_true(p:output().total >= before + 4096)
      assert.equal(p:output().total, #p:read())
      p:close()
    end)

    it("by a time-out while it waits for a reader", function()
      local p = assert(exec.spawn { argv = { "yes" }, stream = true, timeout = 0.05 })
      while not p:status() do reactor.poll(1) end
      assert.equal("TERM", p:status().signal)
      p:close()
    end)

    it("by close or by the collector leaves nothing", function()
      local p = assert(exec.spawn { argv = { "sleep", "100" } })
      local pid = p:pid()
      p:close()
      p:close()
      assert.is_nil(slurp("/proc/" .. pid .. "/stat"))
      assert.is_true(p:ready())
      for _, method in ipairs { "status", "output", "read", "kill", "pid" } do
        assert.error_matches(function() p[method](p) end, "the process is closed")
      end
      assert.matches("closed", tostring(p))

      pid = assert(exec.spawn { argv = { "sleep", "100" } }):pid()
      collectgarbage()
      collectgarbage()
      assert.is_nil(slurp("/proc/" .. pid .. "/stat"))
    end)

    it("comes with ours, even by SIGKILL", function()
      local exe, switch = host()
      local path = temp [[
        local exec, reactor = require "terret.exec", require "terret.reactor"
        local p = assert(exec.spawn { argv = { "sleep", "100" } })
        io.write(p:pid(), "\n")
        io.flush()
        while not p:ready() do reactor.poll(10) end]]
      local argv = switch and { exe, switch, path } or { exe, path }
      local env = exec.environ()
      env.LUA_CPATH = package.cpath
      local p = assert(exec.spawn { argv = argv, env = env, stream = true })
      local pid = first_output(p):match("^%d+")
      assert.is_false(is_dead(pid))
      p:kill("KILL")
      wait(p)
      assert.equal("KILL", p:status().signal)
      assert.is_true(eventually(function() return is_dead(pid) end))
      p:close()
      os.remove(path)
    end)
  end)

  it("knows the environment", function()
    local env = exec.environ()
    assert.equal(os.getenv("PATH"), env.PATH)
    assert.is_nil(env[""])
  end)
end)

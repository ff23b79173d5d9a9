-- terret.sandbox: picking a backend, and what spawn and finish promise whatever the backend.

local fs = require "terret.fs"
local sandbox = require "terret.sandbox"
local task = require "terret.task"

describe("sandbox", function()
  local base, p

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/sandbox-")))
    assert(fs.mkdir(base .. "/home/p", { parents = true }))
    assert(fs.mkdir(base .. "/tmp"))
    p = assert(sandbox.policy.new { project = base .. "/home/p", home = base .. "/home", tmp = base .. "/tmp" })
  end)
  after_each(function() assert(fs.remove(base, { recursive = true })) end)

  -- A backend for this test, gone after it.
  local function with_backend(name, backend, f)
    package.loaded["terret.sandbox." .. name] = backend
    local ok, err = pcall(f)
    package.loaded["terret.sandbox." .. name] = nil
    if not ok then error(err, 0) end
  end

  local function plain(extra)
    local backend = { name = "plain", available = function() return true end,
      wrap = function(_, argv, env) return { argv = argv, env = env } end }
    for k, v in pairs(extra or {}) do backend[k] = v end
    return backend
  end

  it("lists backends with their reasons", function()
    local seen = {}
    for _, b in ipairs(sandbox.backends()) do
      seen[b.name] = b
      assert.is_boolean(b.ok)
      if not b.ok then assert.is_string(b.why) end
    end
    assert.is_true(seen.none.ok)
    assert.is_table(seen.bubblewrap)
    assert.is_table(seen.seatbelt)
  end)

  describe("pick", function()
    it("takes a backend by name", function()
      assert.equal("none", assert(sandbox.pick("none")).name)
    end)

    it("refuses what is not there", function()
      for _, name in ipairs { "nope", "../none", "", "a.b" } do
        local backend, message, code = sandbox.pick(name)
        assert.is_nil(backend)
        assert.is_string(message)
        assert.equal("no_sandbox", code)
      end
    end)

    it("refuses one that does not work, returns rubbish or raises, with the reason", function()
      with_backend("broken", plain { available = function() return false, "tired" end }, function()
        local backend, message, code = sandbox.pick("broken")
        assert.is_nil(backend)
        assert.matches("tired", message, 1, true)
        assert.equal("no_sandbox", code)
      end)
      with_backend("broken", plain { available = function() error("boom") end }, function()
        assert.matches("boom", select(2, sandbox.pick("broken")), 1, true)
      end)
      with_backend("broken", { name = "broken" }, function()
        assert.matches("available and wrap", select(2, sandbox.pick("broken")), 1, true)
      end)
    end)

    it("never takes none by itself", function()
      local function no() return false, "not here" end
      with_backend("bubblewrap", plain { available = no }, function()
        with_backend("landlock", plain { available = no }, function()
          with_backend("seatbelt", plain { available = no }, function()
            local backend, message, code = sandbox.pick("auto")
            assert.is_nil(backend)
            assert.matches("bubblewrap: not here", message, 1, true)
            assert.equal("no_sandbox", code)
          end)
        end)
      end)
    end)
  end)

  describe("spawn", function()
    local function run(backend, argv, options)
      local process = assert(sandbox.spawn(backend, p, argv, options))
      task.await(process)
      local out, status = process:output().head, process:status()
      process:close()
      return out, status, process
    end

    it("passes the backend's refusal on", function()
      local process, message, code = sandbox.spawn(plain { wrap = function() return nil, "no", "no_sandbox" end }, p,
        { "true" })
      assert.same({ nil, "no", "no_sandbox" }, { process, message, code })
    end)

    it("gives the backend a filtered environment and the directory", function()
      local seen
      local backend = plain { wrap = function(_, argv, env, cwd)
        seen = { env = env, cwd = cwd }
        return { argv = argv, env = env }
      end }
      run(backend, { "/bin/true" }, { cwd = "/somewhere" })
      assert.equal("/somewhere", seen.cwd)
      assert.equal("/tmp", seen.env.TMPDIR)
      assert.equal(base .. "/home", seen.env.HOME)
    end)

    it("raises on options that are the backend's", function()
      for _, key in ipairs { "argv", "env", "rlimits" } do
        assert.error_matches(function() sandbox.spawn(plain(), p, { "true" }, { [key] = {} }) end, key)
      end
    end)

    it("finishes once", function()
      local count = 0
      local backend = plain { wrap = function(_, argv, env)
        return { argv = argv, env = env, after = function()
          count = count + 1
          return { "note" }
        end }
      end }
      local _, _, process = run(backend, { "/bin/true" })
      assert.same({ "note" }, sandbox.finish(process))
      assert.same({}, sandbox.finish(process))
      assert.equal(1, count)
    end)

    it("without a sandbox starts in the project, with its own temporary directory", function()
      local out = run(assert(sandbox.pick("none")), { "/bin/sh", "-c", "pwd; echo $TMPDIR" })
      assert.equal(base .. "/home/p\n" .. base .. "/tmp\n", out)
    end)
  end)

  describe("terret sandbox", function()
    local cli = require "terret.cli.sandbox"

    -- Runs the subcommand in the project; what it wrote to io.stdout and io.stderr is not ours to
    -- catch here, so the command leaves its traces in files.
    local function run(opts, args)
      local here = fs.cwd()
      local stderr, written = io.stderr, {}
      rawset(io, "stderr", { write = function(_, ...) written[#written + 1] = table.concat { ... } end })
      assert(fs.chdir(base .. "/home/p"))
      local ok, status = pcall(cli.run, opts, args, {})
      assert(fs.chdir(here))
      rawset(io, "stderr", stderr)
      assert(ok, status)
      return status, table.concat(written)
    end

    it("has the statuses of its contract", function()
      local o = { backend = "none" }
      assert.equal(0, (run(o, { "/bin/true" })))
      assert.equal(3, (run(o, { "/bin/sh", "-c", "exit 3" })))
      assert.equal(137, (run(o, { "/bin/sh", "-c", "kill -9 $$" })))
      assert.equal(127, (run(o, { "/no/such/program" })))
      assert.equal(126, (run(o, { "/etc/passwd" })))
      assert.equal(124, (run({ backend = "none", timeout = "0.05" }, { "/bin/sleep", "9" })))
    end)

    it("fails with 125 and says why", function()
      for _, case in ipairs {
        { { backend = "nope" }, { "true" }, "nope" }, { { backend = "none" }, {}, "usage" },
        { { timeout = "x" }, { "true" }, "usage" }, { { timeout = "-1" }, { "true" }, "usage" },
        { { rw = { "missing" } }, { "true" }, "missing" },
      } do
        local status, said = run(case[1], case[2])
        assert.equal(125, status)
        assert.matches(case[3], said, 1, true)
      end
    end)

    it("uses the directories that --rw names, relative ones too", function()
      assert(fs.mkdir(base .. "/home/other"))
      local works = sandbox.pick("auto")
      if not works then return pending("no sandbox works here") end
      assert.equal(0, (run({ rw = { "../other" } }, { "/bin/sh", "-c", "echo x > ../other/f" })))
      assert.is_truthy(fs.stat(base .. "/home/other/f"))
    end)
  end)
end)

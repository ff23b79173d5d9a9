-- tests/spec/tty_spec.lua - mirrors runtime/tty.c.  What needs a terminal runs in another host,
-- on the pseudo terminal of script(1); tests/unit/test_tty.c looks at the details.
local exec = require "terret.exec"
local reactor = require "terret.reactor"
local tty = require "terret.tty"

-- This host's own command line, to start another one.
local function host()
  local file = assert(io.open("/proc/self/cmdline"))
  local words = {}
  for word in file:read("a"):gmatch("[^%z]+") do words[#words + 1] = word end
  file:close()
  return words[1], words[2] == "--lua" and words[2] or nil
end

local function write_temp(text)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
  return path
end

-- Runs Lua text in another host; with a terminal if stdin (what is typed) is given.
local function run_host(text, stdin)
  local exe, switch = host()
  local path = write_temp(text)
  local argv = { exe, path }
  if switch then table.insert(argv, 2, switch) end
  if stdin then argv = { "script", "-qec", table.concat(argv, " "), "/dev/null" } end
  local env = exec.environ()
  env.LUA_CPATH, env.TERM, env.COLUMNS, env.LINES = package.cpath, "xterm", nil, nil
  local p <close> = assert(exec.spawn { argv = argv, env = env, stdin = stdin, timeout = 20 })
  while not p:ready() do reactor.poll(1) end
  os.remove(path)
  return p:status().code, p:output().head
end

local function has_script()
  local p = exec.spawn { argv = { "script", "--version" } }
  if p then p:close() end
  return p ~= nil
end

describe("terret.tty", function()
  it("tells a terminal from something else", function()
    assert.equal("boolean", type(tty.isatty(1)))
    for _, fd in ipairs { -1, 3, 1 << 40 } do
      assert.error_matches(function() tty.isatty(fd) end, "0, 1 or 2 expected")
    end
    local code, out = run_host [[
      local tty = require "terret.tty"
      print(tty.isatty(0), tty.isatty(1), tty.isatty(2))]]
    assert.equal(0, code)
    assert.equal("false\tfalse\tfalse\n", out)
  end)

  it("says when there is none", function()
    local code, out = run_host [[print(require "terret.tty".open())]]
    assert.equal(0, code)
    assert.equal("nil\tno controlling terminal\tno_terminal\n", out)
  end)

  it("is waited for with the reactor and given back", function()
    if not has_script() then return pending("needs script(1)") end
    local code, out = run_host([[
      local reactor, tty = require "terret.reactor", require "terret.tty"
      local function stty()
        local p = io.popen("stty -a </dev/tty")
        local text = p:read("a")
        p:close()
        return text
      end
      local before = stty()
      do
        local t <close> = assert(tty.open())
        assert(t:raw(true))
        local raw = stty()
        assert(raw:find("%-icanon") and raw:find("%-echo%s") and raw:find("%-isig"), raw)
        assert(not raw:find("%-opost"), raw)
        local got = ""
        while not got:find("k") do
          local list = reactor.poll(10)
          if #list > 0 then
            assert(list[1] == t and t:ready())
            got = got .. t:read()
          end
        end
        assert(t:write("<" .. tostring(tty.isatty(0)) .. ">"))
        local columns, rows = t:size()
        assert(columns > 0 and rows > 0)
      end
      assert(before == stty())]], "k")
    assert.matches("<true>", out)
    assert.equal(0, code, out)
  end)

  it("is given back after an error that nobody caught", function()
    if not has_script() then return pending("needs script(1)") end
    local code, out = run_host([[
      local t = assert(require "terret.tty".open())
      t:raw()
      error("expected")]], "")
    assert.is_true(code ~= 0)
    assert.matches("expected", out)
    assert.matches("\27%[%?25h", out)
  end)
end)

-- tests/oom/exec.lua - each function of terret.exec once, for the harness that fails allocations.
local exec = require "terret.exec"
local reactor = require "terret.reactor"

local function wait(p)
  while not p:ready() do reactor.poll(1) end
end

exec.environ()
exec.close(250)

local blob = os.tmpname()
os.remove(blob)
do
  local _ <close> = setmetatable({}, { __close = function() os.remove(blob) end })
  local p <close> = assert(exec.spawn {
    argv = { "sh", "-c", "cat; echo error >&2; exit 3" },
    env = { A = "1", PATH = "/usr/bin:/bin" },
    cwd = "/", stdin = "some input\n", fds = { [5] = 1 },
    head = 4, tail = 4, err_head = 4, blob = blob, blob_max = 100,
    timeout = 60, grace = 1, merge = false, rlimits = { core = 0, nofile = 100 },
  })
  wait(p)
  p:status()
  p:output()
  p:pid()
  tostring(p)
end

do
  local p <close> = assert(exec.spawn { argv = { "sh", "-c", "echo out; exec sleep 60" }, stream = true })
  wait(p)
  p:read()
  p:kill("KILL")
  wait(p)
  p:status()
  p:read()
end

exec.spawn { argv = { "no-such-program" } }
exec.spawn { argv = { "true" }, cwd = "/no/such" }
pcall(exec.spawn, { argv = {} })
pcall(exec.spawn, { argv = { "true" }, env = { [""] = "x" } })

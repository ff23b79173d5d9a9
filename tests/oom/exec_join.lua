-- tests/oom/exec_join.lua - terret.exec with all that confines a command, for the harness that fails
-- allocations.  Nothing to do where bwrap doesn't work.
local exec = require "terret.exec"
local reactor = require "terret.reactor"

local holder = exec.spawn { stream = true, argv = { "/usr/bin/bwrap", "--unshare-user", "--unshare-pid", "--ro-bind",
  "/", "/", "--dev", "/dev", "--proc", "/proc", "--die-with-parent", "--info-fd", "1", "/bin/sh", "-c",
  "echo ready >&2; exec sleep 60" } }
if not holder then return end
local _ <close> = holder
local said = ""
while not said:find "ready" do
  while not holder:ready() do reactor.poll(1) end
  local data = holder:read()
  if not data then return end
  said = said .. data
end
local join <close> = assert(exec.namespaces(math.tointeger(said:match('"child%-pid": (%d+)'))))
join:names()
exec.namespaces(0x7fffffff)
local p <close> = assert(exec.spawn { argv = { "sh", "-c", "exit 3" }, join = join, cgroups = { "/dev/null" },
  mounts = { { "tmpfs", "/mnt", "mode=0755" }, { "remount-ro", "/mnt" }, { "ro-bind-try", "/no/such", "/mnt" } } })
while not p:ready() do reactor.poll(1) end
assert(p:status().code == 3)
exec.spawn { argv = { "no-such-program" }, join = join }

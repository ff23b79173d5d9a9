-- tests/oom/seccomp.lua - each function of terret.seccomp once, for the harness that fails allocations.
local seccomp = require "terret.seccomp"

seccomp.filter { action = "EPERM", foreign = "kill", rules = { "mount", "no_such_call",
  { "ioctl", arg = 1, equals = 0x5412 }, { "unshare", arg = 0, bits = 0x30000000 },
  { "socket", arg = 0, except = { 1, 2 }, action = "EAFNOSUPPORT" } } }
pcall(seccomp.filter, { rules = { "mount", {} } })

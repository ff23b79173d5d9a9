-- tests/oom/landlock.lua - each function of terret.landlock once, for the harness that fails allocations.
local landlock = require "terret.landlock"

landlock.abi()
local r <close> = landlock.ruleset { read = { "/usr", "/no/such" }, exec = { "/usr" }, write = { "/tmp" },
  ioctl = { "/dev/null" }, net = { bind = { 80 }, connect = { 443 } }, scoped = true, abi = 6 }
if r then r:fd() end
pcall(landlock.ruleset, { read = { "/usr", 3 } })
landlock.ruleset { read = { "/" .. ("x"):rep(300) } }

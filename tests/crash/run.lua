-- tests/crash/run.lua [KILLS] - the long form of `make test-crash`.  The short one is tests/integration/crash_spec.lua.
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = ("%s/?.lua;%s/../spec/?.lua;%s"):format(here, here, package.path)
local crash = require "crash"

local OPERATIONS = 10000
local kills = tonumber(arg[1]) or 1000
local seed = tonumber(arg[2]) or os.time()
local failed = false

local function report(name, complaint, words)
  failed = failed or complaint ~= nil
  print(("%s %s%s"):format(complaint and "not ok" or "ok", name, complaint and ": " .. complaint or words or ""))
end

local function range(from, to, step)
  local out = {}
  for n = from, to, step do out[#out + 1] = n end
  return out
end

local count, sum
local complaint
complaint, count = crash.full(range(0, 60000, 1500))
report("full disk", complaint, (": %d runs ended by it"):format(count))
complaint, count = crash.io_error(range(1, 40, 1))
report("I/O error", complaint, (": %d runs ended by it"):format(count))
report("read-only directory", crash.read_only())
complaint, sum = crash.kill(kills, { seed = seed, say = function(words) io.stderr:write("# ", words, "\n") end })
report(("SIGKILL, seed %d"):format(seed), complaint, (": %d kills in %d sessions, %d acknowledged records, %d effects")
  :format(sum.kills, sum.sessions, sum.acked, sum.effects))
local ok, err = pcall(require("support.walk").run, OPERATIONS, seed, { every = 4, length = 100, processes = true })
report(("random walk of %d operations, seed %d"):format(OPERATIONS, seed), not ok and tostring(err) or nil)
os.exit(failed and 1 or 0)

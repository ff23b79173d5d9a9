-- Every function of terret.log once; run with the k-th allocation failing.
local log = require "terret.log"

-- A fixed name: whatever fails, the last and successful round has cleaned up.
local name = (os.getenv "TMPDIR" or "/tmp") .. "/terret-oom-log"

local f = assert(io.open(name, "wb"))
f:write("one\ntorn")
f:close()

local l <close> = assert(log.open(name, { create = true, sync = "turn" }))
log.open(name) -- locked
l:append("two")
l:sync()
l:ready()
l:sync_error()
l:repaired()
l:size()
l:path()

local r <close> = log.read(name)
repeat local line = r:next() until not line
r:torn()
r:close()
l:close()
log.read(name .. ".none")
os.remove(name)
os.remove(name .. ".torn")

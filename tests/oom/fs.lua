-- Every function of terret.fs once; run with the k-th allocation failing.
local fs = require "terret.fs"

-- A fixed name: whatever fails, the last and successful round has cleaned up.
local dir = (os.getenv "TMPDIR" or "/tmp") .. "/terret-oom-fs"
fs.remove(dir, { recursive = true })
assert(fs.mkdir(dir))
local function path(name) return dir .. "/" .. name end

fs.mkdtemp(path "x")
fs.write(path "a/b", "text", { parents = true, sync = false, mode = 384 })
fs.write(path "a/b", ("x"):rep(3000), { sync = false })
fs.write(path "new", "text", { new = true, sync = false })
fs.read(path "a/b")
fs.read(path "a/b", { offset = 1, length = 2, max = 10 })
fs.read("/proc/self/status")
fs.read("/dev/null")
fs.stat(path "a/b", { follow = false })
fs.list(path "a")
fs.list(path "none")
fs.mkdir(path "c/d", { parents = true })
fs.rename(path "new", path "newer")
fs.realpath(path "a/../c")
assert(fs.chdir(assert(fs.cwd())))
fs.match("**/[a-z]*", "a/b")
fs.whoami()

local root <close> = fs.root(path "a")
root:write("c", "text", { sync = false })
root:read("c")
root:read("../c")
root:stat("c")
root:list(".")
root:mkdir("d")
root:close()
fs.root(path "none")
assert(fs.remove(dir, { recursive = true }))

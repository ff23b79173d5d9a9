-- terret.fs: what it reads, replaces, refuses; what a path beneath a root can't do.
local fs = require "terret.fs"

local tmp

local function path(name) return tmp .. "/" .. name end

-- Writes and reads by other means than the module under test.
local function put(name, data)
  local f = assert(io.open(path(name), "wb"))
  f:write(data)
  f:close()
  return path(name)
end

local function get(name)
  local f = io.open(path(name), "rb")
  if not f then return nil end
  local data = f:read("a")
  f:close()
  return data
end

local function sh(command, ...)
  assert(os.execute(("cd '%s' && " .. command):format(tmp, ...)))
end

local function lines(command)
  local p = assert(io.popen(("cd '%s' && { %s; } 2>&1"):format(tmp, command)))
  local out = p:read("a")
  p:close()
  return out
end

local function names(dir)
  local out = {}
  for i, e in ipairs(assert(fs.list(dir))) do out[i] = e.name end
  return out
end

-- Runs Lua text in a process of its own, after a shell's `before`; returns what it prints.
local function child(before, text)
  put("child.lua", text)
  local exe = assert(fs.realpath("/proc/self/exe"))
  local flag = exe:match("lua[%d.]*$") and "" or "--lua"
  return lines(("%s; LUA_CPATH='%s' exec '%s' %s child.lua"):format(before, package.cpath, exe, flag))
end

local function refused(code, ok, message, got)
  assert.is_nil(ok)
  assert.is_string(message)
  assert.equal(code, got)
  return message
end

-- A character device to attack: as root one of our own, since a bug would replace the real one.
local function device()
  if fs.whoami().uid ~= 0 then return "/dev/null" end
  if os.execute("mknod '" .. path "device" .. "' c 1 3 2>/dev/null") then return path "device" end
  sh "mkfifo device" -- no right to make devices: a FIFO is refused by the same words
  return path "device"
end

describe("terret.fs", function()
  before_each(function() tmp = assert(fs.mkdtemp("/tmp/terret-fs-")) end)
  after_each(function() os.execute("rm -rf '" .. tmp .. "'") end)

  describe("read", function()
    it("returns every byte and the file's data", function()
      local bytes = {}
      for i = 0, 255 do bytes[#bytes + 1] = string.char(i) end
      local data = table.concat(bytes)
      put("a", data)
      local got, info = fs.read(path "a")
      assert.equal(data, got)
      assert.equal("file", info.type)
      assert.equal(256, info.size)
      assert.equal(1, info.nlink)
      assert.is_true(math.abs(info.mtime - os.time()) < 10)
    end)

    it("reads empty and larger files", function()
      put("empty", "")
      assert.equal("", fs.read(path "empty"))
      local big = ("0123456789abcdef"):rep(20000)
      put("big", big)
      assert.is_true(big == fs.read(path "big"))
    end)

    it("reads a part", function()
      put("a", "0123456789")
      assert.equal("345", fs.read(path "a", { offset = 3, length = 3 }))
      assert.equal("89", fs.read(path "a", { offset = 8, length = 100 }))
      assert.equal("", fs.read(path "a", { offset = 10 }))
      assert.equal("", fs.read(path "a", { offset = math.maxinteger // 2 }))
      assert.equal("", fs.read(path "a", { length = 0 }))
    end)

    it("refuses more than max, not a byte less", function()
      put("a", "0123456789")
      assert.equal("0123456789", fs.read(path "a", { max = 10 }))
      refused("too_large", fs.read(path "a", { max = 9 }))
      assert.equal("012345678", fs.read(path "a", { max = 9, length = 9 }))
      assert.equal("", fs.read(path "a", { max = 0, length = 0 }))
    end)

    it("reads files that claim to be empty, and caps them too", function()
      local data, info = fs.read("/proc/self/status")
      assert.equal(0, info.size)
      assert.truthy(data:find("Pid:", 1, true))
      refused("too_large", fs.read("/proc/self/status", { max = 20 }))
      assert.equal(20, #fs.read("/proc/self/status", { length = 20 }))
    end)

    it("follows links and names what is missing", function()
      put("a", "text")
      sh "ln -s a link; ln -s loop loop; ln -s nowhere dangling"
      assert.equal("text", fs.read(path "link"))
      local message = refused("not_found", fs.read(path "none"))
      assert.equal(("read '%s': No such file or directory"):format(path "none"), message)
      refused("not_found", fs.read(path "dangling"))
      refused("not_found", fs.read(""))
      refused("not_directory", fs.read(path "a/b"))
      refused("link_loop", fs.read(path "loop"))
      refused("name_too_long", fs.read(path(("n"):rep(300))))
    end)

    it("refuses what is no regular file, without waiting for it", function()
      sh "mkfifo pipe; mkdir dir; ln -s pipe link"
      assert.truthy(refused("not_regular", fs.read(path "pipe")):find("is a FIFO", 1, true))
      refused("not_regular", fs.read(path "link"))
      assert.truthy(refused("not_regular", fs.read("/dev/null")):find("character device", 1, true))
      refused("not_regular", fs.read("/dev/zero"))
      assert.truthy(refused("is_directory", fs.read(path "dir")):find("is a directory", 1, true))
    end)

    it("raises on wrong arguments", function()
      assert.error_matches(function() fs.read("a\0b") end, "NUL")
      assert.error_matches(function() fs.read({}) end, "string expected")
      assert.error_matches(function() fs.read("a", { limit = 1 }) end, "unknown option 'limit'")
      assert.error_matches(function() fs.read("a", { offset = -1 }) end, "offset")
      assert.error_matches(function() fs.read("a", { max = -1 }) end, "max")
    end)
  end)

  describe("write", function()
    it("makes and replaces, and leaves nothing else behind", function()
      assert.is_true(fs.write(path "a", "one\0two"))
      assert.equal("one\0two", get "a")
      assert.is_true(fs.write(path "a", "", { sync = false }))
      assert.equal("", get "a")
      assert.same({ "a" }, names(tmp))
    end)

    it("gives a new file the mode of the umask, or the one asked for", function()
      local out = child("umask 027", [[
        local fs = require "terret.fs"
        assert(fs.write("new", "x"))
        assert(fs.write("open", "x", {mode = 438}))
        print(("%o %o"):format(fs.stat("new").mode, fs.stat("open").mode))]])
      assert.equal("640 666\n", out)
    end)

    it("keeps mode and owner, drops set-user-id", function()
      put("a", "old")
      sh "chmod 0751 a"
      local owner = fs.whoami().uid == 0
      if owner then sh "chown 12345:54321 a" end
      assert.is_true(fs.write(path "a", "new", { mode = 384 })) -- mode is for new files
      assert.equal(tonumber("751", 8), fs.stat(path "a").mode)
      if owner then assert.equal("12345:54321\n", lines "stat -c %u:%g a") end
      sh "chmod 6755 a"
      assert.is_true(fs.write(path "a", "newer"))
      assert.equal(tonumber("755", 8), fs.stat(path "a").mode)
    end)

    it("replaces atomically: a reader keeps the old file", function()
      put("a", "old content")
      local f = assert(io.open(path "a"))
      local before = fs.stat(path "a").inode
      assert.is_true(fs.write(path "a", "new"))
      assert.equal("old content", f:read("a"))
      f:close()
      assert.not_equal(before, fs.stat(path "a").inode)
    end)

    it("replaces the target of a link, not the link", function()
      sh "mkdir d; printf old > d/target; ln -s d/target one; ln -s one two; ln -s $PWD/two three"
      assert.is_true(fs.write(path "three", "new"))
      assert.equal("new", get "d/target")
      assert.equal("link", fs.stat(path "three", { follow = false }).type)
      assert.equal("link", fs.stat(path "one", { follow = false }).type)
      sh "ln -s d/fresh dangling; ln -s loop loop"
      assert.is_true(fs.write(path "dangling", "made"))
      assert.equal("made", get "d/fresh")
      refused("link_loop", fs.write(path "loop", "x"))
    end)

    it("writes a file with several links in place", function()
      for _, text in ipairs { "longer than the old content", "short", "" } do
        put("a", "old content")
        sh "ln -f a b; chmod 600 a"
        local inode = fs.stat(path "a").inode
        assert.is_true(fs.write(path "b", text))
        assert.equal(text, get "a")
        assert.equal(inode, fs.stat(path "b").inode)
        assert.equal(2, fs.stat(path "b").nlink)
      end
    end)

    it("new refuses whatever is there", function()
      assert.is_true(fs.write(path "a", "one", { new = true }))
      refused("exists", fs.write(path "a", "two", { new = true }))
      assert.equal("one", get "a")
      sh "ln -s nowhere dangling; mkdir d"
      refused("exists", fs.write(path "dangling", "x", { new = true }))
      refused("exists", fs.write(path "d", "x", { new = true }))
      assert.is_nil(get "nowhere")
      assert.same({ "a", "d", "dangling" }, names(tmp))
    end)

    it("makes parents when asked", function()
      refused("not_found", fs.write(path "x/y/z", "1"))
      assert.is_true(fs.write(path "x//y/./z", "1", { parents = true }))
      assert.equal("1", get "x/y/z")
      assert.is_true(fs.write(path "x/y/w", "2", { parents = true }))
      refused("not_directory", fs.write(path "x/y/z/deeper", "3", { parents = true }))
    end)

    it("replaces regular files only", function()
      local dev = device()
      local before = lines("stat -c %F:%t:%T '" .. dev .. "'")
      sh("mkfifo pipe; mkdir dir; ln -s pipe link; ln -s dir dirlink; ln -s '" .. dev .. "' null")
      for _, name in ipairs { "pipe", "link", "null" } do
        refused("not_regular", fs.write(path(name), "x"))
      end
      for _, name in ipairs { "dir", "dir/", "dirlink", ".", "dir/.." } do
        refused("is_directory", fs.write(path(name), "x"))
      end
      refused("is_directory", fs.write(path "missing/", "x", { parents = true }))
      refused("not_found", fs.write("", "x"))
      refused("not_regular", fs.write(dev, "x"))
      refused("not_regular", fs.write(dev, "x", { parents = true }))
      assert.equal(before, lines("stat -c %F:%t:%T '" .. dev .. "'"))
      assert.equal("fifo\n", lines "stat -c %F pipe")
    end)

    it("takes names of every length", function()
      for _, n in ipairs { 1, 240, 241, 242, 255 } do
        local name = ("n"):rep(n)
        assert.is_true(fs.write(path(name), "x"))
        assert.equal("x", get(name))
      end
      assert.is_true(fs.write(path(("ü"):rep(127)), "x"))
      refused("name_too_long", fs.write(path(("n"):rep(256)), "x"))
    end)

    -- The limit stands for a full disk: the kernel refuses what lies beyond it.
    it("leaves the old content when the new one doesn't fit", function()
      put("a", ("old\n"):rep(100))
      put("b", ("old\n"):rep(1500))
      sh "ln b b2; mkdir d"
      local out = child([[trap "" XFSZ; ulimit -f 8]], [[
        local fs = require "terret.fs"
        local big = ("x"):rep(100000)
        print(select(3, fs.write("a", big)), select(3, fs.write("b", big)),
          select(3, fs.write("d/new", big)), fs.write("a2", "fits"))]])
      assert.equal("too_large\ttoo_large\ttoo_large\ttrue\n", out)
      assert.equal(("old\n"):rep(100), get "a")
      assert.equal(("old\n"):rep(1500), get "b2")
      assert.same({}, names(path "d"))
      assert.same({ "a", "a2", "b", "b2", "child.lua", "d" }, names(tmp))
    end)

    it("raises on wrong arguments", function()
      assert.error(function() fs.write(path "a") end)
      assert.error_matches(function() fs.write(path "a\0", "x") end, "NUL")
      assert.error_matches(function() fs.write(path "a", "x", { mode = 4096 }) end, "mode")
      assert.error_matches(function() fs.write(path "a", "x", { fsync = true }) end, "unknown")
      assert.error_matches(function() fs.write(path "a", "x", { new = 1 }) end, "boolean")
      assert.same({}, names(tmp))
    end)
  end)

  describe("stat and list", function()
    it("know all types", function()
      put("file", "12345")
      sh "mkdir directory; mkfifo fifo; ln -s file link; chmod 640 file"
      local got = {}
      for _, e in ipairs(assert(fs.list(tmp))) do got[e.name] = e.type end
      assert.same({ file = "file", directory = "directory", fifo = "fifo", link = "link" }, got)
      for name, word in pairs(got) do
        assert.equal(word, fs.stat(path(name), { follow = false }).type)
      end
      assert.equal("file", fs.stat(path "link").type)
      assert.equal("char_device", fs.stat("/dev/null").type)
      local info = fs.stat(path "file")
      assert.equal(5, info.size)
      assert.equal(tonumber("640", 8), info.mode)
      assert.equal(fs.whoami().uid, info.uid)
      assert.equal(lines "stat -c '%i %d %h' file", ("%d %d %d\n"):format(info.inode, info.dev, info.nlink))
    end)

    it("keeps the fraction of the time", function()
      sh "touch -d '2001-02-03 04:05:06.5 UTC' a"
      assert.equal(981173106.5, fs.stat(path "a").mtime)
    end)

    it("sorts by byte, and takes every name", function()
      local want = { "\1", " ", "-", ".hidden", "A", "Z", "a", "a\n", "b", "\xc3\xa4", "\xff" }
      for i = #want, 1, -1 do put(want[i], "") end
      assert.same(want, names(tmp))
    end)

    it("refuses what isn't there or no directory", function()
      put("a", "")
      sh "mkfifo pipe"
      refused("not_found", fs.list(path "none"))
      refused("not_found", fs.list(""))
      refused("not_directory", fs.list(path "a"))
      refused("not_directory", fs.list(path "pipe"))
      refused("not_found", fs.stat(path "none"))
      refused("not_found", fs.stat(""))
      assert.error_matches(function() fs.stat("a", { follows = true }) end, "unknown")
      assert.error_matches(function() fs.list("a\0") end, "NUL")
    end)

    it("lists an empty and a full directory", function()
      assert.same({}, fs.list(tmp))
      sh "for i in 1 2 3 4 5 6 7 8 9; do for j in 1 2 3 4 5 6 7 8 9 0; do : > $i$j; done; done"
      assert.equal(90, #fs.list(tmp))
    end)
  end)

  describe("mkdir", function()
    it("makes one, or all that is missing", function()
      assert.is_true(fs.mkdir(path "a"))
      refused("exists", fs.mkdir(path "a"))
      refused("not_found", fs.mkdir(path "x/y"))
      assert.is_true(fs.mkdir(path "x/y//z/", { parents = true }))
      assert.is_true(fs.mkdir(path "x/y/z", { parents = true }))
      assert.is_true(fs.mkdir(path "x/../w/./v", { parents = true }))
      assert.equal("directory", fs.stat(path "w/v").type)
      put("file", "")
      refused("not_directory", fs.mkdir(path "file/x", { parents = true }))
      refused("not_directory", fs.mkdir(path "file", { parents = true }))
      refused("not_found", fs.mkdir("", { parents = true }))
      refused("exists", fs.mkdir("/"))
      assert.is_true(fs.mkdir("/", { parents = true }))
    end)

    it("gives the exact mode asked for", function()
      assert.is_true(fs.mkdir(path "a", { mode = tonumber("1777", 8) }))
      assert.equal(tonumber("1777", 8), fs.stat(path "a").mode)
      assert.is_true(fs.mkdir(path "b/c", { parents = true, mode = tonumber("700", 8) }))
      assert.equal(tonumber("700", 8), fs.stat(path "b/c").mode)
    end)
  end)

  describe("remove", function()
    it("removes files, links, empty directories", function()
      put("a", "")
      sh "mkdir d full; ln -s a link; ln -s full dirlink; : > full/x; mkfifo pipe"
      for _, name in ipairs { "link", "a", "d", "dirlink/", "pipe" } do
        assert.is_true(fs.remove(path(name)))
      end
      refused("exists", fs.remove(path "full"))
      refused("not_found", fs.remove(path "none", { recursive = true }))
      assert.same({ "full" }, names(tmp))
      assert.same({ "x" }, names(path "full"))
    end)

    it("removes a tree and follows no link out of it", function()
      sh [[mkdir -p keep t/a/b/c t/a/e; : > keep/file; : > t/a/b/f; ln -s ../keep t/link
           ln -s $PWD/keep t/a/abs; mkfifo t/pipe; chmod 500 t/a/e; ln -s . t/self]]
      assert.is_true(fs.remove(path "t", { recursive = true }))
      sh "ln -s keep link"
      assert.is_true(fs.remove(path "link/", { recursive = true }))
      assert.same({ "keep" }, names(tmp))
      assert.same({ "file" }, names(path "keep"))
    end)

    it("removes trees deeper than paths and descriptors go", function()
      local out = child("ulimit -n 200", [[
        local fs = require "terret.fs"
        local top = fs.cwd()
        assert(fs.mkdir("deep") and fs.chdir("deep"))
        for i = 1, 600 do
          assert(fs.write("file", "x", {sync = false}))
          assert(fs.mkdir("directory") and fs.chdir("directory"))
        end
        assert(fs.chdir(top))
        print(fs.remove("deep", {recursive = true}))]])
      assert.equal("true\n", out)
      assert.same({ "child.lua" }, names(tmp))
    end)

    it("never removes the root, dots, devices", function()
      -- The system's root is only asked for without `recursive`: a bug must not cost the machine.
      for _, name in ipairs { "/", "//", "/.", "/..", "/tmp/.." } do refused("invalid", fs.remove(name)) end
      sh "mkdir -p d/e"
      local before = fs.cwd()
      assert(fs.chdir(path "d/e"))
      for _, name in ipairs { ".", "..", path "d/e/.", path "d/e/.." } do
        refused("invalid", fs.remove(name, { recursive = true }))
      end
      assert(fs.chdir(before))
      assert.equal("directory", fs.stat(path "d/e").type)
      refused("not_regular", fs.remove(device()))
      refused("not_found", fs.remove(""))
      sh "ln -s / rootlink"
      assert.is_true(fs.remove(path "rootlink/", { recursive = true }))
      assert.equal("directory", fs.stat("/tmp").type)
    end)
  end)

  describe("rename, realpath, chdir, mkdtemp, whoami", function()
    it("renames", function()
      put("a", "text")
      put("b", "old")
      sh "mkfifo pipe"
      assert.is_true(fs.rename(path "a", path "b"))
      assert.equal("text", get "b")
      refused("not_found", fs.rename(path "a", path "c"))
      refused("not_regular", fs.rename(path "b", path "pipe"))
      refused("not_regular", fs.rename(path "b", device()))
      assert.equal("text", get "b")
    end)

    it("changes directory and resolves", function()
      local before = fs.cwd()
      sh "mkdir -p d/e; ln -s d link"
      finally(function() fs.chdir(before) end)
      assert.is_true(fs.chdir(path "link/e"))
      assert.equal(path "d/e", fs.cwd())
      assert.equal(path "d", fs.realpath(".."))
      assert.is_true(fs.write("here", "relative"))
      assert.equal("relative", get "d/e/here")
      refused("not_found", fs.realpath("none"))
      refused("not_found", fs.chdir("none"))
      refused("not_directory", fs.chdir("here"))
    end)

    it("says what cwd is when it is gone", function()
      local out = child("mkdir gone", [[
        local fs = require "terret.fs"
        fs.chdir("gone")
        assert(fs.remove("../gone"))
        print(fs.cwd())]])
      assert.truthy(out:find("not_found", 1, true))
    end)

    it("makes private directories", function()
      local a, b = fs.mkdtemp(path "x-"), fs.mkdtemp(path "x-")
      assert.not_equal(a, b)
      assert.equal(tonumber("700", 8), fs.stat(a).mode)
      assert.equal(#path "x-" + 6, #a)
      refused("not_found", fs.mkdtemp(path "none/x"))
      refused("name_too_long", fs.mkdtemp(("n"):rep(5000)))
    end)

    it("knows who it is", function()
      local me = fs.whoami()
      assert.equal(lines "id -u", me.uid .. "\n")
      assert.equal(lines "id -g", me.gid .. "\n")
      assert.equal(lines "uname -n", me.host .. "\n")
      assert.is_true(me.pid > 0)
    end)
  end)

  describe("root", function()
    local root

    before_each(function()
      sh [[mkdir -p in/sub out; printf secret > out/file; printf inside > in/file
           ln -s ../out in/up; ln -s $PWD/out in/abs; ln -s ../out/file in/leaf
           ln -s ../file in/sub/ok; ln -s sub in/dir; ln -s ../out/new in/dangling]]
      root = assert(fs.root(path "in"))
    end)
    after_each(function() root:close() end)

    it("works like the functions", function()
      assert.equal("inside", root:read("file"))
      assert.equal("ide", root:read("file", { offset = 3 }))
      assert.equal("inside", root:read("sub/../file"))
      assert.equal("inside", root:read("dir/ok"))
      assert.equal("inside", root:read("sub/ok"))
      assert.equal("directory", root:stat(".").type)
      assert.equal("link", root:stat("up", { follow = false }).type)
      assert.equal("ok", root:list("dir")[1].name)
      assert.is_true(root:mkdir("a/b", { parents = true }))
      assert.is_true(root:mkdir("a/c"))
      refused("exists", root:mkdir("a/c"))
      assert.is_true(root:write("x/y", "made", { parents = true }))
      assert.equal("made", get "in/x/y")
      assert.is_true(root:write("sub/ok", "changed"))
      assert.equal("changed", get "in/file")
      assert.equal("link", root:stat("sub/ok", { follow = false }).type)
      refused("not_found", root:read("none"))
      refused("not_found", root:read(""))
      refused("exists", root:write("file", "x", { new = true }))
      refused("is_directory", root:write("sub", "x"))
    end)

    it("is left by no path", function()
      local ways = { "..", "../out/file", "/etc/passwd", "up/file", "abs/file", "leaf", "sub/../../out/file",
        "/", "dir/../../out/file", path "in/file" }
      for _, way in ipairs(ways) do
        refused("escapes", root:read(way))
        refused("escapes", root:stat(way))
        refused("escapes", root:write(way, "x"))
        refused("escapes", root:write(way, "x", { parents = true, new = way ~= "leaf" }))
      end
      for _, way in ipairs { "..", "up", "abs", "/" } do refused("escapes", root:list(way)) end
      for _, way in ipairs { "../new", "up/new", "abs/new", "/tmp/new", "up/a/b" } do
        refused("escapes", root:mkdir(way))
        refused("escapes", root:mkdir(way, { parents = true }))
        refused("escapes", root:write(way, "x", { parents = true }))
      end
      refused("escapes", root:write("dangling", "x"))
      assert.equal("secret", get "out/file")
      assert.same({ "file" }, names(path "out"))
    end)

    it("leads through no magic link", function()
      local proc = assert(fs.root("/proc/self"))
      refused("escapes", proc:list("cwd"))
      refused("escapes", proc:read("exe"))
      assert.truthy(proc:read("status"))
      proc:close()
    end)

    it("stays with its directory when that moves", function()
      sh "mv in moved"
      assert.equal("inside", root:read("file"))
      assert.is_true(root:write("file", "after"))
      assert.equal("after", get "moved/file")
    end)

    it("closes once, and says so", function()
      root:close()
      root:close()
      assert.error_matches(function() root:read("file") end, "closed")
      refused("not_found", fs.root(path "none"))
      refused("not_directory", fs.root(path "in/file"))
      do
        local scoped <close> = assert(fs.root(path "in"))
        assert.equal("inside", scoped:read("file"))
      end
      assert.error(function() root.read({}, "file") end)
    end)
  end)

  describe("match", function()
    local function matches(pattern, ...)
      for _, name in ipairs { ... } do
        assert.is_true(fs.match(pattern, name), pattern .. " should match " .. name)
      end
    end
    local function fails(pattern, ...)
      for _, name in ipairs { ... } do
        assert.is_false(fs.match(pattern, name), pattern .. " should not match " .. name)
      end
    end

    it("stars stay within a name", function()
      matches("*.c", "a.c", ".c", "a.b.c")
      fails("*.c", "a.h", "d/a.c", "a.c/")
      matches("a*b*c", "abc", "axxbyyc", "abcbc")
      fails("a*b*c", "acb", "ab/c", "")
      matches("*", "", "x", ".x")
      matches("src/*/x", "src/a/x")
      fails("src/*/x", "src/x", "src/a/b/x")
      matches("?", "a", "ä", "\xff")
      fails("?", "", "/", "ab", "äb")
      matches("", "")
      fails("", "a")
    end)

    it("two stars go across", function()
      matches("**", "", "a", "a/b/c")
      matches("**/x", "x", "a/x", "a/b/x")
      fails("**/x", "ax", "a/bx", "x/a")
      matches("a/**/b", "a/b", "a/x/b", "a/x/y/b")
      fails("a/**/b", "ab", "a/xb", "a/b/c")
      matches("a/**", "a/", "a/b", "a/b/c")
      fails("a/**", "a", "b/a")
      matches("a**b", "ab", "a/x/b", "axb")
      matches("**/*.lua", "x.lua", "a/b/x.lua")
      fails("**/*.lua", "x.lua/y")
      matches("**/a*b/*c", "x/ab/c", "axb/yc", "q/a/ab/xc")
      matches("***", "a/b")
      matches("**/**/x", "x", "a/x", "a/b/c/x")
    end)

    it("has sets and escapes", function()
      matches("[abc]", "a", "c")
      fails("[abc]", "d", "", "ab", "/")
      matches("[a-cx]z", "bz", "xz")
      fails("[a-cx]z", "dz")
      matches("[!a-c]", "d", "ä")
      matches("[^a-c]", "d")
      fails("[!a-c]", "a", "/")
      matches("[]a]", "]", "a")
      fails("[]a]", "b")
      matches("[!]a]", "b")
      matches("[a-]", "a", "-")
      matches("[ä-ü]", "ö")
      fails("[ä-ü]", "z")
      matches("[\\]x]", "]", "x")
      matches("[", "[")
      matches("[ab", "[ab")
      fails("[/]", "/")
      matches("\\*", "*")
      fails("\\*", "a")
      matches("\\[a]", "[a]")
      matches("a\\", "a\\")
      matches("\\a", "a")
      matches("a\0*", "a\0b")
    end)

    it("takes bad patterns in stride", function()
      local stars, many, a = ("*a"):rep(100), ("**a"):rep(100), ("a"):rep(4000)
      assert.is_false(fs.match(stars .. "b", a))
      assert.is_true(fs.match(stars, a))
      assert.is_false(fs.match(many .. "b", a))
      assert.is_false(fs.match(("**/*a"):rep(50) .. "b", ("a/"):rep(2000)))
      assert.is_false(fs.match("**" .. stars .. "b", a))
      assert.is_false(fs.match("*" .. ("["):rep(3000), ("["):rep(2500)))
      assert.is_false(fs.match(("*"):rep(5000) .. "b", a))
    end)
  end)

  it("leaves no descriptor open", function()
    put("a", "x")
    sh "mkdir d; mkfifo pipe; ln -s a link"
    local function round()
      local root = assert(fs.root(tmp))
      for _, name in ipairs { "a", "d", "pipe", "none", "link", "../x", "a/b" } do
        root:read(name)
        root:write(name, "x", { sync = false })
        root:list(name)
        root:mkdir(name)
        fs.read(path(name))
        fs.list(path(name))
      end
      fs.remove(path "d2", { recursive = true })
      root:close()
    end
    round()
    collectgarbage()
    local before = #fs.list("/proc/self/fd")
    round()
    assert.equal(before, #fs.list("/proc/self/fd"))
  end)
end)

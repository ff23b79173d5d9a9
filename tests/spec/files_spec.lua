-- What files looked like when a tool last saw them, and which changed since.
local files = require "terret.files"
local fs = require "terret.fs"

describe("files", function()
  local dir, path, seen
  before_each(function()
    dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-files-"))
    path = dir .. "/a"
    seen = files.new()
  end)
  after_each(function() fs.remove(dir, { recursive = true }) end)

  local function put(host, data) assert(fs.write(host, data, { sync = false })) end
  local function touch(host, shown) seen:touch(host, shown or host:match("[^/]+$"), (fs.stat(host))) end

  it("knows nothing of what was never seen", function()
    put(path, "x")
    assert.is_false(seen:changed(path))
    assert.same({}, seen:take_changes())
  end)

  it("is quiet as long as a file stays as it was", function()
    put(path, "x")
    touch(path)
    assert.is_false(seen:changed(path))
    assert.same({}, seen:take_changes())
  end)

  it("says a change once, by the name that was shown, and the next one again", function()
    put(path, "x")
    touch(path, "./shown")
    put(path, "xy")
    assert.is_true(seen:changed(path))
    assert.same({ "./shown" }, seen:take_changes())
    assert.same({}, seen:take_changes())
    assert.is_true(seen:changed(path)) -- still not what the tool saw
    put(path, "xyz")
    assert.same({ "./shown" }, seen:take_changes())
  end)

  it("notices another file of the same size under the name", function()
    put(path, "x")
    touch(path)
    put(dir .. "/b", "y")
    assert(fs.rename(dir .. "/b", path))
    assert.is_true(seen:changed(path))
  end)

  it("a new look makes it the known state", function()
    put(path, "x")
    touch(path)
    put(path, "xy")
    touch(path)
    assert.is_false(seen:changed(path))
    assert.same({}, seen:take_changes())
  end)

  it("says what is gone, and what came where nothing was", function()
    put(path, "x")
    touch(path)
    touch(dir .. "/b")
    assert.is_false(seen:changed(dir .. "/b"))
    assert(fs.remove(path))
    put(dir .. "/b", "x")
    assert.same({ "a (gone)", "b" }, seen:take_changes())
    assert.same({}, seen:take_changes())
  end)

  it("what changed back is as it was seen", function()
    touch(path)
    put(path, "x")
    assert.same({ "a" }, seen:take_changes())
    assert(fs.remove(path))
    assert.is_false(seen:changed(path))
    assert.same({}, seen:take_changes())
  end)

  it("says names sorted", function()
    local expected = {}
    for i = 9, 1, -1 do
      touch(dir .. "/" .. i)
      put(dir .. "/" .. i, "x")
      expected[i] = tostring(i)
    end
    assert.same(expected, seen:take_changes())
  end)

  it("a copy knows the same, what was said too, and goes its own way", function()
    touch(path)
    touch(dir .. "/b")
    put(path, "x")
    assert.same({ "a" }, seen:take_changes())
    local copy = seen:copy()
    assert.is_true(copy:changed(path))
    assert.same({}, copy:take_changes())
    put(dir .. "/b", "x")
    assert.same({ "b" }, copy:take_changes())
    assert.same({ "b" }, seen:take_changes())
    copy:touch(path, "a", (fs.stat(path)))
    assert.is_false(copy:changed(path))
    assert.is_true(seen:changed(path))
  end)
end)

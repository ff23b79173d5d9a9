-- The short form of `make test-crash`: a busy session is killed, its disk fills up, it meets EIO.
local here = debug.getinfo(1, "S").source:match("^@(.*)/integration/[^/]*$")
package.path = here .. "/crash/?.lua;" .. package.path
local crash = require "crash"
local fs = require "terret.fs"

describe("a session that is killed", function()
  it("keeps every acknowledged record, resumes, has no orphan and no effect twice", function()
    local seed = os.time()
    local complaint, sum = crash.kill(30, { seed = seed, longest = 0.06, each = 10 })
    assert(complaint == nil, ("seed %d: %s"):format(seed, tostring(complaint)))
    assert.equal(30, sum.kills)
    assert.is_true(sum.acked > 30, sum.acked)
  end)

  it("survives a full disk", function()
    local complaint, refused = crash.full { 0, 300, 9000, 20000, 31000 }
    assert.is_nil(complaint)
    assert.is_true(refused >= 3, refused)
  end)

  it("survives an I/O error", function()
    local complaint, refused = crash.io_error { 1, 2, 4, 7 }
    assert.is_nil(complaint)
    assert.equal(4, refused)
  end)

  it("refuses a directory that can't be written", function()
    assert.is_nil(crash.read_only())
  end)
end)

describe("the check itself", function()
  local place
  before_each(function()
    place = crash.place()
    assert.equal(0, place:run({ turns = 3 }).code)
    assert.is_nil(place:check())
  end)
  after_each(function() place:close() end)

  local function edit(f)
    local path = place.session .. "/log.jsonl"
    assert(fs.write(path, f(assert(fs.read(path)))))
  end

  it("notices a lost record", function()
    edit(function(data) return (data:gsub("[^\n]*\n$", "")) end)
    assert.matches("acknowledged and is not there", place:check())
  end)
  it("notices changed bytes", function()
    edit(function(data) return (data:gsub('"content":"task', '"content":"Task')) end)
    assert.matches("other bytes", place:check())
  end)
  it("notices a broken line", function()
    edit(function(data) return (data:gsub("^([^\n]*\n)", "%1{\n")) end)
    assert.matches("can't be read", place:check())
  end)
  it("notices effects without a call, and twice", function()
    local file = assert(io.open(place.dir .. "/effects", "a"))
    file:write("tfffffff0\n")
    file:close()
    assert.matches("no log has its call", place:check())
    file = assert(io.open(place.dir .. "/effects", "a"))
    file:write("tfffffff0\n")
    file:close()
    assert.truthy(place:check())
  end)
end)

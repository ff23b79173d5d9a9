-- terret.sandbox.policy.copies: what a command changed of git's configuration, and what comes back.

local copies = require "terret.sandbox.policy.copies"
local fs = require "terret.fs"

describe("sandbox.policy.copies", function()
  local base, real, c

  local function write(path, text) assert(fs.write(path, text, { parents = true, sync = false })) end
  local function read(path) return (fs.read(path)) end
  local function command(text) write(base .. "/store/1/config", text) end

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/copies-")))
    real = base .. "/repo/config"
    write(real, "[core]\n\tbare = false\n")
    c = copies.new(base .. "/store")
    assert.same({ [real] = 1 }, c:prepare { real })
  end)
  after_each(function() assert(fs.remove(base, { recursive = true })) end)

  it("are the same as the files at first, and nothing comes back of nothing", function()
    assert.equal(read(real), read(base .. "/store/1/config"))
    local before = assert(fs.stat(real)).inode
    assert.same({}, c:merge({ real }, true))
    assert.equal(before, assert(fs.stat(real)).inode)
  end)

  it("bring back what is allowed, and drop and name the rest", function()
    command('[core]\n\tbare = false\n\tfsmonitor = evil\n[user]\n\tname = n\n[remote "o"]\n\turl = ext::evil\n')
    assert.same({ "dropped from " .. real .. ", since git runs or trusts what such keys name: core.fsmonitor, "
      .. "remote.o.url" }, c:merge({ real }, true))
    assert.equal("[core]\n\tbare = false\n[user]\n\tname = n\n", read(real))
    assert.equal(read(real), read(base .. "/store/1/config"))
    assert.same({}, c:merge({ real }, true))
  end)

  it("keep what the user changed meanwhile", function()
    command("[core]\n\tbare = false\n[user]\n\tname = command\n")
    write(real, "# user\n[core]\n\tbare = false\n\teditor = vi\n")
    assert.same({}, c:merge({ real }, true))
    assert.equal("# user\n[core]\n\tbare = false\n\teditor = vi\n[user]\n\tname = command\n", read(real))
  end)

  it("follow the user's changes before the next command, unless one is running", function()
    write(real, "[a]\n\tb = 1\n")
    c:prepare { real }
    assert.equal("[a]\n\tb = 1\n", read(base .. "/store/1/config"))
    command("[a]\n\tb = 1\n[user]\n\tname = n\n")
    write(real, "[a]\n\tb = 2\n")
    c:prepare { real }
    assert.matches("name = n", read(base .. "/store/1/config"))
    c:merge({ real }, true)
    assert.equal("[a]\n\tb = 2\n[user]\n\tname = n\n", read(real))
  end)

  it("don't replace a file that another command has under a mount", function()
    local before = assert(fs.stat(real)).inode
    command("[core]\n\tbare = false\n[user]\n\tname = n\n")
    c:merge({ real }, false)
    assert.matches("name = n", read(real))
    assert.equal(before, assert(fs.stat(real)).inode)
  end)

  it("drop what can't be read, is gone, or leads elsewhere", function()
    for _, break_it in ipairs {
      function() command("[a\n") end,
      function() assert(fs.remove(base .. "/store/1/config")) end,
      function()
        assert(fs.remove(base .. "/store/1/config"))
        write(base .. "/secret", "[user]\n\tname = stolen\n")
        assert(os.execute(("ln -s '%s/secret' '%s/store/1/config'"):format(base, base)))
      end,
    } do
      break_it()
      assert.same({ "dropped: changes of " .. real .. " that can't be read" }, c:merge({ real }, true))
      assert.equal("[core]\n\tbare = false\n", read(real))
      fs.remove(base .. "/store/1", { recursive = true })
      c = copies.new(base .. "/store")
      c:prepare { real }
    end
  end)

  it("are made only of files that can be read, and not of too many", function()
    write(base .. "/bad", "[a\n")
    assert.same({}, c:prepare { base .. "/bad", base .. "/none" })
    local paths = {}
    for i = 1, copies.MAX + 5 do
      paths[i] = base .. "/c" .. i
      write(paths[i], "")
    end
    local n = 0
    for _ in pairs(c:prepare(paths)) do n = n + 1 end
    assert.equal(copies.MAX - 1, n)
  end)
end)

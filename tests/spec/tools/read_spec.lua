-- scripts/tools/read.lua: numbered lines, windows, caps, and everything that is no text file.
local fake = require "support.fakecall"

local call

local function read(path, offset, limit)
  return fake.run("read", { path = path, offset = offset, limit = limit }, call)
end

local function has(text, ...)
  for _, words in ipairs { ... } do
    assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
  end
end

describe("read", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  it("numbers lines, keeps tabs, shows a last line without end", function()
    call:put("a.go", "func a() {\n\tb()\n\n}")
    assert.equal("     1\tfunc a() {\n     2\t\tb()\n     3\t\n     4\t}", (read("a.go")))
  end)

  it("shows windows and says how to go on", function()
    call:put("a", "l1\nl2\nl3\nl4\nl5\n")
    assert.equal("     2\tl2\n     3\tl3\n[lines 2-3 of 5; go on with offset=4]", (read("a", 2, 2)))
    assert.equal("     5\tl5\n[lines 5-5 of 5]", (read("a", 5)))
    assert.equal((read("a")), (read("a", "1", 1e18)))
  end)

  it("says where the end is", function()
    call:put("a", "l1\nl2\n")
    local text, message = read("a", 3)
    assert.is_nil(text)
    has(message, "2 lines", "offset 3")
    call:put("empty", "")
    assert.equal("empty is empty", (read("empty")))
  end)

  it("refuses windows that are none", function()
    call:put("a", "x\n")
    has(select(2, read("a", -1)), "offset")
    has(select(2, read("a", 0)), "offset")
    has(select(2, read("a", 1, -5)), "limit")
    assert.truthy((read("a", 1, "")))
  end)

  it("caps its answer by whole lines", function()
    call.limits.read_bytes = 40
    call:put("a", "0123456789\n0123456789\n0123456789\n")
    assert.equal("     1\t0123456789\n     2\t0123456789\n[lines 1-2 of 3; go on with offset=3]", (read("a")))
    call.limits.read_bytes = 1
    has((read("a")), "     1\t0123456789", "offset=2")
  end)

  it("cuts long lines and says so", function()
    call:put("a", ("x"):rep(5000) .. "\nnext\n")
    local text = read("a")
    has(text, ("x"):rep(2000) .. " [cut here; the line has 5000 bytes]", "     2\tnext", "cut -c")
    assert.is_nil(text:find(("x"):rep(2001), 1, true))
    call:put("b", ("x"):rep(2000) .. "\n")
    assert.is_nil(read("b"):find("cut here", 1, true))
  end)

  it("names CRLF, hides the BOM, marks invalid bytes", function()
    call:put("a", "\u{feff}one\r\ntwo\r\n")
    local text = read("a")
    has(text, "     1\tone\n     2\ttwo\n[line ends are CRLF")
    call:put("l", "one\ncaf\xE9\nthree\n")
    has((read("l")), "caf\u{FFFD}", "three", "not valid UTF-8")
  end)

  it("names binary files and does not show them", function()
    for data, words in pairs { ["\x89PNG\r\n\26\n\0\0"] = "PNG image", ["a\0b"] = "binary",
      ["%PDF-1.7\n\xE2\xE3"] = "PDF",
      ["\xFF\xFEa\0b\0"] = "UTF-16", ["\x7FELF\2\1\0"] = "ELF" } do
      call:put("x", data)
      local text = read("x")
      has(text, words, "not shown")
      assert.is_nil(text:find("\0", 1, true))
    end
  end)

  it("lists directories", function()
    call:put("d/a.lua", "")
    call:put("d/sub/b.lua", "")
    assert.equal("d is a directory with 2 entries:\na.lua\nsub/", (read("d")))
    has((read(".")), "directory", "d/")
  end)

  it("caps the list of a directory", function()
    for i = 1, 510 do call:put(("m/f%03d"):format(i), "") end
    has((read("m")), "510 entries", "f500", "[10 more entries]")
  end)

  it("refuses FIFOs at once, and paths outside", function()
    os.execute(("mkfifo '%s/p'"):format(call.cwd))
    has(select(2, read("p")), "FIFO")
    has(select(2, read("/dev/zero")), "outside")
    has(select(2, read("a\0b")), "NUL")
  end)

  describe("a path that is not there", function()
    it("brings near names of the directory", function()
      call:put("src/main.rs", "x")
      call:put("README.md", "x")
      call:put("v\u{a0}13.txt", "x")
      has(select(2, read("src/mian.rs")), "no such file", "Did you mean src/main.rs?")
      has(select(2, read("readme.md")), "README.md")
      has(select(2, read("src/main.py")), "src/main.rs")
      has(select(2, read("v 13.txt")), "13.txt")
      has(select(2, read("@src/main.rs")), "Did you mean src/main.rs?")
      has(select(2, read("src\\main.rs")), "Did you mean src/main.rs?")
      has(select(2, read("README.md/")), "README.md")
    end)

    it("brings near names of a missing directory", function()
      call:put("source/main.rs", "x")
      has(select(2, read("sorce/deep/main.rs")), "Did you mean source?")
    end)

    it("brings a few names only, or none", function()
      for i = 1, 100 do call:put(("d/file%03d.txt"):format(i), "x") end
      local message = select(2, read("d/file9999.txt"))
      assert.is_true(#message < 300)
      assert.equal("zzz: no such file or directory.", select(2, read("zzz")))
    end)
  end)
end)

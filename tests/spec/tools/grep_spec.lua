-- scripts/tools/grep.lua: the same answers from rg and from grep.
local fake = require "support.fakecall"
local fs = require "terret.fs"

local function has(text, ...)
  for _, words in ipairs { ... } do
    assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
  end
end

local function lacks(text, words)
  assert.is_nil(text:find(words, 1, true), ("%q has %q"):format(text, words))
end

local function found(program)
  for _, dir in ipairs { "/usr/bin/", "/bin/" } do
    if fs.stat(dir .. program) then return dir .. program end
  end
end

for _, program in ipairs { "rg", "grep" } do
  describe("grep with " .. program, function()
    if not found(program) then return pending(program .. " is not installed", function() end) end
    local call

    local function grep(pattern, more)
      local args = { pattern = pattern }
      for k, v in pairs(more or {}) do args[k] = v end
      return fake.run("grep", args, call)
    end

    before_each(function()
      package.loaded["terret.tools.grep"] = nil -- what it learnt about rg
      call = fake.new()
      call.env = { PATH = call.dir .. "/bin" }
      fs.mkdir(call.dir .. "/bin")
      os.execute(("ln -s '%s' '%s/bin/'"):format(found(program), call.dir))
    end)
    after_each(function() getmetatable(call).__close(call) end)

    it("answers path:line: text, sorted by path", function()
      call:put("b/z.txt", "needle one\nhay\nneedle two\n")
      call:put("a.txt", "a needle\r\n")
      assert.equal("a.txt:1: a needle\nb/z.txt:1: needle one\nb/z.txt:3: needle two", (grep("needle")))
    end)

    it("leaves out what may not be read, and does not tell whether it matches", function()
      call:put("a.txt", "needle\n")
      call:put("key.pem", "needle\n")
      call.secret = { ["key.pem"] = true }
      local note = "\n[files that a permission rule forbids to read are left out]"
      assert.equal("a.txt:1: needle" .. note, (grep("needle")))
      assert.equal("a.txt:1: needle" .. note, (grep("needle", { path = "./" })))
      assert.equal("no matches" .. note, (grep("needle", { glob = "*.pem" })))
      assert.equal("no matches" .. note, (grep("nothing", { glob = "*.pem" })))
    end)

    it("says when there is none", function()
      call:put("a.txt", "hay\n")
      assert.equal("no matches", (grep("needle")))
    end)

    it("takes regular expressions", function()
      call:put("a.txt", "foo1\nfoo22\nbar\nx | {y}\n")
      assert.equal("a.txt:2: foo22", (grep("fo+[0-9]{2}|nothing")))
      assert.equal("a.txt:4: x | {y}", (grep("\\| \\{")))
    end)

    it("searches for the text of an invalid one, and says so", function()
      call:put("a.js", "render(x)\na[0\n")
      has((grep("render(")), "a.js:1: render(x)", "plain text")
      has((grep("a[0")), "a.js:2: a[0", "plain text")
      has((grep("nothing(")), "no matches", "plain text")
    end)

    it("never takes a pattern or a path for an option", function()
      call:put("h.txt", "use -e here\ncode -77\ncode 77\n--ctx-size N\n")
      assert.equal("h.txt:1: use -e here", (grep("-e")))
      assert.equal("h.txt:2: code -77", (grep("-77")))
      assert.equal("h.txt:4: --ctx-size N", (grep("--ctx-size")))
      assert.truthy((grep("--pre=touch pwned")))
      assert.is_nil(call:get("pwned"))
      call:put("-x.txt", "needle\n")
      has((grep("needle", { path = "-x.txt" })), "needle")
    end)

    it("leaves patterns to the program: nothing is Lua's or the shell's", function()
      call:put("a.c", 'printf("%d")\n$(touch pwned) `x`\n')
      call:put("b.txt", "5\n")
      assert.equal('a.c:1: printf("%d")', (grep("%d")))
      has((grep("\\$\\(touch")), "a.c:2")
      assert.is_nil(call:get("pwned"))
    end)

    it("keeps to a file, a directory and a glob", function()
      for _, p in ipairs { "src/deep/a.lua", "src/b.lua", "t/c.lua", "a.txt", "x.c", "x.h" } do call:put(p,
        "needle\n") end
      assert.equal("a.txt:1: needle", (grep("needle", { path = "a.txt" })))
      assert.equal("src/b.lua:1: needle\nsrc/deep/a.lua:1: needle", (grep("needle", { path = "src" })))
      assert.equal("src/b.lua:1: needle\nsrc/deep/a.lua:1: needle\nt/c.lua:1: needle", (grep("needle",
        { glob = "*.lua" })))
      assert.equal("src/b.lua:1: needle\nsrc/deep/a.lua:1: needle", (grep("needle", { glob = "src/**/*.lua" })))
      assert.equal("x.c:1: needle\nx.h:1: needle", (grep("needle", { glob = "*.{c,h}" })))
    end)

    it("leaves out .git and what .gitignore names", function()
      call:put(".gitignore", "node_modules/\ndist/\n")
      for _, p in ipairs { ".git/x", "node_modules/x/i.js", "dist/b.js", "src/a.js", ".github/w.yml" } do
        call:put(p, "needle\n")
      end
      assert.equal(".github/w.yml:1: needle\nsrc/a.js:1: needle", (grep("needle")))
    end)

    it("caps the lines and counts the rest", function()
      call:put("a.txt", ("row\n"):rep(60))
      local text = grep("row", { limit = "5" })
      has(text, "a.txt:5: row", "[55 more matching lines")
      lacks(text, "a.txt:6:")
      call.limits.read_bytes = 30
      has((grep("row")), "58 more matching lines")
    end)

    it("cuts long lines around the match", function()
      call:put("a.js", ("var x=1;"):rep(20000) .. "needle()" .. ("y"):rep(1000) .. "\n")
      local text = grep("needle")
      has(text, "a.js:1: ...", "needle()", "[line of 161008 bytes]")
      assert.is_true(#text < 600)
    end)

    it("survives names and bytes of any kind", function()
      call:put("a:12:b.txt", "needle\n")
      call:put("l.txt", "caf\xE9 needle\n")
      call:put("e\27[2J.txt", "needle\n")
      local text = grep("needle")
      has(text, "a:12:b.txt:1: needle", "caf\u{FFFD} needle")
      lacks(text, "\27")
      call:put("u.txt", "привет 漢字\n")
      has((grep("漢")), "u.txt:1: привет 漢字")
    end)

    it("does not follow links, and does not wait for FIFOs", function()
      os.execute(("cd '%s' && mkdir a && ln -s .. a/up && ln -s . a/self && mkfifo p && mkdir ../out"):format(call.cwd))
      call:put("a/x.txt", "needle\n")
      fs.write(call.dir .. "/out/s.txt", "needle\n")
      os.execute(("ln -s ../out '%s/l'"):format(call.cwd))
      assert.equal("a/x.txt:1: needle", (grep("needle")))
      has(select(2, grep("x", { path = "p" })), "not a regular")
    end)

    it("refuses empty patterns, line ends, paths that are not there or outside", function()
      has(select(2, grep("")), "empty")
      has(select(2, grep("a\nb")), "line end")
      call:put("src/x", "")
      has(select(2, grep("a", { path = "srv" })), "no such file", "src")
      has(select(2, grep("a", { path = "/etc" })), "outside")
    end)
  end)
end

describe("grep", function()
  it("looks for rg once, and says where there is neither", function()
    package.loaded["terret.tools.grep"] = nil
    local call <close> = fake.new()
    call.env = { PATH = call.dir .. "/none" }
    local text, message = fake.run("grep", { pattern = "x" }, call)
    assert.is_nil(text)
    has(message, "neither rg nor grep")
    assert.equal(2, #call.argvs)
    fake.run("grep", { pattern = "x" }, call)
    assert.equal(3, #call.argvs)
    package.loaded["terret.tools.grep"] = nil
  end)
end)

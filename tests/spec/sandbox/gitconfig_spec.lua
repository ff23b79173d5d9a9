-- terret.sandbox.policy.gitconfig: reading, judging and changing git's configuration; git itself is asked
-- for a second opinion.

local exec = require "terret.exec"
local fs = require "terret.fs"
local gitconfig = require "terret.sandbox.policy.gitconfig"
local task = require "terret.task"

local function parse(text) return assert(gitconfig.parse(text), "not understood") end

-- {name = {values}}
local function values(text)
  local out = {}
  for _, e in ipairs(parse(text).entries) do
    local name = gitconfig.name(e)
    out[name] = out[name] or {}
    table.insert(out[name], e.value)
  end
  return out
end

local function run(argv)
  local p <close> = exec.spawn { argv = argv, env = { PATH = "/usr/local/bin:/usr/bin:/bin", HOME = "/nonexistent" } }
  if not p then return nil end
  task.await(p)
  return p:output().head, p:status().code
end

local SAMPLES = {
  "", "\n\n# only\n; comments\n", "[a]\n", "[a]\nb\n", "[a]\nb = c", "[A]\nB=C\r\n[a]\r\n\tb = d\r\n",
  "[a \"B c\"] key = v # comment\n[a.Sub] x=1\n", "[a]\nk = \"  two  \" words ; x\n", "[a]\nk = a\\\nb\n",
  "[a]\nk = \"q\\\"\\\\\\n\\t\"\n", "[a \"x\\\"y\\\\\"]\nk = v   \n\tl = \n", "\u{FEFF}[a]\nb=c\n",
  "[a] b = 1\nc = 2 [d]\n",
  "[remote \"o\"]\n\turl = https://h/p\n\tfetch = +refs/heads/*:refs/remotes/o/*\n\tfetch = +refs/tags/*\n",
  "[a]\nk = x y  z\n", "[a]\n  k=\"\"\n", "[a]\nk = a\"b c\"d\n",
}

describe("sandbox.policy.gitconfig", function()
  describe("parse", function()
    it("reads what git reads", function()
      local dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/gitconfig-"))
      for _, text in ipairs(SAMPLES) do
        assert(fs.write(dir .. "/config", text, { sync = false }))
        local out, code = run { "git", "config", "--file", dir .. "/config", "--null", "--list" }
        if not out then return pending("no git here") end
        assert.equal(0, code, text)
        local mine = {}
        for _, e in ipairs(parse(text).entries) do
          mine[#mine + 1] = gitconfig.name(e) .. (e.value == true and "" or "\n" .. e.value) .. "\0"
        end
        assert.equal(out, table.concat(mine), text)
      end
      fs.remove(dir, { recursive = true })
    end)

    it("refuses what it doesn't understand", function()
      for _, text in ipairs { "x = 1\n", "[a\n", "[a \"b\n\"]\n", "[a]\n1 = 2\n", "[a]\nk = \"open\n", "[a]\nk = \\x\n",
        "[a]\nk v\n", "[a \"b\" ]\n", "[]\nk=1\n", "[a]\nk = \0\n", "[a]\n= v\n", "[a_b]\nk = 1\n" } do
        assert.is_nil(gitconfig.parse(text), text)
      end
    end)

    it("ends on any bytes", function()
      local seed = 7
      for _ = 1, 2000 do
        local bytes = {}
        for i = 1, 24 do
          seed = (seed * 1103515245 + 12345) % 2147483648
          local set = "[]a\"\\\n=# .\r\0"
          local k = seed // 65536 % #set + 1
          bytes[i] = set:sub(k, k)
        end
        local text = table.concat(bytes)
        local parsed = gitconfig.parse(text)
        assert.is_true(parsed == nil or type(parsed.entries) == "table")
      end
    end)
  end)

  describe("changes", function()
    it("are named with their new values", function()
      local before = parse("[a]\nx = 1\ny = 1\n[b \"S\"]\nk = 1\n")
      local after = parse("[a]\nx = 1\n[b \"S\"]\nk = 1\nk = 2\n[c]\nn\n")
      local out = {}
      for _, e in ipairs(gitconfig.changes(before, after)) do out[gitconfig.name(e)] = e.values end
      assert.same({ ["a.y"] = {}, ["b.S.k"] = { "1", "2" }, ["c.n"] = { true } }, out)
      assert.same({}, gitconfig.changes(before, before))
    end)
  end)

  describe("allowed", function()
    local function allowed(name, ...)
      local section, sub, key = name:match("^(%w+)%.(.*)%.(%w+)$")
      if not section then section, key = name:match("^(%w+)%.(%w+)$") end
      return gitconfig.allowed { section = section, sub = sub, key = key, values = { ... } }
    end

    it("are branches, plain remotes and submodules, the user", function()
      assert.is_true(allowed("branch.main.merge", "refs/heads/main"))
      assert.is_true(allowed("branch.a.b.remote", "origin"))
      assert.is_true(allowed("branch.gone.remote"))
      for _, url in ipairs { "https://h/p.git", "git@github.com:o/r.git", "ssh://git@h:22/p", "../other", "/srv/r.git",
        "file:///srv/r", "git://h/p" } do
        assert.is_true(allowed("remote.origin.url", url), url)
        assert.is_true(allowed("submodule.lib.url", url), url)
      end
      assert.is_true(allowed("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"))
      assert.is_true(allowed("submodule.lib.active", "true"))
      assert.is_true(allowed("user.email", "a@b"))
    end)

    it("are not what names a program, or may", function()
      for name, v in pairs { ["core.fsmonitor"] = "x", ["core.hookspath"] = "h", ["core.sshcommand"] = "x",
        ["alias.st"] = "!x", ["filter.f.clean"] = "x", ["remote.o.uploadpack"] = "x", ["remote.o.receivepack"] = "x",
        ["remote.o.vcs"] = "x", ["remote.o.proxy"] = "x", ["submodule.s.update"] = "!x", ["include.path"] = "x",
        ["diff.external"] = "x", ["credential.helper"] = "x", ["branch.b.mergeoptions"] = "-s x",
        ["url.x.insteadof"] = "y", ["gpg.program"] = "x", ["extensions.worktreeconfig"] = "true" } do
        assert.is_false(allowed(name, v), name)
      end
      for _, url in ipairs { "ext::sh -c x", "fd::3", "-x", "ssh://-oProxyCommand=x/", "a:-b", "evil+x://h", "a\nb",
        "ssh://u@-x/p", "transport::address" } do
        assert.is_false(allowed("remote.o.url", url), url)
        assert.is_false(allowed("branch.b.remote", "ext::x"))
      end
      assert.is_false(allowed("remote.o.fetch", "x y"))
      assert.is_false(allowed("remote.o.fetch", "refs/*:../../hooks/*"))
      assert.is_false(allowed("remote.o.url", true))
    end)
  end)

  describe("apply", function()
    local REAL = "# mine\n[core]\n\tbare = false ; keep\n[branch \"a\"]\n\tremote = o\n\tmerge = refs/heads/a\n"

    local function apply(before, after) -- the changes of one file put into REAL
      return gitconfig.apply(REAL, gitconfig.changes(parse(before), parse(after)))
    end

    it("keeps the rest of the text", function()
      assert.equal(REAL, apply("", ""))
      assert.equal(REAL .. "[user]\n\tname = A \\\"B\\\"\n", apply("", "[user]\nname = A \\\"B\\\"\n"))
      assert.equal(REAL:gsub("\tmerge = refs/heads/a\n", "") .. "\tmerge = \" x\"\n",
        apply(REAL, "[core]\nbare=false\n[branch \"a\"]\nremote = o\nmerge = \" x\"\n"))
    end)

    it("removes keys, and sections that they leave empty", function()
      assert.equal("# mine\n[core]\n\tbare = false ; keep\n", apply(REAL, "[core]\nbare = false\n"))
    end)

    it("works in files without a line end, and with keys beside their header", function()
      for _, text in ipairs { "[a] k = 1", "[a]\nk = 1", "[a] k = 1\n[b] x = 1\n" } do
        local change = { { section = "a", key = "k", values = { "2", "3" } } }
        assert.same({ "2", "3" }, values(assert(gitconfig.apply(text, change), text))["a.k"])
        assert.is_nil(values(assert(gitconfig.apply(text, { { section = "a", key = "k", values = {} } })))["a.k"])
      end
    end)

    it("refuses a file that it doesn't understand", function()
      assert.is_nil(gitconfig.apply("[a", {}))
    end)
  end)

  it("filters a new repository's file", function()
    local text, dropped = gitconfig.filter("[core]\n\tbare = false\n\tfsmonitor = evil\n[alias]\n\tx = !y\n"
      .. "[remote \"o\"]\n\turl = https://h/p\n\tuploadpack = z\n")
    assert.equal("[core]\n\tbare = false\n[remote \"o\"]\n\turl = https://h/p\n", text)
    assert.same({ "core.fsmonitor", "alias.x", "remote.o.uploadpack" }, dropped)
    assert.is_nil(gitconfig.filter("[a"))
    text = gitconfig.filter("[core] worktree = ../x\n", function(e) return e.key == "worktree" end)
    assert.equal("[core] worktree = ../x\n", text)
  end)
end)

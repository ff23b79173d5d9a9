-- The policy: what is writable, protected, hidden; environment; where paths lead.

local fs = require "terret.fs"
local policy = require "terret.sandbox.policy"
local environ = require "terret.sandbox.policy.environ"

describe("sandbox.policy", function()
  local base, home, project

  local function write(path, text) assert(fs.write(path, text or "x", { parents = true, sync = false })) end
  local function mkdir(path) assert(fs.mkdir(path, { parents = true })) end
  local function link(target, path)
    assert(os.execute(("ln -s '%s' '%s'"):format(target, path)))
  end

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/policy-")))
    home, project = base .. "/home", base .. "/home/p"
    mkdir(project)
  end)
  after_each(function() assert(fs.remove(base, { recursive = true })) end)

  local function new(options)
    local o = { project = project, home = home, tmp = base .. "/s/tmp" }
    for k, v in pairs(options or {}) do o[k] = v end
    if not fs.stat(o.tmp) then mkdir(o.tmp) end
    return policy.new(o)
  end

  local function has(list, value)
    for _, x in ipairs(list) do
      if (type(x) == "table" and x.path or x) == value then return true end
    end
    return false
  end

  describe("new", function()
    it("resolves the project", function()
      link(project, base .. "/link")
      local p = assert(new { project = base .. "/link" })
      assert.equal(project, p.project)
    end)

    it("raises on a script's mistakes", function()
      assert.error_matches(function() new { nope = 1 } end, "unknown option 'nope'")
      assert.error_matches(function() new { readonly = 1 } end, "'readonly' must be a boolean")
      assert.error_matches(function() new { project = "rel" } end, "absolute")
      assert.error_matches(function() policy.new {} end, "'project' is missing")
      assert.error_matches(function() new { rw = { "rel" } } end, "absolute")
    end)

    for _, case in ipairs {
      { "the root directory", function() return "/" end, "can't be the project" },
      { "the home directory", function() return home end, "home directory" },
      { "an ancestor of it", function() return base end, "home directory" },
      { "a directory of the system", function() return "/etc" end, "directory of the system" },
      { "what does not exist", function() return base .. "/none" end, "project" },
      { "a file", function() write(base .. "/f") return base .. "/f" end, "not a directory" },
      { "an ancestor of terret's state", function() mkdir(home .. "/.local/state/terret") return home .. "/.local" end,
        "terret's own" },
      { "what is hidden", function() mkdir(home .. "/.ssh/x") return home .. "/.ssh/x" end, "is hidden" },
    } do
      it("refuses " .. case[1], function()
        local p, message, code = new { project = case[2]() }
        assert.is_nil(p)
        assert.equal("refused", code)
        assert.matches(case[3], message, 1, true)
      end)
    end

    it("takes the home directory when --rw names it", function()
      local p = assert(new { project = home, rw = { home } })
      assert.equal(home, p.project)
      assert.is_truthy(new { project = home, allow_root = true })
      assert.is_nil(new { project = "/", rw = { "/" } })
    end)

    it("refuses a further place that does not exist, or is inside what is hidden", function()
      local p, message, code = new { rw = { base .. "/none" } }
      assert.is_nil(p)
      assert.equal("refused", code)
      assert.matches("none", message, 1, true)
      mkdir(home .. "/.ssh/a")
      assert.is_nil(new { rw = { home .. "/.ssh/a" } })
    end)
  end)

  describe("hidden", function()
    it("has what exists, through links", function()
      mkdir(home .. "/.ssh")
      write(home .. "/.netrc")
      mkdir(home .. "/real-aws")
      link("real-aws", home .. "/.aws")
      write(home .. "/mine/key")
      local p = assert(new { hide = { "~/mine" } })
      local list = p:hidden()
      assert.is_true(has(list, home .. "/.ssh"))
      assert.is_true(has(list, home .. "/.netrc"))
      assert.is_true(has(list, home .. "/real-aws"))
      assert.is_true(has(list, home .. "/mine"))
      assert.is_false(has(list, home .. "/.gnupg"))
      assert.equal(list, p:hidden())
    end)

    it("has terret's own, but for the skills", function()
      mkdir(home .. "/.config/terret/skills/s")
      mkdir(home .. "/.local/state/terret")
      write(home .. "/.agents/env")
      local p = assert(new())
      assert.is_true(has(p:hidden(), home .. "/.local/state/terret"))
      assert.is_true(has(p:hidden(), home .. "/.agents/env"))
      assert.equal("denied", select(3, p:resolve("~/.config/terret/config.lua", "read")))
      assert.is_truthy(p:resolve("~/.config/terret/skills/s/SKILL.md", "read"))
      assert.is_nil((p:resolve("~/.config/terret/skills/s/SKILL.md", "write")))
    end)

    it("gives way to --rw of that very place", function()
      mkdir(home .. "/.config/terret")
      local p = assert(new { rw = { home .. "/.config/terret" } })
      assert.is_false(has(p:hidden(), home .. "/.config/terret"))
    end)

    it("notices what appears later", function()
      local p = assert(new())
      write(home .. "/.netrc")
      p.hidden_until = 0
      assert.is_true(has(p:hidden(), home .. "/.netrc"))
    end)
  end)

  describe("guarded", function()
    local function repository(dir)
      mkdir(dir .. "/hooks")
      mkdir(dir .. "/objects")
      write(dir .. "/config", "[core]\n\tbare = false\n")
      write(dir .. "/HEAD", "ref: refs/heads/master\n")
    end

    it("watches a missing .git and .terret", function()
      local g = assert(new()):guarded()
      assert.same({ pins = {}, ro = {}, rw = {} }, { pins = g.pins, ro = g.ro, rw = g.rw })
      assert.is_true(has(g.watch, project .. "/.git"))
      assert.is_true(has(g.watch, project .. "/.terret"))
    end)

    it("pins .git, protects hooks and config, watches the rest", function()
      repository(project .. "/.git")
      mkdir(project .. "/.terret")
      local g = assert(new()):guarded()
      assert.same({ project .. "/.git" }, g.pins)
      assert.same({ project .. "/.git/hooks", project .. "/.git/config", project .. "/.terret" }, g.ro)
      assert.is_true(has(g.watch, project .. "/.git/commondir"))
      assert.is_true(has(g.watch, project .. "/.git/config.worktree"))
    end)

    it("pins a .git that appeared during the session, too", function()
      local p = assert(new())
      repository(project .. "/.git")
      local g = p:guarded()
      assert.same({ project .. "/.git" }, g.pins)
      assert.is_true(has(g.ro, project .. "/.git/hooks"))
    end)

    it("protects the git directories of submodules", function()
      repository(project .. "/.git")
      repository(project .. "/.git/modules/a/b")
      local g = assert(new()):guarded()
      local m = project .. "/.git/modules"
      assert.same({ project .. "/.git", m, m .. "/a", m .. "/a/b" }, g.pins)
      assert.is_true(has(g.ro, m .. "/a/b/hooks"))
    end)

    it("makes a linked worktree's git directory writable when that names the project", function()
      local main = base .. "/main/.git"
      repository(main)
      local wt = main .. "/worktrees/p"
      write(wt .. "/HEAD")
      write(wt .. "/commondir", "../..\n")
      write(wt .. "/gitdir", project .. "/.git\n")
      write(project .. "/.git", "gitdir: " .. wt .. "\n")
      local p = assert(new())
      local g = p:guarded()
      assert.same({ main }, g.rw)
      for _, path in ipairs { project .. "/.git", main .. "/hooks", main .. "/config", wt .. "/commondir",
        wt .. "/gitdir" } do assert.is_true(has(g.ro, path), path) end

      write(wt .. "/gitdir", base .. "/other/.git\n")
      assert.same({}, p:guarded().rw)
      fs.remove(wt .. "/gitdir")
      assert.same({}, p:guarded().rw)
    end)

    it("makes a submodule's git directory writable when that names the project", function()
      local dir = base .. "/super/.git/modules/p"
      repository(dir)
      write(dir .. "/config", "[core]\n\tworktree = ../../../../home/p\n")
      write(project .. "/.git", "gitdir: ../../super/.git/modules/p\n")
      local p = assert(new())
      assert.same({ dir }, p:guarded().rw)
      write(dir .. "/config", "[core]\n\tworktree = /elsewhere\n[user]\n\tworktree = " .. project .. "\n")
      assert.same({}, p:guarded().rw)
    end)

    it("survives broken pointers", function()
      local p = assert(new())
      for _, text in ipairs { "", "gitdir: ", "gitdir: nowhere", "rubbish", "gitdir: \0/", ("x"):rep(10000) } do
        write(project .. "/.git", text)
        assert.same({}, p:guarded().rw)
      end
    end)

    it("watches links, and protects what they lead to in the project", function()
      repository(project .. "/.git")
      assert(fs.remove(project .. "/.git/hooks", { recursive = true }))
      mkdir(project .. "/h")
      link("../h", project .. "/.git/hooks")
      local g = assert(new()):guarded()
      assert.is_true(has(g.ro, project .. "/h"))
      assert.is_true(has(g.watch, project .. "/.git/hooks"))
    end)

    it("leaves a .git that is a link out of the project alone", function()
      repository(base .. "/other")
      link(base .. "/other", project .. "/.git")
      local g = assert(new()):guarded()
      assert.same({}, g.rw)
      assert.same({}, g.ro)
      assert.is_true(has(g.watch, project .. "/.git"))
    end)

    it("has nothing to do when the project is read-only", function()
      repository(project .. "/.git")
      local g = assert(new { readonly = true }):guarded()
      assert.same({ pins = {}, ro = {}, rw = {}, configs = {}, watch = {}, nests = {}, known = {}, whole = {} }, g)
    end)

    describe("settle", function()
      local function settle(change)
        local p = assert(new())
        local g = p:guarded()
        change()
        return p:settle(g)
      end
      local function exists(path) return fs.stat(project .. path, { follow = false }) ~= nil end

      it("leaves what is as it was", function()
        repository(project .. "/.git")
        assert.same({}, settle(function() write(project .. "/.git/index") end))
      end)

      it("puts aside a new .terret, a commondir and hooks", function()
        repository(project .. "/.git")
        assert(fs.remove(project .. "/.git/hooks", { recursive = true }))
        local notes = settle(function()
          write(project .. "/.terret/tools/x.lua")
          write(project .. "/.git/commondir", "../evil\n")
          write(project .. "/.git/hooks/pre-commit")
        end)
        assert.equal(3, #notes)
        for _, path in ipairs { "/.terret", "/.git/commondir", "/.git/hooks" } do
          assert.is_false(exists(path), path)
        end
      end)

      it("puts aside what took the place of a link", function()
        repository(project .. "/.git")
        assert(fs.remove(project .. "/.git/hooks", { recursive = true }))
        link("/nowhere", project .. "/.git/hooks")
        local notes = settle(function()
          assert(fs.remove(project .. "/.git/hooks"))
          write(project .. "/.git/hooks/pre-commit")
        end)
        assert.equal(1, #notes)
        assert.is_false(exists("/.git/hooks"))
      end)

      it("takes a plain new repository", function()
        assert.same({}, settle(function()
          repository(project .. "/.git")
          write(project .. "/.git/hooks/pre-commit.sample")
          write(project .. "/.git/config", '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "o"]\n'
            .. "\turl = https://x/y\n\tfetch = +refs/heads/*:refs/remotes/o/*\n# note\n[user]\n\tname = n\n")
        end))
        assert.is_true(exists("/.git/config"))
      end)

      for name, text in pairs {
        fsmonitor = "[core]\n\tfsmonitor = evil\n", hooksPath = "[core]\nhooksPath=evil\n",
        include = "[include]\n\tpath = evil\n", alias = "[alias]\n\tst = !evil\n",
        ["on the section's line"] = "[core] fsmonitor = evil\n", ["a section's case"] = "[CORE]\nFSMonitor = evil\n",
        subsection = '[diff "x"]\n\ttextconv = evil\n', ["worktree"] = "[extensions]\n\tworktreeConfig = true\n",
        sshCommand = "[core]\n\tsshCommand = evil\n", ["a continued line"] = "[alias]\nst = a\\\nb\n",
      } do
        it("drops from a new repository's configuration: " .. name, function()
          local notes = settle(function()
            repository(project .. "/.git")
            write(project .. "/.git/config", "[user]\n\tname = n\n" .. text)
          end)
          assert.equal(1, #notes)
          assert.matches("^dropped from ", notes[1])
          assert.equal("[user]\n\tname = n\n", (fs.read(project .. "/.git/config")))
        end)
      end

      for name, text in pairs { ["no section"] = "fsmonitor = evil\n", ["a word without letters"] = "[core]\n=\n" } do
        it("puts aside a new repository's configuration that can't be read: " .. name, function()
          local notes = settle(function()
            repository(project .. "/.git")
            write(project .. "/.git/config", text)
          end)
          assert.equal(1, #notes)
          assert.is_false(exists("/.git/config"))
        end)
      end

      it("puts things into the session's quarantine, not beside", function()
        repository(project .. "/.git")
        local notes = settle(function() write(project .. "/.terret/x", "evil") end)
        local aside = notes[1]:match("is now (.*)$")
        assert.matches(base .. "/s/tmp.quarantine/.terret-", aside, 1, true)
        assert.equal("evil", (fs.read(aside .. "/x")))
      end)

      it("looks at submodules and worktrees that a command made", function()
        repository(project .. "/.git")
        mkdir(project .. "/lib")
        local notes = settle(function()
          repository(project .. "/.git/modules/lib")
          write(project .. "/.git/modules/lib/config", "[core]\n\tworktree = ../../../lib\n\tfsmonitor = evil\n")
          repository(project .. "/.git/modules/out")
          write(project .. "/.git/modules/out/config", "[core]\n\tworktree = ../../../../other\n")
          write(project .. "/.git/modules/out/hooks/pre-commit", "evil")
          link(base .. "/evil", project .. "/.git/modules/link")
          write(project .. "/.git/worktrees/good/HEAD", "ref: refs/heads/x\n")
          write(project .. "/.git/worktrees/good/commondir", "../..\n")
          write(project .. "/.git/worktrees/bad/HEAD", "ref: refs/heads/x\n")
          write(project .. "/.git/worktrees/bad/commondir", "../../../evil\n")
        end)
        assert.equal("[core]\n\tworktree = ../../../lib\n", (fs.read(project .. "/.git/modules/lib/config")))
        assert.equal("", (fs.read(project .. "/.git/modules/out/config")))
        for _, path in ipairs { "/modules/out/hooks", "/modules/link", "/worktrees/bad" } do
          assert.is_false(exists("/.git" .. path), path)
        end
        assert.is_true(exists("/.git/worktrees/good/HEAD"))
        assert.equal(5, #notes)
      end)

      it("puts aside a file or link as new .git", function()
        assert.equal(1, #settle(function() write(project .. "/.git", "gitdir: evil\n") end))
        assert.equal(1, #settle(function() link("evil", project .. "/.git") end))
        assert.is_false(exists("/.git"))
      end)
    end)
  end)

  describe("resolve", function()
    local p
    before_each(function()
      write(project .. "/a/b.txt", "text")
      mkdir(base .. "/home/other")
      write(home .. "/other/f")
      mkdir(home .. "/.ssh")
      p = assert(new())
    end)

    it("finds files of the project", function()
      local r = assert(p:resolve("a/b.txt", "read"))
      assert.equal("a/b.txt", r.rel)
      assert.equal(project .. "/a/b.txt", r.host)
      assert.equal("text", (r.root:read(r.rel)))
      assert.equal("a/b.txt", assert(p:resolve("b.txt", "write", project .. "/a")).rel)
      assert.equal("a/b.txt", assert(p:resolve(project .. "/a/../a//b.txt", "write")).rel)
      assert.equal(".", assert(p:resolve(".", "read")).rel)
    end)

    it("refuses a path that is too long at once", function()
      local started = os.clock()
      for _, path in ipairs { ("x/"):rep(100000), ("x"):rep(4097), "~/" .. ("../"):rep(70000) } do
        assert.equal("denied", select(3, p:resolve(path, "read")))
        assert.equal("denied", select(3, p:resolve(path, "write")))
      end
      assert.is_true(os.clock() - started < 0.5)
      assert.is_truthy(p:resolve(("d/"):rep(1000) .. "f", "write"))
    end)

    it("takes new files below new directories", function()
      assert.equal("n/m/x", assert(p:resolve("n/m/x", "write")).rel)
      assert.equal("x", assert(p:resolve("n/../x", "write")).rel)
    end)

    it("refuses writing outside, reads there", function()
      local r, message, code = p:resolve("../other/f", "write")
      assert.is_nil(r)
      assert.equal("denied", code)
      assert.matches("--rw", message, 1, true)
      assert.equal("x", (function() local o = assert(p:resolve("~/other/f", "read")) return (o.root:read(o.rel)) end)())
    end)

    it("follows links before it judges", function()
      link(home .. "/other", project .. "/l")
      link(home .. "/.ssh", project .. "/s")
      assert.equal("denied", select(3, p:resolve("l/f", "write")))
      assert.equal("denied", select(3, p:resolve("s/id", "read")))
      link(home .. "/other/none", project .. "/dangling")
      local r = assert(p:resolve("dangling", "write"))
      assert.is_nil((r.root:write(r.rel, "x")))
      assert.is_nil(fs.stat(home .. "/other/none"))
    end)

    it("refuses secrets", function()
      assert.equal("denied", select(3, p:resolve("~/.ssh/id", "read")))
      assert.equal("denied", select(3, p:resolve("~/.ssh", "read")))
    end)

    it("never shows the host's /proc, /dev, /run", function()
      link("/proc/self/environ", project .. "/e")
      for _, path in ipairs { "e", "/proc/self/environ", "/proc/1/environ", "/dev/null", "/run/x",
        "/dev/shm/../null" } do
        assert.equal("denied", select(3, p:resolve(path, "read")), path)
      end
    end)

    it("maps /tmp and its like to the session's", function()
      local r = assert(p:resolve("/tmp/x/y", "write"))
      assert.equal(base .. "/s/tmp/x/y", r.host)
      assert.equal("/tmp/x/y", r.path)
      assert.equal("denied", select(3, p:resolve("/tmp/../proc/1/environ", "read")))
      link(home .. "/other", base .. "/s/tmp/out")
      local o = assert(p:resolve("/tmp/out/f", "read"))
      assert.equal("escapes", select(3, o.root:read(o.rel)))
    end)

    it("refuses protected places, whatever their letters", function()
      mkdir(project .. "/.git/hooks")
      write(project .. "/.git/config")
      for _, path in ipairs { ".git/hooks/pre-commit", ".git/config", ".git/commondir", ".git", ".GIT/hooks/x",
        ".terret/x", ".Terret/x", "a/../.git/config" } do
        assert.equal("denied", select(3, p:resolve(path, "write")), path)
        assert.is_truthy(p:resolve(path, "read"), path)
      end
      assert.is_truthy(p:resolve(".git/info/exclude", "write"))
      assert.is_truthy(p:resolve(".github/workflows/x.yml", "write"))
      assert.is_truthy(p:resolve(".gitignore", "write"))
    end)

    it("writes nothing in a read-only project but /tmp", function()
      p = assert(new { readonly = true })
      assert.equal("denied", select(3, p:resolve("a/b.txt", "write")))
      assert.is_truthy(p:resolve("a/b.txt", "read"))
      assert.is_truthy(p:resolve("/tmp/x", "write"))
    end)

    it("writes where --rw says", function()
      p = assert(new { rw = { home .. "/other" } })
      assert.equal("f", assert(p:resolve("~/other/f", "write")).rel)
    end)

    it("refuses what is no path", function()
      assert.equal("denied", select(3, p:resolve("", "read")))
      assert.equal("denied", select(3, p:resolve("a\0b", "read")))
      assert.error(function() p:resolve("a", "exec") end)
    end)
  end)

  describe("env", function()
    it("drops keys, loaders and ways out", function()
      local env = assert(new()):env { PATH = "/usr/bin:.::bin:/bin", HOME = "/x", MYVAR = "hello", EDITOR = "vi",
        OPENAI_API_KEY = "abc", GH_TOKEN = "t", DB_PASSWORD = "p", AWS_REGION = "x", LD_PRELOAD = "/x.so",
        BASH_ENV = "x", SSH_AUTH_SOCK = "/x", DBUS_SESSION_BUS_ADDRESS = "x", URL = "https://u:p@h/",
        K = "sk-0123456789",
        GIT_AUTHOR_NAME = "n", GIT_DIR = "/x", ["BASH_FUNC_x%%"] = "() {", http_proxy = "x", TMPDIR = "/elsewhere" }
      assert.same({ PATH = "/usr/bin:/bin", HOME = home, MYVAR = "hello", EDITOR = "vi", GIT_AUTHOR_NAME = "n",
        LANG = "C.UTF-8", TMPDIR = "/tmp", XDG_CACHE_HOME = "/tmp/.cache", npm_config_cache = "/tmp/.cache/npm" }, env)
    end)

    it("keeps harmless names that look a little alike", function()
      for _, name in ipairs { "KEYBOARD", "PWDX", "TERM", "LANG", "PATHEXT", "NODE_ENV", "CI", "AUTHOR",
        "TOKENIZERS_PARALLELISM", "COMPASS_DIR", "GOFLAGS", "CARGO_HOME", "PYTHONPATH" } do
        assert.is_true(environ.keep(name, "x"), name)
      end
    end)

    it("drops what config names", function()
      assert.is_nil(assert(new { drop_env = { "MINE" } }):env({ MINE = "x" }).MINE)
    end)

    it("keeps the language that is set", function()
      assert.equal("de_DE.UTF-8", assert(new()):env({ LC_ALL = "de_DE.UTF-8" }).LC_ALL)
      assert.is_nil(assert(new()):env({ LC_ALL = "de_DE.UTF-8" }).LANG)
    end)
  end)

  it("has private caches where a directory for them is given", function()
    mkdir(home .. "/.cache")
    mkdir(home .. "/.cargo/registry")
    local p = assert(new { cache_dir = base .. "/c" })
    assert.same({ { inside = home .. "/.cache", host = base .. "/c/.cache" } }, p.caches)
    assert.equal(home .. "/.cache", p:env({}).XDG_CACHE_HOME)
    p = assert(new { cache_dir = base .. "/c", net = { "crates.io" } })
    assert.equal(home .. "/.cargo/registry", p.caches[2].inside)
  end)

  it("explains itself", function()
    local text = table.concat(assert(new()):explain(), "\n")
    assert.matches("project: " .. project, text, 1, true)
    assert.matches("network: none", text, 1, true)
    assert.matches("watched: " .. project .. "/.terret", text, 1, true)
  end)

  it("finds the project of a directory", function()
    mkdir(project .. "/a/b")
    assert.equal(project .. "/a/b", policy.for_directory(project .. "/a/b").project)
    mkdir(project .. "/.git")
    local o = policy.for_directory(project .. "/a/b")
    assert.equal(project, o.project)
    assert.matches("/terret/projects/%x+/cache$", o.cache_dir)
  end)
end)

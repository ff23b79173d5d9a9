-- Git configurations that commands forge over several calls, and that the user's next `git status` would obey.

local fs = require "terret.fs"
local sandbox = require "terret.sandbox"
local bubblewrap = require "terret.sandbox.bubblewrap"
local git = require "terret.sandbox.policy.git"
local landlock = require "terret.sandbox.landlock"
local policy = require "terret.sandbox.policy"
local task = require "terret.task"

local EVIL = "[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch PWNED\\n"

local function common(backend)
  local base, project, p

  local function write(path, text) assert(fs.write(path, text or "x", { parents = true, sync = false })) end
  local function mkdir(path) assert(fs.mkdir(path, { parents = true })) end
  local function exists(path) return fs.stat(project .. path, { follow = false }) ~= nil end

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/forged-")))
    project = base .. "/home/p"
    mkdir(project)
    mkdir(base .. "/tmp")
  end)
  after_each(function()
    if p then sandbox.close(p) end
    p = nil
    assert(fs.remove(base, { recursive = true }))
  end)

  local function new()
    p = assert(policy.new { project = project, home = base .. "/home", tmp = base .. "/tmp" })
  end

  local function run(command)
    local process = assert(sandbox.spawn(backend, p, { "/bin/sh", "-c", command }))
    task.await(process)
    local status, output = process:status(), process:output()
    local notes = sandbox.finish(process)
    process:close()
    return output.head, notes, status
  end

  local function repository(dir, config)
    mkdir(dir .. "/hooks")
    mkdir(dir .. "/objects")
    mkdir(dir .. "/refs")
    write(dir .. "/config", config or "[core]\n\tbare = false\n")
    write(dir .. "/HEAD", "ref: refs/heads/main\n")
  end

  -- No configuration that git finds in the project's repository names a program.
  local function harmless(dir)
    for _, e in ipairs(fs.list(dir) or {}) do
      local path = dir .. "/" .. e.name
      if e.type == "directory" then
        harmless(path)
      elseif e.name == "config" then
        local text = assert(fs.read(path))
        assert.is_nil(text:find("fsmonitor", 1, true), path)
      end
    end
  end

  it("a .git that a command made is replaced by the next one", function()
    new()
    run("mkdir -p .git/objects .git/refs; echo 'ref: refs/heads/main' > .git/HEAD; printf '[core]\\n' > .git/config")
    assert.is_true(exists("/.git/config"))
    local _, notes = run("mv .git .g2; mkdir .git; cp -r .g2/HEAD .g2/objects .g2/refs .git/; printf '" .. EVIL
      .. "' > .git/config; rm -rf .g2; true")
    harmless(project .. "/.git")
    assert.is_true(#notes > 0)
  end)

  it("a submodule of a repository that a command makes in one go", function()
    new()
    local _, notes = run("mkdir -p .git/modules/lib/modules/in; echo x > .git/HEAD; printf '[core]\\n' > .git/config; "
      .. "printf '" .. EVIL .. "' | tee .git/modules/lib/config > .git/modules/lib/modules/in/config")
    harmless(project .. "/.git")
    assert.equal(2, #notes, table.concat(notes, "; "))
  end)

  it("a submodule that loses its HEAD for a call", function()
    repository(project .. "/.git")
    repository(project .. "/.git/modules/lib")
    new()
    run("mv .git/modules/lib/HEAD .git/modules/lib/HEAD.x")
    assert.is_true(p:guarded().known[project .. "/.git/modules/lib"] ~= nil)
    run("printf '" .. EVIL .. "' >> .git/modules/lib/config; mv .git/modules/lib/HEAD.x .git/modules/lib/HEAD")
    harmless(project .. "/.git")
    assert.is_true(exists("/.git/modules/lib/HEAD"))
  end)

  it("a submodule that loses every sign of it for a call", function()
    repository(project .. "/.git")
    write(project .. "/.git/modules/lib/HEAD", "ref: refs/heads/main\n")
    new()
    run("mv .git/modules/lib/HEAD .git/modules/lib/HEAD.x")
    run("printf '" .. EVIL .. "' > .git/modules/lib/config; mv .git/modules/lib/HEAD.x .git/modules/lib/HEAD")
    harmless(project .. "/.git")
  end)

  it("a submodule below a directory that got a HEAD", function()
    repository(project .. "/.git")
    repository(project .. "/.git/modules/group/lib")
    write(project .. "/.git/modules/group/HEAD")
    new()
    run("printf '" .. EVIL .. "' >> .git/modules/group/lib/config")
    harmless(project .. "/.git")
  end)

  it("a submodule of a linked worktree, and a worktree of a submodule", function()
    repository(project .. "/.git")
    repository(project .. "/.git/worktrees/w/modules/lib")
    write(project .. "/.git/worktrees/w/HEAD")
    write(project .. "/.git/worktrees/w/commondir", "../..\n")
    repository(project .. "/.git/modules/lib")
    write(project .. "/.git/modules/lib/worktrees/w/commondir", "../..\n")
    new()
    run("printf '" .. EVIL .. "' >> .git/worktrees/w/modules/lib/config; "
      .. "echo ../evil > .git/modules/lib/worktrees/w/commondir")
    harmless(project .. "/.git")
    assert.equal("../..\n", (fs.read(project .. "/.git/modules/lib/worktrees/w/commondir")))
  end)

  it("the target of a .git that is a link", function()
    repository(project .. "/real/git")
    assert(os.execute(("ln -s real/git '%s/.git'"):format(project)))
    new()
    run("mv real r2; mkdir real; cp -r r2/git real/git; printf '" .. EVIL .. "' >> real/git/config; rm -rf r2; true")
    harmless(project .. "/real")
  end)

  it("a project that becomes a git directory itself", function()
    new()
    run("mkdir objects refs; echo 'ref: refs/heads/x' > HEAD; printf '" .. EVIL .. "' > config")
    harmless(project)
    run("printf '" .. EVIL .. "' > config")
    harmless(project)
  end)

  it("files that the file tools would write", function()
    new()
    for _, path in ipairs { ".git/config", ".git/index", ".GIT/HEAD", "sub/.git/config", ".git" } do
      assert.equal("denied", select(3, p:resolve(path, "write")), path)
    end
    assert.is_truthy(p:resolve(".gitignore", "write"))
    assert.is_truthy(p:resolve("config", "write"))
    repository(project)
    assert.equal("denied", select(3, p:resolve("config", "write")))
  end)

  describe("submodules in the index", function()
    local env = "export HOME=$PWD GIT_AUTHOR_NAME=n GIT_AUTHOR_EMAIL=e GIT_COMMITTER_NAME=n GIT_COMMITTER_EMAIL=e; "
    local start = env .. "git init -q . && git init -q sub && cd sub && echo b > b && git add b && git commit -qm b; "

    for _, version in ipairs { 2, 4 } do
      it("that a command adds, version " .. version, function()
        new()
        run(start .. "cd ..; git update-index --index-version " .. version .. "; echo a > a; mkdir s; echo b > s/u; "
          .. "git add a s; git commit -qm a; printf '" .. EVIL .. "' > sub/.git/config")
        if not exists("/.git/index") then return pending("no git here") end
        assert.truthy(fs.read(project .. "/sub/.git/config"):find("fsmonitor", 1, true)) -- nothing goes there
        local _, notes = run("git -c core.fsmonitor= add sub 2> /dev/null; git ls-files -s sub")
        assert.is_nil(fs.read(project .. "/sub/.git/config"):find("fsmonitor", 1, true))
        assert.matches("core.fsmonitor", table.concat(notes), 1, true)
      end)
    end

    it("that are there", function()
      new()
      run(start .. "cd ..; git add sub 2> /dev/null; echo '[core]' > sub/.git/config")
      if not exists("/.git/index") then return pending("no git here") end
      run("printf '" .. EVIL .. "' >> sub/.git/config")
      harmless(project .. "/sub")
      run("cp -r sub/.git e; printf '" .. EVIL .. "' > e/config; mv sub/.git f; echo 'gitdir: ../e' > sub/.git; true")
      assert.is_false(exists("/sub/.git"))
      run("mv e sub/.git")
      harmless(project .. "/sub")
    end)

    it("of a submodule", function()
      new()
      run(start .. "git init -q in; cd in; echo b > b && git add b && git commit -qm b; printf '" .. EVIL
        .. "' > .git/config; cd ..; git -c core.fsmonitor= add in; cd ..; git add sub")
      if not exists("/.git/index") then return pending("no git here") end
      harmless(project .. "/sub")
    end)
  end)

  describe("decoys", function()
    local nested, visited = git.MAX_NESTED, git.MAX_VISITED
    after_each(function() git.MAX_NESTED, git.MAX_VISITED = nested, visited end)

    -- What a command is refused is not written either.
    local function try(command)
      local process = sandbox.spawn(backend, p, { "/bin/sh", "-c", command })
      if not process then return end
      task.await(process)
      local notes = sandbox.finish(process)
      process:close()
      return notes
    end

    it("more than are protected one by one", function()
      git.MAX_NESTED = 3
      repository(project .. "/.git")
      repository(project .. "/.git/modules/lib")
      new()
      run("for i in 1 2 3 4 5; do mkdir .git/modules/a$i; echo x > .git/modules/a$i/HEAD; done")
      local notes = try("printf '" .. EVIL .. "' >> .git/modules/lib/config; printf '" .. EVIL
        .. "' >> .git/modules/a4/config")
      harmless(project .. "/.git")
      if notes then assert.matches("more than 3 git directories", notes[1], 1, true) end
    end)

    it("more directories than are looked at", function()
      git.MAX_VISITED = 20
      repository(project .. "/.git")
      repository(project .. "/.git/modules/lib")
      new()
      local _, notes = run("for i in 1 2 3 4 5 6 7 8; do mkdir -p .git/modules/a$i/b/c/d; done; mkdir .git/modules/z; "
        .. "printf '" .. EVIL .. "' > .git/modules/z/config")
      assert.matches("holds too much to be looked at; 9 things", notes[1], 1, true)
      assert.same(1, #fs.list(project .. "/.git/modules"))
      run("mkdir .git/modules/lib/q; cd .git/modules/lib/q; for i in 1 2 3 4 5 6 7 8; do mkdir -p $i/b/c; done")
      try("printf '" .. EVIL .. "' >> .git/modules/lib/config")
      harmless(project .. "/.git")
    end)
  end)
end

describe("sandbox: git forged", function()
  for _, backend in ipairs { bubblewrap, landlock } do
    describe("under " .. backend.name .. ":", function()
      if backend.available() then common(backend) else pending(backend.name .. " does not work here") end
    end)
  end
end)

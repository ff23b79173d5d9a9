-- The quick ones of tests/sandbox: attacks that must be blocked, work that must go on.  `make test-sandbox`
-- runs all.
local exec = require "terret.exec"
local fs = require "terret.fs"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local terret = require "support.terret"

local ATTACKS = "w-suid-bit,n-vsock,n-unix-path,k-iouring,b-fork,g-commondir,g-rename-git,i-keyring,r-secret-mv"
local WORK = "git-stash,git-worktree-run,git-submodule,mktemp,uid,newline-path"
local AS_NOBODY = "w-suid-bit,k-iouring,b-fork,g-commondir,r-secret-mv"

describe("the sandbox", function()
  local backend = sandbox.pick("auto")
  if not backend or backend.name ~= "bubblewrap" then
    pending("bubblewrap does not work here")
    return
  end

  local function run(runner, ids, ...)
    local env = exec.environ()
    env.TERRET, env.TMPDIR = terret.executable(), nil
    local argv = { "python3", "tests/sandbox/" .. runner .. ".py", "--ids", ids, ... }
    local p <close> = exec.spawn { argv = argv, env = env, timeout = 120 }
    if not p then return pending("no python3 here") end
    task.await(p)
    assert.equal(0, p:status().code, p:output().head)
  end

  it("blocks attacks", function() run("run_attacks", ATTACKS) end)
  it("lets work go on", function() run("run_legit", WORK) end)
  it("is the same for who has no rights as for root", function()
    if fs.whoami().uid == 0 then run("run_attacks", AS_NOBODY, "--user", "nobody") end
  end)
end)

-- terret.sandbox.policy.watch: limits that are looked after from outside.

local exec = require "terret.exec"
local fs = require "terret.fs"
local task = require "terret.task"
local watch = require "terret.sandbox.policy.watch"

local pid = fs.whoami().pid
if not fs.stat(("/proc/%d/task/%d/children"):format(pid, pid)) then
  pending("this kernel doesn't list the children of a process")
  return
end

describe("sandbox.policy.watch", function()
  local function start(command) return assert(exec.spawn { argv = { "/bin/sh", "-c", command }, stream = true }) end

  -- Starts a command and waits for its line `up`.
  local function up(command)
    local process, said = start(command), ""
    while not said:find("up\n", 1, true) do
      task.await(process)
      said = said .. assert(process:read(), said)
    end
    return process
  end

  it("finds a process and all below it", function()
    local process <close> = up("(sleep 9 & sleep 9 & echo up; wait) & wait")
    assert.equal(4, #watch.processes(process:pid()))
    assert.is_true(#watch.processes(process:pid(), 1) < 4)
    assert.same({ 0x7fffffff }, watch.processes(0x7fffffff))
  end)

  it("says which limit is passed", function()
    local process <close> = up("sleep 9 & sleep 9 & echo up; wait")
    assert.equal("nproc", watch.over(process:pid(), { nproc = 2 }))
    assert.is_nil(watch.over(process:pid(), { nproc = 3 }))
    assert.equal("memory", watch.over(process:pid(), { memory = 1000 }))
    assert.is_nil(watch.over(process:pid(), { memory = 1 << 30 }))
    assert.is_nil(watch.over(process:pid(), {}))
  end)

  it("kills a command that is over a limit", function()
    for name, command in pairs { nproc = "while :; do sleep 9 & done", memory = "x=a; while :; do x=$x$x; done" } do
      local hit = {}
      task.run(function()
        local process <close> = start(command)
        task.spawn(watch.follow, process, { nproc = 20, memory = 64 << 20 }, hit)
        while not process:status() do
          task.await(process)
          process:read()
        end
        assert.equal("KILL", process:status().signal)
      end)
      assert.same({ [name] = true }, hit)
    end
  end)

  it("ends with the command, also when that is closed", function()
    task.run(function()
      local process = start("exit 3")
      local t = task.spawn(watch.follow, process, { memory = 1 << 40 }, {})
      while not process:status() do
        task.await(process)
        process:read()
      end
      process:close()
      assert.is_nil(task.await(t))
    end)
  end)
end)

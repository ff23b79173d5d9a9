-- scripts/tools/job.lua, scripts/jobs.lua and `bash` with background: over a real agent and sandbox.
local fake = require "support.fakecall"
local fs = require "terret.fs"
local jobs = require "terret.jobs"
local json = require "terret.json"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local world = require "support.world"

local backend, why = sandbox.pick("auto")

describe("job", function()
  if not backend then
    pending("no sandbox works here: " .. tostring(why))
    return
  end

  local call, agent

  -- An agent as far as jobs see one.
  local function new_agent(list)
    local p = assert(sandbox.policy.new { project = call.cwd, home = call.dir, tmp = call.dir .. "/tmp",
      rw = { call.cwd } })
    return { policy = p, shared = { jobs = list or jobs.new { first_look = 0.03, grace = 0.1 } },
      backend = function() return backend end }
  end

  before_each(function()
    call = fake.new { limits = { bash_bytes = 400 } }
    agent = new_agent()
    call.agent = agent
  end)
  after_each(function()
    agent.shared.jobs:close()
    sandbox.close(agent.policy)
    getmetatable(call).__close(call)
  end)

  local function start(command, more)
    local args = { command = command, background = true }
    for k, v in pairs(more or {}) do args[k] = v end
    return fake.run("bash", args, call)
  end
  local function job(id, action) return fake.run("job", { id = id, action = action }, call) end
  -- What the call itself would run: in the sandbox, waiting.
  local function run(command)
    local process <close> = assert(sandbox.spawn(backend, agent.policy, { "/bin/sh", "-c", command }))
    task.await(process)
    return process:output().head
  end

  -- Asks until the answer holds the words.
  local function until_says(id, words)
    local all = ""
    for _ = 1, 200 do
      all = all .. job(id) .. "\n"
      if all:find(words, 1, true) then return all end
      task.sleep(0.01)
    end
    error(("job %s never said %q: %s"):format(id, words, all))
  end

  local function file(name) return fs.read(call.cwd .. "/" .. name) ~= nil end

  it("serves later calls over the session's loopback", function()
    if backend.name ~= "bubblewrap" then return pending("only namespaces have a loopback of their own") end
    local text = start("echo page > index.html; exec python3 -u -m http.server --bind 127.0.0.1 8123")
    if text:find("not found", 1, true) then return pending("no python3 here") end
    assert.matches("^started as job j1;", text)
    until_says("j1", "Serving HTTP")
    local fetch = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/').read())\""
    assert.equal("b'page\\n'\n", run(fetch))
    assert.matches("GET / HTTP/1.1", until_says("j1", "200"), 1, true)
    assert.matches("[job j1: killed by TERM", job("j1", "stop"), 1, true)
    assert.matches("refused", run(fetch .. " 2>&1"))
  end)

  it("tells what fails at once, with its status", function()
    agent.shared.jobs = jobs.new { first_look = 5 }
    local text = start("echo bad; exit 3")
    assert.equal("bad\n[job j1: exit status 3", text:match("^(.-), after"))
    assert.same({}, agent.shared.jobs:finished_notes(agent.policy))
  end)

  it("shows new output only", function()
    start("echo one; while [ ! -e go ]; do sleep 0.01; done; echo two; sleep 60")
    assert.equal("(no new output)\n[job j1: running]", job("j1"))
    call:put("go", "")
    local said = until_says("j1", "two")
    assert.is_nil(said:find("one", 1, true))
  end)

  it("cuts what is long, and names the blob", function()
    local count = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
    start("while [ ! -e go ]; do sleep 0.01; done; " .. count .. "; : > done; sleep 60")
    call:put("go", "")
    for _ = 1, 300 do
      if file("done") then break end
      task.sleep(0.01)
    end
    local all = job("j1")
    assert.matches("bytes elided", all)
    assert.is_true(#all < 700)
    assert.matches('recall{id="b1"}', all, 1, true)
    assert.matches("line 19999", all)
    assert.matches("^line 0\n", assert(call:blob_read("b1")))
  end)

  it("is stopped with all that it started, also when it ignores TERM", function()
    start("trap '' TERM; sleep 60 & sleep 60; sleep 60")
    assert.matches("killed by KILL", job("j1", "stop"))
    assert.matches("killed by KILL", job("j1", "stop")) -- again: only says so
  end)

  it("has no time limit unless one is given", function()
    start("sleep 60", { timeout = 0.3 })
    assert.matches("timed out", until_says("j1", "timed out"))
  end)

  it("is announced once when it has ended", function()
    start("while [ ! -e go ]; do sleep 0.01; done; printf 'built\\nok\\n'; exit 2")
    local list = agent.shared.jobs
    assert.same({}, list:finished_notes(agent.policy))
    call:put("go", "")
    local notes
    for _ = 1, 200 do
      notes = list:finished_notes(agent.policy)
      if notes[1] then break end
      task.sleep(0.01)
    end
    assert.matches("^job j1 %(while .*%) has ended: exit status 2, after .*; its last words: ", notes[1])
    assert.matches("built\\nok", notes[1], 1, true)
    assert.same({}, list:finished_notes(agent.policy))
  end)

  it("is seen by agents of its policy only", function()
    start("sleep 60")
    call.agent = new_agent(agent.shared.jobs)
    local text, message, code = job("j1")
    assert.is_nil(text)
    assert.equal("no job 'j1'; there are none; jobs end with the session", message)
    assert.equal("not_found", code)
  end)

  it("that isn't there is answered with those that are", function()
    start("sleep 60")
    assert.matches("no job 'j\\x1b9'; there are: j1 (sleep 60: running)", select(2, job("j\27" .. "9")), 1, true)
  end)

  it("ends when the jobs are closed", function()
    start("echo $$; sleep 60")
    local process = agent.shared.jobs.list[1].process
    local pid = process:pid()
    agent.shared.jobs:close(agent.policy)
    assert.is_nil(fs.stat("/proc/" .. pid))
    assert.same({}, agent.shared.jobs.list)
  end)

  it("says why it can't start", function()
    agent.backend = function() return nil, "no sandbox works here", "no_sandbox" end
    assert.same({ nil, "no sandbox works here", "no_sandbox" }, { start("true") })
  end)

  it("runs for an agent: started in one call, reached in the next, its end told as a note", function()
    local serve = "import socket; s = socket.create_server(('127.0.0.1', 8124)); print('up', flush=True); "
      .. "c = s.accept()[0]; c.sendall(b'served'); c.close()"
    local fetch = "import socket, time\nfor i in range(100):\n"
      .. "  try: s = socket.create_connection(('127.0.0.1', 8124)); break\n"
      .. "  except OSError: time.sleep(.02)\nprint(s.recv(9))"
    local function bash(code, background)
      return { tool_calls = { { name = "bash", arguments = json.encode { background = background,
        command = "python3 -c \"" .. code .. "\"" } } } }
    end
    local w <close> = world.new { script = { bash(serve, true), bash(fetch), { tool_calls = { { name = "bash",
      arguments = '{"command":"sleep 0.2"}' } } }, { text = "done" } } }
    assert.equal("done", w:prompt("go").status)
    local results = w:results()
    if results[1]:find("not found", 1, true) then return pending("no python3 here") end
    assert.matches("started as job j1", results[1])
    assert.equal("b'served'", results[2])
    local notes = {}
    for _, r in ipairs(w:logged("message")) do
      if r.kind == "note" then notes[#notes + 1] = r.content end
    end
    assert.matches("job j1 (python3 -c", table.concat(notes), 1, true)
    assert.matches("has ended: exit status 0", table.concat(notes), 1, true)
    w.agent.shared.jobs:close()
  end)
end)

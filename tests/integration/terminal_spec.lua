-- The executable on a real terminal: tmux types and looks at the screen.  Nothing sleeps for a time that
-- should do: each step waits until the screen shows what it must, or fails after a deadline.
local exec = require "terret.exec"
local fs = require "terret.fs"
local reactor = require "terret.reactor"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local terret = require "support.terret"

local BACKEND = sandbox.pick("auto") and "auto" or "none"
local DEADLINE = 20

local function run(argv, env)
  local process <close>, message, code = exec.spawn { argv = argv, env = env, timeout = 30 }
  if not process then return nil, message, code end
  task.await(process)
  local output = process:output()
  return output.head .. output.tail, process:status().code
end

local version = run { "tmux", "-V" }
if not version then
  describe("the terminal", function()
    it("is not tested here, since there is no tmux", function() end)
  end)
  return
end

local SCRIPT = [[
return {
  { text = "# Plan\n\nI will **make** a file, after a paragraph that is longer than the terminal is wide.\n",
    tool_calls = { { name = "bash",
      arguments = { command = "touch file\nseq 1 20; printf 'red\\033[31m\\n'" } } } },
  { text = "The first is done." },
  { delay = 300, text = "never" },
  { text = "The third is done." },
  { text = "The fourth is done." },
}]]

local RC = "set -g remain-on-exit on\nset -g status off\nset -s escape-time 0\nset -g default-terminal screen\n"

---@class pane
local Pane = {}
Pane.__index = Pane

function Pane:tmux(...)
  return run({ "tmux", "-u", "-S", self.home.dir .. "/tmux", "-f", self.home:put("tmux.conf", RC), ... }, self.env)
end

-- Starts terret in a terminal of its own; what it writes is recorded as well.
local function start(home, columns, rows, options)
  options = options or {}
  local self = setmetatable({ home = home, env = home:environ(options.env) }, Pane)
  self.env.TMUX = nil
  local argv = { terret.executable(), "--provider", "scripted", "--script", home:put("script.lua", SCRIPT), "--sandbox",
    BACKEND }
  table.move(options.args or {}, 1, #(options.args or {}), #argv + 1, argv)
  -- The terminal's settings before and after; the recording begins before terret does.
  local script = 'trap : INT; stty -g >"$0/before"; read go; ' .. (options.set or "") .. ' "$@"; '
    .. 'echo "ended with $?"; stty -g >"$0/after"'
  local out, code = self:tmux("new-session", "-d", "-x", tostring(columns), "-y", tostring(rows), "-c", home.project,
    "/bin/sh", "-c", script, home.dir, table.unpack(argv))
  assert.equal(0, code, out)
  self:tmux("pipe-pane", "cat >'" .. home.dir .. "/recorded'")
  self:tmux("send-keys", "go", "Enter")
  return self
end

function Pane:screen() return (self:tmux("capture-pane", "-p", "-S", "-500")) end

-- Waits until the screen shows a text (plain), n times at least.
function Pane:see(words, n)
  local deadline = reactor.now() + DEADLINE
  while true do
    local screen, count, at = self:screen(), 0, 1
    while true do
      local _, stop = screen:find(words, at, true)
      if not stop then break end
      count, at = count + 1, stop + 1
    end
    if count >= (n or 1) then return screen end
    if reactor.now() > deadline then error(("%q is not on the screen:\n%s"):format(words, screen), 2) end
    task.sleep(0.02)
  end
end

function Pane:type(...) self:tmux("send-keys", ...) end

function Pane:close() self:tmux("kill-server") end
Pane.__close = Pane.close

local function restored(home)
  local deadline = reactor.now() + DEADLINE
  while (home:get("after") or "") == "" and reactor.now() < deadline do task.sleep(0.02) end
  assert.equal(home:get("before"), home:get("after"))
end

for _, size in ipairs { { 80, 24 }, { 46, 14 } } do
  describe(("a terminal of %d columns and %d rows"):format(table.unpack(size)), function()
    local home
    before_each(function() home = terret.home() end)
    after_each(function() home:close() end)

    it("takes prompts, asks, shows tools, is interrupted, and is given back", function()
      local pane <close> = start(home, size[1], size[2])
      pane:see("mode ask")
      pane:type("make it", "Enter")
      local screen = pane:see("waiting for your answer")
      assert.truthy(screen:find("> make it\n\n# Plan\n\nI will make a file", 1, true), screen)
      assert.truthy(screen:find("\n? bash wants to run:\n  │ touch file↵\n  │ seq 1 20; printf 'red", 1, true),
        screen)
      assert.is_nil(home:get("project/file"))
      task.sleep(0.3) -- keys count only from then on: this wait is what is tested
      pane:type("y")
      screen = pane:see("The first is done.")
      assert.truthy(screen:find("✓ bash", 1, true), screen)
      assert.truthy(screen:find("\n  1\n  2\n  3\n  4\n  5\n  … 16 more lines\n", 1, true), screen)
      assert.equal("", home:get("project/file"))

      pane:type("wait", "Enter")
      pane:see("Esc interrupts")
      pane:type("more words", "Enter")
      pane:see("> more words")
      pane:type("Escape")
      pane:see("interrupted")
      pane:type("go on", "Enter")
      pane:see("The third is done.")
      pane:type("/cost", "Enter")
      pane:see("requests · in")
      pane:type("C-d")
      screen = pane:see("ended with 0")
      assert.truthy(screen:find("goes on with it", 1, true), screen)
      assert.is_nil(screen:find("mode ask", 1, true), "live rows are left on the screen:\n" .. screen)
      restored(home)
    end)
  end)
end

describe("a terminal", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  it("takes no for an answer, and words with it", function()
    local pane <close> = start(home, 80, 24, { args = { "first" } })
    assert.truthy(pane:see("waiting for your answer"):find("> first\n\n# Plan", 1, true))
    task.sleep(0.3)
    pane:type("w")
    pane:see("\nno:")
    pane:type("use a tool", "Enter")
    pane:see("refused by the user: use a tool")
    pane:see("The first is done.")
    assert.is_nil(home:get("project/file"))
    pane:type("C-c")
    pane:see("Ctrl-C again")
    pane:type("C-c")
    pane:see("ended with 0")
  end)

  it("folds a paste, and may change its size", function()
    local pane <close> = start(home, 80, 24)
    pane:see("mode ask")
    pane:tmux("set-buffer", "one\ntwo\rthree")
    pane:tmux("paste-buffer", "-p", "-r")
    pane:see("> [paste 3 lines]")
    pane:tmux("resize-window", "-x", "50", "-y", "20")
    pane:type("C-u", "漢字é", "Left", "Left", "BSpace", "x")
    pane:see("> x字é")
    local _, count = pane:screen():gsub("mode ask", "")
    assert.equal(1, count)
    pane:type("C-e", "C-u", "C-d")
    pane:see("ended with 0")
    restored(home)
  end)

  it("is given back when terret is terminated", function()
    local pane <close> = start(home, 80, 24, { args = { "first" } })
    pane:see("waiting for your answer")
    local shell = pane:tmux("display-message", "-p", "#{pane_pid}"):match("%d+")
    local child = fs.read(("/proc/%s/task/%s/children"):format(shell, shell), { max = 4096 })
    if not child then return pending("needs /proc/PID/task/PID/children") end
    run { "kill", "-TERM", child:match("%d+") }
    pane:see("ended with 143")
    restored(home)
  end)

  -- A tool of the user's that runs this code for ever.
  local function spin(code)
    home:put(home.config .. "/tools/spin.lua", ([[return { name = "spin", description = "x", permission = "none",
      parameters = {}, run = function()
        io.open("%s/spins", "w"):close()
        while true do %s end
      end }]]):format(home.dir, code))
    local script = home:put("spin_script.lua", [[return { { tool_calls = { { name = "spin" } } }, { text = "The end." },
      { text = "It goes on." } }]])
    local pane = start(home, 80, 24, { args = { "--script", script, "--mode", "yolo", "first" } })
    local deadline = reactor.now() + DEADLINE
    while not home:get("spins") and reactor.now() < deadline do task.sleep(0.02) end
    return pane
  end

  it("can interrupt a tool that loops, by a second Ctrl-C", function()
    local pane <close> = spin ""
    pane:type("C-c")
    task.sleep(0.15) -- several at once count as one
    pane:type("C-c")
    pane:see("interrupted")
    pane:type("more", "Enter")
    pane:see("The end.")
    pane:type("C-d")
    pane:see("ended with 0")
    restored(home)
  end)

  it("is given back when a third Ctrl-C ends terret", function()
    local pane <close> = spin "pcall(function() while true do end end)"
    for _ = 1, 3 do
      pane:type("C-c")
      task.sleep(0.15)
    end
    pane:see("ended with 130")
    restored(home)
  end)

  it("shows no colours with NO_COLOR", function()
    local pane <close> = start(home, 80, 24, { env = { NO_COLOR = "1" }, args = { "first" } })
    pane:see("waiting for your answer")
    pane:type("C-c")
    pane:type("C-c")
    pane:type("C-d")
    local recorded = home:get("recorded")
    assert.truthy(recorded:find("# Plan", 1, true))
    assert.is_nil(recorded:find("\27%[[1-9]%d*m"))
  end)

  it("that is dumb gets plain lines, and is asked by a line", function()
    local pane <close> = start(home, 80, 24, { set = "TERM=dumb; export TERM;" })
    pane:see("\n>")
    pane:type("make it", "Enter")
    pane:see("n [words] = no (Enter: no):")
    pane:type("y", "Enter")
    pane:see("The first is done.")
    pane:see("  … 16 more lines")
    pane:type("wait", "Enter")
    pane:see("> wait")
    pane:type("C-c")
    pane:see("terret: interrupted")
    pane:type("C-d")
    pane:see("ended with 0")
    assert.equal("", home:get("project/file"))
    assert.is_nil(home:get("recorded"):find("\27", 1, true))
    restored(home)
  end)
end)

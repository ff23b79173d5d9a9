-- scripts/cli/demo.lua - `terret demo`: the real agent, tools and sandbox with a scripted model.
--
-- Offline.  It makes a small C project with a failing test in a temporary directory and lets the
-- model of scripts/demo/model.lua mend it.  Nothing is taken on trust: afterwards the command
-- looks whether the run went as it was meant to, and runs the test once more itself.
-- Exit status: 0 the test failed before and passes now; 1 otherwise, or no command can run here.

local fs = require "terret.fs"
local hash = require "terret.hash"
local project = require "terret.demo.project"
local registry = require "terret.registry"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local tty = require "terret.tty"

local M = {
  summary = "watch a scripted model mend a C project (offline)",
  usage = "terret demo [--sandbox BACKEND] [--script FILE]",
  options = {
    { name = "sandbox", arg = "BACKEND", help = "auto (default), a backend, or none" },
    { name = "script", arg = "FILE", help = "other answers for the model (see providers/scripted.lua)" },
  },
}

local function fail(format, ...)
  io.stderr:write("terret demo: ", format:format(...), "\n")
  return 1
end

-- The project on disk; outside the sandbox nothing is run in it, and it has no repository.
local function make_project()
  local base = os.getenv("TMPDIR")
  if not base or base:sub(1, 1) ~= "/" then base = "/tmp" end
  local dir, message = fs.mkdtemp(base .. "/terret-demo-")
  if not dir then return nil, message end
  for path, content in pairs(project.files) do
    local mode = path:find("%.sh$") and 448 or 384 -- 0700, 0600
    local ok, why = fs.write(dir .. "/" .. path, content, { mode = mode, sync = false })
    if not ok then return nil, why end
  end
  return fs.realpath(dir)
end

local function configuration(dir, backend, script)
  local cfg = sandbox.policy.for_directory(dir)
  cfg.project, cfg.cwd = dir, dir
  cfg.cache_dir = ("%s/projects/%s/cache"):format(cfg.state_dir, hash.sha256(dir):sub(1, 16))
  cfg.provider, cfg.model, cfg.script = "scripted", "scripted", script
  cfg.sandbox = backend.name
  -- Where the sandbox has no namespaces `auto` means `ask`, and nobody is asked here.
  cfg.mode, cfg.rules = "auto", { { verdict = "allow", rule = project.test, source = "terret demo" },
    { verdict = "allow", rule = "write(" .. dir .. "/**)", source = "terret demo" } }
  cfg.rw, cfg.timeouts, cfg.limits = {}, { tool = 60 }, { steps = 20, seconds = 120 }
  return cfg
end

local function explain_no_sandbox(message)
  fail("no sandbox works here, and terret runs nothing without one.")
  for _, backend in ipairs(sandbox.backends()) do
    if not backend.ok then io.stderr:write(("  %s: %s\n"):format(backend.name, backend.why or message)) end
  end
  io.stderr:write("Mend one of them (terret doctor checks again), or watch it at your own risk:\n",
    "  terret demo --sandbox none\n")
  return 1
end

-- The user interface, and a note of what the tools answered.
local function recording(ui)
  local seen = { bash = {}, edit = {} }
  return { event = function(e)
    if e.type == "tool_result" and seen[e.name] then table.insert(seen[e.name], e) end
    ui.event(e)
  end }, seen
end

-- Why the run didn't show what it should, or nil.
local function complaint(result, seen, again)
  local first, last = seen.bash[1], seen.bash[#seen.bash]
  if result.status ~= "done" then return ("the run ended with '%s': %s"):format(result.status, result.message or "") end
  if not first or not first.extra then return "the test was never run: " .. (first and first.text or "no call") end
  if first.extra.code == 0 then return "the test passed before anything was mended" end
  if first.extra.code ~= 1 then return "the test could not be run (is there a C compiler, cc?):\n" .. first.text end
  if #seen.edit < 2 or seen.edit[1].ok or not seen.edit[#seen.edit].ok then
    return "of the two edits the first should be refused and the second made"
  end
  if not last.extra or last.extra.code ~= 0 then return "the test still fails:\n" .. last.text end
  if not again or again.code ~= 0 then return "the test fails when it is run once more" end
end

local function report(dir, session, problem, backend)
  if not problem then
    io.write("\nChecked apart from the model: the test passes (sandbox: ", backend.name, ").\n")
  end
  io.write("  project  ", dir, "\n  session  ", session.dir, "/log.jsonl\n",
    "  again    terret session show ", session.id, "\n")
  io.stdout:flush()
  if problem then return fail("%s", problem) end
  return 0
end

local function script_of(opts)
  if not opts.script then return require "terret.demo.model" end
  return require("terret.providers.scripted").load(opts.script)
end

local function play(agent, ui, seen, dir, backend)
  local result = agent:prompt(project.prompt)
  if ui.finish then ui.finish(result) end
  io.stdout:flush()
  local again = agent:exec(project.test, { timeout = 60 })
  return report(dir, agent.session, complaint(result, seen, again), backend)
end

-- The run in a project that exists.
local function run_in(dir, backend, script)
  local cfg = configuration(dir, backend, script)
  local kind, message = registry.load("ui", "plain")
  if not kind then return fail("%s", message) end
  local color = tty.isatty(1) and not os.getenv("NO_COLOR") and os.getenv("TERM") ~= "dumb"
  local shown = kind.new { out = io.stdout, err = io.stderr, cfg = cfg, color = color }
  local ui, seen = recording(shown)
  local agent
  agent, message = require("terret.setup").open(cfg, ui)
  if not agent then return fail("%s", message) end
  local _closing <close> = setmetatable({}, { __close = function() agent:close() end })
  io.write("A C library in ", dir, ", a scripted model, real tools, sandbox ", backend.name, ".\n\n> ",
    project.prompt, "\n\n")
  return task.run(play, agent, shown, seen, dir, backend)
end

---@param opts table
---@param args string[]
---@return integer exit status
function M.run(opts, args)
  if #args > 0 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local script, backend, dir, message
  script, message = script_of(opts)
  if not script then return fail("%s", message) end
  backend, message = sandbox.pick(opts.sandbox or "auto")
  if not backend then return explain_no_sandbox(message) end
  dir, message = make_project()
  if not dir then return fail("%s", message) end
  return run_in(dir, backend, script)
end

return M

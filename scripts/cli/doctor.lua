-- scripts/cli/doctor.lua - `terret doctor`: what works here, one line each.
--
-- `ok`, `warn` (something is missing that a run can do without) or `fail` (no run gets far).  Every line
-- that isn't ok says what to do.  Exit status 1 when something failed.  The network is only touched
-- when an endpoint is set.

local fs = require "terret.fs"
local text = require "terret.text"

local M = {
  summary = "check what works here, and say what to do",
  usage = "terret doctor [--base-url URL] [--api-key-env VAR]",
  options = {
    { name = "base-url", arg = "URL", help = "an OpenAI-compatible endpoint" },
    { name = "api-key-env", arg = "VAR", help = "variable that holds the key" },
  },
}

local GUARDS = { "permissions", "shell", "toolcall", "sandbox" }

-- A line of the report; `fail` is counted.
local function reporter()
  local failed = 0
  local function say(level, format, ...)
    if level == "fail" then failed = failed + 1 end
    local words = format:format(...):gsub("%s*\n%s*", " ")
    io.write(("%-5s %s\n"):format(level, text.safe(words)))
  end
  return say, function() return failed end
end

-- terret itself ------------------------------------------------------------------------------------

local function check_version(say, ctx)
  local ok, embedded = pcall(require, "terret.embedded")
  local scripts = ok and embedded.path and ", scripts from " .. embedded.path or ""
  say("ok", "terret %s, %s%s", ctx.version or "scm", _VERSION, scripts)
end

local function check_guards(say)
  for _, name in ipairs(GUARDS) do
    local ok, err = pcall(require, "terret." .. name)
    if not ok then say("fail", "the guard terret.%s does not load, so nothing runs: %s", name, tostring(err)) end
  end
end

local function check_scripts(say)
  local listing = require "terret.listing"
  local counts = {}
  for _, kind in ipairs { "tools", "loops", "providers", "ui" } do
    local list = listing.list(kind)
    counts[#counts + 1] = ("%d %s"):format(#list, kind:gsub("s$", #list == 1 and "" or "s"))
    for _, e in ipairs(list) do
      for _, problem in ipairs(e.problems) do say("warn", "%s/%s: %s", kind, e.name, problem) end
    end
  end
  say("ok", "scripts: %s", table.concat(counts, ", "))
end

-- The places that are written to ---------------------------------------------------------------------

local function check_state(say, dir)
  local probe = ("%s/.doctor-%d"):format(dir, fs.whoami().pid)
  local ok, message = fs.write(probe, "", { parents = true, sync = false })
  fs.remove(probe)
  if ok then return say("ok", "sessions are kept in %s", dir) end
  say("fail", "%s can't be written: %s (set XDG_STATE_HOME)", dir, message)
end

-- The endpoint ---------------------------------------------------------------------------------------

local function check_model(say, cfg, names)
  if not cfg.model then
    return say(#names == 1 and "ok" or "warn", "no model is set: name one with -m, TERRET_MODEL or in config.lua")
  end
  for _, name in ipairs(names) do
    if name == cfg.model then return say("ok", "model %s", cfg.model) end
  end
  say("warn", "model %s is not in the endpoint's list (terret models)", cfg.model)
end

local function check_endpoint(say, cfg)
  if cfg.provider == "scripted" then return say("ok", "provider: scripted, needs no endpoint") end
  if not cfg.base_url then
    return say("warn", "no endpoint is set: export OPENROUTER_API_KEY or OPENAI_API_KEY, or say --base-url URL")
  end
  local names, message = require("terret.cli").model_list(cfg)
  if not names then
    return say("fail", "endpoint %s: %s%s", cfg.base_url, message, cfg.api_key and "" or " (no key is set for it)")
  end
  say("ok", "endpoint %s, %s, %d models", cfg.base_url, cfg.api_key and "with a key" or "without a key", #names)
  check_model(say, cfg, names)
end

-- The sandbox ----------------------------------------------------------------------------------------

local function check_sandbox(say, wanted)
  local sandbox = require "terret.sandbox"
  local backend, message = sandbox.pick(wanted)
  if backend and backend.name == "none" then
    return say("warn", "sandbox: none, as the configuration says: commands run as you")
  elseif not backend and wanted ~= "auto" then
    return say("fail", "%s", message)
  end
  local others = {}
  for _, b in ipairs(sandbox.backends()) do
    if backend and b.ok and b.name ~= backend.name and b.name ~= "none" then others[#others + 1] = b.name end
    if not backend and not b.ok then say("fail", "sandbox %s: %s", b.name, b.why or "does not work") end
  end
  if not backend then return say("fail", "no sandbox works, so no command runs: mend one of them") end
  local more = #others > 0 and " (also: " .. table.concat(others, ", ") .. ")" or ""
  if backend.isolated then return say("ok", "sandbox %s%s", backend.name, more) end
  say("warn", "sandbox %s%s: without namespaces, so --mode auto asks as ask does", backend.name, more)
end

-- The surroundings -----------------------------------------------------------------------------------

local function check_terminal(say)
  local tty = require "terret.tty"
  if not tty.isatty(0) or not tty.isatty(1) then return say("ok", "no terminal here: terret -p PROMPT works") end
  if os.getenv("TERM") == "dumb" then return say("warn", "TERM=dumb: the plain interface is used") end
  local terminal <close> = tty.open()
  if not terminal then return say("warn", "the terminal can't be opened: only terret -p works") end
  say("ok", "terminal %s, %d columns, %d rows", os.getenv("TERM") or "?", terminal:size())
end

local function check_skills(say, cfg)
  local list = require("terret.skills").scan { cwd = cfg.cwd, project = cfg.project, home = cfg.home,
    config_dir = cfg.config_dir }
  local broken = 0
  for _, skill in ipairs(list) do
    if #skill.problems > 0 then broken = broken + 1 end
  end
  if broken > 0 then return say("warn", "skills: %d of %d have problems (terret skills)", broken, #list) end
  say("ok", "skills: %d", #list)
end

---@param opts table
---@param args string[]
---@param ctx table
---@return integer exit status
function M.run(opts, args, ctx)
  if #args > 0 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local say, failed = reporter()
  check_version(say, ctx)
  check_guards(say)
  check_scripts(say)
  local cfg, message = ctx.config(opts)
  if cfg then
    say("ok", "project %s, configuration in %s", cfg.project, cfg.config_dir)
    check_endpoint(say, cfg)
  else
    say("fail", "configuration: %s", message)
    cfg = require("terret.sandbox.policy").for_directory(fs.cwd())
  end
  check_sandbox(say, cfg.sandbox or "auto")
  check_state(say, cfg.state_dir)
  check_terminal(say)
  check_skills(say, cfg)
  return failed() > 0 and 1 or 0
end

return M

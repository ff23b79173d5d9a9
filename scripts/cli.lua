-- scripts/cli.lua - the command line: options, headless and interactive runs, exit statuses.
--
-- Subcommands are files in scripts/cli/.  Exit status: 0 done, 1 failed, 2 usage, 3 a call was refused
-- because nobody could be asked, 4 a limit, 5 the endpoint, 130 interrupted, 143 by SIGTERM.

local options = require "terret.options"

local M = {}

local EXIT = { done = 0, failed = 1, usage = 2, refused = 3, limit = 4, endpoint = 5, interrupted = 130 }
local HEADLESS_STEPS = 200

---@type terret.option[]
M.options = {
  { name = "prompt", short = "p", arg = "PROMPT", help = "run it and end; piped input is appended" },
  { name = "model", short = "m", arg = "M", help = "model name, as the endpoint knows it" },
  { name = "provider", arg = "P", help = "openai (default), responses, anthropic, scripted, or a file of yours" },
  { name = "base-url", arg = "URL", help = "an OpenAI-compatible endpoint (or what --provider speaks)" },
  { name = "api-key-env", arg = "VAR", help = "variable that holds the key" },
  { name = "loop", arg = "NAME|FILE", help = "agent loop (terret loops lists them)" },
  { name = "dir", short = "C", arg = "DIR", help = "work there" },
  { name = "output", arg = "FORMAT", choices = { "text", "json", "jsonl" }, help = "text, json or jsonl (with -p)" },
  { name = "mode", arg = "MODE", choices = { "ask", "auto", "plan", "yolo" }, help = "ask, auto, plan or yolo" },
  { name = "allow", arg = "RULE", list = true, help = "allow what matches, e.g. 'git log *'" },
  { name = "deny", arg = "RULE", list = true, help = "deny what matches, in every mode" },
  { name = "sandbox", arg = "BACKEND", help = "auto (default), a backend, or none" },
  { name = "rw", arg = "PATH", list = true, help = "make PATH writable too" },
  { name = "max-steps", arg = "N", kind = "integer", help = "model requests" },
  { name = "max-tokens", arg = "N", kind = "integer", help = "tokens in and out" },
  { name = "max-cost", arg = "USD", kind = "number", help = "money" },
  { name = "timeout", arg = "SECONDS", kind = "number", help = "wall clock of the whole run" },
  { name = "continue", short = "c", help = "go on with the last session of this project" },
  { name = "resume", short = "r", arg = "ID[@RECORD]", help = "go on with a session" },
  { name = "fork", arg = "ID[@RECORD]", help = "go on with a copy of a session" },
  { name = "no-session", help = "keep no log" },
  { name = "no-stream", help = "ask for whole answers" },
  { name = "check", arg = "COMMAND", help = "what must pass in the end (loops verify and bestof)" },
  { name = "trust", help = "load the project's .terret in this run" },
  { name = "plain", help = "no cursor motion, no colour" },
  { name = "script", arg = "FILE", help = "answers of the scripted provider" },
  { name = "version", help = "print the version" },
  { name = "help", short = "h", help = "print this" },
}

local function say(format, ...) io.stderr:write("terret: ", format:format(...), "\n") end

local function version()
  local ok, embedded = pcall(require, "terret.embedded")
  return ok and embedded.version or "scm"
end

local function print_help()
  local registry = require "terret.registry"
  io.write("terret ", version(), " - a coding-agent runtime scripted in Lua\n\n",
    "  terret [PROMPT]       interactive\n  terret -p PROMPT      headless\n",
    "  terret COMMAND --help\n\n", options.help(M.options), "\n\nCommands:\n")
  for _, name in ipairs(registry.names("cli")) do
    local command = registry.load("cli", name)
    if command then io.write(("  %-10s %s\n"):format(name, command.summary)) end
  end
  return 0
end

-- Subcommands --------------------------------------------------------------------------------

local HELP = { name = "help", short = "h", help = "print this" }

local function run_command(name, args)
  collectgarbage("restart")
  local registry = require "terret.registry"
  local command, message = registry.load("cli", name)
  if not command then
    say("%s", message)
    return EXIT.failed
  end
  local spec = table.move(command.options or {}, 1, #(command.options or {}), 1, {})
  spec[#spec + 1] = HELP
  local opts, rest = options.parse(spec, args, { stop = command.stop })
  if not opts then
    say("%s (terret %s --help)", rest, name)
    return command.usage_status or EXIT.usage
  end
  if opts.help then
    io.write(command.summary, "\n\nusage: ", command.usage, "\n\n", options.help(spec), "\n")
    return 0
  end
  return command.run(opts, rest, { config = function(flags)
    return require("terret.config").load(flags or {}, require("terret.fs").cwd())
  end, version = version() })
end

-- Runs ---------------------------------------------------------------------------------------

-- The models of an endpoint, for the message that one must be named.
local function model_list(cfg)
  local task, http, json = require "terret.task", require "terret.http", require "terret.json"
  local own = cfg.provider and require("terret.registry").load("providers", cfg.provider)
  local provider = own and own.models_url and own.headers and own or require "terret.providers.openai"
  local req <close>, message = http.request { url = provider.models_url(cfg.base_url), timeout = 5,
    headers = provider.headers(cfg.api_key, cfg.base_url and require("terret.profiles").of(cfg)) }
  if not req then return nil, message end
  local parts = {}
  while true do
    local data, err = req:read()
    if err then return nil, err end
    if not data then break end
    if data == "" then task.await(req) else parts[#parts + 1] = data end
  end
  local body = json.decode(table.concat(parts))
  if req:status() ~= 200 or type(body) ~= "table" or type(body.data) ~= "table" then
    return nil, ("HTTP %s"):format(tostring(req:status()))
  end
  local names = {}
  for _, m in ipairs(body.data) do
    if type(m) == "table" and type(m.id) == "string" then names[#names + 1] = m.id end
  end
  table.sort(names)
  return names
end
M.model_list = model_list

local LOCAL = { "http://127.0.0.1:8080/v1", "http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1" }

-- Whether a port on loopback is served by this user or root (Linux; elsewhere it can't be told).
local function trusted_port(port)
  local fs = require "terret.fs"
  local table_text = fs.read("/proc/net/tcp", { max = 16777216 })
  if not table_text then return false end
  local uid = fs.whoami().uid
  for addr, owner in table_text:gmatch("%d+: (%x+:%x+) %x+:%x+ 0A %x+:%x+ %x+:%x+ %x+ +(%d+)") do
    if tonumber(addr:match(":(%x+)$"), 16) == port then
      return tonumber(owner) == uid or owner == "0"
    end
  end
  return false
end

-- A local server that answers /v1/models, for an interactive start without a key.
local function find_local()
  for _, url in ipairs(LOCAL) do
    if trusted_port(tonumber(url:match(":(%d+)/"))) then
      local names = model_list { base_url = url }
      if names and #names > 0 then return url, names end
    end
  end
end

-- The endpoint and the model, or why there is none.
local function complete(cfg, headless)
  if cfg.provider == "scripted" then
    if not cfg.script_file then return nil, "the scripted provider needs --script FILE", "usage" end
    local message, code
    cfg.script, message, code = require("terret.providers.scripted").load(cfg.script_file)
    if not cfg.script then return nil, message, code == "not_found" and "usage" or code end
    cfg.model = cfg.model or "scripted"
    return cfg
  end
  local provider, why, why_code = require("terret.registry").load("providers", cfg.provider)
  if not provider then return nil, why, why_code == "not_found" and "usage" or why_code end
  if provider.answer then -- no network, so no endpoint and no list of models
    cfg.model = cfg.model or cfg.provider
    return cfg
  end
  local names
  if not cfg.base_url and not headless then cfg.base_url, names = find_local() end
  if not cfg.base_url then return nil, require("terret.config").no_endpoint, "usage" end
  if cfg.model then return cfg end
  local message
  if not names then names, message = model_list(cfg) end
  if names and #names == 1 then
    cfg.model = names[1]
    return cfg
  end
  if not names or #names == 0 then
    return nil, ("no model is set (-m MODEL), and the list of %s can't be had: %s"):format(cfg.base_url,
      message or "it is empty"), "usage"
  end
  return nil, "no model is set; name one with -m:\n  " .. table.concat(names, "\n  "), "usage"
end

local function read_stdin()
  local tty = require "terret.tty"
  if tty.isatty(0) then return nil end
  local info = require("terret.fs").stat("/dev/fd/0")
  -- A terminal that isn't there, /dev/null: nothing was piped.
  if not info or info.type == "char_device" then return nil end
  local data = io.read("a")
  return data and data ~= "" and data or nil
end

local function make_ui(opts, cfg, headless)
  local registry, tty = require "terret.registry", require "terret.tty"
  local name = "quiet"
  if headless then
    if opts.output == "jsonl" or opts.output == "json" then name = "jsonl" end
  else
    local dumb = os.getenv("TERM") == "dumb" or not tty.isatty(0) or not tty.isatty(1)
    name = (opts.plain or dumb) and "plain" or "tty"
  end
  local ui, message, code = registry.load("ui", name)
  if not ui then return nil, message, code end
  local color = tty.isatty(1) and not os.getenv("NO_COLOR") and os.getenv("TERM") ~= "dumb"
  local ui_object
  -- A reader that is gone ends the run: nobody pays for what nobody reads.
  local out = { flush = function() return io.stdout:flush() end }
  function out:write(...)
    local ok, why = io.stdout:write(...)
    if ok then ok, why = io.stdout:flush() end
    if not ok and ui_object and ui_object.on_broken then ui_object.on_broken() end
    return ok and self, why
  end
  ui_object = ui.new { out = name == "jsonl" and out or io.stdout, err = io.stderr, cfg = cfg, color = color,
    only_result = opts.output == "json" }
  return ui_object
end

-- Whether any script may come from a disk.
local function scripts_on_disk()
  local fs, embedded = require "terret.fs", require "terret.embedded"
  local config = embedded.config_dir
  for _, dir in ipairs { embedded.path or false, config and config .. "/scripts" or false,
    config and config .. "/sandbox" or false, embedded.share_dir } do
    if dir and fs.stat(dir) then return true end
  end
  return false
end

local GUARDS = { permissions = { "new", "parse_rules" }, shell = { "parse" }, toolcall = { "run", "parse" },
  sandbox = { "pick", "spawn" } }

-- Guards that were replaced and don't load: nothing runs.  Those in the executable can wait.
local function load_guards()
  if not scripts_on_disk() then return true end
  for name, functions in pairs(GUARDS) do
    local ok, err = pcall(require, "terret." .. name)
    for _, key in ipairs(ok and functions or {}) do
      if type(err) ~= "table" or type(err[key]) ~= "function" then
        ok, err = false, ("it has no function '%s'"):format(key)
        break
      end
    end
    if not ok then return nil, ("the guard terret.%s can't be used, so nothing runs: %s"):format(name, err) end
  end
  return true
end

-- The words of an error.  Where scripts of the user's replace ours they are the likely cause, and a
-- traceback through the rest says nothing to them.
local function words_of(err)
  local words = require("terret.text").clean(tostring(err))
  if not scripts_on_disk() then return debug.traceback(words, 2) end
  return words .. " (scripts in a directory of yours replace terret's own)"
end

-- SIGTERM and SIGHUP end the run cleanly, Ctrl-C interrupts it; answers the exit status for that.
local function watch_signals(agent)
  local reactor, task = require "terret.reactor", require "terret.task"
  local signals = reactor.signals { "INT", "TERM", "HUP" }
  local got = {}
  task.spawn(function()
    while true do
      task.await(signals)
      local name = signals:take()
      if name then
        got.status = name == "INT" and EXIT.interrupted or name == "TERM" and 143 or 129
        agent:interrupt("interrupted")
      end
    end
  end)
  return got
end

local function run_headless(agent, ui, words)
  local task = require "terret.task"
  return task.run(function()
    local got = watch_signals(agent) -- before the first word: who reads it may send a signal
    agent:emit("session", { session = agent.session.id, dir = agent.session.dir, model = agent.cfg.model,
      project = agent.cfg.project })
    ui.on_broken = function()
      got.status = got.status or EXIT.failed
      agent:interrupt("failed")
    end
    local result = agent:prompt(words)
    local written = ui.finish(result)
    local status = got.status or EXIT[result.status] or EXIT.failed
    if status == 0 and not written then status = EXIT.failed end -- an answer that nobody got
    return status
  end)
end

-- Start-up makes little garbage: collecting it before the first request is out would cost more than
-- it frees.  The executable starts with the collector stopped.
local function collect_later()
  local task = require "terret.task"
  task.spawn(function()
    task.sleep(0.05)
    collectgarbage("restart")
  end)
end

local function open_agent(opts, headless)
  collect_later()
  local fs, config = require "terret.fs", require "terret.config"
  if opts.dir then
    local ok, message = fs.chdir(opts.dir)
    if not ok then return nil, message, "usage" end
  end
  local loaded, why = load_guards()
  if not loaded then return nil, why, "failed" end
  local setup = require "terret.setup" -- after the guards, which it needs
  local cfg, message, code = config.load(opts, fs.cwd())
  if not cfg then return nil, message, code end
  if cfg.sandbox ~= "auto" and not require("terret.registry").where("sandbox", cfg.sandbox) then
    return nil, ("there is no sandbox '%s'"):format(cfg.sandbox), "usage"
  end
  cfg.script_file = opts.script
  cfg, message, code = complete(cfg, headless)
  if not cfg then return nil, message, code end
  if headless then cfg.limits.steps = cfg.limits.steps or HEADLESS_STEPS end
  local ui, agent
  ui, message, code = make_ui(opts, cfg, headless)
  if not ui then return nil, message, code end
  agent, message, code = setup.open(cfg, ui, { resume = opts.resume, fork = opts.fork, continue = opts.continue,
    none = opts["no-session"] })
  if not agent then return nil, message, code end
  return agent, ui
end

local function run(opts, rest)
  local headless = opts.prompt ~= nil
  if #rest > 1 then
    say("a prompt is one argument; quote it: terret%s '%s'", headless and " -p" or "", table.concat(rest, " "))
    return EXIT.usage
  elseif headless and #rest == 1 then
    say("-p takes the prompt, '%s' is left over; quote it: terret -p '%s %s'", rest[1], opts.prompt, rest[1])
    return EXIT.usage
  elseif opts.output and not headless then
    say("--output goes with -p")
    return EXIT.usage
  end
  local words
  if headless then
    local piped = read_stdin()
    words = piped and (opts.prompt ~= "" and opts.prompt .. "\n\n" or "") .. piped or opts.prompt
    if not words:find("%S") then
      say("the prompt is empty")
      return EXIT.usage
    end
  end
  local opened, agent, ui, code = xpcall(open_agent, words_of, opts, headless)
  if not opened then
    say("%s", agent)
    return EXIT.failed
  elseif not agent then
    say("%s", ui)
    return code == "usage" and EXIT.usage or EXIT.failed
  end
  local ok, status = xpcall(function()
    if headless then return run_headless(agent, ui, words) end
    return ui.run(agent, { prompt = rest[1] })
  end, words_of)
  agent:close()
  if not ok then
    say("%s", status)
    return EXIT.failed
  end
  return status
end

local function dispatch(arg)
  local first = arg[1]
  if first and first:find("^%l[%l-]*$") and require("terret.registry").where("cli", first) then
    return run_command(first, table.move(arg, 2, #arg, 1, {}))
  end
  local opts, rest = options.parse(M.options, arg)
  if not opts then
    say("%s (terret --help)", rest)
    return EXIT.usage
  end
  if opts.help then return print_help() end
  if opts.version then
    io.write("terret ", version(), "\n")
    return 0
  end
  return run(opts, rest)
end

---@param arg string[]
---@return integer status of the process
function M.main(arg)
  local status = dispatch(arg)
  local ok, why = io.stdout:flush()
  if ok or status ~= 0 then return status end
  say("the output can't be written: %s", why)
  return EXIT.failed
end

return M

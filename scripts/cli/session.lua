-- scripts/cli/session.lua - `terret session`: list, show, check, export, add up and remove sessions.
--
-- Reads logs and changes none, but for `check --repair` and `rm`.  A session is named by its id or a unique
-- beginning of it.  Exit status: 0; 1 when there is no such session, or `check` found something.

local check_mod = require "terret.session.check"
local fs = require "terret.fs"
local json = require "terret.json"
local log = require "terret.log"
local models = require "terret.models"
local options = require "terret.options"
local session = require "terret.session"
local text = require "terret.text"
local transcript = require "terret.transcript"

local JSON = { name = "json", help = "as JSON" }

local M = {
  summary = "list, show, check, export, cost, rm of sessions",
  usage = "terret session list|show|check|export|cost|rm ... (terret session NAME --help)",
  stop = true,
}

local function fail(format, ...)
  io.stderr:write("terret session: ", text.safe(format:format(...)), "\n")
  return 1
end

local function one_line(s, columns)
  return (text.truncate(text.safe((s:gsub("%s+", " ")), { newline = false, tab = false }), columns))
end

-- The directory and all records of a session.
local function open(state_dir, id)
  local dir, message = session.find(state_dir, id)
  if not dir then return nil, message end
  local records, bad = session.read(dir .. "/log.jsonl")
  if not records then return nil, bad end
  if not records[1] or records[1].type ~= "session" then
    return nil, dir .. "/log.jsonl does not begin with a session record"
  end
  return { dir = dir, records = records, bad = bad, branch = session.branch(records) }
end

-- list -------------------------------------------------------------------------------------------

local function entry(id, dir)
  local records = session.read(dir .. "/log.jsonl")
  local head = records and records[1]
  if not head or head.type ~= "session" then return { id = id, dir = dir, broken = true, steps = 0, prompt = "" } end
  local branch = session.branch(records)
  return { id = id, dir = dir, time = head.time, project = head.project, model = head.model,
    prompt = text.cut(transcript.first_prompt(branch), 500), steps = transcript.steps(branch) }
end

local function all_sessions(state_dir)
  local out = {}
  for _, p in ipairs(fs.list(state_dir .. "/sessions") or {}) do
    for _, e in ipairs(fs.list(state_dir .. "/sessions/" .. p.name) or {}) do
      local dir = ("%s/sessions/%s/%s"):format(state_dir, p.name, e.name)
      if fs.stat(dir .. "/log.jsonl") then out[#out + 1] = { id = e.name, dir = dir } end
    end
  end
  table.sort(out, function(a, b) return a.id > b.id end)
  return out
end

local function list(opts, _, cfg)
  local found = opts.all and all_sessions(cfg.state_dir) or session.list(cfg.state_dir, cfg.project)
  local out = json.array {}
  for i, s in ipairs(found) do out[i] = entry(s.id, s.dir) end
  if opts.json then
    io.write(json.encode(out), "\n")
    return 0
  end
  for _, e in ipairs(out) do
    local words = e.broken and "(the log can't be read)" or e.prompt ~= "" and e.prompt or "(no prompt)"
    io.write(("%s  %3d steps  %s\n"):format(one_line(e.id, 40), e.steps, one_line(words, 70)))
    if opts.all then io.write("    ", one_line(tostring(e.project), 200), "\n") end
  end
  if #out == 0 then io.write(opts.all and "no sessions\n" or "no sessions of this project (--all: of all)\n") end
  return 0
end

-- show and export --------------------------------------------------------------------------------

local function show(opts, args, cfg)
  local s, message = open(cfg.state_dir, args[1])
  if not s then return fail("%s", message) end
  local head = s.records[1]
  io.write(text.safe(("session %s\nproject %s\nmodel   %s\nstarted %s"):format(tostring(head.session),
    tostring(head.project), tostring(head.model), tostring(head.time))), "\n\n",
    transcript.plain(s.branch, { full = opts.full }), "\n")
  return 0
end

-- The messages as a request holds them, and the tools that were sent.
local function openai(records)
  local encode = require("terret.providers.openai").encode
  local state = session.replay(records, encode)
  local tools = json.canonical(tostring(state.header.tools or "[]")) or "[]"
  return state.view:render('{"messages":[', '],"tools":' .. tools .. "}\n")
end

local function export(opts, args, cfg)
  local s, message = open(cfg.state_dir, args[1])
  if not s then return fail("%s", message) end
  io.write(opts.format == "openai" and openai(s.records) or transcript.markdown(s.branch))
  return 0
end

-- check ------------------------------------------------------------------------------------------

-- The logs of a session: its own, and those of its subagents and forks.
local function logs_of(dir, name, out)
  out = out or {}
  out[#out + 1] = { name = name or "main", dir = dir }
  for _, e in ipairs(fs.list(dir .. "/agents") or {}) do
    local sub = dir .. "/agents/" .. e.name
    if fs.stat(sub .. "/log.jsonl") then logs_of(sub, e.name, out) end
  end
  return out
end

-- Repairs the logs of a session; the exit status.
local function repair(logs)
  local status = 0
  for _, l in ipairs(logs) do
    local done, message = check_mod.repair(l.dir)
    if not done then
      io.stderr:write(text.safe(("terret session: %s: can't be repaired: %s"):format(l.name, message)), "\n")
      status = 1
    end
    for _, words in ipairs(done or {}) do io.write(text.safe(("%s: %s"):format(l.name, words)), "\n") end
  end
  return status
end

local function check(opts, args, cfg)
  local dir, message = session.find(cfg.state_dir, args[1])
  if not dir then return fail("%s", message) end
  local logs = logs_of(dir)
  if opts.repair then return repair(logs) end
  local problems, records = 0, 0
  for _, l in ipairs(logs) do
    records = records + check_mod.check(l.dir .. "/log.jsonl", function(format, ...)
      problems = problems + 1
      io.write(text.safe(("%s: %s"):format(l.name, format:format(...))), "\n")
    end)
  end
  io.write(("%d records in %d log%s, %d problem%s\n"):format(records, #logs, #logs == 1 and "" or "s", problems,
    problems == 1 and "" or "s"))
  return problems > 0 and 1 or 0
end

-- cost -------------------------------------------------------------------------------------------

-- What the usage records of a log add up to.  A fork begins with copies; they count once.  lost: tokens that
-- were cached before and had to be read again in full, and what that cost.
local function usage_of(path, own_models)
  local sum = { requests = 0, input = 0, cached = 0, output = 0, lost = 0, misses = 0 }
  local records = session.read(path) or {}
  local from = records[1] and type(records[1].from) == "table" and tonumber(records[1].from.record) or 0
  for _, r in ipairs(records) do
    if r.type == "usage" and r.id > from then
      sum.requests = sum.requests + 1
      for _, key in ipairs { "input", "cached", "output", "lost" } do sum[key] = sum[key] + (tonumber(r[key]) or 0) end
      if tonumber(r.lost) then sum.misses = sum.misses + 1 end
      if tonumber(r.cost) then sum.cost = (sum.cost or 0) + r.cost end
      sum.estimated = sum.estimated or r.estimated or nil
    end
  end
  local model = records[1] and records[1].model
  local price = type(model) == "string" and models.find(model, own_models).price
  if price then sum.lost_cost = sum.lost * (price.input - price.cached) / 1e6 end
  return sum, model
end

local function add(total, sum)
  for key, value in pairs(sum) do
    total[key] = type(value) == "number" and (total[key] or 0) + value or value
  end
end

local function cost_line(name, sum)
  local money = sum.cost and ("%.4f USD"):format(sum.cost) or "price unknown"
  local lost = ""
  if sum.misses > 0 then
    lost = ("; %d tokens%s lost to %d cache misses"):format(sum.lost,
      sum.lost_cost and (" (%.4f USD)"):format(sum.lost_cost) or "", sum.misses)
  end
  return ("%-24s %4d requests %9d in (%d cached) %8d out  %s%s%s\n"):format(one_line(name, 24), sum.requests, sum.input,
    sum.cached, sum.output, money, sum.estimated and " (estimated)" or "", lost)
end

local function cost(opts, args, cfg)
  local dir, message = session.find(cfg.state_dir, args[1])
  if not dir then return fail("%s", message) end
  local total, agents = {}, json.array {}
  for i, l in ipairs(logs_of(dir)) do
    local sum, model = usage_of(l.dir .. "/log.jsonl", cfg.models)
    add(total, sum)
    sum.name, sum.model = l.name, model
    agents[i] = sum
  end
  if opts.json then
    total.agents = agents
    io.write(json.encode(total), "\n")
    return 0
  end
  for _, sum in ipairs(agents) do io.write(cost_line(sum.name, sum)) end
  if #agents > 1 then io.write(cost_line("total", total)) end
  return 0
end

-- rm ---------------------------------------------------------------------------------------------

local function remove(_, args, cfg)
  for _, id in ipairs(args) do
    local dir, message = session.find(cfg.state_dir, id)
    if not dir then return fail("%s", message) end
    local handle, why, code = log.open(dir .. "/log.jsonl", { create = false })
    if not handle and code == "locked" then return fail("%s is in use: %s", id, why) end
    if handle then handle:close() end
    local ok, err = fs.remove(dir, { recursive = true })
    if not ok then return fail("%s", err) end
    io.write("removed ", text.safe(dir), "\n")
  end
  return 0
end

-- The dispatch -------------------------------------------------------------------------------------

local COMMANDS = {
  list = { run = list, min = 0, max = 0, usage = "terret session list [--all] [--json]",
    options = { { name = "all", help = "of all projects" }, JSON } },
  show = { run = show, min = 1, max = 1, usage = "terret session show ID [--full]",
    options = { { name = "full", help = "whole results" } } },
  check = { run = check, min = 1, max = 1, usage = "terret session check ID [--repair]",
    options = { { name = "repair", help = "move what can't be read to log.jsonl.bad" } } },
  export = { run = export, min = 1, max = 1, usage = "terret session export ID --format openai|markdown",
    options = { { name = "format", arg = "FORMAT", choices = { "openai", "markdown" },
      help = "markdown (default), or the messages as they are sent" } } },
  cost = { run = cost, min = 1, max = 1, usage = "terret session cost ID [--json]", options = { JSON } },
  rm = { run = remove, min = 1, max = math.huge, usage = "terret session rm ID..." },
}
local ORDER = { "list", "show", "check", "export", "cost", "rm" }

local function usage()
  io.stderr:write("usage:\n")
  for _, name in ipairs(ORDER) do io.stderr:write("  ", COMMANDS[name].usage, "\n") end
  return 2
end

---@param args string[] the subcommand and its arguments
---@param ctx table
---@return integer exit status
function M.run(_, args, ctx)
  local command = COMMANDS[args[1] or ""]
  if not command then return usage() end
  local spec = table.move(command.options or {}, 1, #(command.options or {}), 1, {})
  spec[#spec + 1] = { name = "help", short = "h", help = "print this" }
  local opts, rest = options.parse(spec, table.move(args, 2, #args, 1, {}))
  if not opts then
    io.stderr:write("terret session: ", rest, "\n")
    return 2
  end
  if opts.help then
    io.write("usage: ", command.usage, "\n\n", options.help(spec), "\n")
    return 0
  end
  if #rest < command.min or #rest > command.max then
    io.stderr:write("usage: ", command.usage, "\n")
    return 2
  end
  local cfg, message = ctx.config()
  if not cfg then
    io.stderr:write("terret session: ", message, "\n")
    return 2
  end
  return command.run(opts, rest, cfg)
end

return M

-- scripts/cli/permit.lua - `terret permit`: the verdict on a command line, without running it.
--
-- Exit status: 0 allow, 3 ask, 1 deny; 2 usage.  --batch answers requests line by line and exits 0: a line that
-- is no request gets the verdict "ask".
local fs = require "terret.fs"
local json = require "terret.json"
local permissions = require "terret.permissions"

local M = {
  summary = "the verdict on a command line, and the rule that decides",
  usage = "terret permit [--rules FILE] [--json | --batch] -- 'COMMAND LINE'",
  options = {
    { name = "rules", arg = "FILE", help = "these rules instead of the configured ones" },
    { name = "json", help = "print the answer as JSON" },
    { name = "batch", help = 'answer {"id","command","allow","ask","deny"} lines from the standard input' },
  },
}

local statuses = { allow = 0, ask = 3, deny = 1 }

local function usage(message)
  io.stderr:write("terret permit: ", message, "\nusage: ", M.usage, "\n")
  return 2
end

-- One request of a batch: its lists replace all other rules.
local function answer(line)
  local request, message = json.decode(line)
  if type(request) ~= "table" or type(request.command) ~= "string" then
    return { id = type(request) == "table" and request.id or json.null, verdict = "ask",
      reason = "not a request: " .. (message or "no command"), commands = json.array {} }
  end
  local rules = {}
  for verdict in pairs(statuses) do
    local list = request[verdict]
    for _, rule in ipairs(type(list) == "table" and list or {}) do
      if type(rule) ~= "string" or rule == "" then
        return { id = request.id, verdict = "ask", reason = "a rule that is no text", commands = json.array {} }
      end
      rules[#rules + 1] = { verdict = verdict, rule = rule, source = verdict }
    end
  end
  local p = permissions.new { rules = rules, builtin = false, project = fs.cwd() }
  local r = p:check { class = "exec", command = request.command }
  return { id = request.id, verdict = r.verdict, reason = r.reason, commands = json.array(r.commands or {}) }
end

local function batch()
  for line in io.lines() do
    if line:find("%S") then io.write(json.encode(answer(line)), "\n") end
  end
  return 0
end

-- What was found, for a person: everything of the model's is escaped.
local function print_verdict(r)
  local text = require "terret.text"
  local function safe(s) return text.safe(s, { newline = false, tab = false }) end
  io.write(r.verdict, ": ", safe(r.reason), "\n")
  for _, command in ipairs(r.commands or {}) do io.write("  command  ", safe(command), "\n") end
  if r.rule then io.write("  rule     ", safe(r.rule), "  (", safe(r.source or "?"), ")\n") end
  if r.propose then io.write("  would be allowed by: allow ", safe(r.propose), "\n") end
end

---@param opts {rules: string?, json: boolean?, batch: boolean?}
---@param args string[]
---@param ctx {config: fun(): table}?
---@return integer exit status
function M.run(opts, args, ctx)
  if opts.batch then
    if #args > 0 or opts.json or opts.rules then return usage("--batch takes its requests from the standard input") end
    return batch()
  end
  if #args ~= 1 then return usage("one command line expected, in quotes") end
  local cfg = ctx and ctx.config and ctx.config() or {}
  local rules = cfg.rules or {}
  if opts.rules then
    local data, message = fs.read(opts.rules)
    if not data then return usage(message) end
    rules, message = permissions.parse_rules(data, opts.rules)
    if not rules then return usage(message) end
  end
  local p = permissions.new { rules = rules, project = cfg.project or fs.cwd(), cwd = cfg.cwd or fs.cwd(),
    mode = cfg.mode,
    isolated = cfg.isolated, policy = cfg.policy }
  local r = p:check { class = "exec", command = args[1] }
  if opts.json then
    io.write(json.encode { verdict = r.verdict, reason = r.reason, rule = r.rule, source = r.source,
      propose = r.propose,
      commands = json.array(r.commands or {}) }, "\n")
  else
    print_verdict(r)
  end
  return statuses[r.verdict]
end

return M

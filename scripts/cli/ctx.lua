-- scripts/cli/ctx.lua - `terret ctx replay SESSION`: what a recorded session would have cost under other
-- context policies.
--
-- SESSION is the id of a session, or a JSONL file: a session's log, or messages in the OpenAI form, one a line.
-- Nothing is written and no model is asked.  Exit status: 0; 1 when the session can't be read.

local fs = require "terret.fs"
local json = require "terret.json"
local options = require "terret.options"
local policies = require "terret.context.policies"
local replay = require "terret.context.replay"
local session = require "terret.session"
local text = require "terret.text"

local M = {
  summary = "replay a recorded session through context policies",
  usage = "terret ctx replay SESSION|FILE [--policy a,b] [--window N] [--cached PRICE]",
  stop = true,
}

local SPEC = {
  { name = "policy", arg = "LIST", help = "of: " .. table.concat(policies.names, ", ") .. " (default: all)" },
  { name = "window", arg = "TOKENS", kind = "integer", help = "of the model; default 200000" },
  { name = "cached", arg = "PRICE", help = "of a cached token, uncached = 1; default 0.1" },
  { name = "write", arg = "PRICE", help = "of a token that is written to the cache; default 1" },
  { name = "output", arg = "PRICE", help = "of a token of output; default 5" },
  { name = "ratio", arg = "BYTES", kind = "number", help = "of a token; default 2.9" },
  { name = "json", help = "an array of figures" },
  { name = "help", short = "h", help = "print this" },
}

local function fail(status, format, ...)
  io.stderr:write("terret ctx: ", text.safe(format:format(...)), "\n")
  return status
end

-- The messages of our own log, all of them, whatever was compacted.
local function from_log(records)
  local head, out = records[1], {}
  out[1] = { role = "system", content = tostring(head.system or "") .. tostring(head.tools or "") }
  for _, r in ipairs(session.branch(records)) do
    if r.type == "message" then
      out[#out + 1] = { role = r.role, content = r.content, tool_calls = r.tool_calls, tool_call_id = r.call_id,
        name = r.name }
    end
  end
  return out
end

local function from_lines(path)
  local data, message = fs.read(path, { max = 1 << 30 })
  if not data then return nil, message end
  local out, n = {}, 0
  for line in data:gmatch("[^\n]+") do
    n = n + 1
    local m, err = json.decode(line)
    if type(m) ~= "table" then return nil, ("%s, line %d: %s"):format(path, n, err or "no message") end
    if n == 1 and m.type == "session" then
      local records, why = session.read(path)
      if not records then return nil, why end
      return from_log(records)
    end
    if n == 1 and type(m.messages) == "table" then return m.messages end -- an export
    if type(m.role) ~= "string" then return nil, ("%s, line %d: no message"):format(path, n) end
    out[n] = m
  end
  return out
end

local function load(name, ctx)
  if name:find("/", 1, true) or name:find("%.jsonl$") then return from_lines(name) end
  local cfg, message = ctx.config()
  if not cfg then return nil, message end
  local dir
  dir, message = session.find(cfg.state_dir, name)
  if not dir then return nil, message end
  return from_lines(dir .. "/log.jsonl")
end

-- The policies that were asked for; nil, message: one of them isn't there.
local function chosen(list)
  if not list then return policies.names end
  local out = {}
  for name in list:gmatch("[^,%s]+") do
    if not policies[name] or name == "names" then
      return nil, ("there is no policy '%s'; there are: %s"):format(name, table.concat(policies.names, ", "))
    end
    out[#out + 1] = name
  end
  return #out > 0 and out or policies.names
end

local function figures(name, r)
  return { policy = name, cost = math.floor(r.cost + 0.5), cached = r.input > 0 and r.cached / r.input or 0,
    largest = math.ceil(r.largest), kept = r.kept, rereads = r.rereads, compactions = r.compactions, calls = r.calls }
end

local function print_table(list)
  io.write("policy      cost, k tokens  cached  largest, k  kept   read again  compactions\n")
  local base = list[1].cost
  for _, f in ipairs(list) do
    io.write(("%-11s %7.0f (%4.2f)  %6.3f %11.0f  %5.3f %11d %12d\n"):format(f.policy, f.cost / 1000,
      base > 0 and f.cost / base or 0, f.cached, f.largest / 1000, f.kept, f.rereads, f.compactions))
  end
  io.write(("%d requests; cost in uncached input tokens (beside it: to the first row); cached: share of the input;\n"
    .. "kept: share of what the agent quotes from earlier results that was in the context when it did\n")
    :format(list[1].calls))
end

local function run_replay(opts, name, ctx)
  local names, message = chosen(opts.policy)
  if not names then return fail(2, "%s", message) end
  local messages
  messages, message = load(name, ctx)
  if not messages then return fail(1, "%s", message) end
  if #messages < 2 then return fail(1, "%s holds no conversation", name) end
  local list = json.array {}
  for i, policy in ipairs(names) do
    local items = replay.items(messages, opts.ratio)
    list[i] = figures(policy, replay.run(items, policies[policy], { window = opts.window, cached = opts.cached,
      write = opts.write, output = opts.output, ratio = opts.ratio }))
  end
  if opts.json then
    io.write(json.encode(list), "\n")
  else
    print_table(list)
  end
  return 0
end

---@param args string[] the subcommand and its arguments
---@param ctx table
---@return integer exit status
function M.run(_, args, ctx)
  if args[1] ~= "replay" then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local opts, rest = options.parse(SPEC, table.move(args, 2, #args, 1, {}))
  if not opts then return fail(2, "%s", rest) end
  if opts.help then
    io.write("usage: ", M.usage, "\n\n", options.help(SPEC), "\n")
    return 0
  end
  if #rest ~= 1 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  for _, name in ipairs { "cached", "write", "output" } do -- 0 is a price, too
    local price = opts[name] and tonumber(opts[name])
    if opts[name] and not (price and price >= 0 and price < math.huge) then
      return fail(2, "--%s needs a number, not '%s'", name, opts[name])
    end
    opts[name] = price
  end
  return run_replay(opts, rest[1], ctx)
end

return M

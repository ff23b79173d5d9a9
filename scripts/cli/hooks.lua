-- scripts/cli/hooks.lua - `terret hooks [EVENT]`: the dispatch table, and who listens to what, in order.
--
-- With --session ID: how often each handler changed something there, as its log says.

local M = {
  summary = "list the events, and the handlers of each in their order",
  usage = "terret hooks [EVENT] [--session ID]",
  options = { { name = "session", arg = "ID", help = "count the changes that handlers made in a session" },
    { name = "trust", help = "load the project's extensions, too" } },
}

local FAILS = { guard = "a handler that fails denies",
  transform = "a handler that fails is passed over, with a warning",
  supply = "a handler that fails has no answer", observe = "a handler that fails is recorded" }

local function safe(s) return require("terret.text").safe(tostring(s), { newline = false, tab = false }) end

-- "text: string, ok: boolean"
local function fields(set)
  local out = {}
  for key, kind in pairs(set) do out[#out + 1] = key .. ": " .. kind end
  table.sort(out)
  return #out > 0 and table.concat(out, ", ") or nil
end

local function print_handler(h, counts)
  local count = counts and counts[h.event .. "\0" .. h.name]
  io.write(("    %3g  %-20s %-8s %s%s\n"):format(h.priority, safe(h.name), h.tier, safe(h.where),
    counts and ("  %d changes"):format(count or 0) or ""))
end

local function print_event(events, row, counts)
  io.write(row.name, "  (", row.class, ": ", FAILS[row.class], ")\n  ", row.doc, "\n")
  local has, may = fields(row.has), fields(row.may)
  if has then io.write("  has     ", has, "\n") end
  if may then io.write("  may     ", may, "   (what next{...} can change)\n") end
  if row.class == "guard" then
    io.write('  answer  "allow", "ask" or "deny", and a reason\n')
  elseif type(row.answer) == "table" then
    io.write("  answer  ", fields(row.answer), "\n")
  elseif row.answer then
    io.write("  answer  ", row.answer, "\n")
  end
  local list = events.handlers[row.name]
  io.write(list and "  handlers, the outermost first (priority, name, tier, place):\n" or "  no handlers\n")
  for _, h in ipairs(list or {}) do print_handler(h, counts) end
end

local function print_table(events, counts)
  for _, row in ipairs(events.list) do
    local list = events.handlers[row.name] or {}
    io.write(("%-16s %-9s %3s  %s\n"):format(row.name, row.class, #list > 0 and #list or "-", row.doc))
    for _, h in ipairs(list) do print_handler(h, counts) end
  end
end

-- event and handler -> changes in a session's log.
local function count(state_dir, id)
  local session = require "terret.session"
  local dir, message = session.find(state_dir, id)
  if not dir then return nil, message end
  local records, why = session.read(dir .. "/log.jsonl")
  if not records then return nil, why end
  local counts = {}
  for _, r in ipairs(records) do
    local key = r.type == "hook" and r.event .. "\0" .. r.handler
    if key then counts[key] = (counts[key] or 0) + 1 end
  end
  return counts
end

---@param opts table
---@param args string[]
---@param ctx table
---@return integer exit status
function M.run(opts, args, ctx)
  if #args > 1 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local events = require "terret.events"
  local row = events.by_name[args[1] or ""]
  if args[1] and not row then
    io.stderr:write("terret hooks: no event '", safe(args[1]), "'; terret hooks lists them\n")
    return 2
  end
  local cfg, message = ctx.config {}
  if not cfg then
    io.stderr:write("terret hooks: ", message, "\n")
    return 2
  end
  cfg.trust = opts.trust
  local counts
  if opts.session then
    counts, message = count(cfg.state_dir, opts.session)
    if not counts then
      io.stderr:write("terret hooks: ", message, "\n")
      return 1
    end
  end
  require("terret.setup").extensions(cfg, function(words) io.stderr:write("terret hooks: ", safe(words), "\n") end)
  if row then print_event(events, row, counts) else print_table(events, counts) end
  return 0
end

return M

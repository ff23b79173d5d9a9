-- scripts/tools/recall.lua - the tool `recall`: parts of an output that was too long to show.
local lazy = require "terret.lazy"
local match = lazy "terret.match"
local text = require "terret.text"

local LINE_BYTES = 2000

local function numbered(n, line)
  if #line > LINE_BYTES then line = ("%s [cut; %d bytes]"):format(text.cut(line, LINE_BYTES), #line) end
  return ("%6d\t%s"):format(n, text.clean(line))
end

-- Adds lines until the answer is full; false: it didn't fit.
local function adder(max)
  local out, size = {}, 0
  return out, function(n, line)
    local shown = numbered(n, line)
    if #out > 0 and size + #shown + 1 > max then return false end
    out[#out + 1], size = shown, size + #shown + 1
    return true
  end
end

local function show_lines(lines, from, to, total, max)
  local out, add = adder(max)
  local last = from - 1
  for i, line in ipairs(lines) do
    if not add(from + i - 1, line) then break end
    last = from + i - 1
  end
  if last < to then out[#out + 1] = ("[lines %d-%d of %d; go on with from=%d]"):format(from, last, total, last + 1)
  else out[#out + 1] = ("[lines %d-%d of %d]"):format(from, last, total) end
  return table.concat(out, "\n")
end

local function show_matches(lines, from, pattern, max)
  local out, add = adder(max)
  local count, full = 0, false
  for i, line in ipairs(lines) do
    local at = line:find(pattern, 1, true)
    if at then
      count = count + 1
      local start = #line > LINE_BYTES and math.max(1, at - 200) or 1
      full = full or not add(from + i - 1, line:sub(start))
    end
  end
  if count == 0 then return "no line holds this text" end
  out[#out + 1] = ("[%d matching lines%s]"):format(count, full and (", %d shown"):format(#out) or "")
  return table.concat(out, "\n")
end

local function run(args, call)
  local id = args.id:match("^%s*(b%d+)%s*$")
  if not id then return nil, ("'%s' is no id; ids look like b12"):format(text.cut(text.clean(args.id), 40)) end
  local data, message, code = call:blob_read(id)
  if not data then
    if code == "not_found" then message = ("there is no output %s in this session"):format(id) end
    return nil, message, code
  end
  local total = text.count_lines(data)
  if total == 0 then return id .. " is empty" end
  local from, to = args.from or 1, math.min(args.to or total, total)
  if from > total then return nil, ("%s has %d lines; from=%d is beyond the end"):format(id, total, from) end
  if to < from then return nil, ("to=%d lies before from=%d"):format(to, from) end
  local lines = match.pieces(text.lines(data, from, to))
  if lines[#lines] == "" and #lines > to - from + 1 then lines[#lines] = nil end
  if args.pattern and args.pattern ~= "" then return show_matches(lines, from, args.pattern, call.limits.read_bytes) end
  return show_lines(lines, from, to, total, call.limits.read_bytes)
end

return {
  name = "recall",
  description = "Shows lines of an output that was cut (its id stands in the cut), or the lines that hold a text.",
  permission = "none",
  parameters = {
    id = { "string", "as b12" },
    from = { "integer?", "first line, from 1", minimum = 1 },
    to = { "integer?", "last line", minimum = 1 },
    pattern = { "string?", "plain text to look for" },
  },
  run = run,
}

-- tests/spec/support/faults.lua - the recorded faults of endpoints in tests/wire/cases.jsonl.
--
-- The first line holds pieces of bodies that several cases share; then a case a line: {id, title, steps =
-- the answers in the order in which they were given, expect = what must come of it, unit = text of
-- arguments and what they are, usage_expect, profile, mode = "json" (not streamed)}.
local fs = require "terret.fs"
local hash = require "terret.hash"
local json = require "terret.json"

local M = {}

local function lines(path)
  local out = {}
  for line in assert(fs.read(path)):gmatch("[^\n]+") do out[#out + 1] = assert(json.decode(line)) end
  return out
end

local function piece(x, shared)
  if math.type(x) == "integer" then return shared[x] end
  if type(x) == "table" and x.b64 then return hash.unbase64(x.b64) end
  if type(x) == "table" and x["repeat"] then return x["repeat"]:rep(x.times) end
  if type(x) == "table" and x.bytewise then return x.bytewise end
  return x
end

---@return table[] cases; each body is a list of strings and of {delay_ms}, {stall_ms}, {rst}, {close}
function M.load()
  local list = lines("tests/wire/cases.jsonl")
  local shared = table.remove(list, 1).pieces
  for _, case in ipairs(list) do
    for _, step in ipairs(case.steps) do
      for i, x in ipairs(step.body) do step.body[i] = piece(x, shared) end
    end
  end
  return list
end

---The bytes of a step's body; what is no byte is left out.
---@param step table
---@return string
function M.bytes(step)
  local out = {}
  for _, x in ipairs(step.body) do
    if type(x) == "string" then out[#out + 1] = x end
  end
  return table.concat(out)
end

-- A header value with a moment in it: {{httpdate+SECONDS}}, {{epoch_ms+MS}}.
local function header_value(value)
  return (tostring(value):gsub("{{(%l+_?%l*)([+-][%d.]+)}}", function(kind, offset)
    if kind == "httpdate" then return os.date("!%a, %d %b %Y %H:%M:%S GMT",
      os.time() + math.tointeger(tonumber(offset))) end
    if kind == "epoch_ms" then return ("%d"):format(os.time() * 1000 + math.floor(tonumber(offset))) end
    return ("%d"):format(os.time() + math.floor(tonumber(offset)))
  end))
end

---A step as an answer of mockd.
---@param step table
---@param match string
---@param mock table support.mock
---@return mock.answer
function M.answer(step, match, mock)
  local out = { status = step.status or 200, match = match, headers = {} }
  local framing = step.framing or "chunked"
  local labelled = false
  for name, value in pairs(step.headers or {}) do
    labelled = labelled or name:lower() == "content-type"
    if value ~= json.null then out.headers[#out.headers + 1] = name .. ": " .. header_value(value) end
  end
  if not labelled then out.headers[#out.headers + 1] = "Content-Type: text/event-stream" end
  if framing == "chunked" then out.chunked = true end
  if framing == "close" then out.nolength = true end
  local raw = framing == "none" or step.before_headers or type(step.body[1]) == "table" and step.body[1].rst
  if raw then out = { match = match } end
  if step.declare_extra then out.length = #M.bytes(step) + step.declare_extra end
  for _, x in ipairs(step.body) do
    if type(x) == "string" then out[#out + 1] = (raw and "raw " or "text ") .. mock.escape(x)
    elseif x.delay_ms then out[#out + 1] = ("delay %d"):format(math.min(x.delay_ms, 5))
    elseif x.stall_ms then out[#out + 1] = "stall"
    elseif x.rst then
      if raw and #out == 0 then out[#out + 1] = "raw " end
      out[#out + 1] = "reset"
    elseif x.close then
      if raw and #out == 0 then out[#out + 1] = "raw " end
      out[#out + 1] = "cut"
    end
  end
  if step.declare_extra then out[#out + 1] = "cut" end
  return out
end

return M

-- scripts/sentinel.lua - the cache sentinel: what of a request the provider should have cached, and what it had.
--
-- Before a request its bytes are compared with those of the last one to the same model; after it, with
-- the cached tokens that the endpoint reports.  Both go into the usage record, and a miss of more than
-- M.least tokens is said in one line: whether we changed something, and what, or the provider missed.
-- What was shortened on purpose (a strip, a compaction, a rewind) is recorded and not complained about.

local json = require "terret.json"
local reactor = require "terret.reactor"

local M = {}

M.least = 2000 -- tokens
M.life = 300 -- seconds that providers keep a prefix
local BLOCK = 128
local UNCACHED_AFTER = 3 -- requests without any hit, after which the cache is taken for none

local HEAD = 65536 -- bytes in which the first mark stands, where there are any

-- Marks for a cache are not part of what is cached.
local function without_marks(body)
  if not body:sub(1, HEAD):find('"cache_control":', 1, true) then return body end
  return (body:gsub('"cache_control":%b{},?', ""))
end

-- What the next request can share with this one, up to the end of its messages without a tail; and what makes a
-- JSON text of that.
local function split(body, tail)
  if tail then
    local from = math.max(1, #body - #tail - 256)
    local at, stop = body:find(tail, from, true)
    if at then return body:sub(1, at - 1), "{}" .. body:sub(stop + 1) end
  end
  local stop = #body
  while stop > 0 and (body:byte(stop) == 0x5D or body:byte(stop) == 0x7D) do stop = stop - 1 end
  return body:sub(1, stop), body:sub(stop + 1)
end

---The number of bytes that two texts have in common at their beginning.
---@param a string
---@param b string
---@return integer
function M.common(a, b)
  if b:find(a, 1, true) == 1 then return #a end -- without a copy
  local low, high = 0, math.min(#a, #b) -- low bytes are equal
  while low < high do
    local middle = (low + high + 1) // 2
    if a:sub(low + 1, middle) == b:sub(low + 1, middle) then low = middle else high = middle - 1 end
  end
  return low
end

-- The first field that differs: "tools", "messages[3]".
local function field(a, b)
  a, b = json.decode(a), json.decode(b)
  if type(a) ~= "table" or type(b) ~= "table" then return "the head" end
  local function differ(x, y) return x == nil or y == nil or json.encode(x) ~= json.encode(y) end
  local function in_list(x, y, name)
    for i = 1, #x do
      if differ(x[i], y[i]) then return ("%s[%d]"):format(name, i) end
    end
  end
  if json.is_array(a) then return in_list(a, b, "messages") or "messages" end
  local keys = {}
  for key in pairs(a) do keys[#keys + 1] = key end
  table.sort(keys)
  for _, key in ipairs(keys) do
    if key ~= "messages" and differ(a[key], b[key]) then return key end
  end
  local lists = type(a.messages) == "table" and type(b.messages) == "table"
  return lists and in_list(a.messages, b.messages, "messages") or "messages"
end

-- Where what is cached begins: fields before it (a limit of output, sampling) are no part of the prompt.
local function prompt_start(body)
  local head, least = body:sub(1, 4096), nil
  for _, key in ipairs { '"system":', '"tools":', '"messages":', '"instructions":', '"input":' } do
    local at = head:find(key, 1, true)
    least = at and math.min(at, least or at) or least
  end
  return least or 1
end

-- Bytes of the last prefix that the cache should hold for this body.
local function usable(prefix, body, common)
  if common == #prefix then return common end
  local a, b = prompt_start(prefix), prompt_start(body)
  if common >= a - 1 then return common end
  return a - 1 + M.common(prefix:sub(a), body:sub(b))
end

---@class terret.sentinel.guess
---@field body string
---@field prefix string what of it the next request can share
---@field rest string
---@field predicted integer? tokens that should come from the cache; nil: there is nothing to compare with
---@field could integer? tokens that would have been cached, had nothing changed

---Looks at a request before it is sent.
---@param agent terret.agent
---@param body string its bytes, or those of its messages
---@param tail string? the message behind the messages that is not stored
---@param model string
---@return terret.sentinel.guess
function M.before(agent, body, tail, model)
  body = without_marks(body)
  local guess = { body = body, model = model, epoch = agent.session.epoch, at = reactor.now() }
  guess.prefix, guess.rest = split(body, tail)
  local last = agent.sent[model]
  if last then
    local common = M.common(last.prefix, body)
    local function tokens(bytes) return math.floor(last.input * bytes / last.bytes) // BLOCK * BLOCK end
    guess.predicted, guess.could = tokens(usable(last.prefix, body, common)), tokens(#last.prefix)
    guess.common = common
  end
  return guess
end

-- Why less was cached than could have been.
local function reason(guess, last)
  if guess.common < #last.prefix then
    if guess.epoch ~= last.epoch then return "shortened" end
    return "changed", ("we changed %s (byte %d)"):format(field(last.prefix .. last.rest, guess.body), guess.common + 1)
  end
  local idle = guess.at - last.at
  if idle > M.life then return "expired", ("%d seconds had passed since the last request"):format(idle // 1) end
  return "missed", "the provider missed: our bytes were the same"
end

---Compares with what the endpoint reports; says so when much was lost.
---@param agent terret.agent
---@param guess terret.sentinel.guess?
---@param usage {input: integer?, cached: integer?, estimated: boolean?}
---@return {predicted: integer?, lost: integer?, why: string?} fields of the usage record
function M.after(agent, guess, usage)
  if not guess or not usage.input or usage.estimated then return {} end
  local last = agent.sent[guess.model]
  agent.sent[guess.model] = { bytes = #guess.body, prefix = guess.prefix, rest = guess.rest, input = usage.input,
    epoch = guess.epoch, at = guess.at }
  if not last or not guess.predicted then return {} end
  if guess.predicted > M.least then
    agent.unhit = (usage.cached or 0) > 0 and -math.huge or (agent.unhit or 0) + 1
    agent.uncached = agent.unhit >= UNCACHED_AFTER
  end
  local out = { predicted = guess.predicted }
  local lost = guess.could - (usage.cached or guess.could)
  if lost <= M.least then return out end
  local words
  out.lost = lost
  out.why, words = reason(guess, last)
  if words and not agent.uncached then
    agent:emit("warning", { text = ("cache: %d of %d tokens were not read from it; %s"):format(lost, guess.could,
      words) })
  end
  return out
end

return M

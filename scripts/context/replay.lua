-- scripts/context/replay.lua - a recorded session through a context policy: what it would have cost.
--
-- The model of a provider: the prompt of a request is cached as far as its blocks of 128 tokens equal
-- those of the request before (at least 1,024 tokens); answers are not cached.  Costs are in uncached
-- input tokens.  `kept` is the share of the bytes of earlier results (lines of 20 bytes and more) that the
-- recorded agent repeats word for word while they are visible; what is not visible is charged as one more
-- request that reads it again.  Summaries are credited with nothing.  The agent is replayed, not run
-- again: it can't behave differently under another policy.

local json = require "terret.json"
local plan = require "terret.context.plan"

local M = {}

M.line = 20 -- bytes of a line that counts
M.reread = 16000 -- most bytes that are read again
M.overhead = 20 -- bytes of a message around its text
local BLOCK, LEAST = 128, 1024

-- The session --------------------------------------------------------------------------------

-- Lines of a text that are long enough to be quoted.
local function lines_of(s, into)
  into = into or {}
  for line in s:gmatch("[^\n]+") do
    line = line:gsub("^%s*%d+\t", ""):match("^%s*(.-)%s*$")
    if #line >= M.line then into[line] = true end
  end
  return into
end

-- All strings in decoded arguments.
local function strings(value, into)
  if type(value) == "string" then lines_of(value, into) end
  if type(value) == "table" then
    for _, x in pairs(value) do strings(x, into) end
  end
end

local PATHS = { "path", "file_path", "filename" }
local READS = { read = true, read_file = true, view = true, open = true, cat = true }

local function path_of(args)
  for _, key in ipairs(PATHS) do
    if type(args) == "table" and type(args[key]) == "string" then return args[key] end
  end
end

-- One message of the OpenAI form as an item.
local function item(m, calls, ratio)
  local content = type(m.content) == "string" and m.content or ""
  local e = { role = m.role, text = content, size = #content, quotes = nil }
  local bytes = #content + M.overhead
  if m.role == "assistant" then
    e.quotes = lines_of(content)
    for _, call in ipairs(m.tool_calls or {}) do
      local fn = call["function"] or call
      local args = json.decode(tostring(fn.arguments))
      bytes = bytes + #tostring(fn.arguments) + M.overhead
      strings(args, e.quotes)
      calls[call.id or ""] = { name = fn.name, path = path_of(args) }
    end
  elseif m.role == "tool" then
    local call = calls[m.tool_call_id or ""] or {}
    e.name, e.touched = call.name, call.path
    e.read = READS[call.name] and call.path or nil
  end
  e.tokens = bytes / ratio
  return e
end

---@param messages table[] of the OpenAI form
---@param ratio number? bytes of a token; default 2.9
---@return table[] items
function M.items(messages, ratio)
  local out, calls = {}, {}
  for i, m in ipairs(messages) do out[i] = item(m, calls, ratio or 2.9) end
  return out
end

-- The run --------------------------------------------------------------------------------------

---@class terret.replay
---@field view table[] what the next request shows
---@field window integer
---@field prices terret.plan.prices
---@field ratio number bytes of a token
local Run = {}
Run.__index = Run

---@return number tokens of the view
function Run:size()
  local sum = 0
  for _, e in ipairs(self.view) do sum = sum + e.tokens end
  return sum
end

-- Tokens that the request shares with the one before.
local function common(self)
  local sum = 0
  for i, e in ipairs(self.view) do
    if self.last[i] ~= e then break end
    sum = sum + e.tokens
  end
  sum = sum // BLOCK * BLOCK
  return sum >= LEAST and sum or 0
end

-- Bills a request of the view with something behind it.
local function bill(self, extra, output)
  local size, cached = self:size() + (extra or 0), common(self)
  self.input, self.cached = self.input + size, self.cached + cached
  self.cost = self.cost + self.prices.cached * cached + self.prices.write * (size - cached)
    + self.prices.output * (output or 0)
  self.last = table.move(self.view, 1, #self.view, 1, {})
  self.largest = math.max(self.largest, size)
end

---A copy of an item that shows only a part of its text.
---@param e table
---@param text string
---@param fields table?
---@return table
function Run:shorter(e, text, fields)
  local copy = { role = e.role, text = text, size = #text, read = e.read, touched = e.touched, origin = e.origin or e,
    tokens = (#text + M.overhead) / self.ratio }
  for key, value in pairs(fields or {}) do copy[key] = value end
  return copy
end

---Stubs for these items.
---@param list table[]
---@param bytes integer
function Run:stub(list, bytes)
  local set = {}
  for _, e in ipairs(list) do set[e] = self:shorter(e, e.text:sub(1, bytes), { stub = true }) end
  for i, e in ipairs(self.view) do self.view[i] = set[e] or e end
end

---A summary: the view becomes its first item, the user's words, the summary, more, and what is behind `first`.
---@param first integer
---@param options {cached: boolean?, users: number?, more: table[]?, result: integer?} cached: the question is asked
---  on the live prefix; users: tokens of the user's words that stay; result: bytes of a result in a prompt of its own
function Run:summarize(first, options)
  local old = self.view
  if options.cached then
    bill(self, 250, plan.output)
  else
    local sum = 0
    for i = 1, first - 1 do
      local e = old[i]
      sum = sum + (e.role == "tool" and math.min(e.tokens, (options.result or math.huge) / self.ratio) or e.tokens)
    end
    self.input = self.input + sum
    self.cost = self.cost + self.prices.input * sum + self.prices.output * plan.output
  end
  local view, words, left = { old[1] }, {}, options.users or 0
  for i = first - 1, 2, -1 do
    local e = old[i]
    if e.role == "user" and not e.kind and left > 0 then
      left = left - e.tokens
      table.insert(words, 1, e)
    end
  end
  table.move(words, 1, #words, #view + 1, view)
  view[#view + 1] = { role = "user", kind = "summary", text = "", size = 0, tokens = plan.summary }
  table.move(options.more or {}, 1, #(options.more or {}), #view + 1, view)
  table.move(old, first, #old, #view + 1, view)
  self.view = view
  self.compactions = self.compactions + 1
end

---Drops items.
---@param list table[]
function Run:drop(list)
  local gone, view = {}, {}
  for _, e in ipairs(list) do gone[e] = true end
  for _, e in ipairs(self.view) do
    if not gone[e] then view[#view + 1] = e end
  end
  self.view = view
end

-- Remembers where a line stands: in a result, or in any message.
local function note(self, e)
  for line in pairs(e.quotes or lines_of(e.text)) do
    local holders = self.holders[line] or {}
    self.holders[line] = holders
    holders[#holders + 1] = e
    holders.result = holders.result or e.role == "tool"
  end
end

local function shows(self, e, line)
  if not e then return false end
  if not e.origin then return true end -- whole
  self.lines[e] = self.lines[e] or lines_of(e.text)
  return self.lines[e][line] ~= nil
end

-- The result that holds most of the lost lines, the shortest of them.
local function best_source(self, lost)
  local count, best = {}, nil
  for _, line in ipairs(lost) do
    for _, e in ipairs(self.holders[line]) do
      if e.role == "tool" then count[e] = (count[e] or 0) + 1 end
    end
  end
  for e, n in pairs(count) do
    if not best or n > count[best] or n == count[best]
      and (e.size < best.size or e.size == best.size and e.at < best.at) then best = e end
  end
  return best
end

-- What an answer repeats and whether it was visible; reads again what was not.
local function quoted(self, answer)
  local shown, lost = {}, {}
  for _, e in ipairs(self.view) do shown[e.origin or e] = e end
  for line in pairs(answer.quotes) do
    local holders = self.holders[line]
    if holders and holders.result then
      local visible = false
      for _, e in ipairs(holders) do visible = visible or shows(self, shown[e], line) end
      self.quoted = self.quoted + #line
      if visible then self.visible = self.visible + #line else lost[#lost + 1] = line end
    end
  end
  if #lost == 0 then return end
  -- One more request, and what it brings stays in the view.
  self.rereads = self.rereads + 1
  local source = best_source(self, lost)
  bill(self, 0, plan.reread.output)
  self.view[#self.view + 1] = self:shorter(source, source.text:sub(1, M.reread))
end

---@param items table[] of M.items
---@param policy {admit: fun(run, item)?, before: fun(run)?}
---@param options {window: integer?, cached: number?, write: number?, output: number?, ratio: number?, max_output: integer?}?
---@return {cost: number, input: number, cached: number, largest: number, kept: number, rereads: integer, compactions: integer, calls: integer}
function M.run(items, policy, options)
  options = options or {}
  local self = setmetatable({ view = {}, last = {}, holders = {}, lines = {}, window = options.window or 200000,
    ratio = options.ratio or 2.9, prices = { input = 1, cached = options.cached or 0.1, write = options.write or 1,
      output = options.output or 5 }, max_output = options.max_output or 8192,
    cost = 0, input = 0, cached = 0, largest = 0, quoted = 0, visible = 0, rereads = 0, compactions = 0, calls = 0,
    meter = { rent = 0 } }, Run)
  for i, e in ipairs(items) do
    e.at = i
    if e.role == "assistant" then
      if policy.before then policy.before(self) end
      bill(self)
      self.calls = self.calls + 1
      quoted(self, e)
      note(self, e)
      self.view[#self.view + 1] = e
    else
      note(self, e)
      self.view[#self.view + 1] = policy.admit and policy.admit(self, e) or e
    end
  end
  self.kept = self.quoted > 0 and self.visible / self.quoted or 1
  return self
end

return M

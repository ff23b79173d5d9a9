-- scripts/context/plan.lua - when to shorten the context, and what stays: pure functions over sizes.
--
-- The same code decides in a live agent (scripts/context.lua) and in a replay of recorded sessions
-- (scripts/context/replay.lua).  It knows items only: {tokens, role, kind?, pinned?, stub?, size, read?,
-- touched?}, in the order of the view; sizes are tokens.
--
-- Early compaction is the ski-rental rule.  Each request pays rent for what a compaction would save: the
-- cached price of the excess.  When the rent comes to `a2` times the price of a compaction (the question
-- on the cached prefix, the summary's output, the new prefix, some reads that are done again), it is made:
-- whatever comes later, that costs at most about 1 + a2 times the best choice of moments in hindsight.

local M = {}

M.summary = 1100 -- tokens that a summary takes in the view
M.output = 1000 -- tokens that the model writes for it
M.rereads = 4 -- reads that are expected to be done again after a compaction, of ...
M.reread = { input = 1500, output = 80 } -- ... this size
M.files = 8 -- most files of a working set

-- Shares of the window: what stays behind the summary, the working set, and what is never shortened early.
M.profiles = {
  eco = { a2 = 1, keep = 1 / 12, set = 1 / 24, soft = 1 / 5 },
  balanced = { a2 = 2, keep = 1 / 8, set = 1 / 16, soft = 1 / 4 },
  rich = { a2 = 4, keep = 0.2, set = 0.12, soft = 0.4 },
}

---@class terret.plan.limits
---@field high integer a request above this is too long
---@field keep integer
---@field set integer
---@field soft integer
---@field a2 number

---@param window integer
---@param output integer? most output of an answer
---@param profile string? default "eco"
---@return terret.plan.limits
function M.limits(window, output, profile)
  local p = M.profiles[profile or "eco"]
  output = math.min(output or 8192, window // 4)
  return { high = math.floor(0.85 * window) - output, keep = math.floor(p.keep * window),
    set = math.floor(p.set * window), soft = math.floor(p.soft * window), a2 = p.a2 }
end

---@class terret.plan.prices relative to an uncached token of input
---@field cached number
---@field write number
---@field output number

---Books the rent of one request and says whether a compaction is due.
---@param meter {rent: number, floor: integer?} floor: tokens that the last compaction left
---@param limits terret.plan.limits
---@param prices terret.plan.prices
---@param size {total: integer, fixed: integer, task: boolean?, cold: boolean?} fixed: system prompt and
---  tools; task: the request begins with the user's words; cold: the cache has gone
---@return boolean
function M.due(meter, limits, prices, size)
  local least = math.max(size.fixed + limits.keep + M.summary, meter.floor or 0)
  local excess = size.total - least
  if size.total <= limits.soft or excess <= 0 then return false end
  local c, w = prices.cached, prices.write
  meter.rent = meter.rent + c * excess
  local price = M.output * prices.output
    + M.rereads * (c * size.total + w * M.reread.input + prices.output * M.reread.output)
  -- Where the cache has gone, the whole is paid for anyway.
  if size.cold then return excess * w > price end
  price = price + c * size.total + (w - c) * (limits.keep + limits.set + M.summary)
  return meter.rent >= limits.a2 * (size.task and 1 or 1.5) * price
end

---The first item of the newest part that holds about `keep` tokens: a message of the assistant or of the
---user, so that no call is torn from its result.  Results that the model has not seen yet, those behind
---its last message, are always in it.
---@param items table[]
---@param keep integer
---@param ratio number? real tokens per token of an item's account
---@return integer
function M.tail(items, keep, ratio)
  local sum, start, seen, fresh = 0, nil, false, false
  for i = #items, 2, -1 do
    local e = items[i]
    sum = sum + e.tokens * (ratio or 1)
    seen = seen or e.role == "assistant"
    fresh = not seen and (fresh or e.role == "tool" or items[i - 1].role == "tool")
    if e.role == "assistant" or e.role == "user" then start = i end
    if sum >= keep and start and not fresh then break end
  end
  return start or #items + 1
end

---The old results that become stubs, all in one batch.
---@param items table[]
---@param first integer the tail begins here
---@param size integer results up to this many bytes stay
---@return table[]
function M.strip(items, first, size)
  local out = {}
  for i = 2, math.min(first - 1, #items) do
    local e = items[i]
    if e.role == "tool" and not e.stub and not e.pinned and e.size > size then out[#out + 1] = e end
  end
  return out
end

-- Exchanges: a message and the results right behind it stand or fall together.
local function exchange_end(items, i)
  local pinned = items[i].pinned
  while items[i + 1] and items[i + 1].role == "tool" do
    i = i + 1
    pinned = pinned or items[i].pinned
  end
  return i, pinned
end

---The oldest exchanges that go until `over` tokens are saved; the user's own words only when the rest was
---not enough.  The instructions and what is pinned stay.
---@param items table[]
---@param first integer the tail begins here
---@param over number
---@param ratio number?
---@return table[]
function M.drop(items, first, over, ratio)
  local out, gone = {}, {}
  first = math.min(first, #items + 1)
  for _, role in ipairs { "assistant", "user" } do
    local i = 3
    while i < first and over > 0 do
      local stop, pinned = exchange_end(items, i)
      for k = i, items[i].role == role and not pinned and stop or 0 do
        gone[items[k]] = true
        over = over - items[k].tokens * (ratio or 1)
      end
      i = stop + 1
    end
  end
  for i = 3, first - 1 do
    if gone[items[i]] then out[#out + 1] = items[i] end
  end
  return out
end

---The latest read of the files that were touched last, oldest first; what the tail holds is not in it.
---@param items table[]
---@param first integer the tail begins here
---@param budget integer
---@param ratio number?
---@return table[]
function M.working_set(items, first, budget, ratio)
  local paths, count, out = {}, 0, {}
  for i = #items, 2, -1 do
    local e = items[i]
    local path = e.role == "tool" and (e.read or e.touched)
    if path and not paths[path] and count < M.files then
      paths[path], count = true, count + 1
    end
    if path and paths[path] == true and e.read then
      paths[path] = "found"
      if i < first and not e.stub and not e.pinned and e.tokens * (ratio or 1) <= budget then
        budget = budget - e.tokens * (ratio or 1)
        table.insert(out, 1, e)
      end
    end
  end
  return out
end

return M

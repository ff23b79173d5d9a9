-- scripts/context.lua - what the model sees of the past, and what it costs.  One file to replace.
--
-- cap      at admission, once: a long result keeps head and tail, the whole goes to a blob (recall)
-- compact  early, when carrying the past has cost as much as a summary of it would (context/plan.lua); the
--          model sums up, asked as one more message on the live prefix (context/summary.lua)
-- strip    under pressure, as one batch: old results become stubs
-- drop     when that was not enough: the oldest exchanges go
--
-- `cfg.context` names the profile: eco (default), balanced, rich.  `terret ctx replay` runs these rules over recorded
-- sessions.  What is pinned is passed over by all of them.
--
-- Between two of these batches only bytes are appended, which keeps the provider's prefix cache.
-- A fresh result is never cut below its cap before the model has seen it, with one exception: the
-- endpoint refused the request and nothing else is left that could go.

local calibrate = require "terret.calibrate"
local fire = require "terret.fire"
local lazy = require "terret.lazy"
local plan = require "terret.context.plan"
local reactor = require "terret.reactor"
local session_mod = require "terret.session"
local summary_mod = lazy "terret.context.summary"
local text = require "terret.text"
local tokens = require "terret.tokens"

local M = {}

M.cap = 51200 -- bytes of a result; tools with a smaller cap keep it themselves
M.least_cap = 2000 -- bytes that each of many parallel results has at least
M.least_window = 4096 -- tokens; what an endpoint says is believed down to here
M.stub = 300 -- bytes of a stripped result
M.cache_life = 300 -- seconds that a provider keeps a prefix

-- Cap -----------------------------------------------------------------------------------------

---Text that may be stored: valid UTF-8, no secrets.
---@param agent terret.agent
---@param s string
---@return string
function M.clean(agent, s) return agent.redactor:clean(text.clean(s)) end

---The cap of each of n results of one reply: together they fill at most about half of the window.
---@param agent terret.agent
---@param n integer
---@return integer bytes
function M.cap_of(agent, n)
  return math.max(M.least_cap, math.min(M.cap, agent.model_info.window * 3 // 2 // math.max(1, n)))
end

-- Head and tail of a text over the cap; the whole goes to a blob.
local function cut(agent, content, cap)
  if #content <= cap then return content end
  local id = agent.session:save_blob(content)
  local head, tail, elided, lines = text.headtail(content, cap // 4, cap - cap // 4)
  local how = id and ("; the whole: recall{id=\"%s\"}"):format(id) or "; the whole could not be kept"
  return ("%s\n[%d lines, %d bytes left out%s]\n%s"):format(head, lines, elided, how, tail), id
end

---Makes a result fit to be stored: valid text, no secrets, at most the cap.
---@param agent terret.agent
---@param message table
---@param cap integer? default M.cap
---@return table message
function M.admit(agent, message, cap)
  message.content, message.blob = cut(agent, M.clean(agent, message.content), cap or M.cap)
  return message
end

---The user's words: whole, unless they alone would fill the window.
---@param agent terret.agent
---@param words string
---@return string
function M.admit_words(agent, words)
  return (cut(agent, M.clean(agent, words), math.max(M.cap, agent.model_info.window * 3 // 2)))
end

-- Measuring -----------------------------------------------------------------------------------

---Tokens of the next request, calibrated by what the endpoint reported.
---@param agent terret.agent
---@param extra string? text that is about to be added
---@return integer
function M.size(agent, extra)
  local raw = agent.session.view:tokens() + agent.fixed_tokens + (extra and tokens.estimate(extra) or 0)
  return calibrate.size(agent, raw)
end

---@param agent terret.agent
---@return terret.plan.limits
local function limits(agent)
  return plan.limits(agent.model_info.window, agent.max_output, agent.cfg.context)
end

local function tail_start(agent, keep) return plan.tail(agent.session.entries, keep, agent.ratio) end

-- Prices relative to an uncached token of input.  A model on this machine keeps its cache for nothing.
local function prices(agent)
  local p = agent.model_info.price
  if p and p.input > 0 then
    return { cached = p.cached / p.input, write = (p.write or p.input) / p.input, output = p.output / p.input }
  end
  local url = agent.cfg.base_url
  if url and require("terret.config").is_loopback(url) then return { cached = 0, write = 1, output = 0 } end
  return { cached = agent.uncached and 1 or 0.1, write = 1, output = 5 }
end

-- Strip and drop --------------------------------------------------------------------------------

-- The records of the log by id: the view keeps no copy of what a result said.
local function contents(agent, wanted)
  local found = {}
  for _, r in ipairs(session_mod.read(agent.session.log:path()) or {}) do
    if wanted[r.id] then found[r.id] = r.content end
  end
  return found
end

-- Stubs for all results before the entry `first`, in one batch.
local function strip(agent, first)
  local session = agent.session
  local wanted, replace = {}, {}
  local list = plan.strip(session.entries, first, 2 * M.stub)
  for _, e in ipairs(list) do wanted[e.id] = true end
  local said = #list > 0 and contents(agent, wanted) or {}
  for _, e in ipairs(list) do
    local content = said[e.id]
    if content then
      local id = e.blob or session:save_blob(content)
      local how = id and (": recall{id=\"%s\"}"):format(id) or ""
      replace[#replace + 1] = { id = e.id, content = ("%s\n[%d bytes of an old result left out%s]"):format(
        text.cut(content, M.stub), #content - M.stub, how) }
    end
  end
  if #replace == 0 then return false end
  agent:must_record { type = "batch", reason = "strip", replace = replace }
  fire(agent, "context.change", { kind = "strip" })
  agent:emit("compaction", { kind = "strip", results = #replace })
  return true
end

-- Drops the oldest exchanges before the entry `first`; the instructions and what is pinned stay.
local function drop(agent, high, first)
  local gone = {}
  local list = plan.drop(agent.session.entries, first, M.size(agent) - high, agent.ratio)
  for i, e in ipairs(list) do gone[i] = e.id end
  if #gone == 0 then return false end
  agent:must_record { type = "batch", reason = "drop", drop = gone }
  fire(agent, "context.change", { kind = "drop" })
  agent:emit("compaction", { kind = "drop", messages = #gone })
  return true
end

-- Compact ---------------------------------------------------------------------------------------

-- Failures that say something about this request; after others, less of it would fail as well.
local OURS = { overflow = true, bad_request = true, empty = true, output = true, filtered = true, length = true }

-- Asks for a summary behind the live prefix; nil, message, class: there is none.
local function ask(agent, question, model)
  local reply, message, class = agent:request { tail = agent.session:tail(question),
    silent = true, model = model }
  if reply and reply.text:find("%S") then return reply.text end
  return nil, message or "the answer has no text", class or "empty"
end

-- Writes the compaction: the entries from `first` on stay behind the summary (nil: a structural one).
local function replace_by(agent, summary, first)
  local session = agent.session
  local entries, limit = session.entries, limits(agent)
  local set = plan.working_set(entries, first, math.min(limit.set, M.size(agent) // 8), agent.ratio)
  local said = contents(agent, summary_mod.wanted(entries, first, set))
  summary = summary and M.clean(agent, summary) or summary_mod.structural(entries, first, said)
  local before = M.size(agent)
  agent:must_record(summary_mod.compose(entries, first, { summary = summary, said = said, set = set,
    todos = session.todos }))
  agent.meter = { rent = 0, floor = M.size(agent), failures = agent.meter.failures }
  fire(agent, "context.change", { kind = "compact" })
  agent:emit("compaction", { kind = "done", before = before, after = M.size(agent) })
end

-- The breaker: the same prefix once, then a smaller request, then another model.  Twice without a
-- summary, and no model is asked any more until one was made by hand.
local function make_summary(agent, question, early)
  local summary, message, class = ask(agent, question)
  if summary or early or not OURS[class] then return summary, message, class end
  local limit = limits(agent)
  strip(agent, tail_start(agent, limit.keep))
  drop(agent, math.min(limit.high, M.size(agent)) // 2, tail_start(agent, limit.keep))
  agent:emit("warning", { text = "the summary could not be made: " .. message .. "; trying with less" })
  summary, message, class = ask(agent, question)
  local other = agent.cfg.summary_model
  if not summary and other and OURS[class] then
    agent:emit("warning", { text = ("the summary could not be made: %s; asking %s"):format(message, other) })
    summary, message, class = ask(agent, question, other)
  end
  return summary, message, class
end

-- True: a compaction was written.  False, "away": the endpoint could not be asked, so nothing was given up.
local function compact(agent, instructions, why)
  local keep = limits(agent).keep
  if tail_start(agent, keep) <= 3 then return false end
  agent:emit("compaction", { kind = "start", tokens = M.size(agent) })
  local meter = agent.meter
  local question = summary_mod.ask .. (instructions and instructions ~= "" and "\nBesides: " .. instructions or "")
  local summary, message, class = fire(agent, "compact", { instructions = instructions }, false), nil, nil
  if not summary and (why == "hand" or (meter.failures or 0) < 2) then
    summary, message, class = make_summary(agent, question, why == "early")
  end
  meter.failures = summary and 0 or (meter.failures or 0) + 1
  if not summary and message then
    agent:emit("warning", { text = "the summary could not be made: " .. message })
    if why == "early" or not OURS[class] then return false, "away" end
  end
  replace_by(agent, summary, tail_start(agent, keep))
  return true
end

---Replaces the older part by a summary.  The question is one more message behind the live prefix,
---under the same head, so that the provider's cache is hit.
---@param agent terret.agent
---@param instructions string? further wishes of the user
---@return boolean done false: nothing to gain
function M.compact(agent, instructions) return compact(agent, instructions, "hand") end

-- Whether it pays to compact now, long before the window is full.
local function due(agent, extra)
  local entries, now = agent.session.entries, reactor.now()
  local size = { total = M.size(agent, extra), fixed = (agent.fixed_tokens + entries[1].tokens) * agent.ratio,
    task = extra ~= "" and entries[#entries].role == "assistant",
    cold = (agent.asked_at and now - agent.asked_at or agent.session.idle or 0) > M.cache_life }
  agent.asked_at = now
  return plan.due(agent.meter, limits(agent), prices(agent), size) and (agent.meter.failures or 0) == 0
end

---Called before each request.
---@param agent terret.agent
---@param extra string text that this request adds
function M.before_request(agent, extra)
  local limit = limits(agent)
  if due(agent, extra) then compact(agent, nil, "early") end
  if M.size(agent, extra) <= limit.high then return end
  strip(agent, tail_start(agent, limit.keep))
  if M.size(agent, extra) <= limit.high then return end
  local _, away = compact(agent, nil, "full")
  if away or M.size(agent, extra) <= limit.high then return end
  drop(agent, limit.high, tail_start(agent, limit.keep))
end

---After the endpoint said that the request is too long: something must go, whatever we estimated.
---The last steps also take what the model has not seen: a session must never be dead.
---@param agent terret.agent
---@param told integer? the window that it names
---@return boolean changed
function M.overflow(agent, told)
  local session = agent.session
  local size = M.size(agent)
  -- The window is smaller than we thought.
  agent.model_info.window = math.min(agent.model_info.window, math.max(told or size, M.least_window))
  local keep = math.min(limits(agent).keep, size // 3)
  local changed = strip(agent, tail_start(agent, keep))
  changed = drop(agent, size // 2, tail_start(agent, keep)) or changed
  if changed or strip(agent, #session.entries + 1) then return true end
  if #session.entries < 3 then return false end
  replace_by(agent, nil, #session.entries + 1)
  return true
end

return M

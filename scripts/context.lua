-- scripts/context.lua - what the model sees of the past, and what it costs.  One file to replace.
--
-- cap      at admission, once: a long result keeps head and tail, the whole goes to a blob (recall)
-- strip    under pressure, as one batch: old results become stubs
-- compact  the model sums up, asked as one more message on the live prefix
-- drop     when that was not enough: the oldest exchanges go
--
-- Between two of these batches only bytes are appended, which keeps the provider's prefix cache.
-- A fresh result is never cut below its cap before the model has seen it, with one exception: the
-- endpoint refused the request and nothing else is left that could go.

local fire = require "terret.fire"
local session_mod = require "terret.session"
local text = require "terret.text"
local tokens = require "terret.tokens"

local M = {}

M.cap = 51200 -- bytes of a result; tools with a smaller cap keep it themselves
M.least_cap = 2000 -- bytes that each of many parallel results has at least
M.least_window = 4096 -- tokens; what an endpoint says is believed down to here
M.stub = 300 -- bytes of a stripped result
M.user_text = 12000 -- bytes of the user's own words that a compaction keeps

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
  return math.ceil(raw * agent.ratio)
end

local function limits(agent)
  local window = agent.model_info.window
  local output = math.min(agent.max_output or 8192, window // 4)
  return { high = math.floor(0.85 * window) - output, keep = window // 8 }
end

-- The first entry of the newest part that holds about `keep` tokens.  It is a message of the
-- assistant or of the user, so no call is torn from its result; and results that the model has not
-- seen yet, those behind the last message of the assistant, are always in it.
local function tail_start(agent, keep)
  local session = agent.session
  local entries = session.entries
  local sum, start, seen, fresh = 0, nil, false, false
  for i = #entries, 2, -1 do
    local e = entries[i]
    sum = sum + session.store:tokens(e.n) * agent.ratio
    seen = seen or e.role == "assistant"
    fresh = not seen and (fresh or e.role == "tool" or entries[i - 1].role == "tool")
    if e.role == "assistant" or e.role == "user" then start = i end
    if sum >= keep and start and not fresh then break end
  end
  return start or #entries + 1
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
  for i = 2, math.min(first - 1, #session.entries) do
    local e = session.entries[i]
    if e.role == "tool" and not e.stub and e.size > 2 * M.stub then wanted[e.id] = e end
  end
  if not next(wanted) then return false end
  local said = contents(agent, wanted)
  for i = 2, first - 1 do
    local e = session.entries[i]
    local content = e and wanted[e.id] == e and said[e.id]
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

-- Drops the oldest exchanges before the entry `first`; the instructions stay.
local function drop(agent, high, first)
  local session = agent.session
  local gone, size = {}, M.size(agent)
  for i = 3, first - 1 do
    local e = session.entries[i]
    -- Stop only where no call is torn from its result.
    if size <= high and e.role ~= "tool" then break end
    gone[#gone + 1] = e.id
    size = size - session.store:tokens(e.n) * agent.ratio
  end
  if #gone == 0 then return false end
  agent:must_record { type = "batch", reason = "drop", drop = gone }
  fire(agent, "context.change", { kind = "drop" })
  agent:emit("compaction", { kind = "drop", messages = #gone })
  return true
end

-- Compact ---------------------------------------------------------------------------------------

local ASK = [[
The conversation has become long and will be continued from a summary. Write that summary now, for yourself:
the task and the user's wishes, what was done and found, decisions and their reasons, files that matter and what
is in them, what failed and why, what is left to do. Facts, names and numbers exactly. No tool calls. At most
700 words.]]

-- The user's own words before an entry, verbatim; the newest are kept.  first: what the
-- conversation began with, which is kept whole.
local function users_words(agent, before)
  local entries = agent.session.entries
  local first, list = nil, {}
  for i = 2, before - 1 do
    local e = entries[i]
    if e.kind == "summary" then
      first = e.first
      table.move(e.words, 1, #e.words, #list + 1, list)
    elseif e.role == "user" and not first then
      first = e.content
    elseif e.role == "user" then
      list[#list + 1] = e.content
    end
  end
  local kept, size = {}, 0
  for i = #list, 1, -1 do
    size = size + #list[i]
    if size > M.user_text then
      if #kept == 0 then kept[1] = text.cut(list[i], M.user_text) end
      break
    end
    table.insert(kept, 1, list[i])
  end
  return first, kept
end

local function structural_summary(agent)
  local done = {}
  for _, e in ipairs(agent.session.entries) do
    for _, call in ipairs(e.calls or {}) do done[#done + 1] = call.name end
  end
  return ("(no summary could be made; so far %d tools were called: %s)"):format(#done,
    text.cut(table.concat(done, ", "), 500))
end

-- Writes the compaction: the entries from `first` on stay behind the summary.
local function replace_by(agent, summary, first)
  local session = agent.session
  local start, words = users_words(agent, first)
  local parts = { start }
  table.move(words, 1, #words, #parts + 1, parts)
  parts[#parts + 1] = "<summary of the conversation so far>\n" .. M.clean(agent, summary) .. "\n</summary>"
  local from, before = session.entries[first], M.size(agent)
  agent:must_record { type = "compaction", content = table.concat(parts, "\n\n"), first = start,
    words = #words > 0 and words or nil, from = from and from.id }
  fire(agent, "context.change", { kind = "compact" })
  agent:emit("compaction", { kind = "done", before = before, after = M.size(agent) })
end

---Replaces the older part by a summary.  The question is one more message behind the live prefix,
---under the same head, so that the provider's cache is hit.
---@param agent terret.agent
---@param instructions string? further wishes of the user
---@return boolean done false: nothing to gain
function M.compact(agent, instructions)
  local first = tail_start(agent, limits(agent).keep)
  if first <= 3 then return false end
  agent:emit("compaction", { kind = "start", tokens = M.size(agent) })
  local question = ASK .. (instructions and instructions ~= "" and "\nBesides: " .. instructions or "")
  local summary, message = fire(agent, "compact", { instructions = instructions }, false), nil
  if not summary then
    local reply
    reply, message = agent:request { tail = agent.session:tail(question), silent = true }
    summary = reply and reply.text:find("%S") and reply.text
  end
  if not summary then
    agent:emit("warning", { text = "the summary could not be made: " .. (message or "the answer has no text") })
    summary = structural_summary(agent)
  end
  replace_by(agent, summary, first)
  return true
end

---Called before each request.
---@param agent terret.agent
---@param extra string text that this request adds
function M.before_request(agent, extra)
  local limit = limits(agent)
  if M.size(agent, extra) <= limit.high then return end
  strip(agent, tail_start(agent, limit.keep))
  if M.size(agent, extra) <= limit.high then return end
  M.compact(agent)
  if M.size(agent, extra) <= limit.high then return end
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
  replace_by(agent, structural_summary(agent), #session.entries + 1)
  return true
end

return M

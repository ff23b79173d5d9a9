-- scripts/context.lua - what the model sees of the past, and what it costs.  One file to replace.
--
-- cap      at admission, once: a long result keeps head and tail, the whole goes to a blob (recall)
-- strip    under pressure, as one batch: old results become stubs
-- drop     the last resort: the oldest exchanges go
-- compact  the model sums up, asked as one more message on the live prefix
--
-- Between two of these batches only bytes are appended, which keeps the provider's prefix cache.
-- A fresh result is never cut below its cap before the model has seen it.

local text = require "terret.text"
local tokens = require "terret.tokens"

local M = {}

M.cap = 51200 -- bytes of a result; tools with a smaller cap keep it themselves
M.stub = 300 -- bytes of a stripped result
M.summary_tokens = 1000
M.user_text = 12000 -- bytes of the user's own words that a compaction keeps

-- Cap -----------------------------------------------------------------------------------------

---Makes a message fit to be stored: valid text, no secrets, at most the cap.
---@param agent terret.agent
---@param message table
---@return table message
function M.admit(agent, message)
  local content = agent.redactor:clean(text.clean(message.content))
  if #content > M.cap then
    local id = agent.session:save_blob(content)
    local head, tail, elided, lines = text.headtail(content, M.cap // 4, M.cap - M.cap // 4)
    local how = id and ("; the whole: recall{id=\"%s\"}"):format(id) or "; the whole could not be kept"
    content = ("%s\n[%d lines, %d bytes left out%s]\n%s"):format(head, lines, elided, how, tail)
    message.blob = id
  end
  message.content = content
  return message
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

-- The first entry of the newest part that holds about `keep` tokens; it never stands between a
-- call and its result, since it is a message of the assistant or of the user.
local function tail_start(agent, keep)
  local session = agent.session
  local sum, start = 0, nil
  for i = #session.entries, 2, -1 do
    local e = session.entries[i]
    sum = sum + session.store:tokens(e.n) * agent.ratio
    if e.role == "assistant" or e.role == "user" then start = i end
    if sum >= keep and start then break end
  end
  return start or #session.entries + 1
end

-- Strip and drop --------------------------------------------------------------------------------

-- The records of the log by id: the view keeps no copy of what a result said.
local function contents(agent, wanted)
  local session_mod = require "terret.session"
  local found = {}
  for _, r in ipairs(session_mod.read(agent.session.log:path()) or {}) do
    if wanted[r.id] then found[r.id] = r.content end
  end
  return found
end

-- Stubs for all old results in one batch.
local function strip(agent, keep)
  local session = agent.session
  local first, wanted, any = tail_start(agent, keep), {}, false
  for i = 2, math.min(first - 1, #session.entries) do
    local e = session.entries[i]
    if e.role == "tool" and not e.stub and e.size > 2 * M.stub then
      wanted[e.id], any = true, true
    end
  end
  if not any then return false end
  local said, replace = contents(agent, wanted), {}
  for i = 2, first - 1 do
    local e = session.entries[i]
    if wanted[e.id] and said[e.id] then
      local id = e.blob or session:save_blob(said[e.id])
      local how = id and (": recall{id=\"%s\"}"):format(id) or ""
      replace[#replace + 1] = { id = e.id,
        content = ("%s\n[%d bytes of an old result left out%s]"):format(text.cut(said[e.id], M.stub),
          #said[e.id] - M.stub, how) }
    end
  end
  agent:must_record { type = "batch", reason = "strip", replace = replace }
  agent:emit("compaction", { kind = "strip", results = #replace })
  return true
end

-- Drops the oldest exchanges, never the instructions and never the newest part.
local function drop(agent, high)
  local session = agent.session
  local first, gone = tail_start(agent, limits(agent).keep), {}
  local size = M.size(agent)
  for i = 3, first - 1 do
    if size <= high then
      -- Stop only where no call is torn from its result.
      local role = session.entries[i].role
      if role ~= "tool" then break end
    end
    local e = session.entries[i]
    gone[#gone + 1] = e.id
    size = size - session.store:tokens(e.n) * agent.ratio
  end
  if #gone == 0 then return false end
  agent:must_record { type = "batch", reason = "drop", drop = gone }
  agent:emit("compaction", { kind = "drop", messages = #gone })
  return true
end

-- Compact ---------------------------------------------------------------------------------------

local ASK = [[
The conversation has become long and will be continued from a summary. Write that summary now, for yourself:
the task and the user's wishes, what was done and found, decisions and their reasons, files that matter and what
is in them, what failed and why, what is left to do. Facts, names and numbers exactly. No tool calls. At most 700 words.]]

-- The user's own words, verbatim, the newest first to be kept.
local function users_words(agent, before)
  local list, size = {}, 0
  for i = before - 1, 3, -1 do
    local e = agent.session.entries[i]
    if e.role == "user" and e.kind ~= "summary" and e.content then
      size = size + #e.content
      if size > M.user_text then break end
      table.insert(list, 1, e.content)
    end
  end
  return list
end

local function structural_summary(agent)
  local done = {}
  for _, e in ipairs(agent.session.entries) do
    for _, call in ipairs(e.calls or {}) do done[#done + 1] = call.name end
  end
  return ("(no summary could be made; so far %d tools were called: %s)"):format(#done,
    text.cut(table.concat(done, ", "), 500))
end

---Replaces the older part by a summary.
---@param agent terret.agent
---@param instructions string? further wishes of the user
---@return boolean done false: nothing to gain
function M.compact(agent, instructions)
  local session = agent.session
  local first = tail_start(agent, limits(agent).keep)
  if first <= 3 then return false end
  agent:emit("compaction", { kind = "start", tokens = M.size(agent) })
  local question = ASK .. (instructions and instructions ~= "" and "\nBesides: " .. instructions or "")
  local reply, message = agent:request { tail = agent.provider.encode { role = "user", content = question },
    tool_choice = "none", silent = true, max_output = 2 * M.summary_tokens }
  local summary = reply and #reply.text > 0 and reply.text or nil
  if not summary then
    agent:emit("warning", { text = "the summary could not be made: " .. (message or "empty answer") })
    summary = structural_summary(agent)
  end
  local parts = {}
  local start = session.entries[2]
  if start and start.role == "user" and start.content then parts[1] = start.content end
  for _, words in ipairs(users_words(agent, first)) do parts[#parts + 1] = words end
  parts[#parts + 1] = "<summary of the conversation so far>\n" .. text.clean(summary) .. "\n</summary>"
  local from = session.entries[first]
  -- Two user messages in a row would have to be one; the tail begins with the assistant.
  while from and from.role == "user" do
    parts[#parts + 1] = from.content or ""
    first = first + 1
    from = session.entries[first]
  end
  local before = M.size(agent)
  agent:must_record { type = "compaction", content = agent.redactor:clean(table.concat(parts, "\n\n")),
    from = from and from.id or session.next_id }
  agent:emit("compaction", { kind = "done", before = before, after = M.size(agent) })
  return true
end

---Called before each request.
---@param agent terret.agent
---@param extra string text that this request adds
function M.before_request(agent, extra)
  local limit = limits(agent)
  if M.size(agent, extra) <= limit.high then return end
  strip(agent, limit.keep)
  if M.size(agent, extra) <= limit.high then return end
  M.compact(agent)
  if M.size(agent, extra) <= limit.high then return end
  drop(agent, limit.high)
end

---After the endpoint said that the request is too long: something must go, whatever we estimated.
---@param agent terret.agent
---@return boolean changed
function M.overflow(agent)
  local keep = math.min(limits(agent).keep, M.size(agent) // 3)
  local changed = strip(agent, keep)
  return drop(agent, M.size(agent) * 2 // 3) or changed
end

return M

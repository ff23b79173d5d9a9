-- scripts/exchange.lua - one model request of an agent: reserve, send, show, settle, try again.
--
-- The budget is asked before each attempt and settled however it ends.  A limit cancels the loop's
-- task and is raised; what the endpoint refuses comes back as nil, message, class.

local calibrate = require "terret.calibrate"
local lazy = require "terret.lazy"

local calls = lazy "terret.calls"
local context = require "terret.context"
local failure = require "terret.failure"
local fire = require "terret.fire"
local models = require "terret.models"
local request_mod = require "terret.request"
local retry = require "terret.retry"
local session_mod = lazy "terret.session"
local sentinel = require "terret.sentinel"
local task = require "terret.task"
local text = require "terret.text"
local tokens = require "terret.tokens"

local M = {}

-- Window and prices of the model that a request names.
local function info_of(self, model)
  if not model or model == self.cfg.model then return self.model_info end
  return models.find(model, self.cfg.models)
end

local function limit_reached(self, message)
  self.limit_message = message
  fire(self, "budget.limit", { message = message })
  if self.loop_task then task.cancel(self.loop_task, "limit") end
  failure.raise("limit", message, "limit")
end

-- Reserves the worst case; lowers the output where a limit leaves less.
local function reserve(self, info, max_output, tail)
  if not info.price and not self.provider.answer and self.budget:limits_any("cost") then
    limit_reached(self, "the price of this model is unknown, so the limit of cost can't be kept")
  end
  local prompt = context.size(self, tail)
  local want = { steps = 1, tokens = prompt + max_output,
    cost = models.cost(info.price, { input = prompt, written = prompt, output = max_output }) }
  local may = fire(self, "budget.reserve", want)
  if may.verdict == "deny" then limit_reached(self, may.reason or "a guard forbids the request") end
  local held, message = self.budget:reserve(want)
  if held then return held, max_output, prompt end
  if max_output > 256 then return reserve(self, info, max_output // 2, tail) end
  limit_reached(self, message)
end

local SHARE = 4

-- The tokens of an answer, as we estimate them; what was cut off before it was shown counts too.
local function estimate_of(used)
  local reply, words = used.reply, { used.partial }
  if reply then
    words = { reply.text, reply.reasoning }
    for _, call in ipairs(reply.tool_calls) do words[#words + 1] = call.arguments end
  end
  local all = table.concat(words)
  return tokens.estimate(all) + math.max(0, (used.size or 0) - #all) // SHARE
end

-- Books what a request used.  What the endpoint doesn't report is estimated; an answer that was cut
-- off was paid for too.
-- An endpoint that reports less than a share of the estimate is not believed by the limits.
local function settle(self, held, info, used)
  local usage = used.reply and used.reply.usage or used.usage
  -- No request is without input, and no answer without output: such a count is none.
  if usage and usage.input == 0 then usage.input = nil end
  if usage and usage.output == 0 then usage.output = nil end
  local output = (used.reply or used.partial) and estimate_of(used)
  if output and not (usage and usage.input and usage.output) then
    usage = usage or {}
    usage.estimated = true
    usage.input = usage.input or used.prompt
    usage.output = usage.output or output
  end
  if not usage then return self.budget:settle(held, {}) end
  local cost = usage.cost or models.cost(info.price, usage)
  local least = { input = used.prompt // SHARE, cached = used.prompt // SHARE, output = (output or 0) // SHARE }
  self.budget:settle(held, { steps = 1, cost = cost and math.max(cost, models.cost(info.price, least) or 0),
    tokens = math.max(usage.input + (usage.output or 0), least.input + least.output),
    input = usage.input, cached = usage.cached, output = usage.output })
  local cache = sentinel.after(self, self.guess, usage)
  self.guess = nil
  self:must_record { type = "usage", input = usage.input, cached = usage.cached, written = usage.written,
    output = usage.output, cost = cost, estimated = usage.estimated, predicted = cache.predicted, lost = cache.lost,
    why = cache.why }
  fire(self, "usage", { input = usage.input, output = usage.output, cached = usage.cached, cost = cost,
    total = self.budget.spent })
  self:emit("usage", { input = usage.input, cached = usage.cached, output = usage.output, cost = cost,
    context = context.size(self), window = info.window })
end

-- The dialect of the model that a request names.
local function dialect_of(self, model)
  if not model or model == self.cfg.model then return self.dialect end
  self.dialects = self.dialects or {}
  self.dialects[model] = self.dialects[model] or self.dialect:for_model(model)
  return self.dialects[model]
end

-- The messages as a dialect says them.  Another model's are made for this request alone: reasoning goes
-- back only where it came from.
local function view_of(self, dialect)
  local session = self.session
  if dialect ~= self.dialect then
    local other = session_mod.replay(session_mod.branch(session_mod.read(session.log:path()) or {}),
      dialect:speaker(self.provider))
    return other.view, other.store
  end
  if (session.spoken or 1) ~= dialect.version then
    local ok, message, code = session:reencode()
    if not ok then failure.raise("failed", "the session log can't be read: " .. message, code) end
    session.spoken = dialect.version
  end
  return session.view, session.store
end

-- The tokens that an answer may have: those that were asked for, else what its window and the limits leave.
local function allowance(self, info, sent, max_output)
  if sent then return sent end
  local most, left = info.window, self.budget:left "tokens"
  if left then most = math.min(most, left + max_output) end
  left = info.price and info.price.output > 0 and self.budget:left "cost"
  if left then most = math.min(most, max_output + left / info.price.output * 1e6) end
  return most // 1 | 0
end

-- `lowered`: the limits leave less than what would be asked for.
local function send(self, options, info, max_output, lowered, sink)
  local cfg = self.cfg
  local sent = (self.max_output or options.limit or lowered) and max_output or nil
  local request = { base_url = cfg.base_url, key = cfg.api_key, model = options.model or cfg.model,
    tools = not options.bare and self.tools_json or nil, stream = cfg.stream ~= false, most = max_output,
    max_output = sent,
    sampling = options.sampling or cfg.sampling, tool_choice = options.tool_choice, tail = options.tail,
    session = self.session.id }
  if self.provider.answer then
    self.turn = self.turn + 1
    request.script, request.turn, request.agent = cfg.script, self.turn, self.id
    request.messages = self.session.view:render("[", options.tail and "," .. options.tail .. "]" or "]")
    self.guess = sentinel.before(self, request.messages, options.tail, request.model)
    return request_mod.play(self.provider, request, sink)
  end
  request.dialect = dialect_of(self, options.model)
  local view
  view, request.store = view_of(self, request.dialect)
  local url, headers, body = self.provider.build(request, view)
  self.guess = sentinel.before(self, body, options.tail, request.model)
  local function known(name)
    local tool = calls.resolve(self.tools, name)
    return tool and tool.name
  end
  local reply, message, class, trouble = request_mod.send(self.provider, { url = url, headers = headers, body = body,
    timeouts = cfg.timeouts, most = allowance(self, info, sent, max_output),
    known = options.tool_choice ~= "none" and not options.bare and known or nil }, sink)
  if reply then reply.origin = request.dialect.origin end
  if trouble then trouble.body, trouble.dialect = body, request.dialect end
  return reply, message, class, trouble
end

-- What gets the pieces of an answer: they are shown as they come, and kept for an interrupt.
local function make_sink(self)
  local feed, rest = self.redactor:stream()
  local function show(kind, delta)
    if delta ~= "" then self:emit(kind, { delta = delta }) end
  end
  local last
  self.partial = {}
  local function sink(kind, delta)
    delta = text.clean(delta)
    if kind == "text" then self.partial[#self.partial + 1] = delta end
    if last and last ~= kind then show(last, rest()) end
    last = kind
    show(kind, feed(delta))
  end
  return sink, function() if last then show(last, rest()) end end
end

-- One attempt; however it ends, what was reserved is given back.
local function attempt_request(self, options, sink)
  local info = info_of(self, options.model)
  local most = math.min(options.limit or self.max_output or 4096, info.window // 4)
  local held, max_output, prompt = reserve(self, info, most, options.tail)
  local estimated = self.session.view:tokens() + self.fixed_tokens
  self.session.log:sync() -- overlaps with the model's wait
  local ok, reply, message, class, trouble = pcall(send, self, options, info, max_output, max_output < most, sink)
  if not ok then
    settle(self, held, info, { prompt = prompt, partial = self.partial and table.concat(self.partial) })
    error(reply, 0)
  end
  local cut = trouble and (trouble.shown or (trouble.size or 0) > 0) and trouble.partial or nil
  settle(self, held, info, { reply = reply, prompt = prompt, partial = cut, usage = cut and trouble.usage,
    size = cut and trouble.size })
  if reply then calibrate.learn(self, reply.usage, estimated, options) end
  if trouble then trouble.max_output = max_output end
  return reply, message, class, trouble
end

-- Trying again ---------------------------------------------------------------------------------

local MOST_LESSONS = 8
local LEAST_OUTPUT = 256
local NOT_TAUGHT = { overflow = true, output = true, quota = true, rate_limit = true, auth = true, loading = true,
  sampling = true, filtered = true }

-- What the next attempt does otherwise after a refusal that says how; nil: it doesn't.
local function adapt(options, state, class, info)
  local said = info.fault
  if not said or info.shown then return nil end
  if (class == "overflow" or class == "output") and not state.lowered then
    local room = retry.output_limit(said.text, info.max_output)
    if room and room >= LEAST_OUTPUT and room < info.max_output then
      state.lowered, options.limit = true, math.floor(room)
      return ("asking for at most %d tokens of output"):format(options.limit)
    end
  end
  if NOT_TAUGHT[class] or not info.dialect or state.lessons >= MOST_LESSONS then return nil end
  state.lessons = state.lessons + 1
  return info.dialect:learn(info.status or said.status, said, info.body)
end

-- The words of a failure that is final, with what the user can do about it.
local function final(message, info)
  local after = info and info.after
  if after and after > retry.longest_wait then
    message = ("%s (the endpoint asks to wait %s)"):format(message, retry.words(after))
  end
  return message
end

local NUDGE = "(Your answer was empty. Answer in words, or call a tool.)"


---One model request with its retries; the answer is not stored.
---@param self terret.agent
---@param options {tail: string?, tool_choice: string?, silent: boolean?, model: string?, sampling: table?}
---@return table? reply
---@return string? message
---@return string? class
---@return table? info
function M.request(self, options)
  options = setmetatable({}, { __index = options })
  local state, attempt = { lessons = 0 }, 1
  while true do
    local sink, finish
    if not options.silent then sink, finish = make_sink(self) end
    local reply, message, class, info = attempt_request(self, options, sink)
    if finish then finish() end
    if reply then return reply end
    info = info or {}
    local lesson = adapt(options, state, class, info)
    if lesson then
      self:emit("warning", { text = ("the endpoint refused the request (%s): %s"):format(message, lesson) })
    else
      local wait = not info.shown and retry.wait(class, attempt, info.after)
      local other = fire(self, "request.retry", { class = class or "", message = message, attempt = attempt,
        wait = wait or nil }, false)
      if other then wait = not other.give_up and other.wait or nil end
      if not wait then return nil, final(message, info), class, info end
      self:emit("retry", { text = message, class = class, attempt = attempt, seconds = wait })
      task.sleep(wait)
      if class == "empty" and attempt > 1 then options.tail = options.tail or self.session:tail(NUDGE) end
      attempt = attempt + 1
    end
  end
end

return M

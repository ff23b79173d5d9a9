-- scripts/exchange.lua - one model request of an agent: reserve, send, show, settle, try again.
--
-- The budget is asked before each attempt and settled however it ends.  A limit cancels the loop's
-- task and is raised; what the endpoint refuses comes back as nil, message, class.

local context = require "terret.context"
local failure = require "terret.failure"
local models = require "terret.models"
local request_mod = require "terret.request"
local retry = require "terret.retry"
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
    cost = models.cost(info.price, { input = prompt, output = max_output }) }
  local held, message = self.budget:reserve(want)
  if held then return held, max_output, prompt end
  if max_output > 256 then return reserve(self, info, max_output // 2, tail) end
  limit_reached(self, message)
end

-- Books what a request used.  What the endpoint doesn't report is estimated; an answer that was cut
-- off was paid for too.
local function settle(self, held, info, used)
  local usage = used.reply and used.reply.usage or nil
  if not (usage and usage.input) and (used.reply or used.partial) then
    local words = { used.reply and used.reply.text or used.partial, used.reply and used.reply.reasoning or nil }
    for _, call in ipairs(used.reply and used.reply.tool_calls or {}) do words[#words + 1] = call.arguments end
    usage = { input = used.prompt, output = tokens.estimate(table.concat(words)), estimated = true }
  end
  if not usage then return self.budget:settle(held, {}) end
  local cost = usage.cost or models.cost(info.price, usage)
  self.budget:settle(held, { steps = 1, tokens = usage.input + (usage.output or 0), cost = cost,
    input = usage.input, cached = usage.cached, output = usage.output })
  self:must_record { type = "usage", input = usage.input, cached = usage.cached, output = usage.output,
    cost = cost, estimated = usage.estimated }
  self:emit("usage", { input = usage.input, cached = usage.cached, output = usage.output, cost = cost,
    context = context.size(self), window = info.window })
end

-- Brings the estimate closer to what the endpoint counts.
local function calibrate(self, usage, estimated)
  if not usage or usage.estimated or not usage.input or usage.input < 200 or estimated < 200 then return end
  local ratio = usage.input / estimated
  if ratio > 0.2 and ratio < 5 then self.ratio = self.ratio * 0.3 + ratio * 0.7 end
end

local function send(self, options, max_output, sink)
  local cfg = self.cfg
  local request = { base_url = cfg.base_url, key = cfg.api_key, model = options.model or cfg.model,
    tools = self.tools_json, stream = cfg.stream ~= false, max_output = self.max_output and max_output or nil,
    sampling = options.sampling or cfg.sampling, tool_choice = options.tool_choice, tail = options.tail,
    session = self.session.id }
  if self.provider.answer then
    self.turn = self.turn + 1
    request.script, request.turn, request.agent = cfg.script, self.turn, self.id
    request.messages = self.session.view:render("[", options.tail and "," .. options.tail .. "]" or "]")
    return request_mod.play(self.provider, request, sink)
  end
  local url, headers, body = self.provider.build(request, self.session.view)
  return request_mod.send(self.provider, { url = url, headers = headers, body = body,
    timeouts = cfg.timeouts }, sink)
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
  local most = math.min(self.max_output or 4096, info.window // 4)
  local held, max_output, prompt = reserve(self, info, most, options.tail)
  local estimated = self.session.view:tokens() + self.fixed_tokens
  self.session.log:sync() -- overlaps with the model's wait
  local ok, reply, message, class, trouble = pcall(send, self, options, max_output, sink)
  if not ok then
    settle(self, held, info, { prompt = prompt, partial = self.partial and table.concat(self.partial) })
    error(reply, 0)
  end
  local cut = trouble and trouble.shown and trouble.partial or nil
  settle(self, held, info, { reply = reply, prompt = prompt, partial = cut })
  if reply then calibrate(self, reply.usage, estimated) end
  return reply, message, class, trouble
end

---One model request with its retries; the answer is not stored.
---@param self terret.agent
---@param options {tail: string?, tool_choice: string?, silent: boolean?, model: string?, sampling: table?}
---@return table? reply
---@return string? message
---@return string? class
---@return table? info
function M.request(self, options)
  for attempt = 1, math.huge do
    local sink, finish
    if not options.silent then sink, finish = make_sink(self) end
    local reply, message, class, info = attempt_request(self, options, sink)
    if finish then finish() end
    if reply then return reply end
    local wait = not (info and info.shown) and retry.wait(class, attempt, info and info.after)
    if not wait then return nil, message, class, info end
    self:emit("retry", { text = message, class = class, attempt = attempt, seconds = wait })
    task.sleep(wait)
  end
end

return M

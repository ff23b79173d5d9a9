-- scripts/agent.lua - what a loop sees: ask, act, say, mark, rewind, fork, spawn, compact, exec.
--
-- An agent owns a session, a budget and a set of tools; subagents share the files seen, the queue
-- of questions and the sandbox backend.  Failures that end a turn are error objects with a `status`
-- (endpoint, failed); limits and interrupts cancel the loop's task.  The log is written before the
-- effect: what can't be logged isn't done.

local budget_mod = require "terret.budget"
local call_mod = require "terret.call"
local context = require "terret.context"
local inject = require "terret.inject"
local models = require "terret.models"
local request_mod = require "terret.request"
local retry = require "terret.retry"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local text = require "terret.text"
local tokens = require "terret.tokens"
local toolcall = require "terret.toolcall"

local M = {}

local MAX_DEPTH = 3
local MAX_CONTINUED = 2 -- how often an answer that was cut off is asked to go on

---@class terret.agent
---@field id string
---@field cfg table
---@field session terret.session
---@field budget terret.budget
---@field tools table<string, table>
local Agent = {}
Agent.__index = Agent
M.Agent = Agent

-- An error that ends the turn with a status of its own.
local Failure = { __tostring = function(e) return e.message end }
local function fail(status, message, code)
  error(setmetatable({ status = status, message = message, code = code }, Failure), 0)
end

---@param options table fields of the agent: cfg, ui, session, provider, tools, tools_json, policy, permissions, shared, redactor, budget, loop
---@return terret.agent
function M.new(options)
  local cfg = options.cfg
  local self = setmetatable(options, Agent)
  self.id = self.id or "main"
  self.depth = self.depth or 0
  self.context = context
  self.model_info = models.find(cfg.model, cfg.models)
  if cfg.window then self.model_info.window = cfg.window end
  self.max_output = cfg.max_output or self.model_info.max_output
  self.fixed_tokens = tokens.estimate(self.tools_json)
  self.ratio = 1.0 -- tokens that the endpoint counts per token that we estimate
  self.pending = {} -- texts of the user's role, admitted as one message by the next ask
  self.turn, self.totals = 0, { input = 0, cached = 0, output = 0 }
  self.limits = { bash_bytes = 16384, read_bytes = 51200, timeout = cfg.timeouts and cfg.timeouts.tool or 120 }
  self.ids = {}
  for _, e in ipairs(self.session.entries) do
    for _, call in ipairs(e.calls or {}) do self.ids[call.id] = true end
  end
  return self
end

-- Telling ------------------------------------------------------------------------------------

---Tells the user interface; it never stops the agent.
---@param name string
---@param data table?
function Agent:emit(name, data)
  data = data or {}
  data.type = name
  if self.depth > 0 then data.agent = self.id end
  pcall(self.ui.event, data)
end

---Writes a record or ends the turn: what can't be logged must not happen.
---@param record table
---@return integer id
function Agent:must_record(record)
  local id, message, code = self.session:append(record)
  if not id then fail("failed", "the session log can't be written: " .. message, code) end
  return id
end
Agent.record = Agent.must_record

---Says something in the conversation.  The user's words wait for the next ask.
---@param role "user"|"assistant"
---@param words string
---@param kind string? "prompt", "steer", "note"
function Agent:say(role, words, kind)
  if role == "user" then
    self.pending[#self.pending + 1] = { text = words, kind = kind }
  elseif role == "assistant" then
    self:must_record(context.admit(self, { type = "message", role = role, content = words }))
  else
    error("role must be 'user' or 'assistant'", 2)
  end
end

local function pending_text(self)
  local parts = {}
  for _, p in ipairs(self.pending) do parts[#parts + 1] = p.text end
  return table.concat(parts, "\n\n")
end

-- Admits what waits, with the facts that changed, as one user message.
local function flush(self)
  local note = inject.collect(self)
  if note then table.insert(self.pending, 1, { text = note, kind = "note" }) end
  if #self.pending == 0 then return end
  local kind = self.pending[#self.pending].kind
  local message = { type = "message", role = "user", kind = kind,
    content = self.redactor:clean(text.clean(pending_text(self))) }
  self:must_record(message)
  self.pending = {}
end

-- Requests -----------------------------------------------------------------------------------

-- Reserves the worst case; lowers the output where a token limit leaves less.
local function reserve(self, max_output)
  local prompt = context.size(self)
  local want = { steps = 1, tokens = prompt + max_output }
  local price = self.model_info.price
  if price then want.cost = models.cost(price, { input = prompt, output = max_output }) end
  local held, message = self.budget:reserve(want)
  if not held then
    if max_output > 256 then return reserve(self, max_output // 2) end
    self.limit_message = message
    if self.loop_task then task.cancel(self.loop_task, "limit") end
    fail("limit", message, "limit")
  end
  return held, max_output
end

local function settle(self, held, reply)
  local usage = reply and reply.usage or {}
  local cost = usage.cost or models.cost(self.model_info.price, usage)
  self.budget:settle(held, { steps = 1, tokens = (usage.input or 0) + (usage.output or 0), cost = cost })
  for key, value in pairs(self.totals) do self.totals[key] = value + (usage[key] or 0) end
  if not reply then return end
  self:must_record { type = "usage", input = usage.input, cached = usage.cached, output = usage.output,
    cost = cost, estimated = usage.estimated }
  self:emit("usage", { input = usage.input, cached = usage.cached, output = usage.output, cost = cost,
    context = context.size(self), window = self.model_info.window })
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

---One model request with its retries; nothing is stored.
---@param options {tail: string?, tool_choice: string?, silent: boolean?, max_output: integer?, model: string?, sampling: table?}
---@return table? reply
---@return string? message
---@return string? class
---@return table? info
function Agent:request(options)
  local sink = not options.silent and function(kind, delta)
    self.partial = kind == "text" and (self.partial or "") .. delta or self.partial
    self:emit(kind, { delta = text.clean(delta) })
  end or nil
  local attempt = 0
  while true do
    attempt = attempt + 1
    local most = math.min(options.max_output or self.max_output or 4096, self.model_info.window // 4)
    local held, max_output = reserve(self, most)
    local estimated = self.session.view:tokens() + self.fixed_tokens
    self.session.log:sync() -- overlaps with the model's wait
    local ok, reply, message, class, info = pcall(send, self, options, max_output, sink)
    if not ok then
      settle(self, held, nil)
      error(reply, 0)
    end
    settle(self, held, reply)
    if reply then
      calibrate(self, reply.usage, estimated)
      return reply
    end
    local wait = not (info and info.shown) and retry.wait(class, attempt, info and info.after)
    if not wait then return nil, message, class, info end
    self:emit("retry", { text = message, class = class, attempt = attempt, seconds = wait })
    task.sleep(wait)
  end
end

-- Each call gets an id that is unique in the session and plain.
local function give_ids(self, calls)
  for i, call in ipairs(calls) do
    local id = call.id
    if type(id) ~= "string" or not id:find("^[%w_%-%.:]+$") or #id > 64 or self.ids[id] then
      id = ("call_%d_%d"):format(self.session.next_id, i)
    end
    call.id = id
    self.ids[id] = true
  end
end

-- Stores a reply; returns what the loop gets.
local function store_reply(self, reply)
  local calls, logged = {}, {}
  for i, raw in ipairs(reply.tool_calls) do calls[i] = toolcall.parse(raw) end
  give_ids(self, calls)
  for i, call in ipairs(calls) do
    logged[i] = { id = call.id, name = call.name, arguments = self.redactor:clean(call.arguments), raw = call.raw }
  end
  local words = self.redactor:clean(text.clean(reply.text))
  local echo = next(reply.echo or {}) and reply.echo or nil
  self:must_record { type = "message", role = "assistant", content = words, echo = echo,
    tool_calls = #logged > 0 and logged or nil, finish = reply.finish }
  self.last_text = words
  return { text = words, reasoning = reply.reasoning, tool_calls = calls, usage = reply.usage, finish = reply.finish }
end

-- What came before an interrupt or a cut stays in the conversation.
local function keep_partial(self, words)
  if words and words:find("%S") then
    self:must_record(context.admit(self, { type = "message", role = "assistant", content = words, finish = "cut" }))
    self.last_text = words
  end
  self.partial = nil
end

-- The request of one ask; an overflow shortens the context, never sends the same body again.
local function ask_endpoint(self, options)
  for _ = 1, 3 do
    self.partial = nil
    local ok, reply, message, class, info = pcall(self.request, self, options)
    if not ok then
      keep_partial(self, self.partial)
      error(reply, 0)
    end
    if reply or class ~= "overflow" then return reply, message, class, info end
    self:emit("warning", { text = "the endpoint says the context is too long: " .. message })
    if not context.overflow(self) then return nil, message, class, info end
  end
  return nil, "the context is too long, also after it was shortened", "overflow"
end

---One model request; streams; the reply is stored.
---@param options {model: string?, tools: any, tail: string?, sampling: table?, prompt: string?}?
---@return {text: string, reasoning: string, tool_calls: table[], usage: table?, finish: string?} reply
function Agent:ask(options)
  options = options or {}
  if options.prompt then self:say("user", options.prompt, "prompt") end
  for continued = 0, MAX_CONTINUED do
    context.before_request(self, pending_text(self))
    flush(self)
    local reply, message, class, info = ask_endpoint(self, { model = options.model, sampling = options.sampling,
      tail = options.tail and self.provider.encode { role = "user", content = options.tail },
      tool_choice = options.tools == false and "none" or nil })
    if reply then return store_reply(self, reply) end
    keep_partial(self, info and info.partial)
    if not (info and info.shown) or continued == MAX_CONTINUED then fail("endpoint", message, class) end
    self:emit("warning", { text = "the answer was cut off (" .. message .. "); asking to go on" })
    self:say("user", "(The connection broke in the middle of your answer. Go on where it ends.)", "note")
  end
end

-- Tool calls ---------------------------------------------------------------------------------

-- Readers and commands run together; a call that writes files runs alone, in its place.
local function groups(self, calls)
  local list, open = {}, nil
  for i, call in ipairs(calls) do
    if toolcall.is_writer(self, call) then
      list[#list + 1], open = { i }, nil
    else
      if not open then
        open = {}
        list[#list + 1] = open
      end
      open[#open + 1] = i
    end
  end
  return list
end

---Runs the calls of a reply: checked, permitted, sandboxed, one result each, stored in their order.
---@param calls table[]
---@return table[] results
function Agent:act(calls)
  local results, stored = {}, 0
  local function store_ready()
    while results[stored + 1] do
      stored = stored + 1
      local r = results[stored]
      self:must_record { type = "message", role = "tool", call_id = r.call_id, name = r.name, content = r.content,
        ok = r.ok, blob = r.blob }
    end
  end
  local ok, err = pcall(function()
    for _, group in ipairs(groups(self, calls)) do
      task.scope(function(scope)
        for _, i in ipairs(group) do
          scope:spawn(function()
            results[i] = toolcall.run(self, calls[i])
            store_ready()
          end)
        end
      end)
    end
  end)
  if not ok then
    local why = task.is_cancelled(err) and err.reason or "failed"
    for i, call in ipairs(calls) do results[i] = results[i] or toolcall.interrupted(call, why) end
    if getmetatable(err) ~= Failure then store_ready() end
    error(err, 0)
  end
  return results
end

-- Branches -----------------------------------------------------------------------------------

---@return integer mark a place to rewind to
function Agent:mark() return self.session.last end

---@param mark integer
function Agent:rewind(mark)
  local ok, message, code = self.session:rewind(mark)
  if not ok then fail("failed", message, code) end
  self.pending = {}
end

---An agent of its own that shares the conversation so far.
---@return terret.agent
function Agent:fork()
  local session, message, code = self.session:fork()
  if not session then fail("failed", message, code) end
  local copy = {}
  for k, v in pairs(self) do copy[k] = v end
  copy.session, copy.id, copy.loop_task = session, session.id, nil
  copy.depth = self.depth + 1
  copy.budget = budget_mod.new({}, self.budget)
  return M.new(copy)
end

---A disposable subagent: own context, own tools without agent, todo and writers; its last message returns.
---@param options {prompt: string, loop: function|string?, model: string?, tools: string[]?, budget: table?, type: string?}
---@return {text: string, status: string, session: string}? report
---@return string? message
---@return string? code
function Agent:spawn(options)
  if self.depth >= MAX_DEPTH then return nil, "subagents can't be nested deeper", "denied" end
  return require("terret.setup").subagent(self, options)
end

---@param instructions string?
---@return boolean
function Agent:compact(instructions) return context.compact(self, instructions) end

---Runs a shell command in the sandbox.
---@param command string
---@param options table?
---@return table? result
---@return string? message
---@return string? code
function Agent:exec(command, options)
  return call_mod.new(self, "exec", "exec"):exec({ "/bin/sh", "-c", command }, options)
end

---The sandbox backend of this run, probed at the first command.
---@return table? backend
---@return string? message
---@return string? code
function Agent:backend()
  local shared = self.shared
  if not shared.backend then
    local backend, message, code = sandbox.pick(self.cfg.sandbox or "auto")
    if not backend then return nil, message, code end
    shared.backend = backend
  end
  return shared.backend
end

-- Turns --------------------------------------------------------------------------------------

---Stops the running turn; what came stays.
---@param reason string? default "interrupted"
function Agent:interrupt(reason)
  if self.loop_task then task.cancel(self.loop_task, reason or "interrupted") end
end

-- Runs the loop as a task, with a watch on the wall clock.
local function run_loop(self)
  self.loop_task = task.spawn(self.loop, self)
  local left = self.budget:seconds_left()
  local watch = left and task.spawn(function()
    task.sleep(math.max(0, left))
    self.limit_message = "the time limit is reached"
    self:interrupt("limit")
  end)
  local result = table.pack(pcall(task.await, self.loop_task))
  if task.is_cancelled(result[2]) and not self.loop_task.done then
    -- We ourselves were cancelled: the loop ends with us.
    task.cancel(self.loop_task, result[2].reason)
    pcall(task.shield, task.await, self.loop_task)
  end
  local trace = self.loop_task.traceback
  self.loop_task = nil
  if watch then task.cancel(watch) end
  return result[1], result[2], trace
end

local function outcome(self, ok, err, trace)
  if ok then return self.shared.unasked > 0 and "refused" or "done" end
  if task.is_cancelled(err) then
    if err.reason == "limit" then return "limit", self.limit_message end
    return "interrupted"
  end
  if getmetatable(err) == Failure then return err.status, err.message end
  pcall(self.session.append, self.session, { type = "warning", text = text.clean(trace or tostring(err)) })
  return "failed", tostring(err)
end

---One turn: the user's words, then the loop until it returns.
---@param words string
---@return {status: string, text: string, message: string?, steps: integer, usage: table, cost: number?, session: string} result
function Agent:prompt(words)
  if #self.session.entries <= 1 and self.first then self:say("user", self.first, "instructions") end
  self:say("user", words, "prompt")
  self.last_text = ""
  local ok, err, trace
  repeat ok, err, trace = run_loop(self) until not ok or #self.pending == 0
  local status, message = outcome(self, ok, err, trace)
  local spent = self.budget.spent
  return { status = status, text = self.last_text, message = message, steps = spent.steps, usage = self.totals,
    cost = self.model_info.price and spent.cost or nil, session = self.session.id }
end

return M

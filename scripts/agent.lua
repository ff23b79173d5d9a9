-- scripts/agent.lua - what a loop sees: ask, act, say, mark, rewind, fork, spawn, compact, exec.
--
-- An agent owns a session, a budget and a set of tools; subagents share the files seen, the queue
-- of questions and the sandbox backend.  A failure that ends a turn is raised (failure.lua); limits and
-- interrupts cancel the loop's task.  The log is written before the effect: what can't be logged
-- isn't done.

local budget_mod = require "terret.budget"
local calibrate = require "terret.calibrate"
local lazy = require "terret.lazy"

local call_mod = lazy "terret.call"
local calls_mod = lazy "terret.calls"
local context = require "terret.context"
local exchange = require "terret.exchange"
local failure = require "terret.failure"
local files = require "terret.files"
local fire = require "terret.fire"
local inject = require "terret.inject"
local json = require "terret.json"
local models = require "terret.models"
local retry = require "terret.retry"
local sandbox = lazy "terret.sandbox"
local stuck = lazy "terret.stuck"
local task = require "terret.task"
local tokens = require "terret.tokens"
local toolcall = lazy "terret.toolcall"
local turn = require "terret.turn"

local M = {}

local MAX_DEPTH = 3
local MAX_CONTINUED = 2 -- how often an answer that was cut off is asked to go on
local LONGEST_ID = 40 -- of a call; some endpoints refuse longer ones
local MAX_SHORTENED = 8 -- requests of one ask that the endpoint may call too long

---@class terret.agent
---@field id string
---@field cfg table
---@field session terret.session
---@field budget terret.budget
---@field tools table<string, table>
local Agent = {}
Agent.__index = Agent
M.Agent = Agent

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
  self.ratio = self.ratio or calibrate.load(cfg.state_dir, cfg.model) -- counted tokens per estimated one
  self.saved_ratio, self.sent = self.ratio, self.sent or {} -- the last request to each model (sentinel.lua)
  self.meter = { rent = 0 } -- of early compaction
  self.pending = self.pending or {} -- texts of the user's role, admitted as one message by the next ask
  self.turn, self.asks = 0, 0
  self.last_text, self.said = "", "" -- of the last reply; what its parts that were cut off said
  self.files = self.files or files.new()
  self.limits = { bash_bytes = 16384, read_bytes = 51200, timeout = cfg.timeouts and cfg.timeouts.tool or 120 }
  self.ids = {}
  for _, e in ipairs(self.session.entries) do
    for _, call in ipairs(e.calls or {}) do self.ids[call.id] = true end
  end
  return self
end

-- Telling ------------------------------------------------------------------------------------

---Tells the user interface, which sees no secrets; it never stops the agent.
---@param name string
---@param data table?
function Agent:emit(name, data)
  data = self.redactor:clean_all(data or {})
  data.type = name
  if self.depth > 0 then data.agent = self.id end
  pcall(self.ui.event, data)
  fire(self, "event", data)
end

---Writes a record or ends the turn: what can't be logged must not happen.
---@param record table
---@return integer id
function Agent:must_record(record)
  local id, message, code = self.session:append(record)
  if not id then failure.raise("failed", message, code) end
  return id
end
Agent.record = Agent.must_record

-- Calls that the loop passed over get their result before anything else is said.
local function answer_open(self, words)
  local count, message, code = self.session:answer_open(words)
  if not count then failure.raise("failed", message, code) end
end

local function pending_text(self)
  local parts = {}
  for _, p in ipairs(self.pending) do parts[#parts + 1] = p.text end
  return table.concat(parts, "\n\n")
end

-- Admits what waits, with the facts that changed, as one user message.
local function flush(self)
  answer_open(self, "not run: the loop went on without this call")
  local note = inject.collect(self)
  local more = fire(self, "note", {}, false)
  if more then note = (note and note .. "\n" or "") .. more end
  if note then table.insert(self.pending, 1, { text = note, kind = "note" }) end
  if #self.pending == 0 then return end
  local kind = self.pending[#self.pending].kind
  local words = context.admit_words(self, pending_text(self))
  self:must_record { type = "message", role = "user", kind = kind, content = words }
  self.pending = {}
end

---Says something in the conversation.  The user's words wait for the next ask.
---@param role "user"|"assistant"
---@param words string
---@param kind string? "prompt", "steer", "note"
function Agent:say(role, words, kind)
  if role == "user" then
    self.pending[#self.pending + 1] = { text = words, kind = kind }
  elseif role == "assistant" then
    flush(self)
    self:must_record { type = "message", role = role, content = context.clean(self, words) }
  else
    error("role must be 'user' or 'assistant'", 2)
  end
end

-- One model request; the handlers of `request` stand around it.
function Agent:request(options)
  if options.silent then return exchange.request(self, options) end
  local message, class, info
  local reply = fire(self, "request", { model = options.model, sampling = options.sampling, tail = options.tail,
    tools = options.tools }, function(e)
    local reply
    reply, message, class, info = exchange.request(self, { model = e.model, sampling = e.sampling,
      tail = e.tail and self.session:tail(e.tail), tool_choice = e.tools == false and "none" or nil,
      bare = options.bare })
    return reply or false
  end)
  if not reply then return nil, message, class, info end
  reply.text, reply.tool_calls = reply.text or "", reply.tool_calls or {} -- a handler's may lack them
  return reply
end

-- Asking -------------------------------------------------------------------------------------

-- Each call gets an id that is unique in the session and plain.
local function give_ids(self, calls)
  for i, call in ipairs(calls) do
    local id = call.id
    if type(id) ~= "string" or not id:find("^[%w_%-%.:]+$") or #id > LONGEST_ID then id = nil end
    local n = i
    while not id or self.ids[id] do
      id = ("call_%d_%d"):format(self.session.next_id, n)
      n = n + 1
    end
    call.id = id
    self.ids[id] = true
  end
end

-- Raw JSON by field, without secrets; nil where there is none.
local function clean_all(self, raws)
  local out
  for key, raw in pairs(raws or {}) do
    out = out or {}
    out[key] = self.redactor:clean(raw)
  end
  return out
end

-- Stores a reply; returns what the loop gets.
local function store_reply(self, reply)
  local calls, logged, signed = {}, {}, false
  for i, raw in ipairs(calls_mod.unpack(reply.tool_calls, self.tools)) do
    calls[i] = calls_mod.parse(raw, self.tools)
  end
  give_ids(self, calls)
  for i, call in ipairs(calls) do
    signed = signed or call.extra ~= nil
    logged[i] = { id = call.id, name = calls_mod.history_name(call.name), extra = clean_all(self, call.extra),
      arguments = self.redactor:clean(call.arguments),
      raw = call.raw and self.redactor:clean(call.raw), repairs = call.repairs }
  end
  local echo = clean_all(self, reply.echo)
  local words = context.clean(self, reply.text)
  self.partial = nil
  self:must_record { type = "message", role = "assistant", content = words, echo = echo,
    origin = (echo or signed) and reply.origin or nil, tool_calls = #logged > 0 and logged or nil,
    finish = reply.finish }
  if reply.finish == "length" then
    self:emit("warning", { text = "the answer was cut at the model's output limit" })
  end
  return { text = words, reasoning = reply.reasoning, tool_calls = calls, usage = reply.usage, finish = reply.finish }
end

-- What came before an interrupt or a cut stays in the conversation.
local function keep_partial(self, words)
  self.partial = nil
  if not (words and words:find("%S")) then return end
  words = context.clean(self, words)
  self:must_record { type = "message", role = "assistant", content = words, finish = "cut" }
  self.said = self.said .. words
  self.last_text = self.said
end

-- The request of one ask; an overflow shortens the context, never sends the same body again.
local function ask_endpoint(self, options)
  for _ = 1, MAX_SHORTENED do
    self.partial = nil
    local ok, reply, message, class, info = pcall(self.request, self, options)
    if not ok then
      keep_partial(self, self.partial and table.concat(self.partial))
      error(reply, 0)
    end
    if reply or class ~= "overflow" or info and info.shown then return reply, message, class, info end
    self:emit("warning", { text = "the endpoint says the context is too long: " .. message })
    local told = info and info.fault and retry.window(info.fault.text)
    if not context.overflow(self, told) then return nil, message, class, info end
  end
  return nil, "the context is too long, also after it was shortened", "overflow"
end

local NOTES = {
  length = "(Your answer was cut at the output limit. Go on right where it ends.)",
  overflow = "(Your answer was cut at the end of the context window. Go on right where it ends.)",
  leak = "(Your last message holds a tool call as text, so nothing was run. Make the call itself.)",
}
local BROKEN = "(The connection broke in the middle of your answer. Go on where it ends.)"

-- After an answer that was cut off: what came stays, and the model is asked to go on.  Raises
-- where that is no use.
local function go_on(self, continued, message, class, info)
  keep_partial(self, info and info.partial)
  local wait = info and info.shown and continued <= MAX_CONTINUED
    and (NOTES[class] and 0 or retry.wait(class, continued))
  if not wait then failure.raise("endpoint", message, class) end
  if class == "overflow" then context.overflow(self) end
  self:emit("retry", { text = "the answer was cut off (" .. message .. "); asking to go on", class = class,
    attempt = continued, seconds = wait })
  task.sleep(wait)
  self:say("user", NOTES[class] or BROKEN, "note")
end

-- Markup of a call is no answer: it stays in the history, and the model is asked to make the call.
local function refuse_markup(self, reply)
  self.partial = nil
  self:must_record { type = "message", role = "assistant", content = context.clean(self, reply.text), finish = "cut" }
  self:emit("warning", { text = "the answer holds a tool call as text; asking for the call itself" })
  self:say("user", NOTES.leak, "note")
end

---One model request; streams; the reply is stored.
---@param options {model: string?, tools: false?, tail: string?, sampling: table?, prompt: string?}?
---@return {text: string, reasoning: string, tool_calls: table[], usage: table?, finish: string?} reply
function Agent:ask(options)
  options = options or {}
  if self.loop ~= self.running and self.running then failure.raise("swap", "another loop goes on") end
  if options.prompt then self:say("user", options.prompt, "prompt") end
  self.asks, self.said = self.asks + 1, ""
  for continued = 1, MAX_CONTINUED + 1 do
    answer_open(self, "not run: the loop went on without this call")
    context.before_request(self, pending_text(self))
    flush(self)
    local reply, message, class, info = ask_endpoint(self, { model = options.model, sampling = options.sampling,
      tail = options.tail, tools = options.tools, bare = options.bare })
    if reply and not (reply.broken and continued <= MAX_CONTINUED) then
      reply = store_reply(self, reply)
      reply.text = self.said .. reply.text
      self.last_text = reply.text
      return reply
    end
    if reply then
      refuse_markup(self, reply)
    else
      go_on(self, continued, message, class, info)
    end
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
      open = open or {}
      if #open == 0 then list[#list + 1] = open end
      open[#open + 1] = i
    end
  end
  return list
end

-- A loop can't have a result twice.
local function check_calls(self, calls)
  local open = {}
  for _, call in ipairs(self.session.open) do open[call.id] = true end
  for _, call in ipairs(calls) do
    if type(call) ~= "table" or not open[call.id] then
      error("act takes calls of the last reply that have no result yet", 3)
    end
    open[call.id] = nil
  end
end

---Runs the calls of a reply: checked, permitted, sandboxed, one result each, stored in their order.
---@param calls table[]
---@return table[] results
function Agent:act(calls)
  check_calls(self, calls)
  local results, stored = {}, 0
  local function store_ready()
    while results[stored + 1] do
      stored = stored + 1
      local r = results[stored]
      self:must_record { type = "message", role = "tool", call_id = r.call_id, name = r.name, content = r.content,
        ok = r.ok, blob = r.blob }
    end
  end
  local cap = context.cap_of(self, #calls)
  local ok, err = pcall(function()
    for _, group in ipairs(groups(self, calls)) do
      task.scope(function(scope)
        for _, i in ipairs(group) do
          scope:spawn(function()
            results[i] = toolcall.run(self, calls[i], cap)
            store_ready()
          end)
        end
      end)
    end
  end)
  if not ok then
    local why = task.is_cancelled(err) and err.reason or "failed"
    for i, call in ipairs(calls) do results[i] = results[i] or toolcall.interrupted(self, call, why) end
    if not failure.is(err) then store_ready() end
    error(err, 0)
  end
  stuck.watch(self, calls, results)
  return results
end

---Runs one tool by name, with its permission; the result is the loop's to tell.
---@param name string
---@param args table
---@return {ok: boolean, content: string} result
function Agent:call(name, args)
  self.own_calls = (self.own_calls or 0) + 1
  local call = toolcall.parse { name = name, arguments = json.encode(args) }
  call.id = ("loop_%d_%d"):format(self.session.next_id, self.own_calls)
  local result = toolcall.run(self, call, context.cap_of(self, 1))
  stuck.watch(self, { call }, { result })
  return result
end

---Asks the user whether to go on; without asking yes in the modes auto and yolo, and no where nobody can be asked.
---@param what string "act on the plan"
---@param reason string shown
---@return boolean agreed
---@return string? words of the user who did not agree
function Agent:confirm(what, reason)
  return toolcall.confirm(self, { kind = "permission", tool = what, request = { class = "none", tool = what },
    reason = reason, agent = self.id })
end

---Ends the turn.
---@param message string
---@param status string? default "failed"
function Agent.fail(_, message, status) failure.raise(status or "failed", message, "loop") end

-- Branches -----------------------------------------------------------------------------------

-- What waits to be said belongs to the past of a mark or a fork; calls that are open stay open.
local function settle_words(self)
  if #self.session.open == 0 then flush(self) end
end

---@return integer mark a place to rewind to
function Agent:mark()
  settle_words(self)
  return self.session.last
end

---@param mark integer
function Agent:rewind(mark)
  local ok, message, code = self.session:rewind(mark)
  if not ok then failure.raise("failed", message, code) end
  self.pending = {}
  fire(self, "session.rewind", { to = mark })
end

---An agent of its own that shares the conversation so far.
---@param options {project: string?, rw: string[]?}? another directory to work in, or to write
---@return terret.agent
function Agent:fork(options)
  settle_words(self)
  local session, message, code = self.session:fork()
  if not session then failure.raise("failed", message, code) end
  local copy = {}
  for k, v in pairs(self) do copy[k] = v end
  copy.session, copy.id, copy.loop_task, copy.running, copy.steps = session, session.id, nil, nil, nil
  copy.depth, copy.files = self.depth + 1, self.files:copy()
  copy.pending = table.move(self.pending, 1, #self.pending, 1, {})
  copy.budget = budget_mod.new({}, self.budget)
  copy.sent, copy.guess = {}, nil
  for model, last in pairs(self.sent) do copy.sent[model] = last end
  copy.borrowed = options == nil -- its sandbox is ours
  if options then
    local ok, why, why_code = require("terret.setup").move(copy, options)
    if not ok then failure.raise("failed", why, why_code) end
  end
  fire(self, "session.fork", { session = session.id })
  return M.new(copy)
end

---A disposable subagent: own context, own tools without agent, todo and writers; its last message returns.
---@param options {prompt: string, loop: function|string?, model: string?, tools: string[]?, budget: table?, type: string?,
---  schema: table?}
---@return {text: string, status: string, session: string}? report
---@return string? message
---@return string? code
function Agent:spawn(options)
  if self.depth >= MAX_DEPTH then return nil, "subagents can't be nested deeper", "denied" end
  local may = fire(self, "agent.spawn", { prompt = options.prompt, type = options.type })
  if may.verdict == "deny" then return nil, "denied: " .. (may.reason or "a guard forbids this subagent"), "denied" end
  return require("terret.subagent").run(self, options)
end

---@param instructions string?
---@return boolean
function Agent:compact(instructions) return context.compact(self, instructions) end

---Runs a command in the sandbox.
---@param command string|string[] a line for the shell, or an argument vector
---@param options table?
---@return table? result
---@return string? message
---@return string? code
function Agent:exec(command, options)
  local argv = type(command) == "table" and command or { "/bin/sh", "-c", command }
  return call_mod.new(self, "exec", "exec"):exec(argv, options)
end

---The sandbox backend of this run, probed at the first command.
---@return table? backend
---@return string? message
---@return string? code
function Agent:backend()
  local shared = self.shared
  if not shared.backend then
    local backend, message, code = sandbox.pick(self.cfg.sandbox or "auto")
    if not backend then
      if not shared.no_backend then self:emit("warning", { text = "commands are refused: " .. message }) end
      shared.no_backend = true
      return nil, message, code
    end
    shared.backend = backend
    if self.session.state.backend ~= backend.name then
      self:must_record { type = "state", key = "backend", value = backend.name }
    end
  end
  return shared.backend
end

-- Turns --------------------------------------------------------------------------------------

---Ends what the agent keeps: jobs, the namespaces of its sandbox, the log.
function Agent:close()
  local shared = self.shared
  if shared.jobs and not self.borrowed then shared.jobs:close(self.policy) end
  if shared.backend and not self.borrowed then sandbox.close(self.policy) end
  self.session:close()
end

---Stops the running turn; what came stays.
---@param reason string? default "interrupted"
function Agent:interrupt(reason)
  if self.loop_task then task.cancel(self.loop_task, reason or "interrupted") end
end

---One turn: the user's words, then the loop until it returns (turn.lua).
---@param words string
---@return {status: string, text: string, message: string?, steps: integer, usage: table, cost: number?, session: string} result
function Agent:prompt(words) return turn.run(self, words) end

return M

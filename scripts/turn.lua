-- scripts/turn.lua - one turn of an agent: the user's words, then the loop until it returns.
--
-- The loop is a task; limits and interrupts cancel it.  Another loop may take its place between two steps
-- (agent.loop is set to it): the next ask ends the old one, and the new one starts at its first line.

local failure = require "terret.failure"
local fire = require "terret.fire"
local manifest = require "terret.manifest"
local task = require "terret.task"
local text = require "terret.text"

local M = {}

local MAX_STOPS = 10 -- how often loop.stop makes a turn go on

-- Runs the loop as a task, with a watch on the wall clock.
local function run_loop(self)
  self.running = self.loop
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
  self.loop_task, self.running = nil, nil
  if watch then task.cancel(watch) end
  return result[1], result[2], trace
end

local function outcome(self, ok, err, trace)
  if ok then return self.shared.unasked > 0 and "refused" or "done" end
  if task.is_cancelled(err) then
    if err.reason == "limit" then return "limit", self.limit_message end
    return "interrupted"
  end
  if failure.is(err) then return err.status, err.message end
  pcall(self.session.append, self.session, { type = "warning", text = text.clean(trace or tostring(err)) })
  return "failed", tostring(err)
end

-- A loop that another file chooses for this turn.
local function choose_loop(self)
  local chosen = fire(self, "loop.select", { loop = self.cfg.loop or "react" }, false)
  if not chosen then return self.loop end
  if type(chosen) == "function" then return chosen end
  local loop, message, code = require("terret.setup").loop(tostring(chosen))
  if not loop then failure.raise("failed", message, code) end
  return loop
end

-- The loop, again while there is a reason to go on: words that came during the last request (a loop that
-- asks nothing has none), another loop in its place, a handler of loop.stop.
local function run_turn(self)
  local stops = 0
  while true do
    local asks = self.asks
    local ok, err, trace = run_loop(self)
    local swapped = not ok and failure.is(err) and err.status == "swap"
    if not ok and not swapped then return ok, err, trace end
    if ok and (#self.pending == 0 or self.asks == asks) then
      local words = stops < MAX_STOPS and fire(self, "loop.stop", { text = self.last_text, times = stops }, false)
      if not words then return true end
      stops = stops + 1
      self:say("user", words, "note")
    end
  end
end

-- What the user's words are after all handlers, or why they are refused.
local function check_prompt(self, words)
  local text_of = fire(self, "prompt", { text = words }).text
  local may = fire(self, "prompt.check", { text = text_of })
  if may.verdict == "deny" then failure.raise("refused", may.reason or "a guard refused the prompt") end
  fire(self, "turn.start", { prompt = text_of })
  return text_of
end

---One turn: the user's words, then the loop until it returns.
---@param self terret.agent
---@param words string
---@return {status: string, text: string, message: string?, steps: integer, usage: table, cost: number?, session: string} result
function M.run(self, words)
  self.last_text, self.steps = "", nil
  if self.depth == 0 then self.shared.unasked = 0 end
  local own, trace = self.loop, nil
  local ok, err = pcall(function()
    words = check_prompt(self, words)
    self.prompt_text = words
    if #self.session.entries <= 1 and self.first then self:say("user", self.first, "instructions") end
    self:say("user", words, "prompt")
    self.loop = choose_loop(self)
    local chosen = self.loop
    local good, why, where = run_turn(self)
    if self.loop == chosen then self.loop = own end
    if not good then
      trace = where
      error(why, 0)
    end
  end)
  local status, message = outcome(self, ok, err, trace)
  local closed, why = self.session:answer_open(ok and "not run: the loop ended without this call"
    or "interrupted: this call was not run")
  if not closed then status, message = "failed", message or why end
  local loaded = self.depth == 0 and manifest.more(self.session)
  if loaded then self.session:append { type = "state", key = "files", value = loaded } end
  local spent, usage = self.budget.spent, self.budget.usage
  local result = { status = status, text = self.last_text, message = message, steps = spent.steps,
    usage = { input = usage.input, cached = usage.cached, output = usage.output },
    cost = (self.model_info.price or spent.cost > 0) and spent.cost or nil, session = self.session.id }
  fire(self, "turn.end", result)
  return result
end

return M

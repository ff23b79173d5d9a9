-- scripts/ui/tty.lua - the interactive terminal.
--
-- Above, what was said scrolls away and stays; below stand the live rows: the paragraph that is being
-- streamed, the running calls, one status line and the line that is edited.  While the agent works
-- Enter steers it, Esc or Ctrl-C interrupts it.  The terminal is raw from start() to close(), and
-- terret.tty gives it back however the process ends.
--
-- What was typed before a question was drawn is thrown away (terret.approval has the rest of it).

local approval = require "terret.approval"
local edit_line = require "terret.edit_line"
local keys = require "terret.keys"
local reactor = require "terret.reactor"
local render = require "terret.render"
local screen = require "terret.screen"
local task = require "terret.task"
local tty = require "terret.tty"

local M = {}

local ESCAPE_WAIT = 0.05 -- seconds after which a lone ESC is the key
local GRACE = 0.3 -- seconds in which a question takes no key
local LONG_PARAGRAPH = 4096 -- bytes without a line end that are kept live
local FOLD = { lines = 5, diff_lines = 40 }

---@class terret.ui.tty
local Tty = {}
Tty.__index = Tty

-- Saying -----------------------------------------------------------------------------------------

-- Lines for the part above.  Blocks of different kinds have a blank line between them.
function Tty:say(lines, kind)
  if kind ~= self.kind and self.kind then self.said[#self.said + 1] = "" end
  self.kind = kind
  for _, line in ipairs(lines) do
    for _, row in ipairs(render.wrap(line, self.screen.columns)) do self.said[#self.said + 1] = row end
  end
  self:draw()
end

-- Ends the paragraph that is being streamed.
function Tty:end_text()
  self.thought = ""
  if self.partial ~= "" then
    local line = render.markdown(self.markdown, self.partial, self.style)
    self.partial = ""
    self:say({ line }, "text")
  end
  self.markdown = {}
end

-- Takes streamed text; whole lines go up.
function Tty:stream(delta)
  if self.partial == "" and self.kind ~= "text" then delta = delta:gsub("^%s+", "") end
  local whole, rest = (self.partial .. render.safe(delta)):match("^(.*\n)([^\n]*)$")
  local lines = {}
  for line in (whole or ""):gmatch("([^\n]*)\n") do
    lines[#lines + 1] = render.markdown(self.markdown, line, self.style)
  end
  self.partial = rest or self.partial .. render.safe(delta)
  if #self.partial > LONG_PARAGRAPH then
    lines[#lines + 1] = render.markdown(self.markdown, self.partial, self.style)
    self.partial = ""
  end
  if #lines > 0 then self:say(lines, "text") else self:draw() end
end

-- Events -----------------------------------------------------------------------------------------

local on = {}

function on.text(self, e)
  if e.agent then return end
  self.thought = ""
  self:stream(e.delta)
end

function on.reasoning(self, e)
  if e.agent then return end
  local line = (self.thought .. render.safe(e.delta)):match("([^\n]*)\n?$")
  self.thought = line:sub(-LONG_PARAGRAPH)
  self:draw()
end

function on.tool_call(self, e)
  self:end_text()
  table.insert(self.calls, { id = e.id, name = e.name, subject = render.subject(e.arguments),
    arguments = e.arguments, started = reactor.now(), depth = e.agent and 1 or 0, state = "running" })
  self:draw()
end

local function find_call(self, id)
  for i, call in ipairs(self.calls) do
    if call.id == id then return call, i end
  end
end

function on.tool_progress(self, e)
  local call = find_call(self, e.id)
  if call then call.progress = render.fold(e.text or "", 1, self.screen.columns - 6)[1] end
  self:draw()
end

function on.tool_result(self, e)
  local call, i = find_call(self, e.id)
  if call then table.remove(self.calls, i) end
  call = call or { name = e.name, subject = "", depth = e.agent and 1 or 0 }
  call.state, call.seconds = e.ok and "ok" or "failed", e.seconds
  local columns = self.screen.columns - 1
  local lines = { render.tool_line(call, self.style, columns) }
  if not e.agent then
    local below = render.result(e, self.style, { lines = FOLD.lines, diff_lines = FOLD.diff_lines, columns = columns })
    table.move(below, 1, #below, 2, lines)
  end
  self:say(lines, "tool")
end

function on.usage(self, e)
  for _, key in ipairs { "input", "cached", "output", "cost" } do
    if e[key] then self.spent[key] = (self.spent[key] or 0) + e[key] end
  end
  if not e.agent then self.spent.context, self.spent.window = e.context, e.window end
  self:draw()
end

---@param e table
function Tty:event(e)
  if on[e.type] then return on[e.type](self, e) end
  local notice = render.notice(e)
  if not notice then return end
  self:end_text()
  local bad = e.type == "warning" or e.type == "error"
  self:say({ (bad and self.style.yellow or self.style.dim)(notice) }, "tool")
end

-- The live rows ------------------------------------------------------------------------------------

function Tty:status()
  local parts, hint = {}, self.hint
  if self.question then
    parts[1], hint = "waiting for your answer", self.question.hint
  elseif self.working then
    parts[1] = (self.interrupting and "interrupting " or "working ") .. render.duration(reactor.now() - self.working)
    hint = hint or "Esc interrupts"
  else
    parts[1] = self.name
    hint = hint or "/help"
  end
  parts[#parts + 1] = hint -- before the figures: it must be there on a narrow terminal too
  if (self.spent.input or 0) > 0 then parts[#parts + 1] = render.usage(self.spent) end
  return self.style.dim(render.truncate(table.concat(parts, " · "), self.screen.columns - 1))
end

function Tty:live()
  local columns, rows = self.screen.columns, {}
  local function add(list) table.move(list, 1, #list, #rows + 1, rows) end
  if self.partial ~= "" then
    local state = { fence = self.markdown.fence }
    add(render.wrap(render.markdown(state, self.partial, self.style), columns - 1))
  elseif self.thought ~= "" then
    local wrapped = render.wrap(self.thought, columns - 1)
    add { self.style.dim(wrapped[#wrapped]) }
  end
  for _, call in ipairs(self.calls) do
    call.seconds = reactor.now() - call.started
    add { render.tool_line(call, self.style, columns - 1) }
    if call.progress then add { "    " .. self.style.dim(call.progress) } end
  end
  if #rows > 0 or self.kind then table.insert(rows, "") end
  local q = self.question
  if q then add(render.wrap(q:keys(self.style), columns - 1)) end
  add { self:status() }
  local editor, prompt = self.editor, "> "
  if q and q.editor then editor, prompt = q.editor, q.prompt end
  local lines, row, column = editor:layout(columns, prompt)
  local most = math.max(3, self.screen.height // 3)
  local from = math.max(1, math.min(row - most // 2, #lines - most + 1))
  local before = #rows
  for i = from, math.min(#lines, from + most - 1) do rows[#rows + 1] = lines[i] end
  return rows, before + row - from + 1, column
end

function Tty:draw(wipe)
  if not self.started then return end
  local said = self.said
  self.said = {}
  local rows, row, column = self:live()
  self.screen:draw(said, rows, row, column, wipe)
end

-- Keys ---------------------------------------------------------------------------------------------

---Shows what the user said.
---@param words string
function Tty:echo(words)
  self:end_text()
  local lines = {}
  for line in (render.safe(words) .. "\n"):gmatch("([^\n]*)\n") do
    lines[#lines + 1] = self.style.bold((#lines == 0 and "> " or "  ") .. line)
  end
  self:say(lines, "user")
end

function Tty:submit(action)
  if not action.text:find("%S") then return end
  self:echo(action.label)
  if self.working then
    self.handlers.say(action.text)
  else
    table.insert(self.queue, action.text)
    if self.wake then self.wake:set() end
  end
end

function Tty:stop()
  self.ended = true
  if self.wake then self.wake:set() end
end

function Tty:interrupt()
  if not self.interrupting then self.interrupting = self.handlers.interrupt() end
  return self.interrupting
end

-- While a turn runs Ctrl-C is a signal: a script that loops reads no keys.
function Tty:listen() self.terminal:raw(not self.working or self.question ~= nil) end

function Tty:press(key)
  if self.question then return self:answer_key(key) end
  self.hint = nil
  if self.working and (key.name == "ctrl-c" or key.name == "esc") then
    self:interrupt()
    return
  end
  local action = self.editor:press(key)
  if not action then return end
  if action.type == "submit" then
    self:submit(action)
  elseif action.type == "interrupt" then
    self.hint = "Ctrl-C again, or Ctrl-D, ends terret"
  elseif action.type == "redraw" then
    self:draw(true)
  elseif (action.type == "quit" or action.type == "end") and not self.working then
    self:stop()
  end
end

-- A task: from the terminal to press().
function Tty:read_keys()
  while true do
    local list
    if self.keys:waiting() and not task.await(self.terminal, ESCAPE_WAIT) then
      list = self.keys:flush()
    else
      task.await(self.terminal)
      local bytes = self.terminal:read()
      if not bytes then
        self.handlers.interrupt()
        return self:stop()
      end
      list = self.keys:feed(bytes)
    end
    for _, key in ipairs(list) do
      -- A failing key must not make the terminal deaf.
      local ok, err = pcall(self.press, self, key)
      if not ok and task.is_cancelled(err) then error(err, 0) end
      if not ok then self:event { type = "error", text = tostring(err) } end
    end
    self:draw()
  end
end

function Tty:tick()
  while true do
    task.sleep(1)
    if self.working and not self.question then self:draw() end
  end
end

-- Questions ----------------------------------------------------------------------------------------

---@param q table
---@return table answer
function Tty:ask(q)
  self:end_text()
  local call = find_call(self, q.call_id)
  local arguments = call and require("terret.json").decode(call.arguments) or nil
  self:say(render.question(q, self.style, { columns = self.screen.columns, arguments = arguments }), "question")
  self.terminal:flush_input()
  self.keys = keys.new()
  self.question, self.answered = approval.new(q, self.grace), task.event()
  self:listen()
  -- However this ends (an interrupt raises here), the question is gone afterwards.
  local _gone <close> = setmetatable({}, { __close = function()
    self.question = nil
    if self.started then self:listen() end
    self:draw()
  end })
  self:draw()
  if self.bell then self.terminal:write("\a") end
  task.await(self.answered)
  local answer = self.answered.value
  local said = answer.verdict == "allow" and ("allowed (%s)"):format(answer.scope) or "not allowed"
  self:say({ self.style.dim("  " .. said) }, "question")
  return answer
end

-- A key while a question stands.
function Tty:answer_key(key)
  local answer, interrupt = self.question:press(key)
  if answer and not self.answered:ready() then self.answered:set(answer) end
  if interrupt then self:interrupt() end
end

-- The interface ------------------------------------------------------------------------------------

function Tty:input()
  while #self.queue == 0 and not self.ended do
    self.wake = task.event()
    self:draw()
    task.await(self.wake)
  end
  if not self.ended then return table.remove(self.queue, 1) end
end

---@param result table
function Tty:finish(result)
  self:end_text()
  local outcome = render.outcome(result)
  if outcome then self:say({ self.style.yellow(outcome) }, "tool") end
  self:draw()
end

---@param on_off boolean
function Tty:busy(on_off)
  self.working, self.interrupting = on_off and reactor.now() or nil, nil
  if not on_off then self.calls = {} end
  if self.started then self:listen() end
  self:draw()
end

---@param words string
function Tty:show(words)
  if words == "" then return end
  local lines = {}
  for line in (render.safe(words):gsub("\n$", "") .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  self:say(lines, "notice")
end

---@param handlers {interrupt: fun(): boolean, say: fun(words: string)}
function Tty:start(handlers)
  self.handlers = handlers
  self.screen:measure()
  assert(self.terminal:raw(true))
  self.terminal:write("\27[?2004h") -- bracketed paste
  self.started = true
  task.spawn(self.read_keys, self)
  task.spawn(self.tick, self)
  self:draw()
end

function Tty:close()
  if not self.started then return end
  self:end_text()
  self.screen:draw(self.said, {})
  self.said, self.started = {}, false
  self.terminal:write("\27[?2004l")
  self.terminal:restore()
end

---@param options {cfg: table?, color: boolean?, terminal: table?, grace: number?, bell: boolean?}?
---@return table? ui
---@return string? message
---@return string? code
function M.new(options)
  options = options or {}
  local terminal, message, code = options.terminal, nil, nil
  if not terminal then terminal, message, code = tty.open() end
  if not terminal then return nil, message, code end
  local cfg = options.cfg or {}
  local self = setmetatable({ terminal = terminal, screen = screen.new(terminal), editor = edit_line.new(),
    keys = keys.new(), style = render.style(options.color), grace = options.grace or GRACE,
    bell = options.bell ~= false, said = {}, partial = "", thought = "", markdown = {}, calls = {}, queue = {},
    spent = {} }, Tty)
  self.name = ("%s · mode %s"):format(render.line(cfg.model or "terret"), cfg.mode or "ask")
  local ui = {}
  for _, name in ipairs { "event", "ask", "input", "finish", "busy", "show", "echo", "start", "stop",
    "interrupt", "close" } do
    ui[name] = function(x) return self[name](self, x) end
  end
  function ui.resize()
    self.screen:measure()
    self:draw()
  end
  function ui.run(agent, run_options) return require("terret.repl").run(ui, agent, run_options) end
  return ui
end

local default

---@param e table
function M.event(e)
  default = default or assert(M.new())
  default.event(e)
end

return M

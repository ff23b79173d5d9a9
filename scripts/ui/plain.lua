-- scripts/ui/plain.lua - no cursor motion, no colour: dumb terminals, logs, screen readers.
--
-- Text comes as it is streamed, a tool has a line when it begins and one when it ends.  Questions
-- and prompts are lines of the terminal, which stays in its line mode; without one nobody is asked.

local json = require "terret.json"
local render = require "terret.render"
local task = require "terret.task"
local tty = require "terret.tty"

local M = {}

local STYLE = render.style(false)
local FOLD = { lines = 5, diff_lines = 40 }

---@class terret.ui.plain
local Plain = {}
Plain.__index = Plain

-- Output -----------------------------------------------------------------------------------------

function Plain:write(s)
  if s == "" then return end
  self.out:write(s)
  self.out:flush()
  self.fresh = s:sub(-1) == "\n"
end

-- Whole lines; what was streamed before is ended.  Tools and text are kept apart by a blank line.
function Plain:lines(list, kind)
  local gap = (self.fresh and "" or "\n") .. (self.kind == "text" and kind ~= "text" and "\n" or "")
  self.kind = kind
  if #list > 0 then self:write(gap .. table.concat(list, "\n") .. "\n") end
end

local on = {}

function on.text(self, e)
  if e.agent then return end
  local s = render.safe(e.delta)
  if self.kind ~= "text" then
    s = s:gsub("^%s+", "")
    if s == "" then return end
    if self.kind == "tool" then s = "\n" .. s end
    if not self.fresh then s = "\n" .. s end
    self.kind = "text"
  end
  self:write(s)
end

function on.tool_call(self, e)
  local call = { name = e.name, subject = render.subject(e.arguments), arguments = e.arguments,
    depth = e.agent and 1 or 0, state = "running" }
  self.calls[e.id] = call
  self:lines({ render.tool_line(call, STYLE) }, "tool")
end

function on.tool_result(self, e)
  local call = self.calls[e.id] or { name = e.name, subject = "", depth = e.agent and 1 or 0 }
  self.calls[e.id] = nil
  call.state, call.seconds = e.ok and "ok" or "failed", e.seconds
  local list = { render.tool_line(call, STYLE) }
  if not e.agent then
    local below = render.result(e, STYLE, FOLD)
    table.move(below, 1, #below, 2, list)
  end
  self:lines(list, "tool")
end

function on.usage(self, e)
  for _, key in ipairs { "input", "cached", "output", "cost" } do
    if e[key] then self.spent[key] = (self.spent[key] or 0) + e[key] end
  end
  if not e.agent then self.spent.context, self.spent.window = e.context, e.window end
end

---@param e table
function Plain:event(e)
  if on[e.type] then return on[e.type](self, e) end
  local notice = render.notice(e)
  if notice then self:lines({ notice }, "tool") end
end

-- Input ------------------------------------------------------------------------------------------

-- One line of the terminal, or nil at its end.
function Plain:read_line()
  while true do
    local line, rest = self.typed:match("^([^\n]*)\n(.*)$")
    if line then
      self.typed = rest
      return line
    end
    if self.ended then return nil end
    self.waiting = task.event()
    local bytes
    if self.terminal:ready() then
      bytes = self.terminal:read()
    else
      -- Either the terminal or stop() ends the wait.
      local wake = self.waiting
      local watch = task.spawn(function()
        task.await(self.terminal)
        wake:set()
      end)
      task.await(wake)
      task.cancel(watch)
      bytes = ""
    end
    if not bytes then self.ended = true else self.typed = self.typed .. bytes end
  end
end

function Plain:input()
  if self.ended then return nil end
  self:write((self.fresh and "" or "\n") .. "\n> ")
  self.kind, self.fresh = nil, true
  if self.terminal then return self:read_line() end
  local line = self.source:read("l")
  self:write((line and render.safe(line) or "") .. "\n") -- nobody else echoes it
  return line
end

local function answer_of(line, q)
  local word, rest = line:match("^%s*(%S*)%s*(.-)%s*$")
  word = word:lower()
  if word == "y" or word == "yes" then return { verdict = "allow", scope = "once" } end
  if (word == "s" or word == "session") and q.propose then
    return { verdict = "allow", scope = "session", rule = q.propose }
  end
  return { verdict = "deny", words = (word == "n" or word == "no") and rest ~= "" and rest or nil }
end

function Plain:ask(q)
  local call = self.calls[q.call_id]
  local arguments = call and json.decode(call.arguments) or nil
  self:lines(render.question(q, STYLE, { arguments = arguments }), "tool")
  local session = q.propose and ", s = for this session" or ""
  self.terminal:flush_input() -- what was typed before the question is no answer to it
  self.typed = ""
  self:write(("  y = once%s, n [words] = no (Enter: no): "):format(session))
  self.fresh = true
  local line = self:read_line()
  return line and answer_of(line, q) or { verdict = "deny" }
end

---@param result table
function Plain:finish(result)
  self:lines({}, nil)
  if not self.fresh then self:write("\n") end
  local outcome = render.outcome(result)
  if outcome then self.err:write("terret: ", outcome, "\n") end
  if (self.spent.input or 0) > 0 then self:write("[" .. render.usage(self.spent) .. "]\n") end
end

---@param options {out: file*?, err: file*?, terminal: table?, source: file*?}?
---@return table ui
function M.new(options)
  options = options or {}
  local self = setmetatable({ out = options.out or io.stdout, err = options.err or io.stderr, calls = {},
    source = options.source or io.stdin, terminal = options.terminal, spent = {}, fresh = true, typed = "" }, Plain)
  if not self.terminal and tty.isatty(0) then self.terminal = tty.open() end
  local ui = {}
  for _, name in ipairs { "event", "input", "finish" } do
    ui[name] = function(x) return self[name](self, x) end
  end
  if self.terminal then ui.ask = function(q) return self:ask(q) end end
  function ui.busy() end
  function ui.show(words)
    if words ~= "" then self:lines({ render.safe(words) }, "notice") end
  end
  function ui.echo(words) self:lines({ "> " .. render.safe(words), "" }, nil) end
  function ui.stop()
    self.ended = true
    if self.waiting then self.waiting:set() end
  end
  function ui.run(agent, run_options) return require("terret.repl").run(ui, agent, run_options) end
  return ui
end

local default

---@param e table
function M.event(e)
  default = default or M.new()
  default.event(e)
end

return M

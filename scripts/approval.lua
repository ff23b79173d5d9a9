-- scripts/approval.lua - a question at the terminal and the keys that answer it.  A state machine.
--
-- The default is no: Enter, Esc and Ctrl-C deny.  What was pressed before the question could be read is no
-- answer: keys count from `grace` seconds after it was drawn, several letters at once and pastes never.

local edit_line = require "terret.edit_line"
local permissions = require "terret.permissions"
local reactor = require "terret.reactor"
local render = require "terret.render"

local M = {}

---@class terret.approval
---@field editor terret.editor? while words or a rule are typed
---@field prompt string? of the editor
---@field hint string? why a rule was not taken
local Approval = {}
Approval.__index = Approval

---@param question {propose: string?}
---@param grace number seconds
---@return terret.approval
function M.new(question, grace)
  return setmetatable({ propose = question.propose, open_at = reactor.now() + grace }, Approval)
end

---@param style terret.style
---@return string one line
function Approval:keys(style)
  local parts = { style.bold("y") .. " once" }
  if self.propose then
    parts[#parts + 1] = style.bold("s") .. " this session"
    parts[#parts + 1] = style.bold("e") .. " edit rule"
  end
  parts[#parts + 1] = style.bold("w") .. " no, with words"
  parts[#parts + 1] = style.bold("n/Enter/Esc") .. " no"
  return "  " .. table.concat(parts, "   ")
end

local function edit(self, prompt, words, take)
  self.editor, self.prompt, self.take = edit_line.new(), prompt, take
  self.editor:set(words)
end

local function take_words(_, words) return { verdict = "deny", words = words } end

-- Only what is one rule, and that rule, is taken.
local function take_rule(self, rule)
  if rule == "" then return nil end
  local list, message = permissions.parse_rules("allow " .. rule, "rule")
  if list and #list == 1 and list[1].rule == rule then
    return { verdict = "allow", scope = "session", rule = rule }
  end
  self.hint = message and render.line(message) or "a rule is one line"
  self.editor:set(rule)
end

local function press_editor(self, key)
  local action = self.editor:press(key)
  if not action then return nil end
  if action.type == "submit" then return self:take(action.text:match("^%s*(.-)%s*$")) end
  if action.type ~= "clear" and action.type ~= "redraw" then self.editor = nil end
end

---@param key terret.key
---@return {verdict: string, scope: string?, rule: string?, words: string?}? answer nil: none yet
---@return boolean? interrupt the user wants the turn to end
function Approval:press(key)
  if reactor.now() < self.open_at then return nil end
  self.hint = nil
  if self.editor then return press_editor(self, key) end
  local name = key.name == "text" and key.text or key.name
  if name == "y" then return { verdict = "allow", scope = "once" } end
  if name == "s" and self.propose then return { verdict = "allow", scope = "session", rule = self.propose } end
  if name == "e" and self.propose then
    edit(self, "allow ", self.propose, take_rule)
  elseif name == "w" then
    edit(self, "no: ", "", take_words)
  elseif name == "n" or name == "N" or name == "enter" or name == "esc" or name == "ctrl-c" then
    return { verdict = "deny" }, name == "ctrl-c"
  end
end

return M

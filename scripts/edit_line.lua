-- scripts/edit_line.lua - the line that a user edits.  A pure state machine: keys in, actions out; what
-- it looks like is asked with layout().  No terminal, no clock.
--
-- The line is a list of cells: a character with the zero-width ones behind it, a line end, or a
-- long paste, which is one cell that shows as "[paste 12 lines]".  The cursor stands before a cell.

local keys = require "terret.keys"
local text = require "terret.text"

local M = {}

local FOLD_BYTES = 400 -- a paste longer than this, or of several lines, is folded
local MAX_HISTORY = 500

---@class terret.editor
---@field history string[] oldest first
local Editor = {}
Editor.__index = Editor

---@param options {history: string[]?}?
---@return terret.editor
function M.new(options)
  return setmetatable({ cells = {}, at = 0, history = options and options.history or {}, place = nil,
    killed = {}, decoder = keys.new(), quits = 0 }, Editor)
end

-- Cells ----------------------------------------------------------------------------------------

local function cells_of(s)
  local list = {}
  for c in text.clean(s):gsub("\r\n?", "\n"):gmatch(utf8.charpattern) do
    local last = list[#list]
    if type(last) == "string" and last ~= "\n" and c:byte() > 127 and text.width(c) == 0 then
      list[#list] = last .. c
    else
      list[#list + 1] = c
    end
  end
  return list
end

local function content(cell) return type(cell) == "table" and cell.text or cell end

local function shown(cell)
  if type(cell) == "table" then return cell.label end
  return text.safe(cell, { newline = false, tab = false })
end

-- Replaces the cells from+1..to by a list; the cursor stands behind it.
local function replace(self, from, to, list)
  local old, cells = self.cells, {}
  table.move(old, 1, from, 1, cells)
  table.move(list, 1, #list, from + 1, cells)
  table.move(old, to + 1, #old, #cells + 1, cells)
  self.cells, self.at, self.place = cells, from + #list, nil
end

local function insert(self, list) replace(self, self.at, self.at, list) end

local function kill(self, from, to)
  if to <= from then return end
  self.killed = table.move(self.cells, from + 1, to, 1, {})
  replace(self, from, to, {})
end

---@param s string
function Editor:insert(s) insert(self, cells_of(s)) end

---@param s string
function Editor:paste(s)
  local lines = text.count_lines(s)
  if lines > 1 or #s > FOLD_BYTES then
    insert(self, { { text = s, label = ("[paste %d line%s]"):format(lines, lines == 1 and "" or "s") } })
  else
    self:insert(s)
  end
end

---@return string what was typed, pastes in full
function Editor:text()
  local out = {}
  for i, cell in ipairs(self.cells) do out[i] = content(cell) end
  return table.concat(out)
end

---@return string the same with the pastes folded; safe for a terminal, but for line ends
function Editor:label()
  local out = {}
  for i, cell in ipairs(self.cells) do out[i] = cell == "\n" and cell or shown(cell) end
  return table.concat(out)
end

---@param s string
function Editor:set(s) replace(self, 0, #self.cells, cells_of(s)) end

-- Places ---------------------------------------------------------------------------------------

local function line_start(self, at)
  while at > 0 and self.cells[at] ~= "\n" do at = at - 1 end
  return at
end

local function line_end(self, at)
  while at < #self.cells and self.cells[at + 1] ~= "\n" do at = at + 1 end
  return at
end

local function is_word(cell) return type(cell) == "table" or cell and cell:find("^[%w_\128-\255]") ~= nil end
local function is_blank(cell) return type(cell) == "string" and cell:find("^%s$") ~= nil end

local function word_left(self, at)
  while at > 0 and not is_word(self.cells[at]) do at = at - 1 end
  while at > 0 and is_word(self.cells[at]) do at = at - 1 end
  return at
end

local function word_right(self, at)
  while at < #self.cells and not is_word(self.cells[at + 1]) do at = at + 1 end
  while at < #self.cells and is_word(self.cells[at + 1]) do at = at + 1 end
  return at
end

-- Ctrl-W goes by blanks, as a shell's does.
local function blank_left(self, at)
  while at > 0 and is_blank(self.cells[at]) do at = at - 1 end
  while at > 0 and not is_blank(self.cells[at]) do at = at - 1 end
  return at
end

-- History --------------------------------------------------------------------------------------

local function recall(self, step)
  local place = (self.place or #self.history + 1) + step
  if place < 1 or place > #self.history + 1 then return end
  if not self.place then self.draft = self:text() end
  self:set(self.history[place] or self.draft or "")
  self.place = place <= #self.history and place or nil
end

local function up(self)
  local start = line_start(self, self.at)
  if start == 0 then return recall(self, -1) end
  local before = line_start(self, start - 1)
  self.at = math.min(before + self.at - start, start - 1)
end

local function down(self)
  local stop = line_end(self, self.at)
  if stop == #self.cells then return recall(self, 1) end
  self.at = math.min(stop + 1 + self.at - line_start(self, self.at), line_end(self, stop + 1))
end

---Keeps a line for the history; the same twice in a row is kept once.
---@param s string
function Editor:remember(s)
  if s:find("%S") and self.history[#self.history] ~= s then table.insert(self.history, s) end
  if #self.history > MAX_HISTORY then table.remove(self.history, 1) end
end

-- Keys -----------------------------------------------------------------------------------------

local on = {}

function on.left(self) self.at = math.max(0, self.at - 1) end
function on.right(self) self.at = math.min(#self.cells, self.at + 1) end
function on.home(self) self.at = line_start(self, self.at) end
on["end"] = function(self) self.at = line_end(self, self.at) end
on.up, on.down = up, down
function on.backspace(self)
  if self.at > 0 then replace(self, self.at - 1, self.at, {}) end
end
function on.delete(self)
  if self.at < #self.cells then replace(self, self.at, self.at + 1, {}) end
end
on["alt-b"] = function(self) self.at = word_left(self, self.at) end
on["alt-f"] = function(self) self.at = word_right(self, self.at) end
on["alt-backspace"] = function(self) kill(self, word_left(self, self.at), self.at) end
on["alt-d"] = function(self) kill(self, self.at, word_right(self, self.at)) end
on["ctrl-w"] = function(self) kill(self, blank_left(self, self.at), self.at) end
on["ctrl-u"] = function(self) kill(self, line_start(self, self.at), self.at) end
on["ctrl-k"] = function(self)
  local at, stop = self.at, line_end(self, self.at)
  kill(self, at, stop == at and math.min(at + 1, #self.cells) or stop)
end
on["ctrl-y"] = function(self) insert(self, self.killed) end
on["alt-enter"] = function(self) insert(self, { "\n" }) end
on["ctrl-j"], on["shift-enter"] = on["alt-enter"], on["alt-enter"]
function on.tab(self) self:insert("  ") end
on["ctrl-l"] = function() return { type = "redraw" } end
on.esc = function() return { type = "escape" } end
on["ctrl-d"] = function(self)
  if #self.cells == 0 then return { type = "end" } end
  on.delete(self)
end
on["ctrl-c"] = function(self)
  if #self.cells > 0 then
    self:set("")
    return { type = "clear" }
  end
  self.quits = self.quits + 1
  return { type = self.quits > 1 and "quit" or "interrupt" }
end
function on.enter(self)
  if self.cells[self.at] == "\\" then
    replace(self, self.at - 1, self.at, { "\n" })
    return nil
  end
  local action = { type = "submit", text = self:text(), label = self:label() }
  self:remember(action.text)
  self:set("")
  return action
end

for name, same in pairs { ["ctrl-a"] = "home", ["ctrl-e"] = "end", ["ctrl-b"] = "left", ["ctrl-f"] = "right",
  ["ctrl-p"] = "up", ["ctrl-n"] = "down", ["ctrl-left"] = "alt-b", ["ctrl-right"] = "alt-f",
  ["alt-left"] = "alt-b", ["alt-right"] = "alt-f" } do
  on[name] = on[same]
end

---One decoded key.
---@param key terret.key
---@return {type: string, text: string?, label: string?}? action submit, clear, interrupt, quit, end, escape, redraw
function Editor:press(key)
  if key.name ~= "ctrl-c" then self.quits = 0 end
  if key.name == "text" then
    self:insert(key.text)
  elseif key.name == "paste" then
    self:paste(key.text)
  elseif on[key.name] then
    return on[key.name](self)
  end
end

local function press_all(self, list)
  local actions = {}
  for _, key in ipairs(list) do actions[#actions + 1] = self:press(key) end
  return actions
end

---Bytes as they come from a terminal.
---@param bytes string
---@return table[] actions
function Editor:key(bytes) return press_all(self, self.decoder:feed(bytes)) end

---@return boolean a key has begun that more bytes may complete
function Editor:waiting() return self.decoder:waiting() end

---@return table[] actions
function Editor:flush() return press_all(self, self.decoder:flush()) end

-- Layout ---------------------------------------------------------------------------------------

---Rows for a terminal, each narrower than columns; continued rows stand under the first.
---@param columns integer
---@param prompt string plain text
---@return string[] rows
---@return integer row of the cursor, from 1
---@return integer column of the cursor, from 0
function Editor:layout(columns, prompt)
  local indent = text.width(prompt)
  local room = math.max(columns - 1, indent + 2)
  local rows, parts, width, row, column = {}, { prompt }, indent, nil, nil
  local function break_row()
    rows[#rows + 1] = table.concat(parts)
    parts, width = { (" "):rep(indent) }, indent
  end
  local function put(piece)
    local w = text.width(piece)
    if width + w > room and width > indent then break_row() end
    while width + w > room do -- an escape or a label wider than the terminal
      local head = text.truncate(piece, room - width)
      if head == "" or head == piece then break end
      parts[#parts + 1] = head
      break_row()
      piece = piece:sub(#head + 1)
      w = text.width(piece)
    end
    parts[#parts + 1] = piece
    width = width + w
  end
  for i = 0, #self.cells do
    local cell = self.cells[i + 1]
    local piece = cell and cell ~= "\n" and shown(cell) or ""
    if i == self.at then
      -- The cursor stands where the next cell will.
      if width + math.max(1, math.min(text.width(piece), room - indent)) > room and width > indent then break_row() end
      row, column = #rows + 1, width
    end
    if cell == "\n" then break_row() elseif cell then put(piece) end
  end
  rows[#rows + 1] = table.concat(parts)
  return rows, row, column
end

return M

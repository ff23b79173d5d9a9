-- scripts/screen.lua - the terminal as two parts: what is said above, which scrolls away and stays,
-- and some live rows at the bottom, which are drawn anew.
--
-- No alternate screen and no model of it: only the distance from the cursor up to the first live row
-- is known.  Rows may hold our own SGR sequences, nothing else that moves a cursor.

local text = require "terret.text"

local M = {}

---@class terret.screen
local Screen = {}
Screen.__index = Screen

---@param terminal terret.tty.terminal
---@return terret.screen
function M.new(terminal)
  local self = setmetatable({ terminal = terminal, above = {} }, Screen)
  self.columns, self.height = terminal:size()
  return self
end

---The size may have changed.
function Screen:measure() self.columns, self.height = self.terminal:size() end

local function visible(row) return text.width((row:gsub("\27%[%d*m", ""))) end

-- Terminals break rows that have become too long for them.
local function lines_above(self)
  local n = 0
  for _, width in ipairs(self.above) do n = n + math.max(1, (width + self.columns - 1) // self.columns) end
  return n
end

---Says rows above and draws the live ones.
---@param said string[] rows, none wider than the terminal
---@param live string[] rows, each narrower than the terminal
---@param row integer? of the cursor within live; default: the last
---@param column integer? from 0
---@param wipe boolean? clear the terminal first
function Screen:draw(said, live, row, column, wipe)
  -- What doesn't fit goes at the top: the line that is edited is at the bottom.
  local over = math.max(0, #live - math.max(1, self.height - 1))
  if row and over >= row then over = row - 1 end
  live = table.move(live, over + 1, math.min(#live, over + math.max(1, self.height - 1)), 1, {})
  row = math.min((row or #live + over) - over, #live)
  local up = lines_above(self)
  local out = { "\27[?25l", wipe and "\27[2J\27[H" or up > 0 and ("\27[%dA"):format(up) or "", "\r" }
  -- Each row is cleared before it is written, the rest at the end: where a whole screen is cleared
  -- at once, some terminals keep what stood there in their history.
  for _, line in ipairs(said) do out[#out + 1] = "\27[2K" .. line .. "\n" end
  for i, line in ipairs(live) do out[#out + 1] = (i > 1 and "\n" or "") .. "\27[2K" .. line end
  out[#out + 1] = "\27[J"
  if #live > row then out[#out + 1] = ("\27[%dA"):format(#live - row) end
  out[#out + 1] = "\r" .. ((column or 0) > 0 and ("\27[%dC"):format(column) or "") .. "\27[?25h"
  self.above = {}
  for i = 1, row - 1 do self.above[i] = visible(live[i]) end
  return self.terminal:write(table.concat(out))
end

return M

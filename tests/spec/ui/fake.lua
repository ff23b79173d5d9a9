-- tests/spec/ui/fake.lua - a terminal for specs: a waitable that is fed keys, and what its screen shows.
-- It understands the few sequences that terret uses and raises on any other control byte.
local task = require "terret.task"
local text = require "terret.text"

local M = {}

-- A screen that grows at the bottom: nothing scrolls out of it.
local function new_grid(columns) return { columns = columns, rows = { {} }, row = 1, column = 0 } end

local function put(grid, c)
  local width = text.width(c)
  if grid.column + width > grid.columns then
    grid.row, grid.column = grid.row + 1, 0
    grid.rows[grid.row] = grid.rows[grid.row] or {}
  end
  grid.rows[grid.row][grid.column] = c
  for i = 1, width - 1 do grid.rows[grid.row][grid.column + i] = "" end
  grid.column = grid.column + width
end

local CSI = {
  A = function(grid, n) grid.row = math.max(1, grid.row - math.max(1, n)) end,
  C = function(grid, n) grid.column = math.min(grid.columns - 1, grid.column + math.max(1, n)) end,
  H = function(grid) grid.row, grid.column = 1, 0 end,
  K = function(grid) grid.rows[grid.row] = {} end,
  J = function(grid, n)
    for row = n == 2 and 1 or grid.row, #grid.rows do
      for column in pairs(grid.rows[row]) do
        if n == 2 or row > grid.row or column >= grid.column then grid.rows[row][column] = nil end
      end
    end
  end,
  m = function() end,
}

local function interpret(grid, s)
  local i = 1
  while i <= #s do
    local n, letter, after = s:match("^\27%[(%d*)([ACHKJm])()", i)
    local mode = s:match("^\27%[%?[%d]+[hl]()", i)
    if after then
      CSI[letter](grid, tonumber(n) or 0)
    elseif mode then
      after = mode
    else
      local c = s:match("^" .. utf8.charpattern, i)
      after = i + #c
      if c == "\n" then
        grid.row, grid.column = grid.row + 1, 0
        grid.rows[grid.row] = grid.rows[grid.row] or {}
      elseif c == "\r" then
        grid.column = 0
      elseif c ~= "\a" then
        assert(not c:find("^%c"), "a control byte that is none of ours: " .. ("%q"):format(c))
        put(grid, c)
      end
    end
    i = after
  end
end

---@param columns integer?
---@param height integer?
function M.terminal(columns, height)
  local t = task.event()
  local input, grid = {}, new_grid(columns or 80)
  t.log, t.flushed = {}, 0
  function t.ready() return #input > 0 end
  function t.read() return table.remove(input, 1) or "" end
  function t.write(_, s)
    table.insert(t.log, s)
    interpret(grid, s)
    return true
  end
  function t.size() return columns or 80, height or 24 end
  function t.raw() t.is_raw = true return true end
  function t.restore() t.is_raw = false end
  function t.flush_input()
    t.flushed = t.flushed + 1
    input = {}
  end
  function t.feed(bytes)
    table.insert(input, bytes)
    t:set(true)
  end
  -- What is on the screen, without empty rows at the end.
  function t.screen()
    local rows = {}
    for r, cells in ipairs(grid.rows) do
      local row = {}
      for c = 0, grid.columns - 1 do row[c + 1] = cells[c] or " " end
      rows[r] = table.concat(row):gsub("%s+$", "")
    end
    return (table.concat(rows, "\n"):gsub("%s+$", ""))
  end
  function t.cursor() return grid.row, grid.column end
  function t.clear_log() t.log = {} end
  return t
end

-- Something with write and flush.
function M.file(fails)
  local f = { parts = {}, flushes = 0 }
  function f:write(...)
    if fails then return nil, "no space left on device", 28 end
    for _, s in ipairs { ... } do table.insert(self.parts, s) end
    return self
  end
  function f:flush()
    self.flushes = self.flushes + 1
    return true
  end
  function f:text() return table.concat(self.parts) end
  return f
end

return M

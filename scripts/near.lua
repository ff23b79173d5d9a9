-- scripts/near.lua - terret.near: what was probably meant: file names and lines like the wanted one.
-- All of it is bounded: names, lines and bytes that are looked at have fixed limits.
local match = require "terret.match"
local text = require "terret.text"

local M = {}

local NAMES = 2000       -- entries of a directory that are compared
local NAME_BYTES = 64
local SHOWN = 5
local SCAN_BYTES = 2000000
local SCAN_LINES = 50000
local LINE_BYTES = 400   -- of one line that are compared
local WINDOW = 12        -- lines of the nearest text that are shown
local LINE_SHOWN = 200
local LONGEST_LINE = 65536 -- a longer one is not compared

-- ---- names ------------------------------------------------------------------------------------

-- Edits (insert, delete, replace, swap of neighbours) between two names, or max + 1.
local function distance(a, b, max)
  if math.abs(#a - #b) > max then return max + 1 end
  local before, row = {}, {}
  for j = 0, #b do row[j] = j end
  for i = 1, #a do
    local new, least = { [0] = i }, i
    for j = 1, #b do
      local same = a:byte(i) == b:byte(j)
      local d = math.min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (same and 0 or 1))
      if i > 1 and j > 1 and a:byte(i) == b:byte(j - 1) and a:byte(i - 1) == b:byte(j) then
        d = math.min(d, before[j - 2] + 1)
      end
      new[j] = d
      if d < least then least = d end
    end
    if least > max then return max + 1 end
    before, row = row, new
  end
  return row[#b]
end

local function stem(name)
  return name:match("^(.+)%.[^.]*$") or name
end

-- How far a name is from the wanted one; nil: not near.
local function rank(name, wanted)
  local a, b = match.ascii(name):lower(), match.ascii(wanted):lower()
  if a == b then return 0 end
  if stem(a) == stem(b) then return 1 end
  if #a > NAME_BYTES or #b > NAME_BYTES then return nil end
  local d = distance(a, b, #b > 4 and 2 or 1)
  if d <= (#b > 4 and 2 or 1) then return 1 + d end
  if #b >= 4 and (a:find(b, 1, true) or (#a >= 4 and b:find(a, 1, true))) then return 5 end
  return nil
end

local function near_entries(entries, wanted)
  local found = {}
  for i = 1, math.min(#entries, NAMES) do
    local r = rank(entries[i].name, wanted)
    if r then found[#found + 1] = { r, entries[i].name } end
  end
  table.sort(found, function(a, b)
    if a[1] ~= b[1] then return a[1] < b[1] end
    return a[2] < b[2]
  end)
  local names = {}
  for i = 1, math.min(#found, SHOWN) do names[i] = found[i][2] end
  return names
end

---" Did you mean ..." for a path that does not exist, or "".
---@param call terret.call
---@param path string
---@return string
function M.paths(call, path)
  if path:sub(1, 1) == "@" and call:stat(path:sub(2)) then
    return (" Did you mean %s?"):format(path:sub(2))
  end
  local slashed = path:gsub("\\", "/")
  if slashed ~= path and call:stat(slashed) then return (" Did you mean %s?"):format(slashed) end
  local dir, name = path:match("^(.*)/([^/]+)/*$")
  if not dir then dir, name = ".", path:gsub("/+$", "") end
  for _ = 1, 40 do
    local entries = call:list(dir == "" and "/" or dir)
    if entries then
      local names = near_entries(entries, name)
      local prefix = dir == "." and "" or dir .. "/"
      for i, n in ipairs(names) do names[i] = text.clean(prefix .. n) end
      if #names == 0 then return "" end
      return (" Did you mean %s?"):format(table.concat(names, " or "))
    end
    local up, missing = dir:match("^(.*)/([^/]+)$")
    if not up and dir ~= "." and dir ~= "" then up, missing = ".", dir end
    if not up then return "" end
    dir, name = up, missing
  end
  return ""
end

---What a tool says of a path that the world refused: near names, or where it leads.
---@param call terret.call
---@param path string
---@param message string
---@param code string?
---@return nil
---@return string message
---@return string? code
function M.refusal(call, path, message, code)
  if code == "not_found" or code == "not_directory" then
    -- The policy's own words (a path that the sandbox does not show) say more than ours.
    local ours = message:find("No such file or directory", 1, true) or message:find("Not a directory", 1, true)
    message = (ours and path .. ": no such file or directory" or message) .. "." .. M.paths(call, path)
  elseif code == "escapes" then
    message = ("%s leads outside the project, by a link or by ..; refused"):format(path)
  elseif code == "not_regular" then
    message = message .. ", not a regular file"
  end
  return nil, text.clean(message), code
end

-- ---- lines ------------------------------------------------------------------------------------

local function bare(s)
  return (match.ascii(s):lower():gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

local function grams(s)
  local set, count = {}, 0
  for i = 1, #s - 2 do
    local g = s:sub(i, i + 2)
    if not set[g] then set[g], count = true, count + 1 end
  end
  return set, count
end

-- Dice's coefficient of the three-letter pieces of a line and the wanted one.
local function likeness(set, count, line)
  local mine, n = grams(line)
  if n == 0 or count == 0 then return 0 end
  local both = 0
  for g in pairs(mine) do
    if set[g] then both = both + 1 end
  end
  return 2 * both / (n + count)
end

-- The longest line of the old text says the most, and which one it is.
local function anchor_of(olds)
  local best, at = "", 1
  for i = 1, math.min(#olds, 400) do
    local line = bare(olds[i]:sub(1, LINE_BYTES))
    if #line > #best then best, at = line, i end
  end
  return best, at
end

-- The number of the line that is most like the anchor; an equal one wins, else the likest.
local function best_line(lines, wanted)
  local set, count = grams(wanted)
  local best, at, spent = 0.35, nil, 0
  for i = 1, math.min(#lines, SCAN_LINES) do
    local raw = lines[i]:sub(1, LINE_BYTES)
    spent = spent + #raw
    if spent > SCAN_BYTES then break end
    local line = bare(raw)
    if line == wanted then return i, 1 end
    -- a line of other length can't be alike enough
    if #line * 4 > #wanted and #line < #wanted * 8 then
      local score = likeness(set, count, line)
      if #wanted >= 8 and line:find(wanted, 1, true) then score = math.max(score, 0.9) end
      if score > best then best, at = score, i end
    end
  end
  return at, best
end

-- The longest line of the old text that the file has, blanks and case aside, and where both are.
local function shared_line(lines, olds)
  local places = {}
  for i = 1, math.min(#lines, SCAN_LINES) do
    local line = lines[i]
    if #line <= LINE_BYTES then
      line = bare(line)
      places[line] = places[line] or i
    end
  end
  local best, at, found = 2, nil, nil
  for i = 1, math.min(#olds, 400) do
    local line = bare(olds[i]:sub(1, LINE_BYTES))
    if #line > best and places[line] then best, at, found = #line, i, places[line] end
  end
  return at, found
end

local NAMED = { ["\t"] = "a tab", [" "] = "a blank", ["\r"] = "a carriage return", [""] = "the end of the line" }

local function sign_at(s, i)
  local c = s:sub(i, i)
  if NAMED[c] then return NAMED[c] end
  if c:byte() >= 0x80 then
    local ok, code = pcall(utf8.codepoint, s, i)
    return ok and ("U+%04X"):format(code) or ("byte 0x%02X"):format(c:byte())
  end
  return c:byte() < 32 and ("byte 0x%02X"):format(c:byte()) or "'" .. c .. "'"
end

-- Where two lines part, in words; nil: they are equal.
local function first_difference(real, old)
  if real == old then return nil end
  local i, max = 1, math.min(#real, #old)
  while i <= max and real:byte(i) == old:byte(i) do i = i + 1 end
  while i > 1 and (((real:byte(i) or 0) & 0xC0) == 0x80 or ((old:byte(i) or 0) & 0xC0) == 0x80) do i = i - 1 end
  local words = ("at column %d the file has %s, old_string has %s"):format(i, sign_at(real, i), sign_at(old, i))
  if real:lower() == old:lower() then return words .. " (only the case of letters differs)" end
  if bare(real) == bare(old) then return words .. " (only white space or signs differ)" end
  return words
end

-- Lines of the file, numbered as `read` does.
local function numbered(lines, from, to)
  local out = {}
  for i = from, to do
    local line = lines[i]
    if #line > LINE_SHOWN then line = text.cut(line, LINE_SHOWN) .. " [cut]" end
    out[#out + 1] = ("%6d\t%s"):format(i, text.clean(line))
  end
  return table.concat(out, "\n")
end

---The text of a file that is most like the wanted one, and the first difference.
---@param data string the file
---@param old string
---@return string? words nil: nothing is like it
function M.text(data, old)
  local lines, olds = match.pieces(data), match.pieces(old)
  if lines[#lines] == "" then lines[#lines] = nil end
  if #olds > 1 and olds[#olds] == "" then olds[#olds] = nil end
  local wanted, at = anchor_of(olds)
  if #wanted < 2 then return nil end
  local found = best_line(lines, wanted)
  if not found then at, found = shared_line(lines, olds) end
  if not found then return nil end
  local from = math.max(1, found - at + 1)
  local to = math.min(#lines, from + #olds - 1)
  for i = from, to do
    if #lines[i] > LONGEST_LINE or #(olds[i - found + at] or "") > LONGEST_LINE then
      return ("Something like it is in line %d, which is too long to be compared."):format(found)
    end
  end
  local shown = to - from + 1 > WINDOW and math.max(from, found - WINDOW // 2) or from
  local words = "The nearest text is:\n" .. numbered(lines, shown, math.min(to, shown + WINDOW - 1))
  for i = from, to do
    local old_line = olds[i - found + at]
    local difference = old_line and first_difference(lines[i], old_line)
    if difference and not (#olds == 1 and lines[i]:find(old_line, 1, true)) then
      return ("%s\nThe first difference: line %d, %s."):format(words, i, difference)
    end
  end
  return words
end

return M

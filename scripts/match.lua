-- scripts/match.lua - terret.match: where an edit applies.  Pure functions of texts.
--
-- find() looks for the old text in this order, and stops at the first step that finds it:
--   1 exact             bytes as they are
--   2 line ends         CRLF and LF are the same, a missing last line end too
--   3 trailing blanks   blanks and tabs before a line end don't count
--   4 indentation       whole lines; the new text is indented as the file is
--   5 signs             quotes, dashes and blanks of Unicode are those of ASCII
--   6 line numbers      as `read` prints them, taken off old and new; then 1 to 5 again
-- Steps 2 to 6 count only where exactly one place fits.  What old and new have in common keeps
-- the file's bytes: its line ends, trailing blanks, curly quotes.
local each_place = require "terret.search"

local M = {}

local MAX_PLACES = 10000
M.most = 500000           -- places that one edit may change

---All places of needle, overlapping ones too; at most 10,000.
---@param text string
---@param needle string not empty
---@return integer[] places
function M.find_plain(text, needle)
  local places = {}
  each_place(text, needle, function(p)
    places[#places + 1] = p
    return #places < MAX_PLACES
  end)
  return places
end

-- ---- lines ------------------------------------------------------------------------------------

-- {text of a line without its end}, and its ends ("\n", "\r\n", or "" behind the last one).
-- A text that ends with a line end has an empty last piece: n line ends are n + 1 pieces.
local function pieces(s)
  local lines, ends, at = {}, {}, 1
  while true do
    local e = s:find("\n", at, true)
    local line = s:sub(at, (e or #s + 1) - 1)
    local cr = e and line:sub(-1) == "\r"
    lines[#lines + 1] = cr and line:sub(1, -2) or line
    if not e then break end
    ends[#ends + 1] = cr and "\r\n" or "\n"
    at = e + 1
  end
  return lines, ends
end
M.pieces = pieces

local function rstrip(s)
  local n = #s
  while n > 0 and (s:byte(n) == 32 or s:byte(n) == 9 or s:byte(n) == 13) do n = n - 1 end
  return n == #s and s or s:sub(1, n)
end

local function indent_of(s)
  return s:match("^[ \t]*")
end

-- ---- the signs of step 5 ----------------------------------------------------------------------

local SIGNS = {}
for sign, list in pairs {
  ['"'] = { 0x201C, 0x201D, 0x201E, 0x201F, 0x2033 },
  ["'"] = { 0x2018, 0x2019, 0x201A, 0x201B, 0x2032 },
  ["-"] = { 0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2015, 0x2212 },
  [" "] = { 0xA0, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004, 0x2005, 0x2006, 0x2007, 0x2008, 0x2009,
    0x200A, 0x202F, 0x205F, 0x3000 },
} do
  for _, code in ipairs(list) do SIGNS[utf8.char(code)] = sign end
end

local function ascii(s)
  if not s:find("[\xC2\xE2\xE3]") then return s end
  return (s:gsub("[\xC2\xE2\xE3][\x80-\xBF]+", function(c)
    if SIGNS[c] then return SIGNS[c] end
    -- two signs side by side make one run of bytes
    return (c:gsub("\xC2\xA0", " "):gsub("[\xE2\xE3][\x80-\xBF][\x80-\xBF]", SIGNS))
  end))
end

-- The byte of the line where byte `column` of its ASCII form stands.
local function unascii_column(line, column)
  local at, seen = 1, 1
  while seen < column and at <= #line do
    local size = line:byte(at) == 0xC2 and 2 or 3
    at = at + (SIGNS[line:sub(at, at + size - 1)] and size or 1)
    seen = seen + 1
  end
  return at
end

-- ---- steps 2, 3, 5: one normal form of all lines ----------------------------------------------

local STEPS = {
  { name = "line ends", line = function(s) return s end },
  { name = "trailing blanks", line = rstrip, trailing = true },
  { name = "quotes, dashes or blanks of Unicode", signs = true, trailing = true,
    line = function(s) return ascii(rstrip(s)) end },
}

-- The file in a step's form: the joined lines and where each begins in both texts.
local function normal_form(file, step)
  local lines, at = {}, 1
  local starts = {}
  for i, line in ipairs(file.lines) do
    local form = step.line(line)
    lines[i], starts[i] = form, at
    at = at + #form + 1
  end
  return table.concat(lines, "\n") .. (file.virtual_end and "\n" or ""), starts
end

-- The index of the line that holds byte `place` (starts is sorted).
local function line_at(starts, place)
  local low, high = 1, #starts
  while low < high do
    local middle = (low + high + 1) // 2
    if starts[middle] <= place then low = middle else high = middle - 1 end
  end
  return low
end

local function original(file, step, starts, place)
  local i = line_at(starts, place)
  local column = place - starts[i] + 1
  if step.signs then column = unascii_column(file.lines[i], column) end
  return math.min(file.starts[i] + column - 1, #file.text + 1), i
end

-- All regions {from, to} of the file's text that the step takes for the old text.
local function regions(file, old, step)
  local lines = pieces(old)
  local last = lines[#lines]
  for i, line in ipairs(lines) do lines[i] = step.line(line) end
  local cut = step.trailing and last ~= "" and rstrip(last) ~= last
  local needle = table.concat(lines, "\n")
  if not needle:find("[^ \t\n]") then return {} end
  local form, starts = normal_form(file, step)
  local list = {}
  each_place(form, needle, function(p)
    local stop = p + #needle
    -- blanks at the very end of the old text stand for the blanks at a line's end only
    if not cut or stop > #form or form:byte(stop) == 10 then
      local from = original(file, step, starts, p)
      local to, i = original(file, step, starts, stop)
      if last == "" and file.ends[i - 1] == nil and i == #file.lines then to = #file.text + 1 end
      if cut then to = file.starts[i] + #file.lines[i] end
      list[#list + 1] = { from, to - 1 }
    end
    return #list < MAX_PLACES
  end)
  return list
end

-- ---- the new text in the file's dress ---------------------------------------------------------

-- How many pieces both begin with, and then end with.
local function common(a, b)
  local max, head, tail = math.min(#a, #b), 0, 0
  while head < max and a[head + 1] == b[head + 1] do head = head + 1 end
  while tail < max - head and a[#a - tail] == b[#b - tail] do tail = tail + 1 end
  return head, tail
end

-- The line end that stands around a place of the file.
local function end_near(file_text, place)
  local e = file_text:find("\n", place, true)
  if not e then
    e = place - 1
    while e > 0 and file_text:byte(e) ~= 10 do e = e - 1 end
    if e < 1 then return "\n" end
  end
  return file_text:byte(e - 1) == 13 and "\r\n" or "\n"
end

-- Replaces the part of a changed line that old and new don't share, so that the file's signs
-- around it stay.  nil: the changed part touches signs that were forgiven.
local function dress_line(real, old, new)
  if real == old then return new end
  local head, tail, max = 0, 0, math.min(#old, #new)
  while head < max and old:byte(head + 1) == new:byte(head + 1) do head = head + 1 end
  while tail < max - head and old:byte(#old - tail) == new:byte(#new - tail) do tail = tail + 1 end
  while head > 0 and (old:byte(head + 1) or 0) & 0xC0 == 0x80 do head = head - 1 end
  while tail > 0 and (old:byte(#old - tail + 1) or 0) & 0xC0 == 0x80 do tail = tail - 1 end
  local from = unascii_column(real, #ascii(old:sub(1, head)) + 1)
  local to = unascii_column(real, #ascii(old:sub(1, #old - tail)) + 1)
  local was, inner = real:sub(from, to - 1), new:sub(head + 1, #new - tail)
  if was ~= old:sub(head + 1, #old - tail) and inner:find("[\"' -]") then return nil end
  -- Which quotes, which dashes would the new ones be?
  if inner:find("[\"']") and real:find("\xE2\x80[\x98-\x9F]") then return nil end
  if inner:find("-", 1, true) and real:find("\xE2\x80[\x90-\x95]") then return nil end
  return real:sub(1, from - 1) .. inner .. real:sub(to)
end

-- The text for a region: pieces that old and new share keep the file's bytes, so do line ends.
local function dress(file, region, old, new, step)
  local olds, news = pieces(old), pieces(new)
  local reals, ends = pieces(file.text:sub(region[1], region[2]))
  if #reals < #olds then reals[#reals + 1] = "" end -- the last line end is missing in the file
  local head, tail = common(olds, news)
  local around = ends[1] or end_near(file.text, region[1])
  local out = {}
  for i, line in ipairs(news) do
    local k = i <= head and i or (i > #news - tail and i - #news + #olds) or (#olds == #news and i) or nil
    local text = line
    if k and olds[k] == line then
      text = reals[k]
    elseif k and step.signs then
      text = dress_line(reals[k], olds[k], line)
      if not text then return nil end
    elseif step.signs and reals[i] and reals[i] ~= olds[i] and line:find("[\"'-]") then
      return nil
    end
    out[#out + 1] = text
    if i < #news then
      local from_end = i - #news + #olds
      local e = i > #news - 1 - tail and ends[from_end] or (#olds == #news and ends[i]) or (i <= head and ends[i])
      if i > #news - 1 - tail and from_end > #ends then e = "" end -- the file's last line has no end
      out[#out + 1] = e or around
    end
  end
  return table.concat(out)
end

-- ---- step 4: indentation ----------------------------------------------------------------------

local function same_kind(list, sign)
  for _, s in ipairs(list) do
    if s:find("[^" .. sign .. "]") then return false end
  end
  return true
end

-- A function from old to file indentation, from pairs of matched lines; nil: there is no rule.
local function indent_rule(from, to)
  local exact = {}
  for i, s in ipairs(from) do
    if exact[s] and exact[s] ~= to[i] then return nil end
    exact[s] = to[i]
  end
  local deeper, shallower, ratio = true, true, nil
  local more = #to[1] >= #from[1] and to[1]:sub(1, #to[1] - #from[1]) or nil
  local less = #from[1] >= #to[1] and from[1]:sub(1, #from[1] - #to[1]) or nil
  for i, s in ipairs(from) do
    deeper = deeper and more and more .. s == to[i]
    shallower = shallower and less and less .. to[i] == s
  end
  local tabs_to_blanks = same_kind(from, "\t") and same_kind(to, " ")
  local blanks_to_tabs = same_kind(from, " ") and same_kind(to, "\t")
  for i, s in ipairs(from) do
    local wide, tabs = #s, #to[i]
    if tabs_to_blanks then wide, tabs = tabs, wide end
    if tabs > 0 then
      if ratio and ratio * tabs ~= wide then ratio = false end
      if ratio == nil then ratio = wide / tabs end
    end
  end
  return function(s)
    if exact[s] then return exact[s] end
    if deeper then return more .. s end
    if shallower then return s:sub(1, #less) == less and s:sub(#less + 1) or nil end
    if not ratio or ratio < 1 or ratio % 1 ~= 0 then return nil end
    local unit = math.tointeger(ratio)
    if blanks_to_tabs and not s:find("[^ ]") then
      return ("\t"):rep(#s // unit) .. (" "):rep(#s % unit)
    end
    if tabs_to_blanks and not s:find("[^\t]") then return (" "):rep(#s * unit) end
    return nil
  end
end

local function bare(s)
  s = rstrip(s)
  return s:sub(#indent_of(s) + 1)
end

-- Whole lines that are the same without blanks at both ends.
local function indented(file, old, new)
  local olds, news = pieces(old), pieces(new)
  local whole = olds[#olds] == "" and #olds > 1 -- the last line end is part of the old text
  if whole then olds[#olds] = nil end
  local wanted, form, starts, at = {}, {}, {}, 2
  for i, line in ipairs(olds) do wanted[i] = bare(line) end
  local needle = "\n" .. table.concat(wanted, "\n") .. "\n"
  if not needle:find("[^\n]") then return {} end
  for i, line in ipairs(file.lines) do
    form[i], starts[i] = bare(line), at
    at = at + #form[i] + 1
  end
  local places = M.find_plain("\n" .. table.concat(form, "\n") .. "\n", needle)
  if #places ~= 1 then
    local lines = {}
    for i, p in ipairs(places) do lines[i] = { file.starts[line_at(starts, p + 1)] } end
    return lines
  end
  local first = line_at(starts, places[1] + 1)
  local from, to = {}, {}
  for i, line in ipairs(olds) do
    if wanted[i] ~= "" then
      from[#from + 1], to[#to + 1] = indent_of(line), indent_of(file.lines[first + i - 1])
    end
  end
  local rule = indent_rule(from, to)
  if not rule then return {} end
  for i, line in ipairs(news) do
    if line:find("[^ \t]") then
      local indent = rule(indent_of(line))
      if not indent then return {} end
      news[i] = indent .. line:sub(#indent_of(line) + 1)
    end
  end
  local last = first + #olds - 1
  local stop = file.starts[last] + #file.lines[last] - 1
  if whole then stop = stop + #(file.ends[last] or "") end
  local region = { file.starts[first], stop }
  -- `dress` compares with what the file has, so that equal lines keep trailing blanks
  local shown = {}
  for i = 1, #olds do shown[i] = indent_of(file.lines[first + i - 1]) .. bare(olds[i]) end
  if whole then shown[#shown + 1] = "" end
  return { region }, table.concat(shown, "\n"), table.concat(news, "\n")
end

-- ---- step 6: pasted line numbers --------------------------------------------------------------

local PREFIX = { "^ *(%d+)\t(.*)$", "^ *(%d+)\u{2192}(.*)$", "^ *(%d+) ?|(.*)$", "^ *(%d+): ?(.*)$" }

-- The text without its numbers, which must be on each line and count up; nil: they aren't.
local function unnumbered(s)
  local lines = pieces(s)
  local last = #lines > 1 and lines[#lines] == "" and #lines - 1 or #lines
  for _, pattern in ipairs(PREFIX) do
    local out, previous = {}, nil
    for i = 1, last do
      local number, rest = lines[i]:match(pattern)
      number = tonumber(number)
      if not number or (previous and number ~= previous + 1) then break end
      out[i], previous = rest, number
    end
    if #out == last then
      if last < #lines then out[#out + 1] = "" end
      return table.concat(out, "\n")
    end
  end
  return nil
end

-- ---- the order --------------------------------------------------------------------------------

local function open(text)
  local lines, ends = pieces(text)
  local file = { text = text, lines = lines, ends = ends, starts = {} }
  local at = 1
  for i, line in ipairs(lines) do
    file.starts[i] = at
    at = at + #line + #(ends[i] or "")
  end
  file.virtual_end = lines[#lines] ~= ""
  return file
end

-- Steps 2 to 5.
local function tolerant(file, old, new, all)
  local order = { STEPS[1], STEPS[2], indented, STEPS[3] }
  for _, step in ipairs(order) do
    local list, name, shown, fresh
    if step == indented then
      list, shown, fresh = indented(file, old, new)
      name, step = "indentation", STEPS[2]
    else
      list, name = regions(file, old, step), step.name
    end
    if #list > 1 and not (all and step == STEPS[1]) then
      return nil, { places = list, forgiven = name }
    end
    for i, region in ipairs(list) do
      local text = dress(file, region, shown or old, fresh or new, step)
      if not text then return nil, { places = {}, signs = true } end
      list[i] = { region[1], region[2], text }
    end
    if #list > 0 then return list, name end
  end
  return nil, { places = {} }
end

-- Step 1; too many places or a text that took long come back as a failure.  New line ends in a file of CRLF are CRLF, unless the old text says otherwise.
local function exact(text, old, new, all)
  local places = {}
  local free = 0
  local slow = each_place(text, old, function(p)
    if not all or p >= free then places[#places + 1], free = p, p + #old end
    return #places < (all and M.most + 1 or MAX_PLACES)
  end)
  if #places > M.most then return nil, {}, { places = {}, many = true } end
  if #places == 0 and slow then return nil, {}, { places = {} } end
  if #places > 1 and not all then return nil, places end
  local convert = new:find("\n", 1, true) and not old:find("\n", 1, true) and not new:find("\r\n", 1, true)
  for i, p in ipairs(places) do
    local fresh = new
    if convert and end_near(text, p) == "\r\n" then fresh = new:gsub("\n", "\r\n") end
    places[i] = { p, p + #old - 1, fresh }
  end
  return places
end

---@class terret.match.failure
---@field places table[] several places that fit (none: nothing fits); [1] is the first byte
---@field forgiven string? the step that found them
---@field many boolean? there are more places than one edit may change
---@field signs boolean? a place fits, but the change touches signs that only Unicode has

---Where to put the new text: a list of {from, to, text} in order, not overlapping.
---@param text string the file
---@param old string not empty
---@param new string
---@param all boolean? every place instead of the only one
---@return {[1]: integer, [2]: integer, [3]: string}[]? edits
---@return string|nil|terret.match.failure forgiven the names of the steps, nil if it was exact
function M.find(text, old, new, all)
  local edits, places, failure = exact(text, old, new, all)
  if failure then return nil, failure end
  if not edits then
    local list = {}
    for i, p in ipairs(places) do list[i] = { p } end
    return nil, { places = list }
  end
  if #edits > 0 then return edits end
  local file = open(text)
  local list, why = tolerant(file, old, new, all)
  if list then return list, why end
  local plain_old = #why.places == 0 and not why.signs and unnumbered(old)
  if not plain_old or plain_old == "" then return nil, why end
  local plain_new = unnumbered(new) or new
  local found, _, too_many = exact(text, plain_old, plain_new, all)
  if found and #found > 0 then return found, "line numbers" end
  if not found then return nil, too_many or why end
  list, why = tolerant(file, plain_old, plain_new, all)
  if list then return list, "line numbers and " .. why end
  return nil, why
end

---The text with the edits made.
---@param text string
---@param edits {[1]: integer, [2]: integer, [3]: string}[]
---@return string
function M.apply(text, edits)
  local out, at = {}, 1
  for _, e in ipairs(edits) do
    out[#out + 1] = text:sub(at, e[1] - 1)
    out[#out + 1] = e[3]
    at = e[2] + 1
  end
  out[#out + 1] = text:sub(at)
  return table.concat(out)
end

M.ascii = ascii

return M

-- scripts/frontmatter.lua - terret.frontmatter: the block between two --- lines at the head of a
-- Markdown file.
--
-- Reads the part of YAML that people write there, by hand, and agrees with YAML where the text is
-- YAML: plain, quoted and block scalars, comments, lists, anchors of scalars.  What is not valid
-- YAML but has a plain meaning loads as it stands: an unquoted colon, a word in quotes at the
-- start, [BETA], an apostrophe.  Never raises, never recurses, runs in linear time; what it can't
-- read it names in `problems` and goes on.  Values stay text: no, 1e3 and null are words here.
local M = {}

local MAX_KEYS = 1000
local NULLS = { [""] = true, ["~"] = true, null = true, Null = true, NULL = true }

---@class terret.frontmatter.value
---@field kind "text"|"null"|"list"|"map"
---@field text string? of a text
---@field items string[]? of a list

-- ---- lines ------------------------------------------------------------------------------------

-- The lines of a text, their ends (LF, CRLF, or CR where there is no LF) taken off, and where
-- each begins.
local function split(text)
  local lines, starts, at = {}, {}, 1
  local stop = text:find("\n", 1, true) and "\n" or "\r"
  while at <= #text do
    local e = text:find(stop, at, true)
    local last = (e or #text + 1) - 1
    if last >= at and text:byte(last) == 13 then last = last - 1 end
    lines[#lines + 1] = text:sub(at, last)
    starts[#starts + 1] = at
    at = (e or #text) + 1
  end
  starts[#starts + 1] = at
  return lines, starts
end

local function indent_of(line)
  return #line:match("^[ \t]*")
end

local function blank(line)
  return not line:find("[^ \t]")
end

-- Without blanks at both ends.  (A pattern with two open ends is quadratic in long runs.)
local function trim(s)
  local from = s:find("[^ \t]")
  if not from then return "" end
  local to = #s
  while s:byte(to) == 32 or s:byte(to) == 9 do to = to - 1 end
  return s:sub(from, to)
end

-- Joins the lines of a flow scalar: a line end is a blank, n empty lines are n line ends.
local function fold(parts)
  local out, empty = {}, 0
  for _, part in ipairs(parts) do
    if part == "" then
      empty = empty + 1
    else
      if #out > 0 then out[#out + 1] = empty > 0 and ("\n"):rep(empty) or " " end
      out[#out + 1], empty = part, 0
    end
  end
  return table.concat(out)
end

-- ---- quoted scalars ---------------------------------------------------------------------------

local ESCAPES = { n = "\n", t = "\t", ["\t"] = "\t", r = "\r", ["0"] = "\0", a = "\a", b = "\b", e = "\27",
  f = "\f", v = "\v", [" "] = " ", ['"'] = '"', ["/"] = "/", ["\\"] = "\\", N = "\u{85}",
  _ = "\u{a0}", L = "\u{2028}", P = "\u{2029}" }
local HEX = { x = 2, u = 4, U = 8 }

local function code_point(n)
  return (n > 0x10FFFF or (n >= 0xD800 and n <= 0xDFFF)) and "\u{FFFD}" or utf8.char(n)
end

-- The text of a double-quoted scalar; false as second result: an escape that YAML hasn't.
local function unescape(s)
  local out, at, known = {}, 1, true
  while true do
    local b = s:find("\\", at, true)
    out[#out + 1] = s:sub(at, (b or #s + 1) - 1)
    if not b then break end
    local c = s:sub(b + 1, b + 1)
    local digits = HEX[c] and s:sub(b + 2, b + 1 + HEX[c]):match("^%x+$")
    at = b + 2
    if digits and #digits == HEX[c] then
      local n = tonumber(digits, 16)
      at = at + #digits
      local low = n >= 0xD800 and n < 0xDC00 and s:match("^\\u(%x%x%x%x)", at)
      low = low and tonumber(low, 16)
      if low and low >= 0xDC00 and low < 0xE000 then
        n, at = 0x10000 + ((n - 0xD800) << 10) + low - 0xDC00, at + 6
      end
      out[#out + 1] = code_point(n)
    elseif ESCAPES[c] then
      out[#out + 1] = ESCAPES[c]
    else
      out[#out + 1], known = "\\" .. c, false
    end
  end
  return table.concat(out), known
end

-- The place of the closing quote in s; `at` is behind the opening one.
local function closing(s, quote, at)
  while true do
    local e = s:find(quote == '"' and '[\\"]' or "'", at)
    if not e then return nil end
    local c = s:sub(e, e)
    if c == "\\" then at = e + 2
    elseif quote == "'" and s:sub(e + 1, e + 1) == "'" then at = e + 2
    else return e end
  end
end

-- Only blanks or a comment may follow a quoted scalar or a list.
local function nothing_after(rest)
  return blank(rest) or rest:find("^[ \t]+#") ~= nil
end

-- Folds the lines of a quoted scalar.  In double quotes a backslash before the line end joins two
-- lines without a blank.
local function join_quoted(parts, quote)
  if #parts == 1 then return parts[1] end
  local head = parts[1]:match("^[ \t]*")
  parts[1] = blank(parts[1]) and "" or head .. trim(parts[1])
  local joined = {}
  for n, part in ipairs(parts) do
    local previous = joined[#joined]
    local slashes = quote == '"' and n > 1 and #previous:match("\\*$") or 0
    if slashes % 2 == 1 then
      joined[#joined] = previous:sub(1, -2) .. part
    else
      joined[#joined + 1] = part
    end
  end
  return fold(joined)
end

-- A quoted scalar that begins line i; more lines are those that are indented or empty.
local function quoted(self, first, i)
  local quote, parts, last = first:sub(1, 1), { first:sub(2) }, i
  local at = closing(parts[1], quote, 1)
  while not at and last < self.last do
    local line = self.lines[last + 1]
    if not blank(line) and indent_of(line) <= self.indent then break end
    last = last + 1
    parts[#parts + 1] = trim(line)
    at = closing(parts[#parts], quote, 1) -- an escape never spans two lines
  end
  if not at or not nothing_after(parts[#parts]:sub(at + 1)) then return nil end
  parts[#parts] = parts[#parts]:sub(1, at - 1)
  local text, known = join_quoted(parts, quote), true
  if quote == '"' then text, known = unescape(text) else text = text:gsub("''", "'") end
  if not known then self:problem(i, "holds a backslash that YAML does not know; write \\\\ or use single quotes") end
  return { kind = "text", text = text }, last
end

-- ---- block scalars ----------------------------------------------------------------------------

-- > : single line ends between unindented lines are blanks.
local function fold_block(lines)
  local out, pending, previous = {}, 0, nil
  for _, line in ipairs(lines) do
    if line == "" then
      pending = pending + 1
    else
      local free = line:find("^[ \t]") ~= nil
      if previous == nil then
        out[#out + 1] = ("\n"):rep(pending)
      elseif free or previous then
        out[#out + 1] = ("\n"):rep(pending + 1)
      else
        out[#out + 1] = pending > 0 and ("\n"):rep(pending) or " "
      end
      out[#out + 1], pending, previous = line, 0, free
    end
  end
  return table.concat(out)
end

local function block(self, header, i)
  local style, flags = header:match("^([|>])([%d+-]*)[ \t]*$")
  if not style then style, flags = header:match("^([|>])([%d+-]*)[ \t]+#") end
  if not style or #flags > 2 then return nil end
  local digit, chomp = flags:match("[1-9]"), flags:match("[+-]")
  local depth = digit and self.indent + tonumber(digit) or nil
  local lines, last, filled = {}, i, 0
  while last < self.last do
    local line = self.lines[last + 1]
    if not blank(line) then
      local indent = indent_of(line)
      if indent <= self.indent then break end
      depth = depth or indent
      lines[#lines + 1] = line:sub(math.min(indent, depth) + 1)
      filled = #lines
    else
      lines[#lines + 1] = line:sub((depth or #line) + 1)
    end
    last = last + 1
  end
  local tail = #lines - filled
  for n = #lines, filled + 1, -1 do lines[n] = nil end
  local text = style == "|" and table.concat(lines, "\n") or fold_block(lines)
  if chomp == "+" then text = text .. ("\n"):rep(tail + (filled > 0 and 1 or 0))
  elseif chomp ~= "-" and filled > 0 then text = text .. "\n" end
  return { kind = "text", text = text }, last
end

-- ---- flow lists and maps ----------------------------------------------------------------------

-- [a, "b, c"]: one level of items, deeper ones as text.  nil: it doesn't close, or text follows.
local function flow(self, first, i)
  local parts, last = { first }, i
  while last < self.last and (blank(self.lines[last + 1]) or indent_of(self.lines[last + 1]) > self.indent) do
    last = last + 1
    parts[#parts + 1] = trim(self.lines[last])
  end
  local s, depth, at, from, items = table.concat(parts, " "), 0, 1, 2, {}
  while true do
    local e = s:find("[%[%]{},\"']", at)
    if not e then return nil end
    local c = s:sub(e, e)
    at = e + 1
    if (c == '"' or c == "'") and s:sub(math.max(1, e - 64), e - 1):find("[%[{,:][ \t]*$") then
      local stop = closing(s, c, at)
      if not stop then return nil end
      at = stop + 1
    elseif c == "[" or c == "{" then
      depth = depth + 1
    elseif c == "]" or c == "}" then
      depth = depth - 1
    end
    if (c == "," and depth == 1) or depth == 0 then
      local item = trim(s:sub(from, e - 1))
      local inner = item:match('^"(.*)"$')
      if inner then item = unescape(inner) end
      item = item:gsub("^'(.*)'$", function(t) return (t:gsub("''", "'")) end)
      if item ~= "" then items[#items + 1] = item end
      from = at
    end
    if depth == 0 then break end
  end
  if not nothing_after(s:sub(at)) then return nil end
  return { kind = first:sub(1, 1) == "[" and "list" or "map", items = items }, last
end

-- ---- plain scalars ----------------------------------------------------------------------------

-- What stands before a comment: a # behind a blank.
local function uncomment(self, s, i)
  local at = s:find("[ \t]#")
  if not at then return trim(s), false end
  if s:find("^#[%w]", at + 1) then
    self:problem(i, "the text from '#' on is a comment in YAML; put the value in quotes")
  end
  return trim(s:sub(1, at)), true
end

-- A plain scalar from `first` on; `raw`: as it stands, whatever it begins with.
local function plain(self, first, i, raw)
  local text, ended = first, false
  if not raw then text, ended = uncomment(self, first, i) end
  local parts, last = { text }, i
  while last < self.last do
    local line = self.lines[last + 1]
    if not blank(line) and indent_of(line) <= self.indent then break end
    if ended and not blank(line) then
      if not line:find("^[ \t]*#") then break end
    elseif not ended then
      local part = trim(line)
      if part:sub(1, 1) == "#" then
        ended = true
      elseif raw then
        parts[#parts + 1] = part
      else
        parts[#parts + 1], ended = uncomment(self, part, last + 1)
      end
    end
    last = last + 1
  end
  text = fold(parts)
  if not raw and NULLS[text] then return { kind = "null", text = text }, last end
  return { kind = "text", text = text }, last
end

-- ---- values and keys --------------------------------------------------------------------------

local value

-- Nothing stands behind the key: what is below it, if it is indented (a list may be flush).
local function below(self, i)
  local n = i + 1
  while n <= self.last and (blank(self.lines[n]) or self.lines[n]:find("^[ \t]*#")) do n = n + 1 end
  local line = n <= self.last and self.lines[n] or ""
  local indent = indent_of(line)
  local dash = line:find("^[ \t]*%-[ \t]") or line:find("^[ \t]*%-$")
  if line == "" or indent < self.indent or (indent == self.indent and not dash) then
    return { kind = "null", text = "" }, i
  end
  local last, items = n, {}
  local is_map = line:find("^[ \t]*[%w_.-]+:[ \t]") or line:find("^[ \t]*[%w_.-]+:$")
  if not dash and not is_map then
    local outer = self.lines[n]
    return value(self, trim(outer), n)
  end
  for k = n, self.last do
    local l = self.lines[k]
    if not blank(l) and not l:find("^[ \t]*#") then
      local depth = indent_of(l)
      local is_item = l:find("^[ \t]*%-[ \t]") or l:find("^[ \t]*%-$")
      if depth < indent or (depth == self.indent and not is_item) then break end
      if dash and depth == indent and is_item then
        items[#items + 1] = trim(trim(l):sub(2)):gsub("^[\"'](.*)[\"']$", "%1")
      end
    end
    last = k
  end
  return { kind = dash and "list" or "map", items = items }, last
end

local function as_it_stands(self, text, i, why)
  self:problem(i, why .. "; put the value in quotes")
  return plain(self, text, i, true)
end

function value(self, text, i)
  local anchor, after = text:match("^&([^ \t%[%]{},]+)[ \t]+(.+)$")
  if anchor and after:sub(1, 1) ~= "&" then
    local v, last = value(self, after, i)
    if v.kind == "text" then self.anchors[anchor] = v end
    return v, last
  end
  text = text:gsub("^!!str[ \t]+", "")
  if text == "" or text:sub(1, 1) == "#" or text:find("^&[^ \t]+$") then return below(self, i) end
  local c = text:sub(1, 1)
  local v, last
  if c == '"' or c == "'" then
    v, last = quoted(self, text, i)
    if not v then return as_it_stands(self, text, i, "the quote at the start does not close at the end") end
  elseif c == "|" or c == ">" then
    v, last = block(self, text, i)
    if not v then return as_it_stands(self, text, i, "text follows " .. c) end
  elseif c == "[" or c == "{" then
    v, last = flow(self, text, i)
    if not v then return as_it_stands(self, text, i, "the " .. c .. " at the start does not close at the end") end
  elseif c == "*" then
    v = self.anchors[trim(text:sub(2))]
    if not v then return as_it_stands(self, text, i, "starts with *, and there is no such anchor") end
    last = i
  elseif c == "!" then
    return as_it_stands(self, text, i, "starts with !, a tag; tags are not followed")
  elseif text:find("^[@`%%,%]}]") or text:find("^[-?:][ \t]") then
    return as_it_stands(self, text, i, "YAML does not let a plain value start with " .. c)
  else
    return plain(self, text, i)
  end
  return v, last
end

-- "key: rest" of a line, or nil.  A blank must follow the colon, or it is a problem.
local function key_of(self, line, i)
  local body = line:sub(self.indent + 1)
  local key, rest = body:match('^"([^"\\]+)"[ \t]*:(.*)$')
  if not key then key, rest = body:match("^'([^']+)'[ \t]*:(.*)$") end
  if not key then key, rest = body:match("^([%w_\x80-\xff][%w_. \x80-\xff-]*):(.*)$") end
  if not key or #key > 256 then return nil end
  if rest ~= "" and not rest:find("^[ \t]") then
    if rest:find("^//") or key:find(" ", 1, true) then return nil end
    self:problem(i, ("no blank behind '%s:'"):format(key))
  end
  return trim(key), trim(rest)
end

-- A line that is neither key nor comment: text that somebody did not indent.
local function stray(self, line, i, key)
  local v = key and self.fields[key]
  if v and v.kind == "text" then
    self:problem(i, ("is not indented; taken as more of '%s'"):format(key))
    v.text = v.text .. " " .. trim(line)
  else
    self:problem(i, "is no 'key: value'")
  end
end

local function fields(self)
  local i, count, current = 1, 0, nil
  for n = 1, self.last do
    local line = self.lines[n]
    if not blank(line) and not line:find("^[ \t]*#") then
      self.indent = indent_of(line)
      break
    end
  end
  while i <= self.last and #self.problems < 20 do
    local line = self.lines[i]
    if not blank(line) and not line:find("^[ \t]*#") then
      local key, rest = key_of(self, line, i)
      if indent_of(line) ~= self.indent then key = nil end
      if key then
        count = count + 1
        if count > MAX_KEYS then return self:problem(i, "has too many keys; the rest is not read") end
        local v
        v, i = value(self, rest, i)
        if self.fields[key] then self:problem(i, ("'%s' is given twice; the first counts"):format(key))
        else self.fields[key], current = v, key end
      else
        stray(self, line, i, current)
      end
    end
    i = i + 1
  end
end

-- ---- the fences -------------------------------------------------------------------------------

local reader = {}
function reader:problem(i, what)
  if #self.problems < 20 then
    self.problems[#self.problems + 1] = i and ("line %d: %s"):format(i + self.offset, what) or what
  end
end

local function fence(line)
  return line:find("^%-%-%-+[ \t]*$") ~= nil
end

-- Where no fence closes, the body must not be taken for keys: up to the first empty line.
local function close(self, open)
  for n = open + 1, #self.lines do
    local line = self.lines[n]
    if fence(line) or line:find("^%.%.%.[ \t]*$") then return n, true end
  end
  self:problem(nil, "the front matter has no closing ---")
  for n = open + 1, #self.lines do
    if blank(self.lines[n]) then return n, false end
  end
  return #self.lines + 1, false
end

-- Some write a JSON object between the fences.
local function json_fields(self, text)
  local found = require "terret.json".tolerant(text)
  if type(found) ~= "table" then return false end
  for k, v in pairs(found) do
    self.fields[tostring(k)] = type(v) == "string" and { kind = "text", text = v } or { kind = "map" }
  end
  return true
end

---@param text string a whole file, or its head
---@return {fields: table<string, terret.frontmatter.value>, problems: string[], body: integer, closed: boolean}
function M.parse(text)
  local self = setmetatable({ fields = {}, problems = {}, anchors = {}, indent = 0, offset = 0 },
    { __index = reader })
  local bom = text:sub(1, 3) == "\xEF\xBB\xBF" and 3 or 0
  if text:find("^\xFF\xFE") or text:find("^\xFE\xFF") then
    self:problem(nil, "the file is UTF-16; it must be UTF-8")
    return { fields = {}, problems = self.problems, body = 1, closed = false }
  end
  local starts
  -- The body isn't needed: no closing fence lies behind the first that is certainly one.
  local _, enough = text:find("\n%-%-%-[ \t]*\r?\n", bom + 4)
  self.lines, starts = split(text:sub(bom + 1, enough))
  local open = 1
  while self.lines[open] and blank(self.lines[open]) do open = open + 1 end
  local found = { fields = self.fields, problems = self.problems, body = bom + 1, closed = false }
  if not self.lines[open] or not fence(self.lines[open]) then
    self:problem(nil, #self.lines == 0 and "the file is empty" or "no front matter: the file does not start with ---")
    return found
  end
  if open > 1 then self:problem(nil, "empty lines stand before the first ---") end
  if #trim(self.lines[open]) > 3 then self:problem(nil, "the fence has more than three dashes") end
  local stop
  stop, found.closed = close(self, open)
  found.body = found.closed and bom + starts[stop + 1] or bom + starts[math.min(stop, #self.lines + 1)]
  local block_text = table.concat(self.lines, "\n", open + 1, stop - 1)
  self.lines, self.last, self.offset = table.move(self.lines, open + 1, stop - 1, 1, {}), stop - open - 1, open
  if not (block_text:find("^%s*{") and json_fields(self, block_text)) then fields(self) end
  return found
end

return M

-- scripts/shell/build.lua - terret.shell.build: words under construction, and quoting that holds no expansions.
local state = require "terret.shell.state"

local M = {}
local find, sub, byte, concat = string.find, string.sub, string.byte, table.concat
local fail, count = state.fail, state.count

-- A builder collects literal text and parts.
function M.builder() return { n = 0, buf = {}, nbuf = 0, parts = nil } end

local function lit(b, s)
  local n = b.nbuf + 1
  b.nbuf, b.buf[n] = n, s
end

local function flush(b)
  if b.nbuf > 0 then
    b.n = b.n + 1
    b.parts = b.parts or {}
    b.parts[b.n] = { k = "s", s = b.nbuf == 1 and b.buf[1] or concat(b.buf, "", 1, b.nbuf) }
    b.nbuf = 0
  end
end

function M.part(p, b, t)
  count(p)
  flush(b)
  b.n = b.n + 1
  b.parts = b.parts or {}
  b.parts[b.n] = t
  return t
end

-- The position of the quote that closes the one at `at`.
local function quote_end(src, at)
  local c = sub(src, at, at)
  if c == "'" then return find(src, "'", at + 1, true) end
  repeat
    at = find(src, c == '"' and '["\\]' or "[`\\]", at + 1)
    if at and byte(src, at) == 92 then at = at + 1 end
  until not at or sub(src, at, at) == c and byte(src, at - 1) ~= 92
  return at
end

-- Is the text after "((" arithmetic?  It is when the parenthesis that closes it is doubled.
-- Bash decides the same way.  Returns the position of the first closing one.
function M.arith_end(p, at)
  local src, depth = p.src, 0
  while true do
    local s = find(src, "[()'\"\\`]", at)
    state.spend(p, (s or #src) - at + 8)
    if not s then return nil end
    local c = byte(src, s)
    if c == 40 then
      depth = depth + 1
      if depth > p.shared.limits.max_depth then fail(p, "the command line is nested too deeply") end
    elseif c == 41 then
      if depth == 0 then return byte(src, s + 1) == 41 and s or nil end
      depth = depth - 1
    elseif c == 92 then
      s = s + 1
    else
      local e = quote_end(src, s)
      state.spend(p, (e or #src) - s)
      if not e then return nil end
      s = e
    end
    at = s + 1
  end
end

-- The escapes of $'...'.  A NUL ends the string in bash; such text is refused.
local simple_escapes = { a = "\a", b = "\b", e = "\27", E = "\27", f = "\f", n = "\n", r = "\r", t = "\t", v = "\v",
  ["\\"] = "\\", ["'"] = "'", ['"'] = '"', ["?"] = "?" }
---At $'...'.
function M.ansi_c(p, b)
  local src, at = p.src, p.pos + 2
  while true do
    local s = find(src, "['\\]", at)
    if not s then fail(p, "unfinished $'...'") end
    if s > at then lit(b, sub(src, at, s - 1)) end
    if byte(src, s) == 39 then
      p.pos = s + 1
      return lit(b, "")
    end
    local c = sub(src, s + 1, s + 1)
    local digits, code
    if simple_escapes[c] then
      lit(b, simple_escapes[c])
      at = s + 2
    else
      if c == "x" then
        digits = src:match("^%x%x?", s + 2)
        code, at = digits and tonumber(digits, 16), s + 2 + #(digits or "")
      elseif c == "u" or c == "U" then
        digits = src:match(c == "u" and "^%x%x?%x?%x?" or "^%x%x?%x?%x?%x?%x?%x?%x?", s + 2)
        code, at = digits and tonumber(digits, 16), s + 2 + #(digits or "")
      elseif find(c, "[0-7]") then
        local octal = src:match("^[0-7][0-7]?[0-7]?", s + 1)
        code, at = tonumber(octal, 8) & 255, s + 1 + #octal
      end
      if not code or code == 0 or code > 0x10FFFF then fail(p, "an escape in $'...' that is not plain") end
      lit(b, (c == "u" or c == "U") and utf8.char(code) or string.char(code))
    end
  end
end

---At a single quote.
function M.squote(p, b)
  local e = find(p.src, "'", p.pos + 1, true)
  if not e then fail(p, "unfinished single quote") end
  b.quoted = true
  lit(b, sub(p.src, p.pos + 1, e - 1))
  p.pos = e + 1
end

---A word out of what the builder holds.
function M.finish(p, b)
  count(p)
  if not b.parts then
    local text = b.nbuf == 1 and b.buf[1] or concat(b.buf, "", 1, b.nbuf)
    if not b.tilde then return { text = text, static = true, quoted = b.quoted } end
    return { text = text, static = false, quoted = b.quoted, tilde = true, parts = { { k = "t", s = text } } }
  end
  flush(b)
  return M.from_parts(b.parts, b)
end

---@param parts table[]
---@param flags {quoted: boolean?, tilde: boolean?}
function M.from_parts(parts, flags)
  local text, static, glob = {}, not flags.tilde, false
  for i, t in ipairs(parts) do
    if t.k == "s" or t.k == "t" then
      text[i] = t.s
      static = static and t.k == "s"
    else
      static = false
      glob = glob or t.k == "g"
      text[i] = t.k == "g" and t.s or t.k == "v" and "$" .. t.name or t.k == "p" and t.dir .. "(...)" or "$(...)"
    end
  end
  return { text = concat(text), static = static, parts = not static and parts or nil, quoted = flags.quoted,
    tilde = flags.tilde, glob = glob or nil }
end

M.lit, M.flush = lit, flush

return M

-- scripts/shell/brace.lua - terret.shell.brace: {a,b} and {1..3}, over the parts of a word.
--
-- The parts k = "{", "," and "}" mark unquoted braces.  Bash expands braces first of all, textually, so
-- everything else is opaque here.
local state = require "terret.shell.state"

local M = {}
local MAX = 1024 -- words out of one word

---The braces as plain text, literals joined.
function M.literal(parts)
  local out = {}
  for _, t in ipairs(parts) do
    local s = t.k == "s" and t.s or (t.k == "{" or t.k == "," or t.k == "}") and t.k
    local last = out[#out]
    if not s then
      out[#out + 1] = t
    elseif last and last.k == "s" then
      last.buf[#last.buf + 1] = s
    else
      out[#out + 1] = { k = "s", buf = { s } }
    end
  end
  for i, t in ipairs(out) do
    if t.buf then out[i] = { k = "s", s = table.concat(t.buf) } end
  end
  return out
end

-- {1..5}, {a..e}, {1..9..2}: the list of texts, or nil.
local function sequence(p, s)
  local from, to, step = s:match("^([+-]?%d+)%.%.([+-]?%d+)$")
  if not from then from, to, step = s:match("^([+-]?%d+)%.%.([+-]?%d+)%.%.([+-]?%d+)$") end
  local chars = not from
  if chars then
    from, to = s:match("^(%a)%.%.(%a)$")
    if not from then from, to, step = s:match("^(%a)%.%.(%a)%.%.([+-]?%d+)$") end
    if not from then return nil end
  end
  local padded = not chars and (from:find("^[+-]?0%d") or to:find("^[+-]?0%d"))
  local width = padded and math.max(#from, #to)
  local a = chars and from:byte() or math.tointeger(tonumber(from))
  local z = chars and to:byte() or math.tointeger(tonumber(to))
  local by = math.abs(math.tointeger(tonumber(step or "1")) or 1)
  if by == 0 then by = 1 end
  if not a or not z or math.abs(z - a) // by >= MAX or math.abs(a) > 1 << 53 or math.abs(z) > 1 << 53 then
    state.fail(p, "a brace expansion with too many words")
  end
  local out = {}
  for i = a, z, a <= z and by or -by do
    out[#out + 1] = chars and string.char(i) or width and string.format("%0" .. width .. "d", i) or tostring(i)
  end
  return out
end

-- The end of the brace that opens at i, and the positions of its commas; nil when it is not closed.
local function match(parts, i)
  local depth, commas = 0, {}
  for j = i, #parts do
    local k = parts[j].k
    if k == "{" then depth = depth + 1
    elseif k == "," and depth == 1 then commas[#commas + 1] = j
    elseif k == "}" then
      depth = depth - 1
      if depth == 0 then return j, commas end
    end
  end
end

local expand

local function product(p, heads, tails)
  if #heads * #tails > MAX then state.fail(p, "a brace expansion with too many words") end
  local out = {}
  for _, h in ipairs(heads) do
    for _, t in ipairs(tails) do
      state.spend(p, #h + #t)
      local w = table.move(h, 1, #h, 1, {})
      out[#out + 1] = table.move(t, 1, #t, #w + 1, w)
    end
  end
  return out
end

-- Parts from..to as a list of words (each a list of parts); second result: whether anything expanded.
function expand(p, parts, from, to, depth)
  if depth > 20 then state.fail(p, "braces nested too deeply") end
  local heads, any, i = { {} }, false, from
  while i <= to do
    local t = parts[i]
    local alternatives, stop = nil, i
    if t.k == "{" then
      state.spend(p, to - i)
      local e, commas = match(parts, i)
      if e and e <= to and #commas > 0 then
        alternatives, stop = {}, e
        commas[#commas + 1] = e
        local at = i + 1
        for _, c in ipairs(commas) do
          for _, w in ipairs(expand(p, parts, at, c - 1, depth + 1)) do alternatives[#alternatives + 1] = w end
          at = c + 1
        end
      elseif e and e == i + 2 and parts[i + 1].k == "s" then
        local texts = sequence(p, parts[i + 1].s)
        if texts then
          alternatives, stop = {}, e
          for n, s in ipairs(texts) do alternatives[n] = { { k = "s", s = s } } end
        end
      end
    end
    any = any or alternatives ~= nil
    heads = product(p, heads, alternatives or { { t } })
    i = stop + 1
  end
  return heads, any
end

---@return table[][]? words lists of parts; nil when nothing expands
function M.expand(p, parts)
  local words, any = expand(p, parts, 1, #parts, 0)
  if not any then return nil end
  for i, w in ipairs(words) do words[i] = M.literal(w) end
  return words
end

return M

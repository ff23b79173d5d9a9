-- scripts/search.lua - every place of a text in another, linear for hostile texts too.
--
-- Lua's own find does the work, by a piece of the text; where that finds too many places that aren't
-- any, Knuth, Morris and Pratt go on.

local HEAD = 64           -- bytes that plain find looks for
local BUDGET = 100000000  -- bytes compared behind heads before the fallback

local function kmp(text, needle, visit)
  local fail, k, n = { [0] = 0, [1] = 0 }, 0, #needle
  for i = 2, n do
    local c = needle:byte(i)
    while k > 0 and needle:byte(k + 1) ~= c do k = fail[k] end
    if needle:byte(k + 1) == c then k = k + 1 end
    fail[i] = k
  end
  k = 0
  for i = 1, #text do
    local c = text:byte(i)
    while k > 0 and (k == n or needle:byte(k + 1) ~= c) do k = fail[k] end
    if needle:byte(k + 1) == c then k = k + 1 end
    if k == n and not visit(i - n + 1) then return end
  end
end

-- The piece of the needle that comes latest in the text, and how far it is from the needle's start;
-- nil: one isn't there at all.
local function probe(text, needle)
  local n, best, offset = #needle, 0, 0
  if n <= HEAD then return needle, 0 end
  for _, o in ipairs { 0, (n - HEAD) // 2, n - HEAD } do
    local p = text:find(needle:sub(o + 1, o + HEAD), o + 1, true)
    if not p then return nil end
    if p - o > best then best, offset = p - o, o end
  end
  return needle:sub(offset + 1, offset + HEAD), offset
end

---Calls visit(place) for each place of needle, overlapping ones too, until it says false.
---@param text string
---@param needle string not empty
---@param visit fun(place: integer): boolean
---@return boolean? slow the text is so repetitive that this took long
return function(text, needle, visit)
  local piece, offset = probe(text, needle)
  local n, at, spent = #needle, 1, 0
  while piece do
    local p = text:find(piece, at + offset, true)
    if not p then return end
    p = p - offset
    if n <= HEAD or text:sub(p, p + n - 1) == needle then
      if not visit(p) then return end
    end
    spent, at = spent + (n > HEAD and n or 0), p + 1
    if spent > BUDGET then
      kmp(text:sub(at), needle, function(q) return visit(q + at - 1) end)
      return true
    end
  end
end

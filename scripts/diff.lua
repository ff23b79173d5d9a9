-- scripts/diff.lua - terret.diff: line diffs for approvals, /diff, undo and the answers of edit.
--
-- Equal heads and tails are skipped by comparing large pieces, so a small change in a large file
-- costs milliseconds.  The middle is Myers' O(ND) search over interned lines, up to a bound on D;
-- over it the middle becomes one block: still a correct diff, only not the shortest.
local text = require "terret.text"

local M = {}

local CHUNK = 65536
local MAX_D = 400       -- edits that the exact search looks for: at most D * D / 2 numbers are kept
local MAX_LINES = 200000 -- of the two middles together

-- The number of leading bytes that both have; by pieces, then by halves.
local function common_head(a, b)
  local max, at = math.min(#a, #b), 0
  while at < max and a:sub(at + 1, at + CHUNK) == b:sub(at + 1, at + CHUNK) do at = at + CHUNK end
  if at >= max then return max end
  local low, high = at, math.min(at + CHUNK, max)
  while low < high do
    local middle = (low + high + 1) // 2
    if a:sub(low + 1, middle) == b:sub(low + 1, middle) then low = middle else high = middle - 1 end
  end
  return low
end

local function common_tail(a, b, max)
  local at = 0
  while at < max do
    local n = math.min(CHUNK, max - at)
    if a:sub(-at - n, -at - 1) ~= b:sub(-at - n, -at - 1) then break end
    at = at + n
  end
  local low, high = at, math.min(at + CHUNK, max)
  while low < high do
    local middle = (low + high + 1) // 2
    if a:sub(-middle, -low - 1) == b:sub(-middle, -low - 1) then low = middle else high = middle - 1 end
  end
  return low
end

-- Lines with their ends, so that a missing last one is a difference.
local function split(s)
  local lines, at = {}, 1
  while at <= #s do
    local e = s:find("\n", at, true) or #s
    lines[#lines + 1] = s:sub(at, e)
    at = e + 1
  end
  return lines
end

-- The byte behind the last line end within s[1..n].
local function line_start(s, n)
  while n > 0 and s:byte(n) ~= 10 do n = n - 1 end
  return n
end

-- Whole lines around the bytes that differ: head bytes in common, and both middles.
local function middles(a, b)
  local head = line_start(a, common_head(a, b))
  local max = math.min(#a, #b) - head
  local tail = common_tail(a, b, max)
  -- The tail may only begin where a line begins in both.
  while tail > 0 and not ((tail == #a or a:byte(#a - tail) == 10) and (tail == #b or b:byte(#b - tail) == 10)) do
    local e = a:find("\n", #a - tail + 1, true)
    tail = e and #a - e or 0
  end
  return head, a:sub(head + 1, #a - tail), b:sub(head + 1, #b - tail), tail
end

-- Myers: furthest reaching paths per diagonal; `trace` keeps each round.  nil: over the bound.
local function search(a, b, max)
  local n, m, v, trace = #a, #b, { [1] = 0 }, {}
  for d = 0, max do
    local row = {}
    trace[d] = row
    for k = -d, d, 2 do
      local x
      if k == -d or (k ~= d and v[k - 1] < v[k + 1]) then x = v[k + 1] else x = v[k - 1] + 1 end
      local y = x - k
      while x < n and y < m and a[x + 1] == b[y + 1] do x, y = x + 1, y + 1 end
      v[k], row[k] = x, x
      if x >= n and y >= m then return trace, d end
    end
  end
  return nil
end

-- Walks the trace back: lists of deleted lines of a and added lines of b.
local function backtrack(trace, d, n, m)
  local gone, new, x, y = {}, {}, n, m
  for step = d, 1, -1 do
    local row, k = trace[step - 1], x - y
    local down = k == -step or (k ~= step and (row[k - 1] or -1) < (row[k + 1] or -1))
    local before = down and k + 1 or k - 1
    local px = row[before]
    local py = px - before
    if down then new[py + 1] = true else gone[px + 1] = true end
    x, y = px, py
  end
  return gone, new
end

local function all(n)
  local set = {}
  for i = 1, n do set[i] = true end
  return set
end

-- Which lines of a are gone and which of b are new.
local function compare(a, b, max_d)
  if #a == 0 or #b == 0 or #a + #b > MAX_LINES then return all(#a), all(#b) end
  local trace, d = search(a, b, max_d)
  if not trace then return all(#a), all(#b) end
  return backtrack(trace, d, #a, #b)
end

-- Runs of changes: {a = first line of a, na, b, nb}, lines counted from 1 in the middles.
local function runs(a, b, gone, new)
  local list, i, j = {}, 1, 1
  while i <= #a or j <= #b do
    if gone[i] or new[j] then
      local run = { a = i, b = j, na = 0, nb = 0 }
      while gone[i] do i, run.na = i + 1, run.na + 1 end
      while new[j] do j, run.nb = j + 1, run.nb + 1 end
      list[#list + 1] = run
    else
      i, j = i + 1, j + 1
    end
  end
  return list
end

local function changes(old, new, options)
  local head, a, b, tail = middles(old, new)
  a, b = split(a), split(b)
  local gone, added = compare(a, b, options and options.max_d or MAX_D)
  return runs(a, b, gone, added), a, b, head, tail
end

-- Up to n lines just before / behind the middle, from the old text.
local function context_before(old, head, n)
  local at = head
  for _ = 1, n do
    if at == 0 then break end
    at = line_start(old, at - 1)
  end
  return split(old:sub(at + 1, head))
end

local function context_after(old, tail, n)
  local from = #old - tail + 1
  local at = from
  for _ = 1, n do
    local e = old:find("\n", at, true)
    at = e and e + 1 or #old + 1
    if not e then break end
  end
  return split(old:sub(from, at - 1))
end

local function put(out, sign, line)
  if line:sub(-1) == "\n" then
    out[#out + 1] = sign .. line
  else
    out[#out + 1] = sign .. line .. "\n\\ No newline at end of file\n"
  end
end

local function range(first, count)
  if count == 0 then return ("%d,0"):format(first - 1) end
  return count == 1 and tostring(first) or ("%d,%d"):format(first, count)
end

-- One hunk of the runs from..to; `shift` lines stand before the middles in both texts.
local function hunk(out, list, from, to, a, context)
  local first, last = list[from], list[to]
  local start = math.max(first.a - context, a.first)
  local stop = math.min(last.a + last.na - 1 + context, a.last)
  local old_count, new_count, body = stop - start + 1, 0, {}
  local i = start
  for n = from, to do
    local run = list[n]
    while i < run.a do
      put(body, " ", a[i])
      i, new_count = i + 1, new_count + 1
    end
    for k = 0, run.na - 1 do put(body, "-", a[run.a + k]) end
    for k = 0, run.nb - 1 do put(body, "+", run.lines[run.b + k]) end
    i, new_count = run.a + run.na, new_count + run.nb
  end
  while i <= stop do
    put(body, " ", a[i])
    i, new_count = i + 1, new_count + 1
  end
  local new_start = first.b - (first.a - start)
  out[#out + 1] = ("@@ -%s +%s @@\n"):format(range(start + a.shift, old_count), range(new_start + a.shift, new_count))
  out[#out + 1] = table.concat(body)
end

---A unified diff; "" when there is no difference.
---@param old string
---@param new string
---@param options {path: string?, context: integer?, max_d: integer?}? path: for the two head lines
---@return string
function M.unified(old, new, options)
  options = options or {}
  if old == new then return "" end
  local context = options.context or 3
  local list, a, b, head, tail = changes(old, new, options)
  local before, after = context_before(old, head, context), context_after(old, tail, context)
  a.shift = text.count_lines(old:sub(1, head))
  a.first, a.last = 1 - #before, #a + #after
  for _, line in ipairs(after) do a[#a + 1] = line end
  for i, line in ipairs(before) do a[i - #before] = line end
  local out, from = {}, 1
  if options.path then out[1] = ("--- a/%s\n+++ b/%s\n"):format(options.path, options.path) end
  for n, run in ipairs(list) do
    run.lines = b
    local following = list[n + 1]
    if not following or following.a - (run.a + run.na) > 2 * context then
      hunk(out, list, from, n, a, context)
      from = n + 1
    end
  end
  return table.concat(out)
end

---@param old string
---@param new string
---@param options {max_d: integer?}?
---@return integer added lines
---@return integer removed lines
function M.stat(old, new, options)
  local added, removed = 0, 0
  if old == new then return 0, 0 end
  for _, run in ipairs((changes(old, new, options))) do
    added, removed = added + run.nb, removed + run.na
  end
  return added, removed
end

return M

-- scripts/shell/word.lua - terret.shell.word: words, quotes and expansions; half of the parser.
--
-- Every function takes the parser state p = {src, pos, depth, shared, ...} and moves p.pos.  Mistakes and
-- everything ambiguous leave by state.fail, which raises a table that only parse.run catches.
local state = require "terret.shell.state"
local brace = require "terret.shell.brace"
local build = require "terret.shell.build"

local M = {}
local find, sub, byte, concat = string.find, string.sub, string.byte, table.concat
local fail, count, enter, leave = state.fail, state.count, state.enter, state.leave
local builder, lit, flush, part, ansi_c = build.builder, build.lit, build.flush, build.part, build.ansi_c
local arith_end = build.arith_end

local list -- the grammar's function for lists, set by parse.lua (the two recurse into each other)
function M.set_list(f) list = f end

---A child parser over other text (backquotes, here-documents) that shares the budget.
local function child(p, text)
  return { src = text, pos = 1, depth = p.depth, shared = p.shared, odd = p.odd }
end

-- The list inside $( ), <( ), ` `.
local function nested_list(p, closer)
  enter(p)
  local saved, outer = p.heredocs, p.outer_pending
  p.outer_pending = outer or (saved and #saved > 0)
  p.heredocs = {}
  local body = list(p, closer)
  if #p.heredocs > 0 then fail(p, "a here-document starts in a substitution and ends outside it") end
  p.heredocs, p.outer_pending = saved, outer
  if closer then
    if byte(p.src, p.pos) ~= 41 then fail(p, "unfinished command substitution") end
    p.pos = p.pos + 1
  elseif p.pos <= #p.src then
    fail(p, "unexpected text in backquotes")
  end
  leave(p)
  return body
end

local function backquote(p, b, dq)
  local src, from = p.src, p.pos + 1
  local at, out, n = from, {}, 0
  while true do
    local s = find(src, "[`\\]", at)
    if not s then fail(p, "unfinished backquotes") end
    if byte(src, s) == 96 then
      n = n + 1
      out[n] = sub(src, at, s - 1)
      p.pos = s + 1
      break
    end
    local c = sub(src, s + 1, s + 1)
    local drops = c == "`" or c == "\\" or c == "$" or (dq and c == '"')
    out[n + 1], out[n + 2] = sub(src, at, s - 1), drops and c or "\\" .. c
    n, at = n + 2, s + 2
  end
  local text = concat(out)
  state.spend(p, #text)
  part(p, b, { k = "c", q = dq, body = nested_list(child(p, text), nil) })
end

local dollar, dquote, arith

-- The word inside ${name:-word}: up to the brace that closes it.
local function brace_word(p, dq)
  local b, closing = builder(), nil
  enter(p)
  while true do
    local s = find(p.src, "[}'\"\\$`<>]", p.pos)
    if not s then fail(p, "unfinished ${...}") end
    if s > p.pos then lit(b, sub(p.src, p.pos, s - 1)) end
    p.pos = s
    local c = byte(p.src, s)
    if c == 125 then
      break
    elseif c == 39 then
      local e = closing == s and s or find(p.src, "'", s + 1, true)
      if not e then fail(p, "unfinished single quote") end
      if dq then
        -- Bash reads quotes in "${x#'..'}" and "${x:-'..'}" by different rules: only plain text is clear.
        if find(sub(p.src, s + 1, e - 1), '[}"\\]') then fail(p, "single quotes inside \"${...}\"") end
        closing = e
        lit(b, "'")
        p.pos = s + 1
      else
        lit(b, sub(p.src, s + 1, e - 1))
        p.pos = e + 1
      end
    elseif c == 34 then
      dquote(p, b)
    elseif c == 92 then
      local n = sub(p.src, s + 1, s + 1)
      if n ~= "\n" then lit(b, n) end
      p.pos = s + 2
    elseif c == 36 then
      dollar(p, b, dq)
    elseif c == 96 then
      backquote(p, b, dq)
    elseif not dq and byte(p.src, s + 1) == 40 then
      M.process(p, b)
    else
      lit(b, sub(p.src, s, s))
      p.pos = s + 1
    end
  end
  leave(p)
  p.pos = p.pos + 1
  return build.finish(p, b)
end

-- After "${".  The part keeps name, op, what is indirect, and every word or arithmetic text inside.
local parameter
function parameter(p, b, dq)
  local src, at = p.src, p.pos + 2
  if find(src, "^[%s|]", at) then fail(p, "${ command; }") end
  local cut = select(2, find(src, "^[#!]?[%w_]*\\\n", at))
  if cut then
    state.splice(p, cut - 1)
    return parameter(p, b, dq)
  end
  local t = { k = "v", q = dq }
  local prefix = src:match("^[#!]", at)
  if prefix and find(src, "^[%w_@*#?$!-]", at + 1) and not (prefix == "#" and find(src, "^[-?#!$@*]?[^%w_}@*]", at + 1)
      and not find(src, "^[%w_]", at + 1)) then
    t.indirect, t.length = prefix == "!", prefix == "#"
    at = at + 1
  end
  local name = src:match("^[%a_][%w_]*", at) or src:match("^%d+", at) or src:match("^[@*#?$!-]", at)
  if not name then fail(p, "bad substitution") end
  t.name, at = name, at + #name
  p.pos = at
  if byte(src, at) == 91 then
    p.pos = at + 1
    t.index = arith(p, "]")
    at = p.pos
  end
  local op = src:match("^:?[-=+?]", at) or src:match("^##?", at) or src:match("^%%%%?", at) or src:match("^//?", at)
    or src:match("^%^%^?", at) or src:match("^,,?", at) or src:match("^@", at) or src:match("^:", at)
  if find(src, "^}", at) then
    p.pos = at + 1
  elseif t.indirect and find(src, "^[*@]}", at) then
    t.names, t.indirect, p.pos = true, false, at + 2
  elseif op == "@" then
    local letter = src:match("^@([UuLQEPAKak])}", at)
    if not letter then fail(p, "bad substitution") end
    t.op, p.pos = "@" .. letter, at + 3
  elseif op == ":" then
    t.op, p.pos = ":", at + 1
    t.offset = arith(p, "}")
  elseif op then
    t.op, p.pos = op, at + #op
    t.word = brace_word(p, dq)
  else
    fail(p, "bad substitution")
  end
  if name == "@" or t.names or (t.index and t.index.text:find("^%s*@")) then t.q, t.many = false, true end
  part(p, b, t)
end

---At "$": adds an expansion, or a literal dollar.
function dollar(p, b, dq)
  local src, pos = p.src, p.pos
  local c = byte(src, pos + 1)
  if c == 92 and byte(src, pos + 2) == 10 then
    state.splice(p, pos + 1)
    return dollar(p, b, dq)
  end
  if c == 40 then
    if byte(src, pos + 2) == 40 then
      local e = arith_end(p, pos + 3)
      if e then
        p.pos = pos + 3
        local t = arith(p, "))")
        if p.pos ~= e + 2 then fail(p, "unbalanced arithmetic") end
        t.q = dq
        return part(p, b, t)
      end
    end
    p.pos = pos + 2
    return part(p, b, { k = "c", q = dq, body = nested_list(p, ")") })
  elseif c == 123 then
    return parameter(p, b, dq)
  elseif c == 91 then
    p.pos = pos + 2
    local t = arith(p, "]")
    t.q = dq
    return part(p, b, t)
  elseif c == 39 and not dq then
    state.bashism(p, "$'...'")
    b.quoted = true
    return ansi_c(p, b)
  elseif c == 34 and not dq then
    state.bashism(p, '$"..."')
    b.quoted = true
    p.pos = pos + 1
    return dquote(p, b)
  end
  local name = src:match("^[%a_][%w_]*", pos + 1) or src:match("^[%d@*#?$!-]", pos + 1)
  if name then
    local after = pos + 1 + #name
    if find(src, "^\\\n[%w_]", after) and find(name, "^[%a_]") then
      state.splice(p, after)
      return dollar(p, b, dq)
    end
    p.pos = after
    -- "$@" is many words, quoted or not.
    return part(p, b, { k = "v", name = name, q = dq and name ~= "@", many = name == "@" })
  end
  lit(b, "$")
  p.pos = pos + 1
end

---At the opening double quote.
function dquote(p, b)
  local opened = p.pos
  p.pos = opened + 1
  b.quoted = true
  lit(b, "")
  enter(p)
  while true do
    local src, pos = p.src, p.pos
    local s = find(src, '["\\$`]', pos)
    if not s then fail(p, "unfinished double quote") end
    if s > pos then lit(b, sub(src, pos, s - 1)) end
    p.pos = s
    local c = byte(src, s)
    if c == 34 then
      p.pos = s + 1
      return leave(p)
    elseif c == 92 then
      local n = sub(src, s + 1, s + 1)
      if n ~= "\n" then lit(b, find(n, '[$`"\\]') and n or "\\" .. n) end
      p.pos = s + 2
    elseif c == 36 then
      dollar(p, b, true)
    else
      backquote(p, b, true)
    end
  end
end

---Arithmetic up to `stop` ("))", "]", "}", ";" or nil for the end).  What is quoted becomes part of the text, since
---bash evaluates it once more.
function arith(p, stop)
  local b, depth, brackets = builder(), 0, 0
  enter(p)
  while true do
    local s = find(p.src, "[()%[%]}'\"\\$`;]", p.pos)
    if not s and stop then fail(p, "unfinished arithmetic") end
    s = s or #p.src + 1
    if s > p.pos then lit(b, sub(p.src, p.pos, s - 1)) end
    p.pos = s
    if s > #p.src then break end
    local c = sub(p.src, s, s)
    local closes = depth == 0 and brackets == 0
    if closes and (c == stop or (stop == "))" and c == ")" and byte(p.src, s + 1) == 41)
        or (stop == ";" and c == ")")) then break end
    if c == "$" then
      dollar(p, b, true)
    elseif c == "`" then
      backquote(p, b, true)
    elseif c == '"' then
      dquote(p, b)
    elseif c == "'" then
      -- A quote or a plain character, by the context: only what reads the same both ways is clear.
      local e = find(p.src, "'", s + 1, true)
      if not e or find(sub(p.src, s + 1, e - 1), "[][(){}\"$`\\;\n]") then fail(p, "quotes in arithmetic") end
      lit(b, sub(p.src, s + 1, e - 1))
      p.pos = e + 1
    else
      if c == "(" then depth = depth + 1
      elseif c == ")" then depth = depth - 1
      elseif c == "[" then brackets = brackets + 1
      elseif c == "]" then brackets = brackets - 1
      elseif c == "}" or c == ";" then fail(p, "not arithmetic") end
      if depth < 0 or brackets < 0 then fail(p, "unbalanced arithmetic") end
      if c == "\\" then
        p.pos = s + (byte(p.src, s + 1) == 10 and 2 or 1)
      else
        lit(b, c)
        p.pos = s + 1
      end
    end
  end
  leave(p)
  if stop and stop ~= ";" then p.pos = p.pos + #stop end
  flush(b)
  local text = {}
  for i, t in ipairs(b.parts or {}) do text[i] = t.k == "s" and t.s or " " end
  return { k = "a", text = concat(text), parts = b.parts or {} }
end
M.arith, M.arith_end, M.from_parts = arith, arith_end, build.from_parts

---At "<(" or ">(".
function M.process(p, b)
  local dir = sub(p.src, p.pos, p.pos)
  state.bashism(p, dir .. "(...)")
  p.pos = p.pos + 2
  part(p, b, { k = "p", q = true, dir = dir, body = nested_list(p, ")") })
end

-- An extended glob or a parenthesis in a regular expression: up to the closing one.
local function pattern_group(p, b)
  local depth = 0
  part(p, b, { k = "g", s = "" })
  repeat
    local s = find(p.src, "[()'\"\\$`<>\n]", p.pos)
    if not s then fail(p, "unfinished pattern") end
    if s > p.pos then lit(b, sub(p.src, p.pos, s - 1)) end
    p.pos = s
    local c = byte(p.src, s)
    if c == 39 then build.squote(p, b)
    elseif c == 34 then dquote(p, b)
    elseif c == 36 then dollar(p, b, false)
    elseif c == 96 then backquote(p, b, false)
    elseif c == 92 then
      lit(b, sub(p.src, s + 1, s + 1))
      p.pos = s + 2
    elseif (c == 60 or c == 62) and byte(p.src, s + 1) == 40 then M.process(p, b)
    elseif c == 10 then fail(p, "a line end in a pattern")
    else
      if c == 40 then depth = depth + 1 elseif c == 41 then depth = depth - 1 end
      lit(b, sub(p.src, s, s))
      p.pos = s + 1
    end
  until depth == 0
end

local function glob_char(p, b, c)
  part(p, b, { k = "g", s = c })
  p.pos = p.pos + 1
end

---Reads a word.  Returns the word, or a list of words when braces expand (only with `braces`).
---@param p table
---@param mode string? "cmd": first word of a command; "regex": after =~; "value": of an assignment
---@param braces boolean? expand them
function M.word(p, mode, braces)
  local src = p.src
  -- The usual word has nothing to expand.
  local s, e = find(src, "^[%w_./:@%%+,=-]+", p.pos)
  if e and (e == #src or find(src, "^[ \n;|&)]", e + 1)) then
    p.pos = e + 1
    count(p)
    return { text = sub(src, s, e), static = true, bare = true }
  end
  local b, braces_open, escaped_at = builder(), 0, 0
  local start = p.pos
  while true do
    src = p.src
    local pos = p.pos
    s, e = find(src, "^[%w_./:@%%+=-]+", pos)
    if s then
      lit(b, sub(src, s, e))
      p.pos = e + 1
    else
      local c = byte(src, pos)
      if c == nil or c == 32 or c == 9 or c == 10 or c == 59 then
        if mode ~= "regex" or c ~= 59 then break end
        fail(p, "; in a regular expression")
      elseif c == 39 then
        build.squote(p, b)
      elseif c == 34 then
        dquote(p, b)
      elseif c == 92 then
        local n = sub(src, pos + 1, pos + 1)
        if n == "" then fail(p, "a backslash at the end") end
        if n ~= "\n" then
          state.check_odd(p, n)
          lit(b, n)
          b.quoted = true
        end
        p.pos = pos + 2
        escaped_at = pos + 1
      elseif c == 36 then
        dollar(p, b, false)
      elseif c == 96 then
        backquote(p, b, false)
      elseif c == 60 or c == 62 then
        if byte(src, pos + 1) ~= 40 or mode == "regex" then break end
        M.process(p, b)
      elseif c == 40 then
        local before = pos > start and pos - 1 ~= escaped_at and sub(src, pos - 1, pos - 1)
        if mode == "regex" then
          pattern_group(p, b)
        elseif before and find(before, "[?*+@!]") then
          if mode == "cmd" then fail(p, "an extended pattern as command") end
          state.bashism(p, "extended pattern")
          pattern_group(p, b)
        else
          break
        end
      elseif c == 38 or c == 41 or c == 124 then
        if c ~= 124 or mode ~= "regex" then break end
        glob_char(p, b, "|")
      elseif c == 91 and (pos == #src or find(src, "^[%s;|&[]", pos + 1)) then -- [ and [[ are text
        local _, last = find(src, "^%[+", pos)
        lit(b, sub(src, pos, last))
        p.pos = last + 1
      elseif c == 42 or c == 63 or c == 91 then
        glob_char(p, b, sub(src, pos, pos))
      elseif c == 123 and braces then
        part(p, b, { k = "{" })
        braces_open, b.brace, p.pos = braces_open + 1, true, pos + 1
      elseif (c == 44 or c == 125) and braces and braces_open > 0 then
        part(p, b, { k = c == 44 and "," or "}" })
        braces_open, p.pos = c == 44 and braces_open or braces_open - 1, pos + 1
      elseif c == 126 and (pos == start or (mode == "value" and byte(src, pos - 1) == 58)) then
        b.tilde = true
        lit(b, "~")
        p.pos = pos + 1
      else
        s, e = find(src, "^[^%s;&|()<>'\"\\$`*?%[{},~]+", pos)
        if not s then s, e = pos, pos end
        state.check_odd(p, sub(src, s, e))
        lit(b, sub(src, s, e))
        p.pos = e + 1
      end
    end
  end
  if p.pos == start then return nil end
  if not b.brace then return build.finish(p, b) end
  flush(b)
  local words = brace.expand(p, b.parts)
  if not words then -- nothing to expand: the braces are text
    return build.from_parts(brace.literal(b.parts), b)
  end
  state.bashism(p, "{a,b}")
  local out = {}
  for _, parts in ipairs(words) do
    count(p)
    local w = build.from_parts(parts, b)
    w.expanded = true
    -- What is empty and was not quoted is no word at all.
    if w.text ~= "" or not w.static then out[#out + 1] = w
    elseif b.quoted then
      out[#out + 1] = { text = "", static = false, parts = { { k = "v", name = "_" } } }
    end
  end
  return out, true
end

---The body of an unquoted here-document: a word with everything quoted.
function M.heredoc(p, text)
  local q, b = child(p, text), builder()
  enter(q)
  while true do
    local s = find(q.src, "[\\$`]", q.pos)
    if not s then
      lit(b, sub(q.src, q.pos))
      break
    end
    if s > q.pos then lit(b, sub(q.src, q.pos, s - 1)) end
    q.pos = s
    local c = byte(q.src, s)
    if c == 36 then dollar(q, b, true)
    elseif c == 96 then backquote(q, b, true)
    else
      local n = sub(q.src, s + 1, s + 1)
      if n ~= "\n" then lit(b, find(n, "[$`\\]") and n or "\\" .. n) end
      q.pos = s + 2
    end
  end
  b.quoted = true
  return build.finish(p, b)
end

return M

-- scripts/shell/compound.lua - terret.shell.compound: if, loops, case, functions, coproc and [[ ]].
--
-- A table from the reserved word to the function that parses what follows it.  The grammar's other functions
-- come in by bind(), since the two recurse into each other.
local state = require "terret.shell.state"
local word = require "terret.shell.word"

local find, sub, byte = string.find, string.sub, string.byte
local fail = state.fail

local compound = {}
local list, command, skip, newlines, line_end, peek_reserved, expect, function_body, reserved

---@param g table functions of parse.lua
function compound.bind(g)
  list, command, skip, newlines, line_end = g.list, g.command, g.skip, g.newlines, g.line_end
  peek_reserved, expect, function_body, reserved = g.peek_reserved, g.expect, g.function_body, g.reserved
end

local function do_group(p)
  newlines(p)
  if peek_reserved(p) == "{" then
    p.pos = p.pos + 1
    local body = list(p, "}")
    expect(p, "}")
    return body
  end
  expect(p, "do")
  local body = list(p, "done")
  expect(p, "done")
  return body
end

compound["if"] = function(p)
  local lists = { list(p, "then") }
  expect(p, "then")
  while true do
    lists[#lists + 1] = list(p, "fi")
    local w = peek_reserved(p)
    if w == "elif" then
      p.pos = p.pos + 4
      lists[#lists + 1] = list(p, "then")
      expect(p, "then")
    elseif w == "else" then
      p.pos = p.pos + 4
      lists[#lists + 1] = list(p, "fi")
      expect(p, "fi")
      break
    else
      expect(p, "fi")
      break
    end
  end
  return { type = "branch", lists = lists }
end

local function loop(p)
  local test = list(p, "do")
  expect(p, "do")
  local body = list(p, "done")
  expect(p, "done")
  return { type = "loop", lists = { test, body } }
end
compound["while"], compound["until"] = loop, loop

local function for_loop(p, kind)
  if skip(p) == 40 then
    if kind ~= "for" or byte(p.src, p.pos + 1) ~= 40 then fail(p, "unexpected (") end
    p.pos = p.pos + 2
    local exprs = {}
    for i = 1, 3 do
      exprs[i] = word.arith(p, ";")
      if byte(p.src, p.pos) == (i < 3 and 59 or 41) then p.pos = p.pos + 1 else fail(p, "unfinished for ((") end
    end
    if byte(p.src, p.pos) ~= 41 then fail(p, "unfinished for ((") end
    p.pos = p.pos + 1
    if skip(p) == 59 then p.pos = p.pos + 1 end
    state.bashism(p, "for ((")
    return { type = "arith", arith = exprs, lists = { do_group(p) } }
  end
  local name = p.src:match("^[%a_][%w_]*", p.pos)
  if not name then fail(p, "the name of a variable expected") end
  p.pos = p.pos + #name
  local node = { type = kind, name = name }
  if not find(p.src, "^[%s;]", p.pos) then fail(p, "the name of a variable expected") end
  if newlines(p) == 59 then
    p.pos = p.pos + 1
  elseif peek_reserved(p) == "in" then
    p.pos = p.pos + 2
    local words = {}
    while true do
      local c = skip(p)
      if c == 59 or c == 10 then break end
      local w, many = word.word(p, nil, true)
      if not w then fail(p, "unfinished for") end
      if many then table.move(w, 1, #w, #words + 1, words) else words[#words + 1] = w end
    end
    if byte(p.src, p.pos) == 10 then line_end(p) else p.pos = p.pos + 1 end
    node.words = words
  end
  node.lists = { do_group(p) }
  return node
end
compound["for"] = function(p) return for_loop(p, "for") end
compound["select"] = function(p)
  state.bashism(p, "select")
  return for_loop(p, "select")
end

compound["case"] = function(p)
  skip(p)
  local node = { type = "case", word = word.word(p) or fail(p, "case without word"), patterns = {}, lists = {} }
  expect(p, "in")
  while true do
    local c = newlines(p)
    if peek_reserved(p) == "esac" then break end
    if c == 40 then
      p.pos = p.pos + 1
      skip(p)
    end
    repeat
      skip(p)
      local w = word.word(p) or fail(p, "a pattern expected")
      node.patterns[#node.patterns + 1] = w
      c = skip(p)
      p.pos = p.pos + 1
    until c ~= 124
    if c ~= 41 then fail(p, "')' expected after a pattern") end
    newlines(p)
    if peek_reserved(p) ~= "esac" and sub(p.src, p.pos, p.pos + 1) ~= ";;" then
      node.lists[#node.lists + 1] = list(p, "esac", true)
    end
    newlines(p)
    local _, e = find(p.src, "^;;?&?", p.pos)
    if e and (e > p.pos) then
      p.pos = e + 1
    elseif peek_reserved(p) ~= "esac" then
      fail(p, "unfinished case")
    end
  end
  expect(p, "esac")
  return node
end

compound["function"] = function(p)
  skip(p)
  local w = word.word(p)
  if not (w and w.static and not w.quoted) then fail(p, "the name of a function expected") end
  skip(p)
  local _, e = find(p.src, "^%([ \t]*%)", p.pos)
  if e then p.pos = e + 1 end
  state.bashism(p, "function")
  return function_body(p, w.text)
end

compound["{"] = function(p)
  local body = list(p, "}")
  expect(p, "}")
  return { type = "group", lists = { body } }
end

compound["coproc"] = function(p)
  state.bashism(p, "coproc")
  skip(p)
  local name, after = p.src:match("^([%a_][%w_]*)[ \t]+()", p.pos)
  if name and not reserved[name] then
    local at = p.pos
    p.pos = after
    local w = peek_reserved(p)
    if byte(p.src, p.pos) == 40 or (w and w ~= "}" and w ~= "in") then
      return { type = "coproc", name = name, body = command(p) }
    end
    p.pos = at
  end
  return { type = "coproc", body = command(p) or fail(p, "coproc without command") }
end

local arith_ops = { ["-eq"] = true, ["-ne"] = true, ["-lt"] = true, ["-le"] = true, ["-gt"] = true, ["-ge"] = true }
compound["[["] = function(p)
  local node = { type = "cond", words = {}, arith_words = {} }
  local depth, last = 0, nil
  state.bashism(p, "[[")
  while true do
    local c = newlines(p)
    if c == nil then fail(p, "unfinished [[") end
    local _, e = find(p.src, "^[&|][&|]", p.pos)
    if e then
      if byte(p.src, p.pos) ~= byte(p.src, e) then fail(p, "unexpected operator in [[") end
      p.pos, last = e + 1, nil
    elseif c == 40 or c == 41 then
      depth = depth + (c == 40 and 1 or -1)
      if depth < 0 then fail(p, "unexpected ) in [[") end
      p.pos, last = p.pos + 1, nil
    elseif (c == 60 or c == 62) and byte(p.src, p.pos + 1) ~= 40 then
      p.pos, last = p.pos + 1, nil
    else
      local op = last and last.static and not last.quoted and last.text
      local w = word.word(p, op == "=~" and "regex" or nil) or fail(p, "unexpected character in [[")
      if w.text == "]]" and w.static and not w.quoted then break end
      node.words[#node.words + 1] = w
      if op == "-v" or op == "-R" or arith_ops[op] then node.arith_words[#node.arith_words + 1] = w end
      if w.static and arith_ops[w.text] and last then node.arith_words[#node.arith_words + 1] = last end
      last = w
    end
  end
  if depth ~= 0 then fail(p, "unfinished [[") end
  return node
end

return compound

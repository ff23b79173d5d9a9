-- scripts/shell/parse.lua - terret.shell.parse: the grammar: lists, pipelines, simple commands, redirections.
local state = require "terret.shell.state"
local word = require "terret.shell.word"
local compound = require "terret.shell.compound"

local M = {}
local find, sub, byte = string.find, string.sub, string.byte
local fail, count, enter, leave = state.fail, state.count, state.enter, state.leave

local list, command

-- Blanks, continuations and a comment; not the line end.
local function skip(p)
  local src, pos = p.src, p.pos
  while true do
    local c = byte(src, pos)
    if c == 32 or c == 9 then
      pos = find(src, "[^ \t]", pos) or #src + 1
    elseif c == 92 and byte(src, pos + 1) == 10 then
      pos = pos + 2
    elseif c == 35 and (pos == 1 or find(src, "^[%s;&|()<>]", pos - 1)) then
      local e = find(src, "\n", pos, true) or #src + 1
      state.check_odd(p, sub(src, pos, e - 1))
      pos = e
    else
      p.pos = pos
      return c
    end
  end
end

-- The bodies of the here-documents that the line announced; p.pos is at its line end.
local function read_heredocs(p)
  local pending = p.heredocs
  if p.outer_pending then fail(p, "a here-document around a line end in a substitution") end
  p.heredocs = {}
  p.pos = p.pos + 1
  for _, r in ipairs(pending) do
    local lines, n = {}, 0
    while true do
      if p.pos > #p.src then fail(p, "unfinished here-document") end
      local e = find(p.src, "\n", p.pos, true) or #p.src + 1
      local line = sub(p.src, p.pos, e - 1)
      if r.op == "<<-" then line = line:gsub("^\t+", "") end
      p.pos = e + 1
      if line == r.delimiter then break end
      if not r.quoted and #line >= #r.delimiter and find(line, "\\$") then
        -- A continuation may glue the delimiter to the line before; bash joins first.
        local glued = find(p.src, r.delimiter, p.pos, true)
        if glued == p.pos then fail(p, "a continued line in front of a here-document's end") end
      end
      n = n + 1
      lines[n] = line
    end
    lines[n + 1] = ""
    local text = table.concat(lines, "\n")
    r.body = r.quoted and { text = text, static = true, quoted = true } or word.heredoc(p, text)
  end
  p.pos = math.min(p.pos, #p.src + 1)
end

local function line_end(p)
  if #p.heredocs > 0 then return read_heredocs(p) end
  if p.outer_pending then fail(p, "a here-document around a line end in a substitution") end
  p.pos = p.pos + 1
end

local function newlines(p)
  while skip(p) == 10 do line_end(p) end
  return byte(p.src, p.pos)
end

-- The reserved word at p.pos, or nil.
local reserved = {}
for w in ("if then else elif fi do done case esac while until for select in function { } ! time coproc "
  .. "[["):gmatch("%S+") do
  reserved[w] = true
end
local bash_only = { ["[["] = true, ["function"] = true, select = true, coproc = true, time = true }
local function peek_reserved(p)
  local _, e = find(p.src, "^[%a{}![]+", p.pos)
  if not e then return nil end
  if byte(p.src, e + 1) == 92 and byte(p.src, e + 2) == 10 then
    state.splice(p, e + 1)
    return peek_reserved(p)
  end
  local w = sub(p.src, p.pos, e)
  if p.shared.limits.posix and bash_only[w] then return nil end
  if reserved[w] and (e == #p.src or find(p.src, "^[%s;&|()<>]", e + 1)) then return w end
end

local function expect(p, w)
  newlines(p)
  if peek_reserved(p) ~= w then fail(p, "'" .. w .. "' expected") end
  p.pos = p.pos + #w
end

local operators = { "<<<", "<<-", "<<", "<>", "<&", "<", "&>>", "&>", ">>", ">&", ">|", ">" }
-- A redirection at p.pos, or nil.  A number or {name} directly in front belongs to it.
local function redirection(p)
  local src, pos = p.src, p.pos
  local c = byte(src, pos)
  local fd, var
  if c == 62 or c == 60 or c == 38 then
    fd = nil
  elseif c and c >= 48 and c <= 57 then
    fd = src:match("^(%d+)[<>]", pos)
    if not fd then return nil end
    pos = pos + #fd
  elseif c == 123 then
    var = src:match("^{([%a_][%w_]*)}[<>]", pos)
    if not var then return nil end
    pos = pos + #var + 2
  else
    return nil
  end
  if find(src, "^[<>&]\\\n", pos) then fail(p, "a line continuation in an operator") end
  if find(src, "^[<>]%(", pos) and not fd and not var then return nil end
  for _, op in ipairs(operators) do
    if sub(src, pos, pos + #op - 1) == op then
      count(p)
      p.pos = pos + #op
      if op == "&>" or op == "&>>" or op == "<<<" then state.bashism(p, op) end
      local r = { op = op, fd = fd and tonumber(fd), var = var }
      skip(p)
      if op == "<<" or op == "<<-" then
        local w = word.word(p)
        if not w then fail(p, "a here-document without delimiter") end
        if not (w.static or w.tilde) or w.text:find("[\n]") or w.text == "" then
          fail(p, "a here-document's delimiter that is not plain")
        end
        r.delimiter, r.quoted = w.text, w.quoted or false
        p.heredocs[#p.heredocs + 1] = r
      else
        local w, many = word.word(p, nil, true)
        if not w then fail(p, "a redirection without target") end
        -- Several words make no target: bash refuses, and we don't call it literal.
        r.target = many and { text = "{...}", static = false, parts = { { k = "g", s = "{" } } } or w
      end
      return r
    end
  end
end

local function redirections(p, node)
  while true do
    skip(p)
    local r = redirection(p)
    if not r then return node end
    node.redirs = node.redirs or {}
    node.redirs[#node.redirs + 1] = r
  end
end

local function array_words(p)
  local out = {}
  p.pos = p.pos + 1
  state.bashism(p, "array")
  enter(p)
  while true do
    local c = newlines(p)
    if c == 41 then break end
    local w, many = word.word(p, "value", true)
    if not w then fail(p, "unfinished array") end
    if many then table.move(w, 1, #w, #out + 1, out) else out[#out + 1] = w end
  end
  leave(p)
  p.pos = p.pos + 1
  if not find(p.src, "^[%s;&|()<>]", p.pos) and p.pos <= #p.src then fail(p, "text after an array") end
  return out
end

-- NAME=value, NAME[i]=value, NAME+=(...) at p.pos; nil when it isn't one.
local function assignment(p)
  while find(p.src, "^[%a_][%w_]*\\\n", p.pos) do state.splice(p, find(p.src, "\\\n", p.pos, true)) end
  local _, e, name, c = find(p.src, "^([%a_][%w_]*)([%[=+])", p.pos)
  if not e then return nil end
  local a, start = { name = name }, p.pos
  if c == "[" then
    p.pos = e + 1
    a.index = word.arith(p, "]")
    local _, e2, plus = find(p.src, "^(%+?)=", p.pos)
    if not e2 then
      -- Not an assignment, but bash took the brackets as one piece all the same.
      if #a.index.parts > 1 or find(sub(p.src, start, p.pos), "[^%w%[%]_.*?-]") then
        fail(p, "brackets in the name of a command")
      end
      p.pos = start
      return nil
    end
    a.append, p.pos = plus == "+", e2 + 1
  elseif c == "+" then
    if byte(p.src, e + 1) ~= 61 then return nil end
    a.append, p.pos = true, e + 2
  else
    p.pos = e + 1
  end
  if find(p.src, "^\\\n", p.pos) then state.splice(p, p.pos) end
  if byte(p.src, p.pos) == 40 then
    a.value = array_words(p)
    a.array = true
  else
    a.value = word.word(p, "value") or { text = "", static = true }
  end
  return a
end

local declares = { declare = true, typeset = true, export = true, ["local"] = true, readonly = true }

local function function_body(p, name)
  enter(p)
  newlines(p)
  local body = command(p)
  if not body or body.type == "simple" then fail(p, "a function without body") end
  leave(p)
  return { type = "function", name = name, body = body }
end

local function simple(p)
  local node = { type = "simple", words = {}, assigns = {} }
  local words = node.words
  count(p)
  while true do
    local c = skip(p)
    local r = redirection(p)
    if r then
      node.redirs = node.redirs or {}
      node.redirs[#node.redirs + 1] = r
    elseif c == nil or c == 10 or c == 59 or c == 124 or c == 41 or (c == 38) then
      break
    elseif c == 40 then
      local name = #words == 1 and #node.assigns == 0 and not node.redirs and words[1]
      if not (name and name.static and not name.quoted and find(p.src, "^%([ \t]*%)", p.pos)) then
        fail(p, "unexpected (")
      end
      p.pos = select(2, find(p.src, "^%([ \t]*%)", p.pos)) + 1
      return function_body(p, name.text)
    else
      local first = words[1]
      local declares_array = first and first.static and declares[first.text]
        and find(p.src, "^[%a_][%w_]*%+?=%(", p.pos)
      local a = (not first or declares_array) and assignment(p) or nil
      if a and first then
        words[#words + 1] = { text = a.name .. "=(...)", static = false, parts = {}, assign = a }
      elseif a then
        node.assigns[#node.assigns + 1] = a
      else
        local w, many = word.word(p, not first and "cmd" or nil, true)
        if not w then fail(p, "unexpected character") end
        if many then table.move(w, 1, #w, #words + 1, words) else words[#words + 1] = w end
      end
    end
  end
  if #words == 0 and #node.assigns == 0 and not node.redirs then fail(p, "a command expected") end
  return node
end

local function parenthesis(p)
  if byte(p.src, p.pos + 1) == 40 and not p.shared.limits.posix then
    local e = word.arith_end(p, p.pos + 2)
    if e then
      state.bashism(p, "((")
      p.pos = p.pos + 2
      local t = word.arith(p, "))")
      if p.pos ~= e + 2 then fail(p, "unbalanced arithmetic") end
      return { type = "arith", arith = { t } }
    end
  end
  p.pos = p.pos + 1
  local body = list(p, ")")
  if skip(p) ~= 41 then fail(p, "')' expected") end
  p.pos = p.pos + 1
  return { type = "subshell", lists = { body } }
end

---One command with its redirections; nil where a list ends.
function command(p)
  enter(p)
  local c = skip(p)
  local node
  if c == 40 then
    node = redirections(p, parenthesis(p))
  else
    local w = peek_reserved(p)
    if w and compound[w] then
      count(p)
      p.pos = p.pos + #w
      node = compound[w](p)
      if w ~= "function" and w ~= "coproc" then redirections(p, node) end
    elseif w and w ~= "!" and w ~= "time" then
      fail(p, "unexpected '" .. w .. "'")
    else
      node = simple(p)
    end
  end
  leave(p)
  return node
end

local function pipeline(p)
  local node = nil
  while true do
    skip(p)
    local w = peek_reserved(p)
    if not w and find(p.src, "^!%(", p.pos) then
      state.bashism(p, "!(")
      w = "!"
    end
    if w == "!" then
      node = node or { type = "pipeline", commands = {} }
      p.pos = p.pos + 1
    elseif w == "time" then
      node = node or { type = "pipeline", commands = {} }
      p.pos = p.pos + 4
      skip(p)
      local _, e = find(p.src, "^%-p%f[%s;&|]", p.pos)
      if e then
        p.pos = e + 1
        skip(p)
        _, e = find(p.src, "^%-%-%f[%s]", p.pos)
        if e then p.pos = e + 1 end
      end
    else
      break
    end
  end
  -- "time" and "!" may stand alone.
  if node and (skip(p) == nil or find(p.src, "^[\n;]", p.pos)) then return node end
  local first = command(p)
  local c = skip(p)
  if c == 124 and byte(p.src, p.pos + 1) ~= 124 then
    node = node or { type = "pipeline", commands = {} }
  end
  if not node then return first end
  node.commands[1] = first
  while c == 124 and byte(p.src, p.pos + 1) ~= 124 do
    p.pos = p.pos + 1
    if find(p.src, "^\\\n[|&]", p.pos) then fail(p, "a line continuation in an operator") end
    if byte(p.src, p.pos) == 38 then
      state.bashism(p, "|&")
      p.pos = p.pos + 1
    end
    newlines(p)
    if peek_reserved(p) == "!" then fail(p, "unexpected !") end
    node.commands[#node.commands + 1] = command(p)
    c = skip(p)
  end
  return node
end

---A list up to `closer`: ")", a reserved word, or nil for the end of the text.  Does not take the closer.
---@param in_case boolean? ";;" ends it too
function list(p, closer, in_case)
  local node = { type = "list", items = {}, ops = {} }
  local items, ops = node.items, node.ops
  p.root = p.root or node
  enter(p)
  while true do
    local c = newlines(p)
    if c == nil or c == 41 then break end
    local w = peek_reserved(p)
    if w and not compound[w] and w ~= "!" and w ~= "time" then break end
    if c == 59 then
      if in_case and find(p.src, "^;[;&]", p.pos) then break end
      fail(p, "unexpected ;")
    end
    local item = pipeline(p)
    local n = #items + 1
    items[n] = item
    c = skip(p)
    local two = sub(p.src, p.pos, p.pos + 1)
    if find(two, "^[&|]\\") and byte(p.src, p.pos + 2) == 10 then fail(p, "a line continuation in an operator") end
    if two == "&&" or two == "||" then
      ops[n] = two
      p.pos = p.pos + 2
      newlines(p)
      if find(p.src, "^[;&|)]", p.pos) or p.pos > #p.src then fail(p, "a command expected after " .. two) end
    elseif c == 38 then
      ops[n] = "&"
      p.pos = p.pos + 1
    elseif c == 59 then
      if in_case and find(two, "^;[;&]") then break end
      ops[n] = ";"
      p.pos = p.pos + 1
    elseif c == 10 then
      ops[n] = ";"
    elseif c == nil or c == 41 then
      break
    else
      fail(p, "unexpected text after a command")
    end
  end
  local n = #items
  if n == 0 and closer and closer ~= ")" and not in_case then fail(p, "a command expected") end
  if ops[n] == "&&" or ops[n] == "||" then fail(p, "a command expected") end
  leave(p)
  return node
end
word.set_list(list)
compound.bind { list = list, command = command, skip = skip, newlines = newlines, line_end = line_end,
  peek_reserved = peek_reserved,
  expect = expect, function_body = function_body, reserved = reserved }

---@param text string
---@param limits {max_nodes: integer, max_depth: integer}
function M.run(text, limits)
  if find(text, "\0", 1, true) then return nil, "a NUL character" end
  local shared = { nodes = 0, fuel = 16 * #text + 4096, bashisms = {}, limits = limits }
  local p = { src = text, pos = 1, depth = 0, shared = shared, heredocs = {},
    odd = find(text, "[^\t\n\32-\126]") ~= nil }
  local ok, tree = pcall(list, p, nil)
  if ok and p.pos <= #p.src then ok, tree = false, { shell_syntax = "unexpected )" } end
  if ok and #p.heredocs > 0 then ok, tree = false, { shell_syntax = "unfinished here-document" } end
  if ok then
    tree.bashisms = shared.bashisms
    return tree
  end
  if type(tree) ~= "table" or not tree.shell_syntax then error(tree, 0) end
  if p.root then p.root.bashisms = shared.bashisms end
  return nil, tree.shell_syntax, p.root
end

return M

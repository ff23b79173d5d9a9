-- scripts/permissions/builtins.lua - terret.permissions.builtins: builtins of the shell that run text, set
-- variables, or
-- add nothing.
--
-- A function gets (judge, words, i) and returns true when the command is dealt with; else the rules decide.
local M = {}
local find, sub = string.find, string.sub

local function neutral() return true end
for name in (": true false exit return shift break continue times unalias type"):gmatch("%S+") do M[name] = neutral end

local function ask(reason)
  return function(j)
    j:ask(reason)
    return false
  end
end
for name in ("bind complete compgen compopt enable fc history caller"):gmatch("%S+") do
  M[name] = ask(name .. " can run code")
end

-- A name that a builtin sets, perhaps with a subscript.
local function set_name(j, w, kind)
  if not w then return end
  local name = w.static and w.text:match("^[%a_][%w_]*") or (w.parts and w.parts[1].k == "s"
    and w.parts[1].s:match("^([%a_][%w_]*)[%[=+]"))
  if not name then
    if not (w.static and w.text == "") then j:ask("sets a variable whose name is not literal") end
    return
  end
  j:variable(name)
  if find(w.text, "[", 1, true) then
    if w.static then
      local index = w.text:match("^[%a_][%w_]*%[(.*)%]")
      j:arith_text({ text = index or w.text, static = true })
    else
      j:arith_text(w)
    end
  end
  j.values:set(name, kind or "taint")
end

-- Walks simple short options: calls f(letter, argument word) for those in `with` (they take an argument).
-- Returns the index of the first operand, and true when a word there may be an option.
local function options(words, i, with, f)
  local k = i + 1
  while words[k] do
    local w = words[k]
    local text = w.text
    if not w.static then
      if w.parts and w.parts[1] and w.parts[1].k == "s" and find(w.parts[1].s, "^[%w_/.]") then return k end
      return k, true
    end
    if text == "--" then return k + 1 end
    if not find(text, "^%-.") then return k end
    local at = 2
    while at <= #text do
      local c = sub(text, at, at)
      if find(with, c, 1, true) then
        local value
        if at < #text then value = { text = sub(text, at + 1), static = true }
        else
          k = k + 1
          value = words[k]
        end
        f(c, value)
        break
      end
      f(c)
      at = at + 1
    end
    k = k + 1
  end
  return k
end

M.wait = function(j, words, i)
  options(words, i, "p", function(c, value) if c == "p" then set_name(j, value) end end)
  return true
end

M.test = function(j, words, i)
  for k = i + 1, #words do
    local w = words[k]
    if w.static and (w.text == "-v" or w.text == "-R") and words[k + 1] and words[k + 1].text ~= "]" then
      j:arith_text(words[k + 1])
    end
    -- `[ $x ]` with an unquoted value out of our hands may become -v a[$(..)].
    if not w.static and w.parts and w.parts[1].k ~= "s" and not w.parts[1].q and #words - i <= 4 then
      j.deferred[#j.deferred + 1] = function(values)
        if not w.glob and values:may_be_option(w) and not values:texts(w, true) then
          return "an unquoted value in a test may become -v"
        end
      end
    end
  end
  return true
end
M["["] = M.test

local set_bad = { keyword = true, histexpand = true, history = true, emacs = true, vi = true,
  interactive_comments = true }
M.set = function(j, words, i)
  local k = i + 1
  while words[k] do
    local w = words[k]
    if not w.static then
      if w.parts[1].k ~= "s" then j:ask("set with an option that is not literal") end
      break
    end
    if w.text == "--" or w.text == "-" or not find(w.text, "^[-+].") then break end
    if find(w.text, "^%-.*[kH]") then j:ask("set " .. w.text .. " changes how commands are read") end
    if find(w.text, "^[-+].*o") and words[k + 1] then
      k = k + 1
      if not words[k].static or (set_bad[words[k].text] and find(w.text, "^%-")) then
        j:ask("set -o " .. words[k].text .. " changes how commands are read")
      end
    end
    k = k + 1
  end
  if words[k] then j.values.positional = true end
  return true
end

local shopt_bad = { expand_aliases = true, extdebug = true, sourcepath = true, histexpand = true, histverify = true,
  assoc_expand_once = true, array_expand_once = true, varredir_close = true, compat31 = true }
M.shopt = function(j, words, i)
  for k = i + 1, #words do
    local w = words[k]
    if not w.static or shopt_bad[w.text] or set_bad[w.text] or find(w.text, "^compat") then
      j:ask("shopt " .. w.text .. " changes how commands are read")
    end
  end
  return true
end

local function declare(j, words, i)
  local flags = {}
  local k = options(words, i, "", function(c) flags[c] = true end)
  for n = k, #words do
    local w = words[n]
    if w.assign then
      goto continue
    elseif flags.f or flags.F then
      if not w.static then j:ask("functions named by text that is not literal") end
      goto continue
    end
    do
      local value = w.static and w.text:match("^[%a_][%w_]*[^=]*=(.*)$")
      local kind = value and { text = value, static = true }
      if not w.static and w.parts and w.parts[1].k == "s" and find(w.parts[1].s, "^[%a_][%w_]*=") then
        kind = require("terret.shell.word").from_parts(table.move(w.parts, 2, #w.parts, 2,
          { { k = "s", s = w.parts[1].s:match("=(.*)$") } }), {})
      elseif w.static and not value then
        kind = {}
      end
      set_name(j, w, kind)
      if value and (find(value, "$(", 1, true) or find(value, "`", 1,
        true)) then j:ask("code as the value of a variable") end
      if flags.n then
        if not w.static then j:ask("a reference to a variable whose name is not literal")
        elseif value then set_name(j, { text = value, static = true }) end
      end
      if flags.i and value then j:arith_text({ text = value, static = true })
      elseif flags.i and not w.static then j:ask("declare -i on text that is not literal") end
    end
    ::continue::
  end
  return true
end
for name in ("declare typeset local export readonly"):gmatch("%S+") do M[name] = declare end

M.read = function(j, words, i)
  local k, dynamic = options(words, i, "adinNptu", function(c, value) if c == "a" then set_name(j, value) end end)
  if dynamic then
    j:ask("read with an option that is not literal")
    return true
  end
  if not words[k] then j.values:set("REPLY", "taint") end
  for n = k, #words do set_name(j, words[n]) end
  return true
end

M.mapfile = function(j, words, i)
  local k, dynamic = options(words, i, "dnOsuCc", function(c, value)
    if c == "C" and value then
      j:ask("a callback of " .. words[i].text)
      if value.static then j:text(value.text, "callback") end
    end
  end)
  if dynamic then j:ask("an option that is not literal") end
  set_name(j, words[k] or { text = "MAPFILE", static = true })
  return true
end
M.readarray = M.mapfile

M.printf = function(j, words, i)
  local w = words[i + 1]
  if w and w.static and find(w.text, "^%-v") then
    local target = w.text == "-v" and words[i + 2] or { text = sub(w.text, 3), static = true }
    set_name(j, target)
  elseif w and not w.static and w.parts and w.parts[1].k ~= "s" and words[i + 2] then
    j.deferred[#j.deferred + 1] = function(values)
      if values:may_be_option(w) and not (w.parts[1].q and #w.parts == 1 and not values:texts(w, true)) then
        return "printf's format may be the option -v"
      end
    end
  end
  return false
end

M.unset = function(j, words, i)
  local k = options(words, i, "", function(c) if c == "f" then j.unset_function = true end end)
  for n = k, #words do set_name(j, words[n], {}) end
  j.unset_function = j.unset_function or next(j.functions) ~= nil
  return true
end

M.let = function(j, words, i)
  for k = i + 1, #words do
    j:arith_text(words[k])
    if not words[k].static and not words[k].parts[1].q then j:ask("let on text that is not literal") end
  end
  return true
end

M.getopts = function(j, words, i)
  set_name(j, words[i + 2])
  return true
end

-- Literal text to be run later or now.
local function run_text(j, w, what)
  if w.static then j:text(w.text, what) else j:dynamic_text(w, what) end
end

M.trap = function(j, words, i)
  local w = words[i + 1]
  if w and w.static and w.text == "--" then
    i = i + 1
    w = words[i + 1]
  end
  if not w or (w.static and (find(w.text, "^%-[pl]*$") or w.text == "")) then return true end
  if not words[i + 2] and w.static then return true end -- `trap INT` resets
  j.traps = true
  if j.files then j.files:elsewhere(function() run_text(j, w, "trap") end) else run_text(j, w, "trap") end
  return true
end

M.eval = function(j, words, i)
  if words[i + 1] and words[i + 1].static and words[i + 1].text == "--" then i = i + 1 end
  local parts, static = {}, true
  for k = i + 1, #words do
    local w = words[k]
    if #parts > 0 then parts[#parts + 1] = { k = "s", s = " " } end
    static = static and w.static
    if w.static then parts[#parts + 1] = { k = "s", s = w.text }
    else table.move(w.parts, 1, #w.parts, #parts + 1, parts) end
  end
  local moves = j.files and j.files.moves
  run_text(j, require("terret.shell.word").from_parts(parts, { tilde = not static or nil }), "eval")
  if j.files and j.files.moves ~= moves then j.files:lose() end
  return true
end

M.alias = function(j, words, i)
  for k = i + 1, #words do
    local w = words[k]
    local value = w.static and w.text:match("^[^=]+=(.*)$")
    if value then
      j:ask("an alias changes what later words mean")
      if j.files then j.files:elsewhere(function() j:text(value, "alias") end) else j:text(value, "alias") end
    elseif not w.static then
      j:ask("an alias that is not literal", "opaque")
    end
  end
  return false
end

M["."] = function(j, words, i)
  j:list_command(words, i)
  j:ask(words[i].text .. " runs a file's text", "opaque")
  j:forbidden(words, i)
  return true
end
M.source = M["."]

local function inner(with, query)
  return function(j, words, i)
    local asked
    local k, dynamic = options(words, i, with, function(c) asked = asked or find(query, c, 1, true) end)
    j:forbidden(words, i)
    if dynamic then j:ask("the command word is not literal", "opaque") end
    if asked and not dynamic then return true end
    if words[k] then j:command(words, k, words[i].text ~= "builtin" or nil) end
    return true
  end
end
M.exec = inner("a", "\0")
M.command = inner("", "vV")
M.builtin = inner("", "\0")

M.hash = function(j, words, i)
  for k = i + 1, #words do
    if not words[k].static or find(words[k].text, "^%-.*p") then j:ask("hash -p replaces a program") end
  end
  return true
end

-- Where are we after this?  Whatever leaves the project, or may, makes relative paths unclear.
local function leave(j)
  j.foreign, j.left = true, true
end

M.cd = function(j, words, i)
  local k = i + 1
  while words[k] and words[k].static and find(words[k].text, "^%-[LPe@]+$") do k = k + 1 end
  if words[k] and words[k].static and words[k].text == "--" then k = k + 1 end
  local w = words[k]
  if j.files then j.files:cd(w) end
  if not w or not w.static then
    leave(j)
  elseif find(w.text, "^%.%./?$") or find(w.text, "^%.%./[./]*$") then
    local up = select(2, w.text:gsub("%.%.", ""))
    if up <= j.cd_depth then j.cd_depth = j.cd_depth - up else leave(j) end
  elseif sub(w.text, 1, 1) == "/" then
    -- Back inside, by an absolute path: known again.
    if j:inside(w.text) then
      if j.conditional == 0 and not j.left then j.foreign = false end
      j.cd_depth = 0
    else
      leave(j)
    end
  elseif not j:inside(w.text, true) then
    leave(j)
  else
    j.cd_depth = j.cd_depth + select(2, w.text:gsub("[^/]+", ""))
  end
  return false
end
M.pushd = function(j, words, i)
  if words[i + 1] then M.cd(j, words, i) else M.popd(j) end
  return false
end
M.popd = function(j)
  if j.files then j.files:lose() end
  leave(j)
  return false
end

return M

-- scripts/permissions/operands.lua - terret.permissions.operands: which words of a command name files that it reads or
-- writes.
--
-- run(files, words, i) hands them to terret.permissions.files.  What programs do with their words stands in the tables;
-- here is what tables can't say.
local options = require "terret.permissions.options"
local paths = require "terret.permissions.paths"
local tables = require "terret.permissions.tables"

local M = {}
local find, sub = string.find, string.sub
local set_of -- of the judge, which requires this module

-- ---- words ---------------------------------------------------------------------------------------

-- The word without its first n signs; where these are not literal, a word that may be anything.
local function cut(w, n)
  if w.static then return { text = sub(w.text, n + 1), static = true } end
  local first = w.parts and w.parts[1]
  if not first or first.k ~= "s" or #first.s < n then return { text = w.text, static = false } end
  local parts = table.move(w.parts, 1, #w.parts, 1, {})
  parts[1] = { k = "s", s = sub(first.s, n + 1) }
  return { text = sub(w.text, n + 1), static = false, parts = parts, quoted = w.quoted }
end

-- A plain word in which a program of its own expands `*`, `?` and `[...]`, also across names.
local function with_globs(text)
  local parts = {}
  for plain, sign in (text .. "\0"):gmatch("([^*?%[%z]*)([*?%[%z])") do
    parts[#parts + 1] = { k = "s", s = plain }
    if sign == "*" then
      table.move({ { k = "g", s = "*" }, { k = "g", s = "*" } }, 1, 2, #parts + 1, parts)
    elseif sign ~= "\0" then
      parts[#parts + 1] = { k = "g", s = sign }
    end
  end
  return { text = text, static = #parts == 1, parts = #parts > 1 and parts or nil }
end

-- ---- programs -----------------------------------------------------------------------------------

-- Words of a program that no table knows: pieces of option values, KEY=FILE, @FILE, COMMIT:FILE count.
local function known_names(self, words, i, name)
  for k = i + 1, #words do
    local w = words[k]
    local value = w.text:match("^[%w_-]+=()")
    if not w.static then
      self:judge_word("read", w, name, { plain = true })
      if value then self:judge_word("read", cut(w, value - 1), name, { plain = true }) end
    elseif not find(w.text, "%s") and not find(w.text, "^https?://") then -- blanks: a sentence, or code
      local tried = { [w.text] = true }
      if find(w.text, "^%-[^-].") then tried[sub(w.text, 3)] = true end
      for piece in w.text:gmatch("[^=:,@<]+") do tried[piece] = true end
      for text in pairs(tried) do self:judge_word("read", { text = text, static = true }, name) end
    end
  end
end

local function every_word(self, words, i, name)
  for k = i + 1, #words do
    local w = words[k]
    self:judge_word("read", w, name)
    local value = w.text:match("^%-%-[^=]*=()") or w.text:match("^%-[^-]().")
    if value then self:judge_word("read", cut(w, value - 1), name) end
  end
end

-- A name without a dot may be a directory, whose files diff shows.
local function maybe_directory(w)
  return not w.static or (w.text ~= "-" and not find(w.text:match("([^/]*)/*$"), "[^.].*%."))
end

-- What is read and written by code in the words of sed and awk.
local function code(self, words, i, name)
  for k = i + 1, #words do
    local text = words[k].text
    if find(name, "sed", 1, true) then
      if words[k].static then
        require("terret.permissions.scripts").sed_reason(text, function(class, path)
          self:judge_word(class, { text = path, static = true }, name)
        end)
      end
    elseif find(text, "getline[^;}\n]*<") or find(text, "ARG[VC]") then
      self:note("read", { paths.ANY }, "the program of " .. name)
    end
  end
end

-- rg reads its input when that is a pipe, and else the directory.
local function reads_input(j, name)
  if name == "grep" or not j.fed then return false end
  for _, r in ipairs(j.node_redirs or {}) do
    if r.fd == nil or r.fd == 0 then return false end
  end
  return true
end

-- The value of an option: the next word, or the rest of its own.
local function value_of(option, value, w)
  if value then return value end
  local at = sub(option, 1, 2) == "--" and w.text:match("^[^=]*=()")
    or w.text:match("^%-%w-" .. sub(option, 2, 2):gsub("%W", "%%%0") .. "()")
  return at and cut(w, at - 1)
end

local function by_table(self, words, i, name, text)
  local spec = options.spec(text)
  local skip, deep = spec.skip or 0, spec.roles["/"] ~= nil
  local guesses = {} -- words that may become the option that searches directories
  local operands = options.walk(words, i, spec, function(kind, option, value, w)
    if kind == "dynamic" then
      guesses[#guesses + 1] = w
      return
    end
    local role = options.role(spec, option)
    if role == "~" or role == "^" then skip = 0 end
    if role == "/" then deep = true end
    local given = kind ~= "" and value_of(option, value, w)
    if (role == "<" or role == "^") and given then self:judge_word("read", given, name) end
    if (option == "-d" or option == "--directories") and given and given.text ~= "skip" then deep = true end
  end)
  local function reaches()
    for _, w in ipairs(guesses) do
      if self.values:may_be_option(w) then return true end
    end
    return false
  end
  local how = { deep = deep or (next(spec.roles) and #guesses > 0 and reaches) or false }
  local first, last = words[operands[1]], #operands
  if set_of(tables.writes_last)[name] and last > 1 then last = last - 1 end
  if skip > 0 and first and not first.static and not first.quoted then skip = 0 end -- it may be several words
  local compares = not deep and find(name, "diff", 1, true)
  for n = skip + 1, last do
    local w = words[operands[n]]
    self:judge_word("read", w, name, compares and maybe_directory(w) and { deep = true } or how)
  end
  if deep and skip + 1 > #operands and not reads_input(self.judge, name) then
    self:judge_word("read", { text = ".", static = true }, name, { deep = true })
  end
end

local function tar(self, words, i, name)
  local create, place = false, self:enter()
  for k = i + 1, #words do
    local t = words[k].text
    create = create or (k == i + 1 and find(t, "^%a*[cru]")) or find(t, "^%-%a*[cru]") or find(t, "^%-%-[cau]")
    if find(t, "^%-%a*C") or find(t, "^%-%-dir") or (k == i + 1 and find(t, "^%a*C")) then self:away() end
  end
  for k = create and i + 1 or #words + 1, #words do self:judge_word("read", words[k], name, { deep = true }) end
  known_names(self, words, i, name)
  self:leave(place)
end

local function dd(self, words, i, name)
  for k = i + 1, #words do
    local w = words[k]
    if not w.static and not find(w.text, "^%a+=") then self:judge_word("read", w, name)
    elseif find(w.text, "^if=") then self:judge_word("read", cut(w, 3), name)
    elseif find(w.text, "^of=") then self:judge_word("write", cut(w, 3), name) end
  end
end

-- What follows -C, --git-dir or --work-tree says where git looks.
local function git_words(words, i)
  local k, elsewhere = i + 1, false
  while words[k] and find(words[k].text, "^%-") do
    local t = words[k].text
    elsewhere = elsewhere or t == "-C" or find(t, "^%-%-[gw]")
    k = k + (find(t, "^%-[Cc]$") and 2 or 1)
  end
  return k, elsewhere
end

-- The file that a word of git may name: a path, COMMIT:PATH, -L1,2:PATH; nil: none.
local function git_path(text)
  if find(text, "^:[!^]") or find(text, "^:%([^)]*exclude") then return nil end
  local path = text:match("^:%([^)]*%)(.*)$") or text:match("^[^:]*:/?(.+)$")
  if not path and find(text, "^%-") then return nil end
  return path or text
end

-- Names of files in commits, and in the directory.
local function git(self, words, i)
  local k, elsewhere = git_words(words, i)
  local name = words[k] and words[k].text or ""
  local class = set_of(tables.git_reads)[name] and "read" or set_of(tables.git_writes)[name] and "write"
  if not class then return end
  local place, deep = self:enter(), name == "grep"
  self:away(not elsewhere and self.project or nil) -- COMMIT:PATH starts at the top
  for n = k + 1, #words do
    local w = words[n]
    local path = w.static and git_path(w.text)
    deep = deep or w.text == "--no-index"
    if path then self:judge_word(class, with_globs(path), "git " .. name)
    elseif not w.static then self:judge_word(class, w, "git " .. name, { plain = true }) end
  end
  if deep then self:judge_word("read", { text = ".", static = true }, "git " .. name, { deep = true }) end
  self:leave(place)
end

local function xargs(self, words, i)
  self.judge.fed = false
  options.walk(words, i, options.spec(tables.wrappers.xargs), function(_, option, value, w)
    if option == "-a" or find(option, "^%-%-a") then
      local given = value_of(option, value, w)
      if given then self:judge_word("read", given, "xargs") end
    end
  end, true)
end

-- ---- what is written ----------------------------------------------------------------------------

-- Into a directory, or over a file: cp, mv, ln.
local function into(self, words, operands, dir, name)
  local target = dir or words[operands[#operands]]
  if not target then return end
  local dirs, last = self.dirs, dir and #operands or #operands - 1
  if not dir then self:judge_word("write", target, name) end
  self:when_known(function()
    local out = {}
    for _, to in ipairs(paths.of_word(target, dirs, self)) do
      local only = dir or find(target.text, "/$") or find(target.text, "^%.%.?$") or last > 1
      if not only then out[#out + 1] = to end
      for n = 1, last do
        for _, from in ipairs(paths.of_word(words[operands[n]], dirs, self)) do
          out[#out + 1] = paths.normalise(to .. "/" .. from:match("[^/]*$"))
        end
      end
    end
    self:note("write", out, name .. " " .. target.text:sub(1, 200))
  end)
end

local function writes(self, words, i, name)
  local deep, in_place, dir = find(name, "mv$") ~= nil, false, nil
  local operands = options.walk(words, i, options.spec("t: S: s: m: g: --target-directory= --suffix= --size="),
    function(_, option, value, w)
      deep = deep or find(option, "^%-[rRa]$") ~= nil or find(option, "^%-%-[ra]") ~= nil
      in_place = in_place or option == "-i" or find(option, "^%-%-in") ~= nil
      if option == "-t" or find(option, "^%-%-ta") then dir = value_of(option, value, w) end
    end)
  local all, last = set_of(tables.writes_all)[name], set_of(tables.writes_last)[name]
  if all or (in_place and (find(name, "sed$") or find(name, "^perl") or find(name, "^ruby"))) then
    for k = i + 1, #words do self:judge_word("write", words[k], name, { deep = deep }) end
  end
  if last then into(self, words, operands, dir, name) end
  if all or last or tables.reads[name] then return end
  for k = i + 1, #words do -- `-o FILE` of most programs
    local w = words[k]
    local to = (w.text == "-o" or w.text == "--output") and words[k + 1]
    local at = w.text:match("^%-%-output=()") or w.text:match("^%-o().")
    if at then to = cut(w, at - 1) end
    if to then self:judge_word("write", to, name) end
  end
end

---A simple command, words[i] being its name.  What wrappers start comes here by itself.
---@param self table terret.permissions.files
---@param words table[]
---@param i integer
function M.run(self, words, i)
  set_of = set_of or require("terret.permissions.judge").set_of
  local name = words[i].static and words[i].text:match("[^/]+$") or "?"
  if name == "xargs" then return xargs(self, words, i) end
  if tables.wrappers[name] then return end
  if self.rules:guards("write") then writes(self, words, i, name) end
  if name == "git" then return git(self, words, i) end
  if name == "dd" then return dd(self, words, i, name) end
  if not self.rules:guards("read") or set_of(tables.reads_nothing)[name] then return end
  if find(name, "tar$") then return tar(self, words, i, name) end
  if find(name, "sed$") or find(name, "awk$") then code(self, words, i, name) end
  if tables.reads[name] then return by_table(self, words, i, name, tables.reads[name]) end
  if set_of(tables.reads_all)[name] then return every_word(self, words, i, name) end
  return known_names(self, words, i, name)
end

return M

-- scripts/permissions/files.lua - terret.permissions.files: which files a command line reads and writes, for the
-- rules that deny read(PATH) and write(PATH) or ask about them.
--
-- A judge has one of these only when there are such rules.  What a command surely names is judged as the rule
-- says; where it may reach a file of a rule (names that are not known, directories that are searched), it asks:
-- findings of the kind "path", which no mode lifts.  Where relative paths start is followed through cd.
-- Which words of a program are files: operands.lua.  The disk is asked two things only: where links lead, and
-- whether what would be searched is a plain file.
local fs = require "terret.fs"
local operands = require "terret.permissions.operands"
local paths = require "terret.permissions.paths"

local M = {}
local find = string.find

local Files = {}
Files.__index = Files

local MAX_DIRS = 8
local MAX_LOOKS = 500 -- at the disk
local MAX_COMPARED = 1000000 -- signs of forms times signs of rules

---@param j table judge
---@param o {rules: table, cwd: string?, home: string?, project: string?}
---@return table? nil when no rule needs it
function M.new(j, o)
  local rules = o.rules
  if not rules:guards("read") and not rules:guards("write") then return nil end
  return setmetatable({ judge = j, rules = rules, home = o.home, project = o.project, values = j.values,
    dirs = { o.cwd or paths.ANY }, fallback = {}, moves = 0, compared = 0, looks = 0, later = {} }, Files)
end

-- ---- where relative paths start -----------------------------------------------------------------

local function union(a, b)
  if a == b or #b == 0 then return a end
  local out, seen = {}, {}
  for _, list in ipairs { a, b } do
    for _, dir in ipairs(list) do
      if not seen[dir] then
        seen[dir] = true
        out[#out + 1] = dir
      end
    end
  end
  return #out > MAX_DIRS and { paths.ANY } or out
end

---Until leave(): somewhere else, or also at a place given.
---@param also string?
function Files:away(also) self.dirs = also and union(self.dirs, { also }) or { paths.ANY } end

---Not known any more.
function Files:lose() self.dirs, self.lost = { paths.ANY }, true end

---A cd that may fail: where we were stays possible until something depends on its success.
---@param w table?
function Files:cd(w)
  self.moves = self.moves + 1
  self.fallback = union(self.fallback, self.dirs)
  if self.lost then return end
  if not w then self.dirs = { self.home or paths.ANY }
  elseif not w.static then self.dirs = { paths.ANY }
  elseif find(w.text, "^[-+]") then self.dirs = { paths.ANY }
  else
    local dirs = paths.of_word(w, self.dirs, self)
    self.dirs = #dirs > 0 and dirs or self.dirs
  end
end

---Here the last cd may have failed.
function Files:settle_dirs()
  if #self.fallback == 0 then return end
  self.dirs, self.fallback = union(self.dirs, self.fallback), {}
end

---@return table to be given to leave()
function Files:enter() return { self.dirs, self.fallback } end

---@param saved table
function Files:leave(saved) self.dirs, self.fallback = self.lost and { paths.ANY } or saved[1], saved[2] end

---Runs f as what may run at another time, in another directory.
---@param f function
function Files:elsewhere(f)
  local saved, moves = self:enter(), self.moves
  self.dirs = union(self.dirs, { paths.ANY })
  f()
  self:leave(saved)
  if self.moves > moves then self:lose() end
end

---A body that may run or not, or often.
---@param loop boolean
---@param f function
function Files:body(loop, f)
  self:settle_dirs()
  local before, moves = self.dirs, self.moves
  f()
  if self.moves == moves then return end
  self:settle_dirs()
  self.dirs = union(before, self.dirs)
  if loop and not self.lost then
    self:lose()
    f()
  end
end

-- ---- against the rules --------------------------------------------------------------------------

-- The strictest thing that the rules say about forms.  Each rule speaks surely (all forms are its), perhaps, or not.
local function strictest(self, class, forms)
  local sure, perhaps
  for _, e in ipairs(self.rules:guards(class) or {}) do
    local all, some = #forms > 0, false
    for _, form in ipairs(forms) do
      local meets = not paths.apart(e.form, form)
      if meets then
        self.compared = self.compared + #e.form * #form
        meets = self.compared > MAX_COMPARED or paths.meets(e.form, form)
      end
      some = some or meets
      all = all and meets and self.compared <= MAX_COMPARED and paths.covers(e.form, form)
    end
    if all and (not sure or e.verdict == "deny") then sure = e end
    if some and not all and (not perhaps or e.verdict == "deny") then perhaps = e end
  end
  return sure, perhaps
end

local verbs = { read = "reads", write = "writes" }

---Notes what the rules say about forms.
---@param class "read"|"write"
---@param forms string[]
---@param what string who reads or writes, for the reason
function Files:note(class, forms, what)
  local sure, perhaps = strictest(self, class, forms)
  local j = self.judge
  if sure then
    j:note(sure.verdict, ("%s %s a file of the rule '%s'"):format(what, verbs[class], sure.rule), sure, "rule")
  end
  if perhaps and not (sure and sure.verdict == "deny") then
    local reason = ("%s perhaps %s a file of the rule '%s'"):format(what, verbs[class], perhaps.rule)
    j:note("ask", reason, perhaps, perhaps.verdict == "deny" and "path" or "rule")
  end
end

-- The one path of the forms, to be looked at; nil: not known, or enough was looked at.
local function literal(self, forms)
  if #forms ~= 1 or find(forms[1], "[\1\2]") or self.looks >= MAX_LOOKS then return nil end
  self.looks = self.looks + 1
  return forms[1]
end

local function below(forms)
  local out = {}
  for _, form in ipairs(forms) do out[#out + 1] = (form == "/" and "" or form) .. "/" .. paths.ANY end
  return out
end

---A word that names a file.
---@param class "read"|"write"
---@param w table
---@param name string of the program
---@param how {deep: boolean|fun(): boolean, plain: boolean}? deep: what is below, too; plain: only if it is known
function Files:judge_word(class, w, name, how)
  if not self.rules:guards(class) then return end
  local dirs = self.dirs
  local function now()
    local forms = paths.of_word(w, dirs, self)
    if how and how.plain then
      for _, form in ipairs(forms) do
        if find(form, paths.ANY, 1, true) then return end
      end
    end
    local what = (name .. " " .. w.text):sub(1, 200)
    self:note(class, forms, what)
    local path = literal(self, forms)
    local real = path and fs.realpath(path)
    if real and real ~= path then self:note(class, { real }, what) end
    local deep = how and how.deep
    if not deep or (deep ~= true and not deep()) then return end
    local info = real and fs.stat(real)
    if info and info.type == "file" then return end
    self:note(class, below(forms), what)
    if real and real ~= path then self:note(class, below { real }, what) end
  end
  if w.static and not (how and type(how.deep) == "function") then return now() end
  self:when_known(now)
end

---@param f function called when all variables of the line are known
function Files:when_known(f) self.later[#self.later + 1] = f end

---At the end of the line.
function Files:finish()
  for _, f in ipairs(self.later) do f() end
end

---A simple command, words[i] being its name.
---@param words table[]
---@param i integer
function Files:command(words, i) return operands.run(self, words, i) end

---A redirection's target.
---@param op string
---@param w table
function Files:redirect(op, w)
  if op == "<" or op == "<>" then self:judge_word("read", w, op) end
end

return M

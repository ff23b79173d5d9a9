-- scripts/permissions/judge.lua - terret.permissions.judge: the verdict on a parsed command line.
--
-- Walks the whole tree, wherever commands stand, and keeps the strictest finding.  A finding is allow (by a rule),
-- ask or deny, with a reason.  Commands inside wrappers, `sh -c`, eval, traps and aliases are found by
-- commands.lua and builtins.lua, which call back into J:command and J:text.
-- Fails closed: what isn't understood is at least ask.
local shell = require "terret.shell"
local tables = require "terret.permissions.tables"
local files = require "terret.permissions.files"
local values = require "terret.permissions.values"

local M = {}
local find, sub = string.find, string.sub

local J = {}
J.__index = J
M.J = J
require("terret.permissions.tree").extend(J)

local rank = { allow = 1, ask = 2, deny = 3 }
local MAX_LISTED = 200 -- commands named in the answer
local MAX_WORK = 300000 -- words looked at
local MAX_TEXTS = 1000 -- texts of sh -c, eval and their kind

---@class terret.permissions.finding
---@field verdict string
---@field reason string
---@field rule string?
---@field source string?

---@param verdict string
---@param reason string
---@param rule table? the deciding rule
---@param kind string? "rule": a user's ask rule; "unmatched": no rule; "opaque": could not be seen; "flag";
--- "path": it may reach a file that a rule denies
function J:note(verdict, reason, rule, kind)
  if kind == "path" then self.path_reason = self.path_reason or reason
  elseif self.deny_only and verdict ~= "deny" then return end
  if verdict == "ask" and kind then self.kinds[kind] = (self.kinds[kind] or 0) + 1 end
  if verdict == "ask" and not kind then self.kinds.flag = (self.kinds.flag or 0) + 1 end
  local best = self.best
  if best and rank[verdict] <= rank[best.verdict] then
    -- Among asks, what no rule can lift explains more than "no rule".
    if not (verdict == best.verdict and best.kind == "unmatched" and kind ~= "unmatched") then return end
  end
  self.best = { verdict = verdict, reason = reason, rule = rule and rule.rule, source = rule and rule.source,
    kind = kind }
end

function J:ask(reason, kind) self:note("ask", reason, nil, kind) end

---A word that is not literal, where an option that executes or writes might stand; judged when all is known.
function J:option_risk(w, name)
  self.deferred[#self.deferred + 1] = function(known)
    if known:may_be_option(w) then return "a word of " .. name .. " may become an option: " .. w.text:sub(1, 80) end
  end
end

-- Sets of names out of the tables' strings; made when first used, and again when a user changed the table.
local sets = {}
local function set_of(text)
  local s = sets[text]
  if not s then
    s = { prefixes = {}, suffixes = {} }
    for w in text:gmatch("%S+") do
      if sub(w, -1) == "*" then s.prefixes[#s.prefixes + 1] = sub(w, 1, -2)
      elseif sub(w, 1, 1) == "*" then s.suffixes[#s.suffixes + 1] = sub(w, 2)
      else s[w] = true end
    end
    sets[text] = s
  end
  return s
end
M.set_of = set_of

---@param name string of a variable
function M.dangerous(name)
  if set_of(tables.variables_fine)[name] == true then return false end
  local s = set_of(tables.variables)
  if s[name] == true then return true end
  for _, prefix in ipairs(s.prefixes) do
    if sub(name, 1, #prefix) == prefix then return true end
  end
  for _, suffix in ipairs(s.suffixes) do
    if sub(name, -#suffix) == suffix then return true end
  end
  return false
end

---CFLAGS=-O2 and its kind: options of compilers that run nothing.
---@param name string
---@param value table word
function M.plain_flags(name, value)
  return find(name, "^[A-Z]+FLAGS$") and name ~= "MAKEFLAGS" and name ~= "RUSTFLAGS" and name ~= "GOFLAGS"
    and value.static
    and find(value.text, "^[-%w_=., ]*$") and not find(value.text, "plugin") and not find(value.text, "wrapper")
    and not find(value.text, "specs") and not find(value.text, "%-B") and not find(value.text, "%-o")
end

function J:variable(name)
  if M.dangerous(name) then self:ask("sets " .. name .. ", which changes what programs run") end
end

-- ---- words -----------------------------------------------------------------------------------

function J:arith(a)
  if find(a.text, "$(", 1, true) or find(a.text, "`", 1, true) then
    self:ask("text in arithmetic that looks like a substitution")
    if a.text ~= self.seen_arith then
      self.seen_arith = a.text
      self:arith_text({ text = a.text, static = true })
    end
  end
  for _, t in ipairs(a.parts) do
    if t.k ~= "s" then
      self:part(t)
      if t.k == "c" or t.k == "v" then self.values:evaluates(t) end
    end
  end
  for name in a.text:gmatch("%f[%w_][%a_][%w_]*") do
    self.values:evaluates(name)
    if M.dangerous(name) then self:variable(name) end
  end
  -- An assignment inside: numbers only, unless what it takes is tainted (then the evaluation asks anyway).
  for name in a.text:gmatch("%f[%w_]([%a_][%w_]*)%s*[-+*/%%&|^<>]*=[^=]") do self.values:set(name, "num") end
end

function J:part(t)
  if t.k == "c" or t.k == "p" then
    self:scoped(t.body)
  elseif t.k == "a" then
    self:arith(t)
  elseif t.k == "v" then
    if t.index and t.index.text ~= "@" and t.index.text ~= "*" then self:arith(t.index) end
    if t.offset then self:arith(t.offset) end
    if t.word then self:word(t.word) end
    if t.op == "@P" then self:ask("${" .. t.name .. "@P} runs what the value holds") end
    if t.indirect then self.values:evaluates({ k = "v", name = t.name }) end
    if t.op and find(t.op, "=$") then
      self:variable(t.name)
      if t.word then self.values:set(t.name, t.word) end
    end
  end
end

function J:word(w)
  if w.assign then return self:assign(w.assign) end
  if w.static then
    if not w.bare and (find(w.text, "$(", 1, true) or find(w.text, "`", 1, true)) then self.values.hostile = true end
    return
  end
  for _, t in ipairs(w.parts) do
    if t.k == "s" then
      if find(t.s, "$(", 1, true) or find(t.s, "`", 1, true) then self.values.hostile = true end
    else
      self:part(t)
    end
  end
end

---@param a table assignment
---@param fine boolean? the name does no harm here
function J:assign(a, fine)
  if not fine and not M.plain_flags(a.name, a.value) then self:variable(a.name) end
  if a.index then self:arith(a.index) end
  local list = a.array and a.value or { a.value }
  for _, w in ipairs(list) do
    self:word(w)
    self.values:set(a.name, a.append and w.static and not a.array and "taint" or w, a.append and "taint" or nil)
    if (w.quoted or w.parts) and (find(w.text, "$(", 1, true) and w.static or find(w.text, "`", 1, true) and w.static
        or find(w.text, "/dev/tcp/", 1, true) or find(w.text, "/dev/udp/", 1, true)) then
      self:ask("code as the value of " .. a.name)
    end
  end
end

-- ---- files -----------------------------------------------------------------------------------

---Is a literal path a plain one inside the project?
---@param text string
---@param write boolean? dot-directories count
function J:inside(text, write)
  local path = text
  if sub(path, 1, 1) == "/" then
    local root = self.project
    if not root or root == "/" then return false end
    if path ~= root and sub(path, 1, #root + 1) ~= root .. "/" then return false end
    path = sub(path, #root + 2)
  elseif self.foreign then
    return false
  end
  if sub(path, 1, 1) == "~" or path == "" and write or find(path, "[%c\\]") then return false end
  for name in path:gmatch("[^/]+") do
    if name == ".." or (write and name ~= "." and sub(name, 1, 1) == ".") then return false end
  end
  return true
end

local devices = { ["/dev/null"] = true, ["/dev/stdout"] = true, ["/dev/stderr"] = true, ["/dev/stdin"] = true }

---A word that is written to (a redirection's target, an output option's value).
---@return boolean fine
function J:write_target(w, what)
  if self.files then self.files:judge_word("write", w, "output to") end
  if w.parts and #w.parts == 1 and w.parts[1].k == "p" then return true end
  if not w.static then
    self:ask(what .. " a place that is not literal")
    return false
  end
  if devices[w.text] or find(w.text, "^/dev/fd/%d+$") then return true end
  self.writes = true
  if not self:inside(w.text, true) then
    self:ask(what .. " " .. shell.quote(w.text) .. ", which is not a plain path in the project")
    return false
  end
  return true
end

local writes_to = { [">"] = true, [">>"] = true, [">|"] = true, ["&>"] = true, ["&>>"] = true, ["<>"] = true }
J.writes_to = writes_to

function J:redirect(r)
  if r.var then self:variable(r.var) end
  if r.body then return self:word(r.body) end
  local w = r.target
  if not w then return end -- a here-document whose body never came: the line did not parse
  self:word(w)
  if self.files then self.files:redirect(r.op, w) end
  if find(w.text, "^/dev/tcp/") or find(w.text, "^/dev/udp/") or (not w.static and find(w.text, "^/dev/")) then
    return self:ask("a redirection to the network")
  end
  if writes_to[r.op] then
    self:write_target(w, "writes to")
  elseif r.op == ">&" then
    if not (w.static and find(w.text, "^%d*%-?$")) then self:write_target(w, "writes to") end
  elseif r.op == "<&" and not (w.static and find(w.text, "^%d*%-?$")) and not (w.parts and w.quoted) then
    self:ask("a descriptor that is not literal")
  end
end

function J:redirects(node)
  for _, r in ipairs(node.redirs or {}) do self:redirect(r) end
end

---The text of a word as arithmetic (`[[ -v`, `let`, subscripts in arguments).
function J:arith_text(w)
  if w.static then
    if not find(w.text, "[^%w_ ]") then
      if find(w.text, "^[%a_]") then self.values:evaluates(w.text) end
      return
    end
    local tree, reason = shell.parse("((" .. w.text .. "))")
    local node = tree and tree.items[1]
    if node and node.type == "arith" and #tree.items == 1 then self:arith(node.arith[1])
    elseif find(w.text, "[$`]") then
      self:ask("arithmetic that can't be parsed: " .. (reason or "?"), "opaque")
    end
    return
  end
  for _, t in ipairs(w.parts or {}) do
    if t.k == "c" or t.k == "v" then self.values:evaluates(t) end
  end
end

---Literal text that a shell will run.
---@param text string
---@param posix boolean? by a sh that need not be bash
---@param what string for reasons
function J:text(text, what, posix)
  self.text_depth, self.texts = self.text_depth + 1, self.texts + 1
  if self.text_depth > 20 or self.texts > MAX_TEXTS then
    self:ask(what .. ": nested too deeply", "opaque")
  else
    local tree, reason, partial = shell.parse(text)
    if not tree then
      self:ask(what .. ": " .. reason, "opaque")
      tree = partial
    elseif posix and next(tree.bashisms) then
      self:ask(what .. ": " .. next(tree.bashisms) .. " means something else in other shells", "opaque")
      local _, other
      other, _, partial = shell.parse(text, { posix = true })
      if other or partial then self:scoped(other or partial) end
    end
    if tree then self:scoped(tree) end
  end
  self.text_depth = self.text_depth - 1
end

---Text that is only partly literal: asks, and looks for what is forbidden in any case.
function J:dynamic_text(w, what, posix)
  self:ask(what .. " on text that is not literal", "opaque")
  local out = {}
  for i, t in ipairs(w.parts or { { k = "s", s = w.text } }) do out[i] = (t.k == "s" or t.k == "t") and t.s
    or "${x}" end
  local saved = self.deny_only
  self.deny_only = true
  self:text(table.concat(out), what, posix)
  self.deny_only = saved
end

-- ---- one simple command ----------------------------------------------------------------------

-- Canonical form: words joined by a blank; \0 stands for what is not literal.
local function canonical(words, from, first)
  local out, n, dynamic = {}, 0, false
  for i = from, #words do
    local w = words[i]
    n = n + 1
    if w.static then
      out[n] = i == from and first or w.text
    else
      dynamic = true
      local text = {}
      for k, t in ipairs(w.parts) do text[k] = (t.k == "s" or t.k == "t") and t.s or "\0" end
      out[n] = table.concat(text)
    end
  end
  return table.concat(out, " "), dynamic
end

-- For people: cut, since it may be long.
local function shown(words, from)
  local out, room = {}, 400
  for i = from, #words do
    out[#out + 1] = words[i].text
    room = room - #words[i].text - 1
    if room < 0 then break end
  end
  return table.concat(out, " "):sub(1, 400)
end
J.shown = shown
J.canonical = canonical

-- Wrappers in wrappers copy words, and many words are tried as commands: bounded, so that the whole stays linear.
function J:spend(n)
  self.work = self.work + n
  if self.work <= MAX_WORK then return true end
  self.deny_only = false -- what was not looked at is not known to be fine
  self:ask("the command line is too tangled to judge", "opaque")
  return false
end

---Deny and ask rules on the words from i; also under the base name and the further forms given.
---@return boolean denied
function J:forbidden(words, i, forms)
  local name = words[i].text
  if not self:spend(#words - i + 1) then return false end
  local base = find(name, "/", 1, true) and name:match("[^/]+$")
  local text, dynamic = canonical(words, i)
  local tried = { text }
  if base then tried[2] = (canonical(words, i, base)) end
  for _, f in ipairs(forms or {}) do tried[#tried + 1] = f end
  for _, verdict in ipairs { "deny", "ask" } do
    for _, t in ipairs(tried) do
      local rule = self.rules:find_exec(verdict, t)
      if rule then
        self:note(verdict, ("%s: rule '%s'"):format(shown(words, i):sub(1, 200), rule.rule), rule, "rule")
        if verdict == "deny" then return true end
        break
      end
      if dynamic then
        -- An unquoted expansion may vanish with its blank.
        rule = self.rules:might(verdict, (t:gsub(" ?%z ?", "\0")))
        if rule then self:note("ask", "it may be what the rule '" .. rule.rule .. "' speaks about", rule, "flag") end
      end
    end
  end
  return false
end

function J:list_command(words, i)
  local list = self.commands
  if #list < MAX_LISTED then list[#list + 1] = (shown(words, i):sub(1, 400)) end
end

---The rules' verdict on an ordinary command.
---@param forms string[]? further canonical forms, for all rules
---@param deny_forms string[]? for deny and ask rules only
function J:ordinary(words, i, forms, deny_forms)
  self:list_command(words, i)
  local all = {}
  for _, f in ipairs(forms or {}) do all[#all + 1] = f end
  for _, f in ipairs(deny_forms or {}) do all[#all + 1] = f end
  if self:forbidden(words, i, all) then return end
  local text = canonical(words, i)
  local rule = self.rules:find_exec("allow", text)
  for _, f in ipairs(forms or {}) do rule = rule or self.rules:find_exec("allow", f) end
  local harmless = self:harmless(words, i, text, forms)
  if self.plan and not harmless then
    return self:note("deny", "plan mode is read-only: " .. shown(words, i):sub(1, 200))
  end
  if rule then
    self:note("allow", ("rule '%s'"):format(rule.rule), rule)
  elseif harmless and self.builtin_rules then
    self:note("allow", "harmless", { rule = harmless.rule, source = "built-in" })
  else
    self.unmatched[#self.unmatched + 1] = { words = words, from = i }
    self:ask("no rule allows: " .. shown(words, i):sub(1, 200), "unmatched")
  end
end

-- The built-in rule that calls a command harmless, if its words stay in the project.
function J:harmless(words, i, text, forms)
  if not self.harmless_rules then return nil end
  local rule = self.harmless_rules:find_exec("allow", text)
  for _, f in ipairs(forms or {}) do rule = rule or self.harmless_rules:find_exec("allow", f) end
  if not rule then return nil end
  for k = i + 1, #words do
    local w = words[k]
    local path = w.text
    if w.tilde or find(path, "^/") and not self:inside(path) and not find(path, "^/usr/") and not find(path, "^/dev/")
      and not find(path, "^/tmp/") and path ~= "/tmp" or find(path, "%.%./") or find(path, "%.%.$")
        and not find(path, "[^./]") then
      if words[i].text ~= "echo" and words[i].text ~= "printf" and words[i].text ~= "cd" then return nil end
    end
  end
  return rule
end

---What a simple command does, words[i] being its name.
---@param external boolean? started by a program, not by the shell: no functions
function J:command(words, i, external)
  local w = words[i]
  if not w then return end
  if not self:spend(#words - i + 1) then return end
  if self.files then self.files:command(words, i) end
  if not w.static then
    self:list_command(words, i)
    self:ask("the command word is not literal: " .. shown(words, i):sub(1, 100), "opaque")
    self:forbidden(words, i)
    return
  end
  local name = w.text
  if find(name, "[^\32-\126]") then self:ask("a command name with unusual characters") end
  local commands = require "terret.permissions.commands"
  local builtin = require("terret.permissions.builtins")[name]
  if not external and self.functions[name] and not self.unset_function then
    if self.foreign then self:ask("a function called outside the project") end
    self:forbidden(words, i)
    return
  end
  if builtin then
    local done = builtin(self, words, i)
    if done then return end
  end
  return commands.run(self, words, i)
end

---@param tree table
---@param o {rules: table, harmless: table?, builtin: boolean?, plan: boolean?, project: string?, foreign: boolean?,
---cwd: string?, home: string?}
---@param broken string? why the tree is only a part
function M.run(tree, o, broken)
  local self = setmetatable({ rules = o.rules, harmless_rules = o.harmless, builtin_rules = o.builtin, plan = o.plan,
    project = o.project, foreign = o.foreign or false, values = values.new(), functions = {}, commands = {}, kinds = {},
    unmatched = {}, deferred = {}, conditional = 0, cd_depth = 0, text_depth = 0,
    texts = 0, work = 0 }, J)
  self.files = files.new(self, o)
  if tree then self:list(tree) end
  self.values:settle()
  if self.files then self.files:finish() end
  for _, f in ipairs(self.deferred) do
    local reason = f(self.values)
    if reason then self:ask(reason) end
  end
  local reason = self.values:arith_reason()
  if reason then self:ask(reason) end
  if self.traps and self.left then self:ask("a trap that may run outside the project") end
  if self.plan and self.writes then self:note("deny", "plan mode is read-only: a redirection writes a file") end
  if broken then self:ask("can't be parsed: " .. broken, "opaque") end
  local best = self.best or { verdict = "allow", reason = "nothing that needs a rule" }
  best.commands, best.kinds, best.unmatched = self.commands, self.kinds, self.unmatched
  best.writes, best.path_reason = self.writes, self.path_reason
  return best
end

return M

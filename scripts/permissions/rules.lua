-- scripts/permissions/rules.lua - terret.permissions.rules: the rules file, and which rule speaks about a request.
--
-- A rule is a glob over one simple command in canonical form, or read(PATH), write(PATH), net(HOST), tool(NAME).
-- In commands and hosts `*` is any text; in paths `*` stays within a name and `**` does not.  There is no other
-- special character, and nothing here is a Lua pattern.  Deny is stricter than ask, ask than allow; the order
-- of rules does not matter.
local paths = require("terret.lazy") "terret.permissions.paths"

local M = {}
local find, sub = string.find, string.sub

local verdicts = { allow = true, ask = true, deny = true }
local classes = { read = "path", write = "path", net = "host", tool = "name" }

---@return string class "exec", "read", "write", "net", "tool"
---@return string pattern
function M.classify(rule)
  local class, inner = rule:match("^(%a+)%((.*)%)$")
  if class and classes[class] then return class, inner end
  return "exec", rule
end

---Reads a rules file: one `allow|ask|deny RULE` a line, `#` starts a comment line.
---@param text string
---@param source string for messages
---@return {verdict: string, rule: string, source: string}[]?
---@return string? message
---@return terret.code? code
function M.parse(text, source)
  local out, n = {}, 0
  for line in (text .. "\n"):gmatch("(.-)\r?\n") do
    n = n + 1
    line = line:match("^%s*(.-)%s*$")
    if line ~= "" and sub(line, 1, 1) ~= "#" then
      local verdict, rule = line:match("^(%a+)%s+(.+)$")
      if not (verdict and verdicts[verdict]) then
        return nil, ("%s:%d: 'allow RULE', 'ask RULE' or 'deny RULE' expected"):format(source, n), "bad_rule"
      end
      local class, inner = M.classify(rule)
      if inner == "" or (class == "exec" and find(rule, "^%a+%(.*%)$") and not find(rule, "%s")) then
        return nil, ("%s:%d: unknown kind of rule '%s'"):format(source, n, rule), "bad_rule"
      end
      out[#out + 1] = { verdict = verdict, rule = rule, source = ("%s:%d"):format(source, n) }
    end
  end
  return out
end

---@param verdict string
---@param rule string
---@return string line
function M.format(verdict, rule)
  if not verdicts[verdict] then error("format_rule: unknown verdict", 2) end
  if find(rule, "[\n\r]") then error("format_rule: a rule is one line", 2) end
  return verdict .. " " .. rule
end

-- "a*b" -> {"a", "b"}: the literal pieces around the stars.
local function pieces(pattern)
  local out, at = {}, 1
  while true do
    local s = find(pattern, "*", at, true)
    out[#out + 1] = sub(pattern, at, (s or 0) - 1)
    if not s then return out end
    at = s + 1
  end
end

---Does the glob match?  Linear: the leftmost place of each piece is as good as any other.
local function match(p, text)
  local n = #p
  if n == 1 then return p[1] == text end
  local first, last = p[1], p[n]
  if #text < #first + #last or sub(text, 1, #first) ~= first then return false end
  if last ~= "" and sub(text, -#last) ~= last then return false end
  local at, limit = #first + 1, #text - #last
  for i = 2, n - 1 do
    local s, e = find(text, p[i], at, true)
    if not s or e > limit then return false end
    at = e + 1
  end
  return true
end

-- Could it match, when each \0 of the text stands for unknown text?  May say yes too often.
local function possible(p, text)
  local a, b = p[1], text:match("^[^%z]*")
  local n = math.min(#a, #b)
  if #p == 1 and #b > #a then return false end
  if sub(a, 1, n) ~= sub(b, 1, n) then return false end
  a, b = p[#p], text:match("^.*%z(.*)$") or text
  n = math.min(#a, #b)
  return n == 0 or sub(a, -n) == sub(b, -n)
end

-- Paths: `*` within a name, `**` across names.  A memo keeps it from exploding.
local function match_path(pattern, path)
  local dead = {}
  local function go(i, k)
    local key = i * (#path + 2) + k
    if dead[key] then return false end
    local c = sub(pattern, i, i)
    local ok
    if c == "" then
      ok = k > #path
    elseif c == "*" then
      local across = sub(pattern, i + 1, i + 1) == "*"
      local rest = i + (across and 2 or 1)
      ok = go(rest, k) or (k <= #path and (across or sub(path, k, k) ~= "/") and go(i, k + 1))
      -- "dir/**" also means the directory itself.
    else
      ok = c == sub(path, k, k) and go(i + 1, k + 1)
    end
    if not ok then dead[key] = true end
    return ok
  end
  if #pattern * #path > 4 << 20 or #path > 4096 then return false end
  return go(1, 1)
end

local Set = {}
Set.__index = Set

---@param list {verdict: string, rule: string, source: string?}[]
---@param context {project: string?, home: string?}
function M.new(list, context)
  local set = setmetatable({ context = context, exec = {}, path = {}, net = {}, tool = {}, guard = {} }, Set)
  for _, v in ipairs { "allow", "ask", "deny" } do
    set.exec[v] = { first = {}, any = {} }
  end
  for _, r in ipairs(list) do set:add(r) end
  return set
end

function Set:add(r)
  if type(r) ~= "table" or not verdicts[r.verdict] or type(r.rule) ~= "string" or r.rule == "" then
    error("permissions: a rule is {verdict = allow|ask|deny, rule = text, source = text}", 3)
  end
  local class, pattern = M.classify(r.rule)
  local entry = { verdict = r.verdict, rule = r.rule, source = r.source or r.scope or "?" }
  if class == "exec" then
    self:add_exec(entry, pattern)
  elseif class == "net" then
    entry.p = pieces(pattern:lower())
    table.insert(self.net, entry)
  elseif class == "tool" then
    entry.p = pieces(pattern)
    table.insert(self.tool, entry)
  else
    local context = self.context or {}
    if pattern:find("^~/") and context.home then pattern = context.home .. sub(pattern, 2) end
    -- "**/x" is anywhere; "*.x" and "x" are in the project.
    if not find(pattern, "^/") and not find(pattern, "^%*%*") and context.project then
      pattern = context.project .. "/" .. pattern
    end
    while find(pattern, "/%./") do pattern = pattern:gsub("/%./", "/") end
    entry.class, entry.pattern = class, pattern
    table.insert(self.path, entry)
    if entry.verdict ~= "allow" then
      entry.form = paths.form(pattern)
      self.guard[class] = self.guard[class] or {}
      table.insert(self.guard[class], entry)
    end
  end
end

-- Rules whose first word is literal are found by it.
function Set:add_exec(entry, pattern)
  local index = self.exec[entry.verdict]
  entry.p = pieces(pattern)
  if pattern ~= " *" and find(pattern, " %*$") and #entry.p >= 2 and entry.p[#entry.p] == "" then
    entry.bare = pieces(sub(pattern, 1, -3))
  end
  local word = pattern:match("^([^ *]+) ") or pattern:match("^([^ *]+)$")
  if word then
    index.first[word] = index.first[word] or {}
    table.insert(index.first[word], entry)
  else
    table.insert(index.any, entry)
  end
end

local function look(list, text, test)
  for _, e in ipairs(list) do
    if test(e.p, text) or (e.bare and test(e.bare, text)) then return e end
  end
end

---The rule of one verdict that matches a canonical command (\0 = unknown text).
---@param verdict string
---@param text string
---@return table? rule
function Set:find_exec(verdict, text)
  local index = self.exec[verdict]
  local list = index.first[text:match("^[^ ]*")]
  return list and look(list, text, match) or look(index.any, text, match)
end

---A deny or ask rule that the unknown parts of the command might make match.
function Set:might(verdict, text)
  local index = self.exec[verdict]
  local list = index.first[text:match("^[^ ]*")]
  return list and look(list, text, possible) or look(index.any, text, possible)
end

local rank = { allow = 1, ask = 2, deny = 3 }
local function strictest(best, e)
  if not best or rank[e.verdict] > rank[best.verdict] then return e end
  return best
end

---@param class string "read" or "write"
---@param path string absolute
function Set:find_path(class, path)
  local best
  for _, e in ipairs(self.path) do
    if e.class == class and match_path(e.pattern, path) then best = strictest(best, e) end
  end
  return best
end

---The deny and ask rules about a class of paths; nil when there is none.
---@param class "read"|"write"
---@return {verdict: string, rule: string, source: string, pattern: string, form: string}[]?
function Set:guards(class) return self.guard[class] end

function Set:find_net(host)
  local best
  for _, e in ipairs(self.net) do
    if match(e.p, host:lower()) then best = strictest(best, e) end
  end
  return best
end

function Set:find_tool(name)
  local best
  for _, e in ipairs(self.tool) do
    if match(e.p, name) then best = strictest(best, e) end
  end
  return best
end

---@return boolean whether any deny rule speaks about commands
function Set:denies_exec()
  return next(self.exec.deny.first) ~= nil or #self.exec.deny.any > 0
end

M.match, M.pieces, M.match_path = match, pieces, match_path
return M

-- scripts/permissions/values.lua - terret.permissions.values: what a dynamic word may turn into.
--
-- The judge records every assignment of a line here (order does not matter: loops and functions run in any).
-- A variable that the line never sets comes from the environment and counts as data; one set from literal
-- text is known; one set from a command's output, from input or from file names is tainted, unless the
-- command prints numbers.
local M = {}
local find, sub = string.find, string.sub

local Values = {}
Values.__index = Values

function M.new() return setmetatable({ vars = {}, words = {}, arith = {}, hostile = false }, Values) end

local MAX_TEXTS = 16
local MAX_PARTS = 100
local plain_specials = { ["#"] = true, ["?"] = true, ["$"] = true, ["!"] = true, ["-"] = true }

local counters = {}
for w in ("wc nproc seq cksum"):gmatch("%S+") do counters[w] = true end
local filters = {}
for w in ("tr head tail sort uniq tac rev cat"):gmatch("%S+") do filters[w] = true end

-- Does a command print nothing but numbers (and blanks)?
local function numeric_simple(node)
  local w = node.type == "simple" and node.words
  if not w or not w[1] or not w[1].static then return false end
  local name = w[1].text
  if counters[name] then
    -- `wc file` prints the name as well.
    if name ~= "wc" then return name ~= "cksum" or #w == 1 end
    for i = 2, #w do
      if not (w[i].static and find(w[i].text, "^%-[lwcmL]+$")) then return false end
    end
    return true
  end
  if name == "echo" or name == "printf" or name == "expr" then
    for i = 2, #w do
      if not (w[i].static and find(w[i].text, "^[%d%s+*/%%.-]*$")) then return false end
    end
    return true
  end
  if name == "date" then return #w == 2 and w[2].static and find(w[2].text, "^%+[%%%-sYmdHMSNjuw]+$") ~= nil end
  if name == "grep" then
    for i = 2, #w do
      if w[i].static and find(w[i].text, "^%-[a-zA-Z]*c[a-zA-Z]*$") then return #w <= i + 2 end
    end
  end
  if name == "stat" then
    return #w >= 4 and w[2].static and (w[2].text == "-c" or w[2].text == "-f") and w[3].static
      and find(w[3].text, "^%%[szYXZiuga]$") ~= nil
  end
  if name == "id" then return #w == 2 and w[2].static and find(w[2].text, "^%-[ug]$") ~= nil end
  if name == "git" then
    return #w >= 3 and w[2].static and w[2].text == "rev-list" and w[3].static and w[3].text == "--count"
  end
  return false
end

---@param list table body of a command substitution
function M.numeric_output(list)
  if #list.items ~= 1 then return false end
  local node = list.items[1]
  if node.type == "pipeline" then
    local n = #node.commands
    while n > 1 and node.commands[n].type == "simple" and node.commands[n].words[1]
      and filters[node.commands[n].words[1].text] do
      n = n - 1
    end
    node = node.commands[n]
  end
  return node ~= nil and numeric_simple(node)
end

-- What a word is as the value of a variable: "num", a list of texts, or "taint".
function Values:kind(w)
  if w.static then
    if find(w.text, "^%-?%d+$") then return "num" end
    return { w.text }
  end
  local texts, glob = self:texts(w, true)
  if glob then return "taint" end
  return texts or "taint"
end

local function merge(a, b)
  if a == nil then return b end
  if a == "taint" or b == "taint" then return "taint" end
  if a == "num" then a = { "0" } end
  if b == "num" then b = { "0" } end
  for _, s in ipairs(b) do a[#a + 1] = s end
  return #a > MAX_TEXTS and "taint" or a
end

-- The words that a variable was set to, for paths; false: not known.
local function record(words, name, what)
  if type(what) == "table" and not what.text then return end -- unset, or declared without a value
  local list = words[name]
  if list == nil then
    list = {}
    words[name] = list
  end
  if what == "taint" or not list or #list >= MAX_TEXTS then words[name] = false else list[#list + 1] = what end
end

---@param name string
---@param kind "num"|"taint"|string[]|table a WORD counts by its content
---@param word table|string|nil what `words` keeps of it; default `kind`
function Values:set(name, kind, word)
  record(self.words, name, word or kind)
  if type(kind) == "table" and kind.text then
    if kind.static then
      kind = self:kind(kind)
    else
      -- Resolved when everything is known.
      self.later = self.later or {}
      self.later[#self.later + 1] = { name, kind }
      self.vars[name] = self.vars[name] or "pending"
      return
    end
  end
  local old = self.vars[name]
  if old == "pending" then old = nil end
  self.vars[name] = merge(old, kind)
end

---Before questions are asked: variables that were set from other variables.
function Values:settle()
  local later = self.later
  self.later = nil
  for _ = 1, later and 4 or 0 do
    for _, item in ipairs(later) do
      local name, w = item[1], item[2]
      local kind = self:kind(w)
      if kind == "taint" or self.vars[name] == "pending" then
        self.vars[name] = kind
      elseif not item.done or item.done ~= kind then
        self.vars[name] = merge(self.vars[name], kind)
      end
      item.done = kind
      if self.vars[name] ~= "taint" and type(kind) == "table" then
        -- a variable set from itself grows: not known
        for _, t in ipairs(w.parts or {}) do
          if t.k == "v" and t.name == name then self.vars[name] = "taint" end
        end
      end
    end
  end
  for name, v in pairs(self.vars) do
    if v == "pending" then self.vars[name] = "taint" end
  end
end

-- The texts that one part may be; nil when anything.
function Values:part_texts(t, environment_ok)
  if t.k == "s" or t.k == "t" then return { t.s } end
  if t.k == "a" then return { "0" } end
  if t.k == "p" then return { "/dev/fd/63" } end
  if t.k == "c" then return M.numeric_output(t.body) and { "0" } or nil end
  if t.k ~= "v" then return nil end
  if t.length or plain_specials[t.name] then return { "0" } end
  if t.indirect or t.names or find(t.name, "^[%d@*]") then return nil end
  local known = self.vars[t.name]
  if known == "pending" or known == "taint" then return nil end
  local texts = known == "num" and { "0" } or known or (environment_ok and { "\1" }) or nil
  if not texts or not t.op then return texts end
  if t.word then
    local inner = self:texts(t.word, environment_ok)
    if not inner then return nil end
    if find(t.op, "^:?[-=+?]") then
      local both = table.move(inner, 1, #inner, 1, {})
      return table.move(texts, 1, #texts, #both + 1, both)
    end
    if known == nil and not find(table.concat(inner, "\n"), "[-;|&]") then return texts end
  end
  if known == nil or known == "num" then
    return (t.op == ":" or find(t.op, "^[#%%]")) and texts or nil
  end
  return nil
end

---All texts that a word may be; nil when it may be anything.  "\1" stands for a value of the environment.
---@param w table
---@param environment_ok boolean? variables that the line does not set count as data
---@return string[]? texts
---@return boolean? glob it holds a glob
function Values:texts(w, environment_ok)
  if w.static then return { w.text } end
  local out, glob = { "" }, false
  if #w.parts > MAX_PARTS then return nil, true end
  for _, t in ipairs(w.parts) do
    local texts
    if t.k == "g" then
      glob, texts = true, { t.s }
    else
      texts = self:part_texts(t, environment_ok)
    end
    if not texts then return nil, glob end
    if #texts * #out > MAX_TEXTS then return nil, glob end
    local new = {}
    for _, a in ipairs(out) do
      for _, b in ipairs(texts) do new[#new + 1] = a .. b end
    end
    out = new
  end
  return out, glob
end

---May the word turn into an option (or into several words with one among them)?
function Values:may_be_option(w)
  if w.static then return false end
  local first = true
  for i, t in ipairs(w.parts) do
    if t.k == "g" then
      -- File names: hostile only where the name may start with a dash and end in anything.
      if first then
        local last = w.parts[#w.parts]
        if last.k ~= "s" or i == #w.parts then return true end
      end
    elseif t.k ~= "s" then
      local texts = self:part_texts(t, true)
      if not texts then
        if not t.q or first then return true end
      else
        for _, s in ipairs(texts) do
          if ((first or t.many) and sub(s, 1, 1) == "-") or (not t.q and find(s, "[ \t\n]%-")) then return true end
        end
      end
    end
    if not (t.k == "s" and t.s == "") then first = false end
  end
  return false
end

---A variable, or an expansion, that bash evaluates as arithmetic: its value may hold a[$(command)].
function Values:evaluates(part_or_name)
  self.arith[#self.arith + 1] = part_or_name
end

---@return string? reason why arithmetic of this line may run code from data
function Values:arith_reason()
  for _, t in ipairs(self.arith) do
    if type(t) == "string" then
      local known = self.vars[t]
      if known == "taint" or known == "pending" then
        return "arithmetic on the value of " .. t .. ", which comes from outside, can run code"
      elseif type(known) == "table" then
        for _, s in ipairs(known) do
          if find(s, "[$`]") then return "arithmetic on the value of " .. t .. " can run code" end
        end
      elseif self.hostile then
        return "text that looks like a substitution, and arithmetic on variables"
      end
    elseif t.k == "c" then
      if not M.numeric_output(t.body) then return "arithmetic on the output of a command can run code" end
    elseif t.k == "v" and not t.length and not plain_specials[t.name] then
      if self.hostile then return "text that looks like a substitution, and arithmetic on variables" end
      local texts = self:part_texts(t, true)
      if not texts and not find(t.name, "^[%d@*]") then
        return "arithmetic on the value of " .. t.name .. ", which comes from outside, can run code"
      end
      for _, s in ipairs(texts or {}) do
        if find(s, "[$`]") then return "arithmetic on the value of " .. t.name .. " can run code" end
      end
      if not texts and self.positional then return "arithmetic on positional parameters can run code" end
    end
  end
end

return M

-- scripts/permissions/options.lua - terret.permissions.options: options of commands by the specifications
-- in tables.lua.
local M = {}
local sub, find = string.sub, string.find

local by_text = {}

---@param text string specification, see tables.lua
function M.spec(text)
  local s = by_text[text]
  if s then return s end
  s = { short = {}, long = {}, names = {}, roles = {} }
  for token in text:gmatch("%S+") do
    local option, role = token:match("^(.+)([~<^/])$")
    if role then
      s.roles[option] = role
      token = option .. (role == "/" and "" or find(option, "^%-%-") and "=" or ":")
    end
    local name, kind = token:match("^%-%-(.-)([=?!]?)$")
    if name and name ~= "" then
      s.long[name] = kind
      s.names[#s.names + 1] = name
    elseif token == "only" then
      s.only = true
    elseif token == "#" then
      s.digits = true
    elseif find(token, "^%+%d+$") then
      s.skip = tonumber(sub(token, 2))
    elseif find(token, "^<%d+$") then
      s.operands = tonumber(sub(token, 2))
    else
      name, kind = token:match("^(.)([:?!]?)$")
      if name then s.short[name] = kind else s.long[token:gsub("[!:=?]$", "")] = token:match("[!:=?]$") or "" end
    end
  end
  by_text[text] = s
  return s
end

---A piece of a word as a word: literal, or as unknown as the whole.
---@param w table
---@param text string?
function M.piece(w, text)
  if w.static then return { text = text or "", static = true } end
  return w
end

---What a long option means: its kind ("" none, "=" argument, "?" attached only, "!" dangerous), or nil when unknown.
---Abbreviations count as the most dangerous option that they may mean.
---@param s table
---@param name string without dashes and value
---@return string? kind
function M.long(s, name)
  local kind = s.long[name]
  if kind then return kind end
  if name == "" then return nil end
  for _, full in ipairs(s.names) do
    if sub(full, 1, #name) == name and (not kind or s.long[full] == "!") then kind = s.long[full] end
  end
  return kind
end

---What the specification says an option's value is for (`~`, `<`, `^`, `/`), if anything.
---@param s table
---@param name string as visit() gets it
---@return string? role
function M.role(s, name)
  if sub(name, 1, 2) ~= "--" then return s.roles[sub(name, 2)] end
  if s.roles[name] then return s.roles[name] end
  for full, role in pairs(s.roles) do
    if sub(full, 1, #name) == name then return role end
  end
end

---Walks the words after words[i].  visit(kind, name, value word?, word) is called for every option: it may return
---a reason to stop.  Operands are collected.
---@return integer[] operands indices
---@return string? reason from visit
---@return integer next index where an unfinished walk stopped
function M.walk(words, i, s, visit, stop_at_operand)
  local operands, k, n = {}, i + 1, #words
  while k <= n do
    local w = words[k]
    local text = w.text
    local literal = w.static and text or w.parts and w.parts[1] and w.parts[1].k == "s" and w.parts[1].s or text
    if w.parts and w.parts[1] and w.parts[1].k ~= "s" then literal = "" end
    if literal == "--" and w.static then
      k = k + 1
      break
    elseif find(literal, "^%-%-.") and not (s.digits and find(literal, "^%-%-%d")) then
      local name = literal:match("^%-%-([^=]*)")
      local kind = M.long(s, name)
      local value
      if kind == "=" and not find(literal, "=", 1, true) then
        k = k + 1
        value = words[k]
      end
      local reason = visit(kind, "--" .. name, value, w)
      if reason then return operands, reason, k end
    elseif find(literal, "^%-.") or (not w.static and literal == "-") then
      local opts = literal
      local at = 2
      if s.digits and find(opts, "^%-%-?%d+$") then at = #opts + 1 end
      while at <= #opts do
        local c = sub(opts, at, at)
        local kind = s.short[c]
        local value
        if kind == ":" and at == #opts and w.static then
          k = k + 1
          value = words[k]
        end
        local reason = visit(kind, "-" .. c, value, w)
        if reason then return operands, reason, k end
        if kind == ":" or kind == "?" then break end
        at = at + 1
      end
      -- `-$x`: the dynamic rest may be any option.
      if not w.static and at > #opts then
        local reason = visit("dynamic", text, nil, w)
        if reason then return operands, reason, k end
      end
    else
      if stop_at_operand then return operands, nil, k end
      if not w.static then
        local reason = visit("dynamic", text, nil, w)
        if reason then return operands, reason, k end
      end
      operands[#operands + 1] = k
    end
    k = k + 1
  end
  if not stop_at_operand then
    while k <= n do
      operands[#operands + 1] = k
      k = k + 1
    end
  end
  return operands, nil, k
end

return M

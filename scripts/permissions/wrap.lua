-- scripts/permissions/wrap.lua - terret.permissions.wrap: finding the command inside a wrapper.
local options = require "terret.permissions.options"
local judge = require "terret.permissions.judge"

local M = {}
local find, sub = string.find, string.sub
local set_of = judge.set_of

-- A word that is a placeholder for input of the command (xargs, find).
function M.placeholder(name, quoted)
  return { text = name, static = false, parts = { { k = "v", name = name, q = quoted } } }
end

-- words[from..to] as a list of its own, `mark` inside words standing for unknown text.
function M.template(words, from, to, mark, part)
  local out = {}
  for k = from, to do
    local w = words[k]
    if mark and w.static and find(w.text, mark, 1, true) then
      local parts, at = {}, 1
      while true do
        local s, e = find(w.text, mark, at, true)
        if s ~= at then parts[#parts + 1] = { k = "s", s = sub(w.text, at, (s or 0) - 1) } end
        if not s then break end
        parts[#parts + 1] = part
        at = e + 1
      end
      w = { text = w.text, static = false, parts = parts }
    end
    out[#out + 1] = w
  end
  return out
end

-- Looks for forbidden commands among the words of a wrapper that isn't understood.
local containers = "docker podman nerdctl kubectl conda lxc vagrant multipass"
function M.scan(j, words, i, base)
  local saved = j.deny_only
  local inside = not set_of(containers)[base]
  j.deny_only = true
  for k = i + 1, math.min(#words, i + 60) do
    local w = words[k]
    if w.static then
      if w.text == "run" or w.text == "exec" or w.text == "--" then inside = true
      elseif inside and not find(w.text, "^%-") then
        j:forbidden(words, k)
        if find(w.text, "[ \t\n;]") then
          j:text(w.text, base)
          -- `spawn rm x`, `shell rm x`, `ProxyCommand=rm x`
          local rest = w.text:match("^%s*%a+%s+(.*)$") or w.text:match("^[%w_.-]+=(.*)$")
          if rest then j:text(rest, base) end
        end
      end
    end
  end
  j.deny_only = saved
end

local function unquoted(w)
  if w.static then return false end
  for _, t in ipairs(w.parts or {}) do
    if t.k ~= "s" and t.k ~= "t" and t.k ~= "a" and not t.q then return true end
  end
  return false
end

-- Skips a wrapper's options and operands: the index of the inner command's word, or nil and a reason.
function M.unwrap(j, words, i, base, spec)
  local _, reason, k = options.walk(words, i, spec, function(kind, name, value, w)
    if kind == nil then return "unknown option " .. name .. " of " .. base end
    if kind == "dynamic" then return "an option of " .. base .. " that is not literal" end
    if kind == "!" then j:ask(base .. " " .. name .. " executes or writes") end
    if (value and unquoted(value)) or (w and unquoted(w)) then return "an option of " .. base
      .. " that is not literal" end
  end, true)
  if reason then return nil, reason end
  if base == "env" and words[k] and words[k].static and words[k].text == "-" then k = k + 1 end
  if base == "env" then
    while words[k] do
      local w = words[k]
      local literal = w.static and w.text or w.parts and w.parts[1].k == "s" and w.parts[1].s or ""
      local name = literal:match("^([^=]+)=")
      if not name then break end
      j:variable(name)
      if unquoted(w) then return nil, "a value of env that may be several words" end
      if not find(name, "^[%a_][%w_]*$") then j:ask("env sets an odd name") end
      if w.static and (find(w.text, "$(", 1, true) or find(w.text, "`", 1, true)) then
        j:ask("code as the value of " .. name)
      end
      k = k + 1
    end
  end
  for _ = 1, spec.skip or 0 do
    if words[k] and unquoted(words[k]) then return nil, "an operand of " .. base .. " that may be several words" end
    k = k + 1
  end
  return k
end

return M

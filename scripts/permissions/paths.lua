-- scripts/permissions/paths.lua - terret.permissions.paths: paths that are only partly known, against path rules.
--
-- A form is the text of an absolute path in which ONE stands for any text within a name and ANY for any text at
-- all: `src/*.c` in /p is "/p/src/" ONE ".c".  Rules are forms too.  meets() says whether two forms have a path in
-- common, covers() whether a rule holds every path of a form.  What a word can't tell widens its form: a mistake
-- costs a question.
local values = require "terret.permissions.values"

local M = {}
local find, sub, byte, gsub = string.find, string.sub, string.byte, string.gsub

local ONE, ANY = "\1", "\2"
local any, slash = 2, 47 -- as bytes; whatever is not above `any` stands for other text
M.ANY = ANY

local MAX_FORMS = 16 -- of one word
local MAX_FORM = 4096
local MAX_DEPTH = 6 -- variables set from variables

---The form of a rule's pattern: `*` within a name, `**` across.
---@param pattern string
---@return string
function M.form(pattern)
  return (gsub(gsub(pattern, "%*%*+", ANY), "%*", ONE))
end

---Without ".", ".." and double slashes, by the text alone.  A name that is not known may be several.
---@param path string absolute, or one that begins with ANY
---@return string
function M.normalise(path)
  local out = {}
  local open = sub(path, 1, 1) == ANY -- where it begins is not known
  for name in path:gmatch("[^/]+") do
    if name == ".." then
      if not (out[#out] and find(out[#out], ANY, 1, true)) then out[#out] = nil end
    elseif find(name, "^%.[.\1]*$") and find(name, ONE, 1, true) then -- `.*` may be `..`
      out, open = { ANY }, true
    elseif name ~= "." then
      out[#out + 1] = name
    end
  end
  return (open and "" or "/") .. table.concat(out, "/")
end

---The literal ends of two forms decide most pairs.
---@param a string form
---@param b string form
---@return boolean true: they have no path in common; false: not known
function M.apart(a, b)
  if b == "/" .. ANY or b == ANY then return false end
  local x, y = a:match("^[^\1\2]*"), b:match("^[^\1\2]*")
  local n = math.min(#x, #y)
  if sub(x, 1, n) ~= sub(y, 1, n) then return true end
  x, y = a:match("[^\1\2]*$"), b:match("[^\1\2]*$")
  n = math.min(#x, #y)
  return n > 0 and sub(x, -n) ~= sub(y, -n)
end

-- Row by row: here[k] = the first i signs of a and the first k of b go together.
local function compare(a, b, whole)
  local n, m = #a, #b
  local before = { [0] = true }
  for k = 1, m do before[k] = not whole and before[k - 1] and byte(b, k) <= any end
  for i = 1, n do
    local c = byte(a, i)
    local here = { [0] = before[0] and c <= any }
    for k = 1, m do
      local d = byte(b, k)
      local ok
      if c <= any then -- empty, or it takes one more of b
        ok = before[k] or (here[k - 1] and (c == any or (d ~= slash and not (whole and d == any))))
      elseif d <= any and not whole then
        ok = here[k - 1] or (before[k] and (d == any or c ~= slash))
      else
        ok = before[k - 1] and c == d
      end
      here[k] = ok or false
    end
    before = here
  end
  return before[m] or false
end

---@param rule string form
---@param form string
---@return boolean whether some path is of both
function M.meets(rule, form)
  if form == "/" .. ANY or form == ANY then return true end
  return compare(rule, form, false)
end

---@param rule string form
---@param form string
---@return boolean whether every path of the form is one of the rule
function M.covers(rule, form)
  return compare(rule, form, true)
end

-- ---- words --------------------------------------------------------------------------------------

-- Text of a word as part of a form.
local function literal(s) return (gsub(s, "[\1\2]", ONE)) end

local parts_texts

-- The texts that a variable may hold, as parts of forms; nil when anything.
local function variable_texts(env, t, depth)
  if t.length or find(t.name, "^[#?$!-]$") then return { ONE } end
  if t.op or t.indirect or t.names or t.index or depth > MAX_DEPTH then return nil end
  local words = env.values.words[t.name]
  if words == nil and t.name == "HOME" and env.home then return { literal(env.home) } end
  if not words then return nil end
  local out = {}
  for _, w in ipairs(words) do
    local texts
    if w == "num" then texts = { ONE }
    elseif w.static then texts = { literal(w.text) }
    else texts = not w.tilde and parts_texts(env, w.parts, depth + 1) end
    if not texts or #out + #texts > MAX_FORMS then return nil end
    for _, s in ipairs(texts) do
      -- Unquoted, blanks would part it and signs would match names.
      if not t.q and find(s, "[%s*?%[]") then return nil end
      out[#out + 1] = s
    end
  end
  return out
end

-- The rest of a word after "[": what the brackets hold is one sign, at most names.
local function bracket(parts, i)
  local t = parts[i + 1]
  local close = t and t.k == "s" and t.s:match("^.*()%]")
  if not close or find(sub(t.s, 1, close), "/", 1, true) then return nil end
  return sub(t.s, close + 1)
end

function parts_texts(env, parts, depth)
  local out, i = { "" }, 1
  while i <= #parts do
    local t, texts = parts[i], nil
    if t.k == "s" or t.k == "t" then
      texts = { literal(t.s) }
    elseif t.k == "g" and t.s == "[" then
      local rest = bracket(parts, i)
      texts = rest and { ONE .. literal(rest) }
      i = i + 1
    elseif t.k == "g" and t.s ~= "" then
      local across = t.s == "*" and parts[i + 1] and parts[i + 1].k == "g" and parts[i + 1].s == "*"
      texts = { across and ANY or ONE }
    elseif t.k == "a" then
      texts = { ONE }
    elseif t.k == "c" then
      texts = values.numeric_output(t.body) and { ONE }
    elseif t.k == "v" then
      texts = variable_texts(env, t, depth)
    end
    -- What is quoted is one word at least: its end is known.
    if not texts and t.q and t.k ~= "p" then texts = { ANY } end
    if not texts or #texts * #out > MAX_FORMS then return nil end
    local new = {}
    for _, a in ipairs(out) do
      for _, b in ipairs(texts) do new[#new + 1] = a .. b end
    end
    out = new
    i = i + 1
  end
  return out
end

-- One text of a word as absolute forms, one for each directory that it may start from.
local function absolute(out, text, dirs)
  if #text > MAX_FORM then text = ANY end
  local open = find(text, ANY, 1, true)
  if open then -- what comes before may be undone by "..", inside what is not known
    local rest = text:match("[^\2]*$")
    out[#out + 1] = find("/" .. rest .. "/", "/..", 1, true) and ANY or M.normalise(ANY .. rest)
  elseif sub(text, 1, 1) == "/" then
    out[#out + 1] = M.normalise(text)
  else
    for _, dir in ipairs(dirs) do out[#out + 1] = M.normalise(dir .. "/" .. text) end
  end
end

---The absolute forms of a word as a path; none when it can be no path.
---@param w table word
---@param dirs string[] where relative paths may start
---@param env {values: table, home: string?}
---@return string[] forms
function M.of_word(w, dirs, env)
  local out = {}
  if w.static then
    if w.text ~= "" and #w.text <= MAX_FORM then absolute(out, literal(w.text), dirs) end
    return out
  end
  if w.parts and #w.parts == 1 and w.parts[1].k == "p" then return out end
  local texts = w.parts and parts_texts(env, w.parts, 0)
  if not texts then return { ANY } end
  for _, text in ipairs(texts) do
    if w.tilde and sub(text, 1, 1) == "~" then
      local rest = text:match("^~(/.*)$") or (text == "~" and "")
      text = rest and env.home and literal(env.home) .. rest or ANY
    end
    if text ~= "" then absolute(out, text, dirs) end
  end
  return out
end

return M

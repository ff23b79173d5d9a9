-- scripts/permissions/scripts.lua - terret.permissions.scripts: sed and awk programs: do they execute or write?
--
-- Scanners that know just enough of both languages to tell code from text.  What they don't follow is
-- reported, so a mistake costs a question.
local options = require "terret.permissions.options"

local M = {}
local find, sub = string.find, string.sub

-- ---- sed ---------------------------------------------------------------------------------------

-- The end of a delimited part (regex, replacement, y strings) that starts at `at`; nil when unclear.
local function sed_part(s, at, delimiter, regex)
  local bracket
  while at <= #s do
    local c = sub(s, at, at)
    if c == "\\" then
      -- A backslash in brackets is text to POSIX and an escape to some.
      if bracket and sub(s, at + 1, at + 1) == "]" then return nil end
      at = at + 1
    elseif bracket and c == "[" and find(s, "^[:.=]", at + 1) then
      local e = find(s, sub(s, at + 1, at + 1) .. "]", at + 2, true)
      if not e or find(sub(s, at, e), delimiter, 1, true) then return nil end
      at = e + 1
    elseif bracket then
      -- The delimiter in brackets ends the part in some seds and not in others.
      if c == delimiter then return nil end
      if c == "]" and at > bracket then bracket = nil end
    elseif c == delimiter then
      return at
    elseif c == "[" and regex then
      bracket = at + (find(s, "^%^?%]", at + 1) and (sub(s, at + 1, at + 1) == "^" and 2 or 1) or 0)
    elseif c == "\n" and regex then
      return nil
    end
    at = at + 1
  end
end

local function sed_address(s, at)
  local _, e = find(s, "^%d+~?%d*", at)
  if not e then _, e = find(s, "^%$", at) end
  if not e then _, e = find(s, "^[+~]%d+", at) end
  if e then return e + 1 end
  local c = sub(s, at, at)
  if c == "/" or c == "\\" then
    if c == "\\" then
      at = at + 1
      c = sub(s, at, at)
    end
    if c == "" or c == "\n" then return nil end
    e = sed_part(s, at + 1, c, true)
    if not e then return nil end
    return select(2, find(s, "^[IM]*", e + 1)) + 1
  end
  return at
end

local plain_target = { ["/dev/stdout"] = true, ["/dev/stderr"] = true, ["/dev/null"] = true }

---@param s string
---@param file (fun(class: string, path: string))? is told the files that it reads or writes
---@return string? reason
function M.sed_reason(s, file)
  local at, unclear = 1, "a sed script that can't be followed"
  if find(s, "^#n\n") then at = 4 end
  while at <= #s do
    at = select(2, find(s, "^[%s;]*", at)) + 1
    if at > #s then break end
    local c = sub(s, at, at)
    if c == "#" then
      at = (find(s, "\n", at, true) or #s) + 1
    elseif c == "}" then
      at = at + 1
    else
      local e = sed_address(s, at)
      if not e then return unclear end
      if e > at then
        at = select(2, find(s, "^[ \t]*", e)) + 1
        if sub(s, at, at) == "," then
          at = select(2, find(s, "^[ \t]*", at + 1)) + 1
          e = sed_address(s, at)
          if not e or e == at then return unclear end
          at = e
        end
      end
      at = select(2, find(s, "^[ \t!]*", at)) + 1
      c = sub(s, at, at)
      at = at + 1
      if c == "" then return unclear
      elseif c == "e" then return "sed's e runs a command"
      elseif c == "w" or c == "W" then
        local target = s:match("^[ \t]*([^\n]*)", at)
        if file then file("write", target) end
        if not plain_target[target] then return "sed's w writes a file" end
        at = (find(s, "\n", at, true) or #s) + 1
      elseif c == "r" or c == "R" then
        if file then file("read", s:match("^[ \t]*([^\n]*)", at)) end
        at = (find(s, "\n", at, true) or #s) + 1
      elseif c == "s" then
        local delimiter = sub(s, at, at)
        if delimiter == "" or delimiter == "\n" or delimiter == "\\" then return unclear end
        e = sed_part(s, at + 1, delimiter, true)
        e = e and sed_part(s, e + 1, delimiter, false)
        if not e then return unclear end
        local flags = s:match("^[%w]*", e + 1)
        local w = find(flags, "w", 1, true)
        if w then flags = sub(flags, 1, w - 1) end
        if find(flags, "e", 1, true) then return "sed's s///e runs a command" end
        if find(flags, "[^gpiImM%d]") then return unclear end
        at = e + 1 + #flags
        if w then
          local target = s:match("^w[ \t]*([^\n]*)", at)
          if file then file("write", target or "") end
          if not plain_target[target] then return "sed's s///w writes a file" end
          at = (find(s, "\n", at, true) or #s) + 1
        end
      elseif c == "y" then
        local delimiter = sub(s, at, at)
        e = delimiter ~= "" and sed_part(s, at + 1, delimiter, false)
        e = e and sed_part(s, e + 1, delimiter, false)
        if not e then return unclear end
        at = e + 1
      elseif find(c, "[aic]") then
        -- Text up to a line end that is not escaped.
        repeat
          e = find(s, "\n", at, true)
          local slashes = e and #s:sub(1, e - 1):match("\\*$") or 0
          at = (e or #s) + 1
        until not e or slashes % 2 == 0
      elseif find(c, "[btT:]") then
        local label
        label, at = s:match("^[ \t]*([^;\n}]*)()", at)
        if find(label, "%s%S") then return unclear end
      elseif find(c, "[=dDgGhHnNpPxzFlqQL{v]") then
        at = select(2, find(s, "^[ \t]*%d*", at)) + 1
        if c ~= "{" and not find(s, "^[%s;}#]", at) and at <= #s then return unclear end
      else
        return unclear
      end
    end
  end
end

-- Calls `reason` on every text that the words may be; asks when that can't be known.
local function later(j, words, reason, what)
  j.deferred[#j.deferred + 1] = function(values)
    local texts = { "" }
    if #words > 100 then return what .. " program of too many parts" end
    for n, w in ipairs(words) do
      local list = w.static and { w.text } or values:texts(w, true)
      if not list then return what .. " program that is not literal" end
      local out = {}
      for _, a in ipairs(texts) do
        for _, b in ipairs(list) do
          if not w.static and find(b, "^%s*\1%s*$") then return what .. " program that is not literal" end
          out[#out + 1] = n > 1 and a .. "\n" .. b or b
        end
      end
      if #out > 32 then return what .. " program that is not literal" end
      texts = out
    end
    for _, text in ipairs(texts) do
      local r = reason((text:gsub("\1", "1")))
      if r then return r end
    end
  end
end

local sed_spec = "n E r s u z b e: f! i! l: --expression= --file! --in-place! --quiet --silent --posix --debug "
  .. "--sandbox --null-data --separate --unbuffered --line-length= --follow-symlinks --regexp-extended "
  .. "--zero-terminated --binary"

function M.sed(j, words, i)
  local programs, in_place = {}, false
  local operands = options.walk(words, i, options.spec(sed_spec), function(kind, name, value, w)
    local long = find(name, "^%-%-")
    if kind == "!" then
      in_place = true
      j:ask("sed " .. name .. (name == "-f" and " runs a file" or " may write"))
    elseif kind == "dynamic" then
      j:option_risk(w, "sed")
    elseif (kind == ":" and name == "-e") or (kind == "=" and long and find("--expression", name, 1, true) == 1) then
      if not value then
        local text = long and w.text:match("=(.*)$") or w.text:match("^%-%a*e(.*)$")
        value = options.piece(w, text)
      end
      programs[#programs + 1] = value
    elseif kind == nil then
      j:ask("sed " .. name .. " is unknown")
    end
  end)
  if #programs == 0 and operands[1] then programs[1] = words[operands[1]] end
  if in_place then j.writes = true end
  later(j, programs, M.sed_reason, "a sed")
  j:ordinary(words, i)
end

-- ---- awk ---------------------------------------------------------------------------------------

local before_regex = { ["print"] = true, ["printf"] = true, ["return"] = true, ["in"] = true, ["case"] = true,
  ["else"] = true,
  ["do"] = true, ["exit"] = true, ["delete"] = true, ["getline"] = true }

---@param s string
---@return string? reason
function M.awk_reason(s)
  local at, n = 1, #s
  local operand = false     -- does a "/" divide?
  local printing, depth     -- inside the arguments of print, at which depth of parentheses
  local level, last = 0, ""    -- last: the character before, blanks aside
  while at <= n do
    local c = sub(s, at, at)
    local _, e, word = find(s, "^([%a_][%w_]*)", at)
    if word then
      if word == "system" then return "awk's system() runs a command" end
      if word == "print" or word == "printf" then printing, depth = true, level end
      if word == "getline" and printing then return "an awk program that can't be followed" end
      operand = not before_regex[word]
      at = e + 1
    elseif find(c, "%d") then
      at = select(2, find(s, "^[%w.]+", at)) + 1
      operand = true
    elseif c == '"' then
      local from = at
      repeat
        at = find(s, '["\\\n]', at + 1)
        local q = at and sub(s, at, at)
        if not at or q == "\n" then return "an awk program that can't be followed" end
        if q == "\\" then at = at + 1 end
      until q == '"'
      if at <= from then return "an awk program that can't be followed" end
      operand = true
      at = at + 1
    elseif c == "/" and not operand then
      local bracket = false
      while true do
        at = at + 1
        local q = sub(s, at, at)
        if q == "" or q == "\n" then return "an awk program that can't be followed" end
        if q == "\\" then at = at + 1
        elseif q == "[" then bracket = true
        elseif q == "]" then bracket = false
        elseif q == "/" then
          -- Awks differ on a slash inside brackets.
          if bracket then return "an awk program that can't be followed" end
          break
        end
      end
      operand = true
      at = at + 1
    elseif c == "#" then
      at = find(s, "\n", at, true) or n + 1
    elseif c == "|" then
      if sub(s, at + 1, at + 1) ~= "|" then return "awk runs a command" end
      operand = false
      at = at + 2
    elseif c == ">" and printing and level == depth then
      local target = s:match('^>>?%s*"(/dev/%a+)"%s*[;}\n]', at) or s:match('^>>?%s*"(/dev/%a+)"%s*$', at)
      if not plain_target[target] then return "awk writes a file" end
      at = at + 1
    elseif c == "@" then
      return "awk loads or calls indirectly"
    elseif c == "\\" and find(s, "^\\\r?\n", at) then
      at = find(s, "\n", at, true) + 1
    elseif find(c, "[%z\1-\8\14-\31\127-\255\\`']") then
      return "an awk program that can't be followed"
    else
      if find(c, "[(%[]") then level = level + 1
      elseif find(c, "[)%]]") then level = level - 1
      elseif find(c, "[;{}]") or (c == "\n" and last ~= "," and last ~= "&" and last ~= "|") then
        -- A print statement ends here (a line end after a comma continues it).
        if level == (depth or level) or c == "{" or c == "}" then printing = false end
        if c == "{" or c == "}" then level = 0 end
      end
      if find(s, "^%+%+", at) or find(s, "^%-%-", at) then
        at = at + 1
      elseif not find(c, "%s") or c == "\n" then
        operand = find(c, "[)%]$]") ~= nil
      end
      at = at + 1
    end
    if not find(c, "[%s#]") then last = c end
  end
end

local awk_spec = "F: v: f! e: E! i! l! W! d! D! o! p! b c C g h I k L M n N O P r s S t V --assign= "
  .. "--field-separator= --source= --file! --exec! --include! --load! --dump-variables! --debug! --pretty-print! "
  .. "--profile! --posix --traditional --re-interval --sandbox --characters-as-bytes --non-decimal-data --bignum "
  .. "--csv --version --help"

function M.awk(j, words, i)
  local programs = {}
  local operands, _, stop = options.walk(words, i, options.spec(awk_spec), function(kind, name, value, w)
    if kind == "!" then j:ask("awk " .. name .. " may execute or write")
    elseif kind == "dynamic" then
      j:ask("an option of awk that is not literal")
    elseif name == "-e" or (kind == "=" and find("--source", name, 1, true) == 1 and #name > 2) then
      programs[#programs + 1] = value or options.piece(w, w.text:match("=(.*)$") or w.text:match("e(.*)$"))
    elseif kind == nil then
      j:ask("awk " .. name .. " is unknown")
    end
  end, true)
  local _ = operands
  if #programs == 0 and words[stop] then programs[1] = words[stop] end
  later(j, programs, M.awk_reason, "an awk")
  j:ordinary(words, i)
end

return M

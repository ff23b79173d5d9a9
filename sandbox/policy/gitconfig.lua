-- sandbox/policy/gitconfig.lua - git's configuration files: reading them, and taking over of a
-- command's changes what can't make git run anything.
--
-- A command writes to a copy.  Its changes are compared key by key with what the copy was made from;
-- the allowed ones are put into the real file, which keeps its comments and its order.  What this reader
-- doesn't understand is refused whole: git might understand it otherwise.

local M = {}

local KEY_LIMIT = 10000 -- entries of one file

---@class terret.gitconfig.entry
---@field section string lower case
---@field sub string?
---@field key string lower case
---@field value string|true true: the key stands alone
---@field from integer byte where its line, or its part of the line, begins
---@field to integer byte after it, line end included

-- Reading ----------------------------------------------------------------------------------------

-- `[name]`, `[name "sub"]`, `[name.sub]` at a byte.
local function header(text, at)
  local name, after = text:match("^%[([%w%-]+)%]()", at)
  if name then return name:lower(), nil, after end
  local sub
  name, sub, after = text:match("^%[([%w%-]+)%.([%w%-%.]+)%]()", at)
  if name then return name:lower(), sub:lower(), after end
  name, after = text:match('^%[([%w%-]+)[ \t]+"()', at)
  if not name then return nil end
  local out = {}
  while true do
    local c = text:sub(after, after)
    if c == '"' then break end
    if c == "\\" then
      after = after + 1
      c = text:sub(after, after)
    end
    if c == "" or c == "\n" or c == "\0" then return nil end
    out[#out + 1] = c
    after = after + 1
  end
  if text:sub(after + 1, after + 1) ~= "]" then return nil end
  return name:lower(), table.concat(out), after + 2
end

local ESCAPES = { n = "\n", t = "\t", b = "\b", ["\\"] = "\\", ['"'] = '"' }

-- A value from a byte to its line's end: the value and the byte after the line.
local function value(text, at)
  local out, quoted, keep = {}, false, 0 -- keep: how much of out is not just trailing space
  local function put(c, solid)
    out[#out + 1] = c
    if solid then keep = #out end
  end
  at = text:match("^[ \t]*()", at)
  while true do
    local c = text:sub(at, at)
    if c == "" or c == "\n" or c == "\r" and text:sub(at + 1, at + 1) == "\n" then
      if quoted then return nil end
      return table.concat(out, "", 1, keep), at + (c == "\r" and 2 or c == "" and 0 or 1)
    elseif c == "\\" then
      local e = text:sub(at + 1, at + 1)
      if e == "\r" and text:sub(at + 2, at + 2) == "\n" then
        at = at + 1
      elseif e ~= "\n" then
        if not ESCAPES[e] then return nil end
        put(ESCAPES[e], true)
      end
      at = at + 1
    elseif c == '"' then
      quoted, keep = not quoted, #out
    elseif not quoted and (c == "#" or c == ";") then
      at = text:find("\n", at, true) or #text + 1
      goto continue
    elseif c == "\0" then
      return nil
    else
      put(c, quoted or not c:find("[ \t]"))
    end
    at = at + 1
    ::continue::
  end
end

---@param text string
---@return {entries: terret.gitconfig.entry[], sections: table[]}? nil: not understood
function M.parse(text)
  local entries, sections, at = {}, {}, 1
  if text:sub(1, 3) == "\u{FEFF}" then at = 4 end
  local current
  while true do
    local from = at
    at = text:match("^%s*()", at)
    local c = text:sub(at, at)
    if c == "" then return { entries = entries, sections = sections } end
    if c == "#" or c == ";" then
      at = (text:find("\n", at, true) or #text) + 1
    elseif c == "[" then
      local name, sub, after = header(text, at)
      if not name then return nil end
      current = { section = name, sub = sub, from = at, to = after, count = 0 }
      sections[#sections + 1] = current
      at = after
    else
      local key, after = text:match("^(%a[%w%-]*)[ \t]*()", at)
      if not key or not current or #entries >= KEY_LIMIT then return nil end
      local entry = { section = current.section, sub = current.sub, key = key:lower() }
      -- The blank before it goes with it, but no line end.
      entry.from = text:sub(from, at - 1):match("^.*\n()") and from + #text:sub(from, at - 1):match("^.*\n") or from
      if text:sub(after, after) == "=" then
        entry.value, at = value(text, after + 1)
      else
        local rest
        rest, at = value(text, after)
        entry.value = rest == "" and true or nil
      end
      if entry.value == nil then return nil end
      entry.to = at
      current.count, current.last = current.count + 1, at
      entries[#entries + 1] = entry
    end
  end
end

---@param e {section: string, sub: string?, key: string}
---@return string as git prints it
function M.name(e) return e.sub and ("%s.%s.%s"):format(e.section, e.sub, e.key) or e.section .. "." .. e.key end

local function by_name(parsed)
  local out = {}
  for i, e in ipairs(parsed.entries) do
    local id = M.name(e) .. (e.sub and "\0" or "")
    out[id] = out[id] or { section = e.section, sub = e.sub, key = e.key, values = {}, at = i }
    local values = out[id].values
    values[#values + 1] = e.value
  end
  return out
end

local function same(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

---What differs between two files: each key with its new values, none where it was removed.
---@return table[] in the order of the new file {section, sub, key, values, at}
function M.changes(before, after)
  local a, b, out = by_name(before), by_name(after), {}
  for id, e in pairs(b) do
    if not a[id] or not same(a[id].values, e.values) then out[#out + 1] = e end
  end
  for id, e in pairs(a) do
    if not b[id] then out[#out + 1] = { section = e.section, sub = e.sub, key = e.key, values = {}, at = 0 } end
  end
  table.sort(out, function(x, y)
    if x.at ~= y.at then return x.at < y.at end
    return M.name(x) < M.name(y)
  end)
  return out
end

-- What is allowed ----------------------------------------------------------------------------------

-- No transport that is a program (ext::), no option in a name's place, nothing that hides.
local function plain(v) return v ~= true and not v:find("[%c]") and not v:find("::", 1, true) and v:sub(1, 1) ~= "-" end

local SCHEMES = { http = true, https = true, ssh = true, git = true, file = true }

local function url(v)
  if not plain(v) then return false end
  local scheme, rest = v:match("^(%w[%w+.-]*)://(.*)$")
  if scheme then return SCHEMES[scheme:lower()] == true and rest:sub(1, 1) ~= "-" and not rest:find("@-", 1, true) end
  return not v:find("^[^/]*:%-")
end

local function refspec(v)
  if not plain(v) then return false end
  local from, to = v:match("^[+^]?([%w/_.*%-]+):?([%w/_.*%-]*)$")
  return from ~= nil and not from:find("..", 1, true) and (to == "" or to:find("^refs/") ~= nil)
end

local ALLOWED = {
  branch = function(e) return e.sub ~= nil and e.key ~= "mergeoptions" and plain end,
  remote = function(e) return e.sub ~= nil and (e.key == "url" and url or e.key == "fetch" and refspec) end,
  submodule = function(e)
    if e.key == "active" then return e.sub ~= nil and function(v) return v == true or plain(v) end end
    return e.sub ~= nil and e.key == "url" and url
  end,
  user = function(e) return e.sub == nil and plain end,
}

---@param e {section: string, sub: string?, key: string, values: (string|true)[]}
---@return boolean
function M.allowed(e)
  local check = ALLOWED[e.section] and ALLOWED[e.section](e)
  if not check then return false end
  for _, v in ipairs(e.values) do
    if not check(v) then return false end
  end
  return true
end

-- Of a repository that a command has made: what git itself writes there.
local INITIAL = { repositoryformatversion = true, filemode = true, bare = true, logallrefupdates = true,
  ignorecase = true, precomposeunicode = true, symlinks = true, autocrlf = true, eol = true }
local EXTENSIONS = { objectformat = true, refstorage = true }

---@param e terret.gitconfig.entry
---@return boolean
function M.initial(e)
  if e.sub == nil and e.section == "core" then return INITIAL[e.key] == true end
  if e.sub == nil and e.section == "extensions" then return EXTENSIONS[e.key] == true end
  return M.allowed { section = e.section, sub = e.sub, key = e.key, values = { e.value } }
end

-- Writing --------------------------------------------------------------------------------------------

local function quote(v)
  local q = v:gsub('[\\"]', "\\%0"):gsub("\n", "\\n"):gsub("\t", "\\t"):gsub("\b", "\\b")
  return (v:find("^%s") or v:find("%s$") or v:find("[#;]")) and '"' .. q .. '"' or q
end

local function lines_of(e)
  local out = {}
  for i, v in ipairs(e.values) do
    out[i] = v == true and "\t" .. e.key .. "\n" or ("\t%s = %s\n"):format(e.key, quote(v))
  end
  return table.concat(out)
end

local function title(e)
  if not e.sub then return ("[%s]\n"):format(e.section) end
  return ('[%s "%s"]\n'):format(e.section, (e.sub:gsub('[\\"]', "\\%0")))
end

local function of_section(x, e) return x.section == e.section and x.sub == e.sub end

-- The text without a key; a section that it leaves empty goes too.
local function without(text, e)
  local parsed = M.parse(text)
  for i = #parsed.entries, 1, -1 do
    local x = parsed.entries[i]
    if of_section(x, e) and x.key == e.key then
      local own_line = x.from == 1 or text:sub(x.from - 1, x.from - 1) == "\n"
      text = text:sub(1, x.from - 1) .. (own_line and "" or "\n") .. text:sub(x.to)
    end
  end
  return text
end

local function without_empty(text, e)
  local parsed = M.parse(text)
  for i = #parsed.sections, 1, -1 do
    local s = parsed.sections[i]
    local stop = parsed.sections[i + 1] and parsed.sections[i + 1].from or #text + 1
    if of_section(s, e) and s.count == 0 and not text:sub(s.to, stop - 1):find("%S") then
      text = text:sub(1, s.from - 1) .. text:sub(stop)
    end
  end
  return text
end

local function with(text, e)
  local parsed = M.parse(text)
  local at
  for _, s in ipairs(parsed.sections) do
    if of_section(s, e) and s.last then at = s.last end
  end
  if not at then
    local gap = (text == "" or text:sub(-1) == "\n") and "" or "\n"
    return text .. gap .. title(e) .. lines_of(e)
  end
  local gap = text:sub(at - 1, at - 1) == "\n" and "" or "\n"
  return text:sub(1, at - 1) .. gap .. lines_of(e) .. text:sub(at)
end

---Puts changes into a file's text.
---@param text string
---@param changes table[] of changes()
---@return string? text nil: it could not be understood
function M.apply(text, changes)
  if not M.parse(text) then return nil end
  local wanted = by_name(M.parse(text))
  for _, e in ipairs(changes) do
    wanted[M.name(e) .. (e.sub and "\0" or "")] = #e.values > 0 and e or nil
    text = without(text, e)
    if #e.values > 0 then text = with(text, e) else text = without_empty(text, e) end
  end
  local parsed = M.parse(text)
  if not parsed then return nil end
  local got = by_name(parsed)
  for id, e in pairs(wanted) do
    if not got[id] or not same(got[id].values, e.values) then return nil end
  end
  for id in pairs(got) do
    if not wanted[id] then return nil end
  end
  return text
end

---The text of a new repository's file without what might make git run something.
---@param text string
---@param more (fun(e: terret.gitconfig.entry): boolean)? what else is allowed
---@return string? text nil: not understood
---@return string[] dropped names
function M.filter(text, more)
  local parsed = M.parse(text)
  if not parsed then return nil, {} end
  local dropped, seen = {}, {}
  for _, e in ipairs(parsed.entries) do
    if not M.initial(e) and not (more and more(e)) and not seen[M.name(e)] then
      seen[M.name(e)] = true
      dropped[#dropped + 1] = M.name(e)
      text = without(text, e)
      text = without_empty(text, e)
    end
  end
  return text, dropped
end

return M

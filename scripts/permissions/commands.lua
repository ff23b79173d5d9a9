-- scripts/permissions/commands.lua - terret.permissions.commands: programs: wrappers, shells, and what the tables say.
--
-- run(judge, words, i) notes what the command with the name words[i] does, beyond what a rule says about it.
local judge = require "terret.permissions.judge"
local options = require "terret.permissions.options"
local tables = require "terret.permissions.tables"
local programs = require "terret.permissions.programs"
local scripts = require "terret.permissions.scripts"
local shells = require "terret.permissions.shells"
local wrap = require "terret.permissions.wrap"

local M = {}
local find, sub = string.find, string.sub
local set_of = judge.set_of

local trusted = { ["/bin/"] = true, ["/usr/bin/"] = true, ["/usr/local/bin/"] = true, ["/sbin/"] = true,
  ["/usr/sbin/"] = true,
  ["/opt/homebrew/bin/"] = true }

-- env -S 'rm x': the text is split into words, much as a shell would.
local function split_string(j, words, i)
  for k = i + 1, #words do
    local w = words[k]
    local text = w.static and (w.text:match("^%-%-sp?l?i?t?%-?s?t?r?i?n?g?=(.*)$") or w.text:match("^%-%a*S(.*)$"))
    if text then
      if text == "" and words[k + 1] then text = words[k + 1].text end
      j:text(text, "env -S")
    elseif w.static and find(w.text, "^%-%-sp") and words[k + 1] then
      j:text(words[k + 1].text, "env -S")
    end
  end
end

local function wrapper(j, words, i, base)
  j:forbidden(words, i)
  local spec = options.spec(tables.wrappers[base])
  if base == "env" then split_string(j, words, i) end
  local k, reason = wrap.unwrap(j, words, i, base, spec)
  if not k then
    j:list_command(words, i)
    j:ask(reason)
    return wrap.scan(j, words, i, base)
  end
  if not words[k] then
    if base == "xargs" then return end -- echo
    return j:ordinary(words, i)
  end
  if base ~= "xargs" then
    local place = j.files and j.files:enter()
    for n = i + 1, place and base == "env" and k - 1 or 0 do
      if find(words[n].text, "^%-%-?%a*[Cc]") then j.files:away() end -- --chdir
    end
    j:command(words, k, true)
    if place then j.files:leave(place) end
    return
  end
  -- xargs: what it reads becomes words at the end, or replaces text.
  local mark
  for n = i + 1, k - 1 do
    local t = words[n].text
    if find(t, "^%-I$") then mark = words[n + 1].text
    elseif find(t, "^%-I.") then mark = sub(t, 3)
    elseif find(t, "^%-i") or find(t, "^%-%-replace") then mark = t:match("^%-i(.+)$") or t:match("=(.+)$") or "{}" end
  end
  local inner = wrap.template(words, k, #words, mark, { k = "v", name = "@", q = true })
  if not mark then inner[#inner + 1] = wrap.placeholder("@", false) end
  return j:command(inner, 1, true)
end

local function opaque(j, words, i, base)
  local spec = tables.opaque[base]
  j:ordinary(words, i)
  if spec ~= "?" then
    local k = wrap.unwrap(j, words, i, base, options.spec(spec))
    if k and words[k] then
      local saved = j.deny_only
      j.deny_only = true
      while words[k] and words[k].static and find(words[k].text, "^[%a_][%w_]*=") do k = k + 1 end
      if words[k] then j:command(words, k, true) end
      j.deny_only = saved
    end
  end
  wrap.scan(j, words, i, base)
end

local special = { find = programs.find, gfind = programs.find, fd = programs.fd, fdfind = programs.fd,
  tar = programs.tar,
  gtar = programs.tar, bsdtar = programs.tar, make = programs.make, gmake = programs.make, less = programs.pager,
  more = programs.pager, date = programs.date, watch = shells.watch, flock = shells.flock, sed = scripts.sed,
    gsed = scripts.sed, awk = scripts.awk, gawk = scripts.awk, mawk = scripts.awk,
  nawk = scripts.awk, git = function(...) return require("terret.permissions.git").run(...) end }
for name in ("gcc g++ cc c++ clang clang++ c99 c89 tcc"):gmatch("%S+") do special[name] = programs.compiler end
for name in tables.writers:gmatch("%S+") do special[name] = special[name] or programs.writer end
M.special = special

---@param j table judge
---@param words table[]
---@param i integer
function M.run(j, words, i)
  local name = words[i].text
  local dir, base = name:match("^(.*/)([^/]*)$")
  base = base or name
  local version = base:match("^(%a[%a+]*)%-?[%d.]+$")
  local f = special[base] or (version and not tables.wrappers[base] and special[version])
  local known = f or tables.wrappers[base] or tables.opaque[base] or shells.kinds[base] or tables.flags[base]
  if dir and not trusted[dir] then
    if known or (j.harmless_names and j.harmless_names[base]) then j:ask(name .. " is not the " .. base
      .. " of the system") end
    if tables.wrappers[base] or tables.opaque[base] or shells.kinds[base] then
      j:ordinary(words, i)
      return wrap.scan(j, words, i, base)
    end
  end
  if j.foreign and (set_of(tables.directory_code)[base] or set_of(tables.directory_code)[version]) then
    j:ask(base .. " outside the project may run code from there")
  end
  if set_of(tables.always_ask)[base] then j:ask(base .. " can run anything") end
  if f then return f(j, words, i, base) end
  if tables.wrappers[base] then return wrapper(j, words, i, base) end
  if shells.kinds[base] then return shells.run(j, words, i, base) end
  if tables.opaque[base] then return opaque(j, words, i, base) end
  local letters = tables.interpreters[base] or (version and tables.interpreters[version])
  if letters then return programs.interpreter(j, words, i, version or base, letters) end
  local spec = tables.flags[base]
  if spec then
    local operands = programs.flags(j, words, i, base, spec)
    if base == "pytest" or base == "py.test" then programs.inside(j, words, operands, base) end
  end
  if set_of(tables.subcommands)[base] then return M.subcommand(j, words, i) end
  return j:ordinary(words, i)
end

---A tool with subcommands: deny and ask rules are also tried without its global options.
function M.subcommand(j, words, i)
  local k = i + 1
  while words[k] and words[k].static and find(words[k].text, "^[-+]") do k = k + 1 end
  local forms
  if k > i + 1 and words[k] then
    forms = { words[i].text .. " " .. (judge.J.canonical(words, k)) }
    if words[k + 1] then forms[2] = words[i].text .. " " .. (judge.J.canonical(words, k + 1)) end
  end
  return j:ordinary(words, i, nil, forms)
end

return M

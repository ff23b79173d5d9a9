-- scripts/permissions/programs.lua - terret.permissions.programs: programs whose arguments need more than a table:
-- find, tar,
-- make, compilers, interpreters, and those that write to their operands.
local judge = require "terret.permissions.judge"
local options = require "terret.permissions.options"
local tables = require "terret.permissions.tables"
local wrap = require "terret.permissions.wrap"

local M = {}
local find, sub = string.find, string.sub
local set_of = judge.set_of
local template, placeholder = wrap.template, wrap.placeholder

---Options by the specification; notes those that execute or write.
function M.flags(j, words, i, base, text)
  local spec = options.spec(text)
  local operands = options.walk(words, i, spec, function(kind, name, _, w)
    if kind == "!" or (spec.only and kind == nil) then j:ask(base .. " " .. name .. " may execute or write")
    elseif kind == "dynamic" then
      j:option_risk(w, base)
    end
  end)
  if spec.operands and #operands > spec.operands then
    j:ask(base .. " writes to " .. words[operands[spec.operands + 1]].text)
  end
  return operands
end

---Code is loaded from the operands: they have to be in the project.
function M.inside(j, words, operands, base)
  for _, k in ipairs(operands) do
    local w = words[k]
    if w.tilde or (w.static and not j:inside(w.text)) then j:ask(base
      .. " outside the project runs code from there") end
  end
end

local find_arity = {}
for w in ("name iname path ipath wholename iwholename lname ilname regex iregex type xtype size mtime atime ctime "
  .. "mmin amin cmin newer anewer cnewer perm user group uid gid maxdepth mindepth links inum samefile fstype "
  .. "used printf regextype context files0-from"):gmatch("%S+") do
  find_arity["-" .. w] = 1
end
for w in ("a o and or not print print0 ls prune quit depth d daystart follow xdev mount noleaf true false empty "
  .. "readable writable executable nouser nogroup ignore_readdir_race noignore_readdir_race warn nowarn H L P E X "
  .. "s x"):gmatch("%S+") do
  find_arity["-" .. w] = 0
end
local find_exec = { ["-exec"] = true, ["-execdir"] = true, ["-ok"] = true, ["-okdir"] = true }

function M.find(j, words, i)
  local k = i + 1
  while words[k] do
    local w = words[k]
    if not w.static then
      j:option_risk(w, "find")
    elseif find_exec[w.text] then
      local e = k + 1
      while words[e] and not (words[e].static and (words[e].text == ";" or (words[e].text == "+"
        and words[e - 1].text == "{}"))) do
        e = e + 1
      end
      if not words[e] then j:ask("find " .. w.text .. " without end") end
      for n = k + 1, e - 1 do
        local arg = words[n] -- what may be a ";" ends the command early, and more actions follow
        if arg and not arg.static then
          j.deferred[#j.deferred + 1] = function(values)
            for _, t in ipairs(values:texts(arg, true) or { ";" }) do
              if find(t, ";", 1, true) then return "a word of find -exec may end it: " .. arg.text:sub(1, 80) end
            end
          end
        end
      end
      local place = j.files and j.files:enter()
      if place and find(w.text, "dir", 1, true) then j.files:away() end
      j:command(template(words, k + 1, e - 1, "{}", { k = "v", name = "{}", q = true }), 1, true)
      if place then j.files:leave(place) end
      k = e
    elseif find(w.text, "^%-.") then
      local arity = find_arity[w.text] or (find(w.text, "^%-newer[aBcmt][aBcmt]$") and 1) or (find(w.text, "^%-O%d$")
        and 0)
      if not arity then j:ask("find " .. w.text .. " may execute or write") end
      k = k + (arity or 0)
    end
    k = k + 1
  end
  j:ordinary(words, i)
end

function M.fd(j, words, i)
  for k = i + 1, #words do
    local t = words[k].static and words[k].text or ""
    local long = t:match("^%-%-ex?e?c?%-?b?a?t?c?h?=(.*)$")
    if find(t, "^%-[a-zA-Z]*[xX]$") or find(t, "^%-%-exe?c?$") or find(t, "^%-%-exec%-") or long or find(t,
      "^%-[xX].") then
      local inner = template(words, k + 1, #words, "{}", { k = "v", name = "{}", q = true })
      if long or find(t, "^%-[xX].") then
        table.insert(inner, 1, { text = long or sub(t, 3), static = true })
      end
      inner[#inner + 1] = placeholder("{}", true)
      j:command(inner, 1, true)
      break
    end
  end
  j:ordinary(words, i)
end

local tar_spec = "I! F! T! P! x! r! u! A! g! C: f: b: H: K: L: N: V: X: W --use-compress-program! --to-command! "
  .. "--checkpoint-action! --info-script! --new-volume-script! --rmt-command! --rsh-command! --files-from! "
  .. "--absolute-names! --remove-files! --delete! --extract! --get! --append! --update! --concatenate! "
  .. "--catenate! --index-file! --volno-file! --listed-incremental! --directory= --file= --exclude= "
  .. "--exclude-from= --checkpoint? --transform! --xform! --recursive-unlink! --unlink-first! --create --list "
  .. "--diff --compare --strip-components="

function M.tar(j, words, i)
  local spec = options.spec(tar_spec)
  local create = false
  local first = words[i + 1]
  local function archive(w)
    if not w then return end
    if find(w.text, ":", 1, true) then j:ask("tar with a remote archive") end
    if create and w.text ~= "-" then j:write_target(w, "tar writes to") end
  end
  local start, files = i, {}
  if first and first.static and find(first.text, "^%a+$") then -- old style: letters, then their arguments
    local k = i + 1
    for c in first.text:gmatch(".") do
      local kind = spec.short[c]
      create = create or c == "c"
      if kind == "!" then j:ask("tar " .. c .. " may execute or write") end
      if kind == ":" or (kind == "!" and find("IFTgK", c, 1, true)) then
        k = k + 1
        if c == "f" then files[#files + 1] = words[k] end
        if c == "C" and words[k] and not (words[k].static
          and j:inside(words[k].text)) then j:ask("tar outside the project") end
      end
    end
    start = k
  end
  options.walk(words, start, spec, function(kind, name, value, w)
    create = create or name == "-c" or (find("--create", name, 1, true) == 1 and #name > 3)
    if kind == "!" then j:ask("tar " .. name .. " may execute or write")
    elseif kind == "dynamic" then
      j.deferred[#j.deferred + 1] = function(values)
        if values:may_be_option(w) or w.glob
          and w.parts[1].k == "g" then return "a word of tar may become an option" end
      end
    elseif name == "-f" or kind == "=" and find("--file", name, 1, true) == 1 then
      files[#files + 1] = value or options.piece(w, w.text:match("f(.*)$"))
      if not value and w.static and find(w.text, "^%-%-") then
        files[#files] = options.piece(w, w.text:match("=(.*)$"))
      end
    elseif name == "-C" or kind == "=" and find("--directory", name, 1, true) == 1 then
      local dir = value or options.piece(w, w.text:match("=(.*)$") or w.text:match("C(.*)$"))
      if not (dir.static and j:inside(dir.text)) then j:ask("tar outside the project") end
    end
  end)
  for _, w in ipairs(files) do archive(w) end
  j:ordinary(words, i)
end

-- make VARIABLE=value: programs and code may come in.
local make_spec = "E! f: C: I: o: W: j? l? O? --eval! --file= --makefile= --directory= --include-dir= --old-file= "
  .. "--new-file= --assume-old= --assume-new= --what-if= --jobs? --load-average? --output-sync? --debug?"
local plain_compilers = set_of("gcc g++ clang clang++ cc c++ c99 tcc ccache ar ld ranlib nm")
function M.make(j, words, i)
  local operands = options.walk(words, i, options.spec(make_spec), function(kind, name, value, w)
    if kind == "!" then return j:ask("make " .. name .. " runs text") end
    local file = name == "-f" or find("--file", name, 1, true) == 1 or find("--makefile", name, 1, true) == 1
    if file or name == "-C" or name == "-I" or (kind == "=" and find(name, "^%-%-[di]")) then
      local text = value and value.text or w.text:match("=(.*)$") or w.text:match("^%-%a*[fCI](.*)$") or ""
      if (value and not value.static) or not w.static or not j:inside(text) or text == "-" then
        j:ask("make with files that are not plainly in the project")
      end
    elseif kind == "dynamic" then
      j.deferred[#j.deferred + 1] = function(values)
        if values:may_be_option(w) then return "a word of make may become an option" end
        for _, t in ipairs(values:texts(w, true) or { "$" }) do
          if find(t, "[$`=]") then return "a variable of make that is not literal" end
        end
      end
    end
  end)
  for _, k in ipairs(operands) do
    local w = words[k]
    local name, value = w.text:match("^([%w_.%-]+)%s*[:+?!]*=(.*)$")
    if w.static and name then
      if find(value, "[$`|;&<>()]") or name == ".SHELLFLAGS" or find(name, "^MAKE") then
        j:ask("make with code in a variable")
      elseif judge.dangerous(name) and not (find(name, "FLAGS$") or plain_compilers[value]) then
        j:variable(name)
      elseif find(name, "FLAGS$") and find(value, "^[^-%s]") or find(value, "wrapper") or find(value, "plugin") then
        j:ask("make with code in a variable")
      end
    elseif w.static and find(w.text, "=", 1, true) then
      j:ask("make with an odd variable")
    end
  end
  j:ordinary(words, i)
end

function M.compiler(j, words, i, base)
  local k = i + 1
  while words[k] do
    local w = words[k]
    local t = w.text
    if not w.static then
      j:option_risk(w, base)
    elseif t == "-o" or t == "-MF" then
      k = k + 1
      if words[k] then j:write_target(words[k], base .. " writes to") end
    elseif find(t, "^%-o.") and not find(t, "^%-objc") then
      j:write_target({ text = sub(t, 3), static = true }, base .. " writes to")
    elseif find(t, "^@") or find(t, "^%-B") or find(t, "^%-%-?specs") or find(t, "^%-wrapper") or find(t, "^%-fplugin")
      or find(t, "^%-iplugindir") or t == "-T" or find(t, "^%-Xlinker") or find(t, "^%-Xassembler") or find(t,
        "^%-Xclang")
      or find(t, "^%-load") or find(t, "^%-dump") or find(t, "^%-aux%-info") or find(t, "^%-fdump") or find(t,
        "^%-fprofile.*=")
      or find(t, "^%-%-config") or find(t, "^%-MF.") or find(t, "^%-Wa,") or find(t, "^%-Wp,") or find(t, "^%-cc1")
      or find(t, "^%-ld%-path") or find(t, "^%-%-ld%-path") or find(t, "^%-fuse%-ld=.*/") or find(t, "^%-%-output")
      or find(t, "^%-Wl,") and (find(t, "plugin") or find(t, ",%-o") or find(t, ",%-%-o") or find(t, ",%-Map")
        or find(t, ",%-T")
        or find(t, ",@") or find(t, "dynamic%-linker")) then
      j:ask(base .. " " .. t .. " may execute or write")
    end
    k = k + 1
  end
  j:ordinary(words, i)
end

-- less +!cmd: commands at start.
function M.pager(j, words, i, base)
  for k = i + 1, #words do
    local t = words[k].text
    if words[k].static and find(t, "^%+") and not find(t, "^%+%+?%d*[gGF]?$") and not find(t, "^%+/[%w_ .-]*$") then
      j:ask(base .. " " .. t .. " runs a command at start")
    end
  end
  M.flags(j, words, i, base, tables.flags[base])
  j:ordinary(words, i)
end

function M.date(j, words, i)
  for _, k in ipairs(M.flags(j, words, i, "date", tables.flags.date)) do
    if words[k].static and not find(words[k].text, "^%+") then j:ask("date with an operand sets the clock") end
  end
  j:ordinary(words, i)
end

-- python3 -c, perl -e...: text as a program; a program from the standard input.
function M.interpreter(j, words, i, base, letters)
  local k = i + 1
  while words[k] and (not words[k].static or find(words[k].text, "^%-.")) do
    local t = words[k].text
    if not words[k].static then
      j:ask(base .. " with an option that is not literal")
      break
    end
    for c in letters:gmatch(".") do
      if find(t, "^%-%w*" .. c) then
        j:ask(base .. " " .. t .. " runs text")
        break
      end
    end
    if find(t, "^%-%-%a") and (find(t, "ev") or find(t, "print") or find(t, "exec") or find(t, "req") or find(t,
      "import")
        or find(t, "load") or find(t, "run")) then
      j:ask(base .. " " .. t .. " runs text")
    end
    if t == "-m" and find(base, "^python") then
      local module = words[k + 1]
      if module and module.static and (module.text == "pytest" or module.text == "py.test") then
        M.inside(j, words, M.flags(j, words, k + 1, "pytest", tables.flags.pytest), "pytest")
      end
      return j:ordinary(words, i)
    end
    if find(t, "^%-[VvWXh]") or t == "--version" or t == "--help" then k = k + (find(t, "^%-[WX]$") and 1 or 0) end
    k = k + 1
  end
  local only_version = words[i + 1] and find(words[i + 1].text, "^%-?%-[vVh]") and not words[i + 2]
  if (not words[k] or words[k].text == "-") and not only_version then
    j:ask(base .. " reads a program from its input", "opaque")
  end
  j:ordinary(words, i)
end

-- cp, tee...: where they write.
function M.writer(j, words, i, base)
  if tables.flags[base] then M.flags(j, words, i, base, tables.flags[base]) end
  local targets, dir = {}, nil
  local operands = options.walk(words, i,
    options.spec("t: S: m: o: g: s: T n f --target-directory= --suffix= --mode= --size="),
    function(_, name, value, w)
      if name == "-t" and base ~= "tee" or find(name, "^%-%-ta") then
        dir = value or options.piece(w, w.text:match("=(.*)$") or w.text:match("t(.*)$"))
      end
    end)
  if base == "dd" then
    for _, k in ipairs(operands) do
      local to = words[k].text:match("^of=(.*)$")
      if to then targets[#targets + 1] = options.piece(words[k], to) end
      if not words[k].static and not find(words[k].text, "^%a+=") then targets[#targets + 1] = words[k] end
    end
  elseif base == "tee" or base == "truncate" or base == "shred" or base == "sponge" then
    for _, k in ipairs(operands) do targets[#targets + 1] = words[k] end
  elseif dir then
    targets[1] = dir
  elseif #operands > 0 then
    targets[1] = words[operands[#operands]]
  end
  for _, w in ipairs(targets) do
    if w.static then
      if w.text == "." or w.text == "./" then j.writes = true else j:write_target(w, base .. " writes to") end
    else
      j.writes = true
      local foreign = j.foreign
      j.deferred[#j.deferred + 1] = function(values)
        for _, t in ipairs(values:texts(w, false) or { "/" }) do
          local saved = j.foreign
          j.foreign = foreign
          local fine = j:inside(t, true)
          j.foreign = saved
          if not fine then return base .. " writes to a place that is not literal" end
        end
      end
    end
  end
  j:ordinary(words, i)
end

return M

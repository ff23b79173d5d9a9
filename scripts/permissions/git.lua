-- scripts/permissions/git.lua - terret.permissions.git: git's global options, and what its subcommands execute.
local options = require "terret.permissions.options"

local M = {}
local find, sub = string.find, string.sub

-- Configuration that only changes looks.
local safe_config = { "color.", "column.", "advice.", "log.date", "log.decorate", "log.abbrevcommit", "core.quotepath",
  "core.abbrev", "diff.noprefix", "diff.mnemonicprefix", "diff.renames", "diff.algorithm", "diff.context",
    "diff.wordregex",
  "user.name", "user.email", "grep.linenumber", "status.", "init.defaultbranch", "merge.conflictstyle", "pager.",
  "core.x", "i18n.", "format.pretty", "versionsort.", "tag.sort", "branch.sort", "blame." }

local function config(j, text, static)
  local key, value = text:match("^([^=]*)=?(.*)$")
  local lower = key:lower()
  if static then
    if lower:find("^alias%.") then
      j:ask("git -c " .. key .. " runs what it names")
      j:text(sub(value, 1, 1) == "!" and sub(value, 2) or "git " .. value, "git alias", true)
      return
    end
    for _, safe in ipairs(safe_config) do
      if sub(lower, 1, #safe) == safe and not (safe == "pager." and find(value, "[^%a]"))
        and not (safe == "pager." and value ~= "false" and value ~= "true" and value ~= "cat" and value ~= "") then
        return
      end
    end
    if lower == "core.pager" and (value == "cat" or value == "") then return end
  end
  j:ask("git -c " .. key .. " may run a program")
end

local plain_globals = {}
for w in ("--no-pager -P -p --paginate --no-replace-objects --no-lazy-fetch --no-optional-locks --no-advice "
  .. "--bare --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs --version -v --help -h "
  .. "--html-path --man-path --info-path --exec-path"):gmatch("%S+") do plain_globals[w] = true end

-- The index of the subcommand; nil when there is none.
local function globals(j, words, i)
  local k = i + 1
  while words[k] do
    local w = words[k]
    local t = w.text
    local literal = w.static and t or w.parts and w.parts[1].k == "s" and w.parts[1].s or ""
    if not find(literal, "^%-") then
      if w.static then return k end
      j:ask("git with a subcommand that is not literal", "opaque")
      return k
    end
    if t == "-C" then
      k = k + 1
      if not (words[k] and words[k].static and j:inside(words[k].text)) then j:ask("git -C outside the project") end
    elseif t == "-c" then
      k = k + 1
      if words[k] then config(j, words[k].text, words[k].static) end
    elseif find(literal, "^%-c.") then
      config(j, sub(t, 3), w.static)
    elseif t == "--git-dir" or t == "--work-tree" or t == "--namespace" or t == "--super-prefix"
      or t == "--attr-source" then
      k = k + 1
      if words[k] and words[k].text ~= ".git" and words[k].text ~= "." then j:ask("git " .. t) end
    elseif t == "--config-env" then
      k = k + 1
      j:ask("git " .. t)
    elseif not (plain_globals[literal] and w.static) and t ~= "--git-dir=.git" and t ~= "--work-tree=." then
      j:ask("git " .. t .. " may run a program")
    end
    k = k + 1
  end
end

-- Subcommands that exist to run or to configure something.
local always = {}
for w in ("difftool mergetool instaweb daemon shell filter-branch send-email imap-send upload-pack receive-pack "
  .. "upload-archive http-backend http-fetch http-push remote-http remote-https remote-ext remote-fd remote-ftp "
  .. "credential credential-cache credential-store maintenance hook p4 svn cvsserver cvsimport cvsexportcommit "
  .. "gui citool gitk web--browse archimport quiltimport fast-import bugreport diagnose fsmonitor--daemon help "
  .. "sh-setup sh-i18n env--helper mergetool--lib scalar request-pull update-index replace update-ref "
  .. "symbolic-ref checkout--worker am merge-one-file merge-octopus merge-resolve")
  :gmatch("%S+") do always[w] = true end

local spec = "--output! --ext-diff! --open-files-in-pager! --upload-pack! --receive-pack! --exec! --extcmd! "
  .. "--tool! --config! --template! --edit! --output-directory! --edit-description! --separate-git-dir! "
  .. "--smtp-server! --sendmail-cmd! --to-cmd! --cc-cmd! --header-cmd! --upload-archive! --show-signature "
  .. "--exclude-standard --edit-todo! --run-command! --index-output! --path-format= --signoff --tree-filter! "
  .. "--index-filter! --msg-filter! --pathspec-from-file="
local shorts = { grep = "O! f: e: A: B: C: m:", add = "e! i! p!", clone = "u! c! b: o: j:", archive = "o!",
  ["format-patch"] = "o!",
  rebase = "x! i!", commit = "c! t!", log = "S: G: L: n:", fetch = "j: o:", push = "o:", ["ls-remote"] = "o:",
    bundle = "",
  checkout = "b: B: p!", branch = "u:", config = "f!", stash = "m: p!", ["send-pack"] = "", submodule = "", mv = "" }

function M.run(j, words, i)
  local k = globals(j, words, i)
  if not k then
    -- `git --exec-path`, `git --version`
    return j:ordinary(words, i)
  end
  local name = words[k].text
  local plain = { { text = words[i].text:match("[^/]+$"), static = true } }
  for n = k, #words do plain[#plain + 1] = words[n] end
  local forms = k > i + 1 and { (j.canonical(plain, 1)) } or nil
  if always[name] then j:ask("git " .. name .. " can run programs") end
  if name == "bisect" and words[k + 1] and words[k + 1].text == "run" then
    if words[k + 2] then j:command(words, k + 2, true) end
  elseif name == "submodule" and words[k + 1] then
    for n = k + 1, #words do
      if words[n].text == "foreach" and words[n + 1] then
        local at = n + 1
        while words[at] and find(words[at].text, "^%-") do at = at + 1 end
        if words[at] then
          j:ask("git submodule foreach runs a command")
          j:text((j.canonical(words, at):gsub("%z", "${x}")), "git submodule foreach", true)
        end
      end
    end
  elseif name == "rebase" then
    for n = k + 1, #words do
      local t = words[n].text
      local text = t:match("^%-%-exe?c?=(.*)$") or t:match("^%-x(.+)$") or (find(t, "^%-%-exe?c?$") or t == "-x")
        and words[n + 1]
        and words[n + 1].text
      if text then j:text(text, "git rebase --exec", true) end
    end
  end
  for n = k + 1, #words do
    if find(words[n].text, "^ext::") or find(words[n].text,
      "^fd::") then j:ask("git with an ext:: address runs a command") end
  end
  options.walk(words, k, options.spec(spec .. " " .. (shorts[name] or "")), function(kind, option, _, w)
    if kind == "!" then j:ask("git " .. name .. " " .. option .. " may execute or write")
    elseif kind == "dynamic" then
      j:option_risk(w, "git")
    end
  end)
  j:ordinary(words, i, forms)
end

return M

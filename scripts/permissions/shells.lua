-- scripts/permissions/shells.lua - terret.permissions.shells: sh -c and its kind: text that another shell runs.
local options = require "terret.permissions.options"
local wrap = require "terret.permissions.wrap"

local M = {}
local find = string.find

local bash_long = { ["--login"] = 1, ["--norc"] = 1, ["--noprofile"] = 1, ["--posix"] = 1, ["--verbose"] = 1,
  ["--restricted"] = 1,
  ["--noediting"] = 1, ["--version"] = 2, ["--help"] = 2 }
M.kinds = { bash = "", sh = "posix", dash = "posix", ash = "posix", rbash = "", ksh = "other", mksh = "other",
  zsh = "other", fish = "other", csh = "other", tcsh = "other", yash = "other", posh = "posix", pwsh = "other",
    nu = "other",
  elvish = "other", xonsh = "other", oksh = "other" }

-- The text that comes on the standard input of this command by a here-document.
local function stdin_text(j)
  local found
  for _, r in ipairs(j.node_redirs or {}) do
    if r.fd == nil or r.fd == 0 then
      if r.body then found = r.body
      elseif r.op == "<<<" then found = r.target
      elseif r.op == "<" or r.op == "<&" or r.op == "<>" then found = nil end
    end
  end
  return found
end

function M.run(j, words, i, base)
  local kind = M.kinds[base]
  local what = base .. " -c"
  j:forbidden(words, i)
  local k, c = i + 1, false
  while words[k] do
    local w = words[k]
    if not w.static then break end
    local t = w.text
    if t == "--" or t == "-" then
      k = k + 1
      break
    elseif find(t, "^%-%-") then
      if bash_long[t] == 2 then return end
      if not bash_long[t] then j:ask("the option " .. t .. " of " .. base) end
    elseif find(t, "^[-+].") then
      if find(t, "^%-.*c") then c = true end
      if find(t, "^%-.*i") then j:ask("an interactive shell") end
      for _ in t:gmatch("[oO]") do
        k = k + 1
        if words[k] and not (words[k].static and (words[k].text == "pipefail" or words[k].text == "errexit"
            or words[k].text == "nounset" or words[k].text == "globstar" or words[k].text == "nullglob")) then
          j:ask("the option " .. words[k].text .. " of " .. base)
        end
      end
    else
      break
    end
    k = k + 1
  end
  local text
  if c then
    text = words[k]
    if words[k + 1] then j.values.positional = true end
  elseif not words[k] or find(words[k - 1].text, "^%-.*s") then
    text, what = stdin_text(j), base
  end
  if not text then
    j:list_command(words, i)
    return j:ask(base .. " on text that is not literal", "opaque")
  end
  if kind == "other" then j:ask(base .. " reads text by rules of its own", "opaque") end
  if text.static then j:text(text.text, what, kind == "posix") else j:dynamic_text(text, what, kind == "posix") end
end

function M.watch(j, words, i)
  j:forbidden(words, i)
  local k, reason = wrap.unwrap(j, words, i, "watch",
    options.spec("n: q: d? t b e g c x p w r C --interval= --differences? --no-title --beep --errexit --chgexit "
    .. "--color --exec --precise --no-wrap --equexit="))
  if not k or not words[k] then
    j:list_command(words, i)
    return j:ask(reason or "watch without command")
  end
  local text, static = {}, true
  for n = k, #words do
    text[#text + 1] = words[n].text
    static = static and words[n].static
  end
  if not static then j:ask("watch on text that is not literal", "opaque") end
  j:text(table.concat(text, " "), "watch", true)
end

function M.flock(j, words, i)
  j:forbidden(words, i)
  local k, reason = wrap.unwrap(j, words, i, "flock",
    options.spec("s x e u n o F v w: E: --shared --exclusive --unlock --nonblock --nb --timeout= --wait= "
    .. "--conflict-exit-code= --close --no-fork --verbose +1"))
  if not k then
    j:ask(reason)
    return wrap.scan(j, words, i, "flock")
  end
  local lock, w = words[k - 1], words[k]
  if lock then j:write_target(lock, "locks") end
  if not w then return end
  if w.static and (w.text == "-c" or w.text == "--command") then
    local text = words[k + 1]
    if not text then return end
    if text.static then j:text(text.text, "flock -c", true) else j:dynamic_text(text, "flock -c", true) end
  else
    j:command(words, k, true)
  end
end

return M

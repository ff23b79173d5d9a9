-- scripts/shell.lua - terret.shell: what a POSIX sh or bash command line means, without running it.
--
-- A recursive-descent parser, linear in the text and bounded in depth and size.  It never guesses:
-- what it can't parse the way bash does is nil and a reason, and the caller asks a human.
--
-- The tree.  A list is {type="list", items, ops = {[i] = separator after item i}}.  An item is one of
--   simple      assigns {name, index?, value = WORD|WORD[]}, words {WORD...}
--   pipeline    commands, neg, timed          group, subshell, loop, branch   lists (all in order)
--   for, select name, words?, lists           case    word, patterns, lists
--   arith       arith {ARITH...}, lists       cond    words (of [[ ]]), arith_words (operands of -eq...)
--   function    name, body (a command)        coproc  name?, body
-- and each may carry redirs {op, fd?, var?, target = WORD} (here-documents: body = WORD, quoted).
--
-- A WORD is {text, static, parts?, quoted?, tilde?, glob?}.  static: text is what the program gets, whatever the
-- state of the system.  Else parts tells literal from dynamic: {k="s", s} literal, {k="v", name, ...} parameter
-- expansion, {k="c", body} command substitution, {k="p", dir, body} process substitution, {k="a", text, parts}
-- arithmetic, {k="g", s} glob; q = true where the shell does not split the result.
-- tree.bashisms lists the constructs that another sh reads differently (they matter for `sh -c`).
local M = {}

---@class terret.shell.options
---@field max_bytes integer? default 4 MiB
---@field max_nodes integer? words, expansions and commands; default 40000
---@field max_depth integer? nesting; default 150
---@field posix boolean? [[, ((, function, select, coproc and time are no keywords (as in dash)

local defaults = { max_bytes = 4 << 20, max_nodes = 40000, max_depth = 150, posix = false }

---Parses a command line as bash would read it (`bash -c TEXT`).
---@param text string
---@param options terret.shell.options?
---@return table? tree nil when the text can't be parsed as bash would
---@return string? reason
---@return table? partial the whole commands in front of the mistake (bash may run them first)
function M.parse(text, options)
  if type(text) ~= "string" then error("shell.parse: a string expected", 2) end
  for name in pairs(options or {}) do
    if defaults[name] == nil then error("shell.parse: unknown option '" .. tostring(name) .. "'", 2) end
  end
  local limits = setmetatable(options or {}, { __index = defaults })
  if #text > limits.max_bytes then return nil, "the command line is too long to judge" end
  return require("terret.shell.parse").run(text, limits)
end

---One word of shell text that means exactly `s`.
---@param s string
---@return string
function M.quote(s)
  if s ~= "" and not s:find("[^%w_./:=@%%+,-]") then return s end
  return "'" .. s:gsub("'", "'\\''") .. "'"
end

return M

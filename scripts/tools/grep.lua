-- scripts/tools/grep.lua - the tool `grep`: lines of files that match a pattern.
--
-- rg in the sandbox, or `grep -rE` where there is none; both answers become the same lines
-- "path:line: text", sorted by path.  Files that a rule forbids to read are left out of it, and whether they
-- hold a match is not told either.  The pattern and the paths are arguments of the program: no
-- shell and no Lua matcher ever reads them.
local fs = require "terret.fs"
local lazy = require "terret.lazy"
local near = lazy "terret.near"
local text = require "terret.text"

local LIMIT = 100
local LIMIT_MAX = 2000
local LINE_BYTES = 300
local HEAD = 2097152     -- bytes of the program's output that are read
local TIMEOUT = 60
local GLOBS = 64         -- alternatives of the braces of one glob

-- The constant script says 127 where the program is missing; a sandbox's own 127 looks alike.
local START = 'command -v "$1" >/dev/null 2>&1 || exit 127; exec "$@"'

local no_rg -- learnt by trying

-- ---- globs ------------------------------------------------------------------------------------

-- "*.{c,h}" -> "*.c", "*.h"; nested braces stay as they are.
local function expand(glob)
  local list = { glob }
  for i = 1, GLOBS do
    local g = list[i]
    if not g then break end
    local open = g:find("{", 1, true)
    local close = open and g:find("}", open, true)
    local inner = close and g:sub(open + 1, close - 1)
    if inner and inner:find(",", 1, true) and not inner:find("{", 1, true) then
      local head, tail = g:sub(1, open - 1), g:sub(close + 1)
      list[i] = false
      for part in (inner .. ","):gmatch("([^,]*),") do list[#list + 1] = head .. part .. tail end
    end
  end
  local out = {}
  for _, g in ipairs(list) do
    if g then out[#out + 1] = g end
  end
  return out
end

-- A function that says whether a path fits; a glob without "/" speaks of the last name.
local function fits(glob)
  if not glob then return function() return true end end
  local list = expand(glob:gsub("^%./", ""))
  return function(path)
    local name = path:match("[^/]*$")
    for _, g in ipairs(list) do
      if fs.match(g, g:find("/", 1, true) and path or name) then return true end
      if g:find("/", 1, true) and fs.match("**/" .. g, path) then return true end
    end
    return false
  end
end

-- ... and is not of a file that rules forbid to read.
local function shows(call, fit)
  local known = {}
  return function(path)
    if known[path] == nil then known[path] = fit(path) and call:readable(path) end
    return known[path]
  end
end

-- ---- the two programs -------------------------------------------------------------------------

local function rg_argv(pattern, path, glob, literal)
  local argv = { "/bin/sh", "-c", START, "sh", "rg", "--no-config", "--color=never", "--no-heading", "--with-filename",
    "--line-number", "--column", "--null", "--sort=path", "--hidden", "--no-require-git" }
  if glob then
    argv[#argv + 1] = "--glob"
    argv[#argv + 1] = glob
  end
  argv[#argv + 1] = "--glob=!.git/"
  if literal then argv[#argv + 1] = "--fixed-strings" end
  for _, a in ipairs { "-e", pattern, "--", path } do argv[#argv + 1] = a end
  return argv
end

-- Directories that a plain line of .gitignore names; grep doesn't read it.
local function ignored(call)
  local dirs = { ".git" }
  local data = call:read(".gitignore", { max = 65536 })
  for line in (data or ""):gmatch("[^\r\n]+") do
    local name = line:match("^/?([%w._-]+)/?$")
    if name and #dirs < 100 then dirs[#dirs + 1] = name end
  end
  return dirs
end

local function grep_argv(call, pattern, path, literal)
  local argv = { "/bin/sh", "-c", START, "sh", "grep", "-rnHI", "-D", "skip", "--null", literal and "-F" or "-E" }
  for _, dir in ipairs(ignored(call)) do argv[#argv + 1] = "--exclude-dir=" .. dir end
  for _, a in ipairs { "-e", pattern, "--", path } do argv[#argv + 1] = a end
  return argv
end

local function search(call, args, path, literal)
  local options = { merge = false, head = HEAD, tail = 0, timeout = math.min(TIMEOUT, call.limits.timeout or TIMEOUT) }
  if not no_rg then
    local result, message, code = call:exec(rg_argv(args.pattern, path, args.glob, literal), options)
    if not result and code ~= "not_found" then return nil, message, code end
    if result and result.code ~= 127 then return result, true end
    no_rg = true
  end
  local result, message, code = call:exec(grep_argv(call, args.pattern, path, literal), options)
  if not result then return nil, message, code end
  if result.code == 127 then return nil, "neither rg nor grep is there", "not_found" end
  return result, false
end

-- ---- the answer -------------------------------------------------------------------------------

-- At most LINE_BYTES of a line, around the match.
local function cut_around(line, column, pattern)
  if #line <= LINE_BYTES then return line end
  column = column or line:find(pattern, 1, true) or 1
  local from = math.max(1, math.min(column - LINE_BYTES // 3, #line - LINE_BYTES + 1))
  local part = text.clean(line:sub(from, from + LINE_BYTES - 1))
  return ("%s%s%s [line of %d bytes]"):format(from > 1 and "..." or "", part,
    from + LINE_BYTES <= #line and "..." or "", #line)
end

-- "path NUL line:[column:]text" lines -> {path, line, text}, sorted by path.
local function parse(out, rg, pattern, fit)
  local list, at = {}, 1
  while at <= #out do
    local e = out:find("\n", at, true) or #out + 1
    local zero = out:find("\0", at, true)
    if zero and zero < e then
      local path, rest = out:sub(at, zero - 1):gsub("^%./", ""), out:sub(zero + 1, e - 1)
      local number, column, line = rest:match("^(%d+):(%d+):(.*)$")
      if not rg then number, line = rest:match("^(%d+):(.*)$") end
      if number and fit(path) then
        column = rg and tonumber(column) or nil
        list[#list + 1] = { path, tonumber(number), cut_around(line:gsub("\r$", ""), column, pattern) }
      end
    end
    at = e + 1
  end
  if not rg then
    table.sort(list, function(a, b)
      if a[1] ~= b[1] then return a[1] < b[1] end
      return a[2] < b[2]
    end)
  end
  return list
end

local function render(list, limit, more, max)
  local out, size, shown = {}, 0, 0
  for i = 1, math.min(#list, limit) do
    local m = list[i]
    local line = ("%s:%d: %s"):format(text.safe(m[1], { newline = false, tab = false }), m[2], text.clean(m[3]))
    if size + #line > max then break end
    out[i], size, shown = line, size + #line + 1, i
  end
  local rest = #list - shown
  if rest > 0 or more then
    out[#out + 1] = ("[%s%d more matching lines; narrow the pattern, the path or the glob]"):format(
      more and "at least " or "", rest)
  end
  return table.concat(out, "\n")
end

local function why_of(result)
  local words = text.clean(result.stderr or ""):gsub("%s*\n%s*", " "):gsub("^sh: %d+: ", "")
  return text.cut(words, 300)
end

local function check_path(path, call)
  if path:find("\0", 1, true) then return nil, "path must not hold a NUL byte" end
  local info, message, code = call:stat(path)
  if not info then return near.refusal(call, path, message, code) end
  if info.type ~= "file" and info.type ~= "directory" then
    return nil, ("%s is a %s, not a regular file or directory"):format(path, info.type)
  end
  return true
end

local function run(args, call)
  local path, pattern = args.path or ".", args.pattern
  if pattern == "" then return nil, "pattern is empty" end
  if pattern:find("[\0\n]") then return nil, "pattern holds a NUL or a line end; lines are searched one by one" end
  local ok, message, code = check_path(path, call)
  if not ok then return nil, message, code end
  local result, rg, failed = search(call, args, path, false)
  if not result then return nil, rg, failed end
  local note = ""
  if result.code == 2 and result.total == 0 then
    local why = why_of(result)
    result, rg, failed = search(call, args, path, true)
    if not result then return nil, rg, failed end
    if result.code == 2 and why:find("glob", 1, true) then return nil, "invalid glob: " .. why end
    note = result.code == 2 and ("\n[some files could not be read: %s]"):format(why)
      or ("\n[not a valid regular expression, searched as plain text: %s]"):format(why)
  end
  if result.timed_out then note = note .. "\n[timed out; the answer is not complete]" end
  local out = result.head
  if result.elided > 0 then out = out:match("^.*\n") or out end
  local list = parse(out, rg, pattern, shows(call, fits(not rg and args.glob or nil)))
  if call:hides_below(path) then note = note .. "\n[files that a permission rule forbids to read are left out]" end
  if #list == 0 then return "no matches" .. note end
  local limit = math.min(args.limit or LIMIT, LIMIT_MAX)
  return render(list, limit, result.elided > 0, call.limits.read_bytes) .. note
end

return {
  name = "grep",
  description = "Searches files for a regular expression; answers with path:line: text. Ignores what .gitignore"
    .. " names.",
  permission = "read",
  parameters = {
    pattern = { "string", "regular expression" },
    path = { "string?", "file or directory; default: the project" },
    glob = { "string?", "only these files, as *.lua or src/**/*.{c,h}" },
    limit = { "integer?", "matching lines shown; default 100", minimum = 1 },
  },
  run = run,
}

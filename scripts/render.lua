-- scripts/render.lua - what a terminal is shown: tool lines, results, diffs, questions, status.
--
-- Pure: values in, text out.  All that comes from the model, a tool or a file goes through
-- terret.text.safe here, so the only escape sequences in the output are those of style().

local json = require "terret.json"
local text = require "terret.text"

local M = {}

local CODES = { bold = 1, dim = 2, red = 31, green = 32, yellow = 33, cyan = 36 }
local ONE_LINE = { newline = false, tab = false }
local MAX_ARGUMENTS = 4000 -- bytes of a call's subject that are looked at

-- Styles ---------------------------------------------------------------------------------------

---@class terret.style: table<string, fun(s: string): string>

---@param color boolean? false: every style leaves the text as it is
---@return terret.style functions bold, dim, red, green, yellow, cyan
function M.style(color)
  local style = {}
  for name, code in pairs(CODES) do
    style[name] = color and function(s) return s ~= "" and ("\27[%dm%s\27[0m"):format(code, s) or s end
      or function(s) return s end
  end
  return style
end

---@param s string
---@return string s safe, several lines, tabs as blanks
function M.safe(s) return (text.safe(s):gsub("\t", "    ")) end

---@param s string
---@return string s safe and on one line
function M.line(s) return text.safe(s, ONE_LINE) end

-- The longest beginning of a styled text that is at most room wide; one character at least.
local function cut(s, room)
  local at, width = 1, 0
  while at <= #s do
    local stop = s:match("^\27%[%d*m()", at)
    if not stop then
      stop = utf8.offset(s, 2, at) or #s + 1
      local w = text.width(s:sub(at, stop - 1))
      if width + w > room and width > 0 then break end
      width = width + w
    end
    at = stop
  end
  return s:sub(1, at - 1), s:sub(at), width
end

local function visible(s) return text.width((s:gsub("\27%[%d*m", ""))) end

---Rows of one line, broken at blanks, where a word is too long inside it.
---@param s string safe; may hold our styles
---@param columns integer
---@return string[]
function M.wrap(s, columns)
  columns = math.max(columns, 4)
  local indent = (s:match("^%s*[%-%*]%s+") or s:match("^%s*%d+[%.%)]%s+") or s:match("^%s*"))
  indent = #indent <= columns // 3 and (" "):rep(#indent) or ""
  local rows, parts, width = {}, {}, 0
  local function break_row()
    rows[#rows + 1] = table.concat(parts)
    parts, width = { indent }, #indent
  end
  for blank, word in s:gmatch("(%s*)(%S*)") do
    local w = visible(word)
    if width + #blank + w > columns and width > #indent then
      break_row()
      blank = ""
    end
    if width + #blank + w > columns then blank = blank:sub(1, math.max(0, columns - width - 1)) end
    parts[#parts + 1] = blank
    width = width + #blank
    while width + w > columns do
      local head, rest, taken = cut(word, columns - width)
      if rest == "" then break end
      parts[#parts + 1] = head
      break_row()
      word, w = rest, w - taken
    end
    parts[#parts + 1] = word
    width = width + w
  end
  rows[#rows + 1] = table.concat(parts)
  return rows
end

---@param s string plain
---@param columns integer
---@return string s with "…" where something is missing
function M.truncate(s, columns)
  if text.width(s) <= columns then return s end
  return (text.truncate(s, math.max(columns - 1, 0))) .. "…"
end

-- Numbers --------------------------------------------------------------------------------------

---@param seconds number
---@return string
function M.duration(seconds)
  if seconds < 9.95 then return ("%.1f s"):format(seconds) end
  local whole = math.floor(seconds + 0.5)
  if whole < 60 then return ("%d s"):format(whole) end
  if whole < 3600 then return ("%d min %d s"):format(whole // 60, whole % 60) end
  return ("%d h %d min"):format(whole // 3600, whole % 3600 // 60)
end

---@param n number
---@return string "950", "12.3k", "1.2M"
function M.count(n)
  if n < 1000 then return ("%d"):format(math.floor(n)) end
  if n < 999950 then return ("%.1fk"):format(n / 1000) end
  return ("%.1fM"):format(n / 1e6)
end

---@param usd number
---@return string
function M.money(usd) return (usd < 1 and "$%.4f" or "$%.2f"):format(usd) end

---@param s {input: integer, cached: integer, output: integer, cost: number?, context: integer?, window: integer?}
---@return string "in 12.3k (8.0k cached) out 950 · $0.0123 · context 12%"
function M.usage(s)
  local cached = (s.cached or 0) > 0 and (" (%s cached)"):format(M.count(s.cached)) or ""
  local out = ("in %s%s out %s"):format(M.count(s.input or 0), cached, M.count(s.output or 0))
  if s.cost then out = out .. " · " .. M.money(s.cost) end
  if s.context and s.window and s.window > 0 then
    out = ("%s · context %d%%"):format(out, math.floor(100 * s.context / s.window + 0.5))
  end
  return out
end

-- Markdown, a line at a time -------------------------------------------------------------------

---@param state {fence: string?} of the message that the line belongs to
---@param line string safe
---@param style terret.style
---@return string
function M.markdown(state, line, style)
  local fence = line:match("^%s*(```+)") or line:match("^%s*(~~~+)")
  if fence and not state.fence then
    state.fence = fence
    return style.dim(line)
  elseif state.fence then
    if not fence or fence:sub(1, #state.fence) ~= state.fence then return line end
    state.fence = nil
    return style.dim(line)
  end
  if line:find("^#+ ") then return style.bold(line) end
  return (line:gsub("`([^`]+)`", style.cyan):gsub("%*%*([^%*]+)%*%*", style.bold))
end

-- Tools ----------------------------------------------------------------------------------------

local SUBJECTS = { "command", "pattern", "path", "prompt", "name", "id", "url", "query" }

---What a call is about, on one line.
---@param arguments string|table? JSON text, or what it says
---@return string
function M.subject(arguments)
  local args = arguments
  if type(args) == "string" then args = json.decode(args) end
  if type(args) ~= "table" then return M.line(text.cut(tostring(arguments or ""), MAX_ARGUMENTS)) end
  for _, key in ipairs(SUBJECTS) do
    if type(args[key]) == "string" then
      local also = key == "pattern" and type(args.path) == "string" and "  " .. args.path or ""
      return M.line(text.cut(args[key], MAX_ARGUMENTS) .. text.cut(also, 200))
    end
  end
  if type(args.items) == "table" then return ("%d items"):format(#args.items) end
  if next(args) == nil then return "" end
  local ok, whole = pcall(json.encode, args)
  return ok and M.line(text.cut(whole, MAX_ARGUMENTS)) or ""
end

local MARKS = { running = "●", ok = "✓", failed = "✗" }
local MARK_STYLE = { running = "yellow", ok = "green", failed = "red" }

---@param call {state: "running"|"ok"|"failed", name: string, subject: string, seconds: number?, depth: integer?}
---@param style terret.style
---@param columns integer? none: not cut
---@return string "✓ bash  make test  1.2 s"
function M.tool_line(call, style, columns)
  local indent = ("  "):rep(call.depth or 0)
  local name = text.cut(M.line(call.name), 64)
  local time = call.seconds and "  " .. M.duration(call.seconds) or ""
  local subject = call.subject ~= "" and "  " .. call.subject or ""
  if columns then
    subject = M.truncate(subject, math.max(0, columns - #indent - 2 - text.width(name) - text.width(time)))
  end
  return indent .. style[MARK_STYLE[call.state]](MARKS[call.state]) .. " " .. style.bold(name) .. subject
    .. style.dim(time)
end

---The first lines of a text, each cut to the width; then how many are left.
---@param s string
---@param max integer lines
---@param columns integer? none: not cut
---@return string[]
function M.fold(s, max, columns)
  local total, out = text.count_lines(s), {}
  if total == max + 1 then max = total end -- the remark would be as long as the line
  if max > 0 then
    for line in (text.lines(s, 1, max)):gmatch("([^\n]*)\n?") do
      if #out == math.min(max, total) then break end
      local safe = M.safe(text.cut(line, MAX_ARGUMENTS))
      out[#out + 1] = columns and M.truncate(safe, columns) or safe
    end
  end
  if total > max then out[#out + 1] = ("… %d more line%s"):format(total - max, total - max == 1 and "" or "s") end
  return out
end

local DIFF_STYLE = { ["+"] = "green", ["-"] = "red", ["@"] = "cyan" }

---@param patch string a unified diff
---@param style terret.style
---@param max integer lines
---@param columns integer?
---@return string[]
function M.diff(patch, style, max, columns)
  patch = patch:gsub("^%-%-%- [^\n]*\n%+%+%+ [^\n]*\n", "")
  local lines = M.fold(patch, max, columns)
  for i, line in ipairs(lines) do
    local name = DIFF_STYLE[line:sub(1, 1)]
    if name then lines[i] = style[name](line) end
  end
  return lines
end

---What a finished call shows below its line.
---@param e table the event tool_result
---@param style terret.style
---@param options {lines: integer, diff_lines: integer, columns: integer?}
---@return string[]
function M.result(e, style, options)
  local columns = options.columns and options.columns - 2
  local lines
  if e.ok and e.extra and type(e.extra.diff) == "string" then
    lines = M.diff(e.extra.diff, style, options.diff_lines, columns)
  else
    lines = M.fold(e.text or "", options.lines, columns)
    for i, line in ipairs(lines) do lines[i] = (e.ok and style.dim or style.red)(line) end
  end
  for i, line in ipairs(lines) do lines[i] = "  " .. line end
  return lines
end

-- Questions ------------------------------------------------------------------------------------

local VERBS = { exec = "wants to run", write = "wants to write", read = "wants to read", net = "wants to reach" }

-- Every line whole, behind a gutter, its end visible; so no command can look like our own words.
local function command_lines(command, columns, style)
  local out = {}
  for line, stop in (command .. "\0"):gmatch("([^\n%z]*)([\n%z])") do
    local rest = M.line(line) .. (stop == "\n" and "↵" or "")
    repeat
      local head
      if columns then head, rest = cut(rest, math.max(columns - 4, 8)) else head, rest = rest, "" end
      out[#out + 1] = style.yellow("  │ ") .. head
    until rest == ""
  end
  return out
end

-- What a write would change, as far as the arguments tell.
local function change_lines(args, columns, style)
  if type(args) ~= "table" then return {} end
  local diff = require "terret.diff" -- here, since headless runs never need it
  local patch
  if type(args.old_string) == "string" and type(args.new_string) == "string" then
    patch = diff.unified(args.old_string, args.new_string)
  elseif type(args.content) == "string" then
    patch = diff.unified("", args.content)
  end
  local lines = patch and M.diff(patch, style, 40, columns and columns - 4) or {}
  for i, line in ipairs(lines) do lines[i] = style.yellow("  │ ") .. line end
  return lines
end

---@param q table the question of terret.toolcall
---@param style terret.style
---@param options {columns: integer?, arguments: table?}
---@return string[]
function M.question(q, style, options)
  local request = q.request or {}
  local who = q.agent and q.agent ~= "main" and ("subagent %s: "):format(M.line(q.agent)) or ""
  local subject = request.path or request.host
  local lines = { ("%s %s%s %s%s"):format(style.yellow("?"), who, style.bold(M.line(q.tool or "a tool")),
    VERBS[request.class] or "wants to be used",
    request.class == "exec" and ":" or subject and " " .. M.line(subject) or "") }
  local function add(list) table.move(list, 1, #list, #lines + 1, lines) end
  if request.command then add(command_lines(request.command, options.columns, style)) end
  if request.class == "write" then add(change_lines(options.arguments, options.columns, style)) end
  if q.reason then lines[#lines + 1] = "  why asked: " .. M.line(q.reason) end
  if q.propose then lines[#lines + 1] = "  rule for this session: allow " .. M.line(q.propose) end
  return lines
end

-- Notices --------------------------------------------------------------------------------------

local COMPACTION = {
  start = function(e) return ("summing up the conversation (%s tokens)"):format(M.count(e.tokens or 0)) end,
  done = function(e)
    return ("summed up: %s -> %s tokens"):format(M.count(e.before or 0), M.count(e.after or 0))
  end,
  strip = function(e) return ("%d old results shortened"):format(e.results or 0) end,
  drop = function(e) return ("%d old messages left out"):format(e.messages or 0) end,
}

---One line for an event that is neither text nor a call; nil: nothing to say.
---@param e table
---@return string?
function M.notice(e)
  if e.type == "warning" then return "warning: " .. M.line(e.text or "") end
  if e.type == "error" then return "error: " .. M.line(e.text or "") end
  if e.type == "retry" then
    return ("retry %d in %s: %s"):format(e.attempt or 1, M.duration(e.seconds or 0), M.line(e.text or ""))
  elseif e.type == "compaction" then
    local say = COMPACTION[e.kind]
    return say and say(e) or nil
  elseif e.type == "subagent" then
    if e.state == "start" then return "subagent: " .. M.line(text.cut(e.prompt or "", 200)) end
    return "subagent ended: " .. M.line(tostring(e.state))
  end
end

---How a turn ended, if there is something to say about it.
---@param result {status: string, message: string?}
---@return string?
function M.outcome(result)
  if result.status == "done" then return nil end
  if result.status == "refused" then return "some call was refused, since nobody could be asked" end
  if not result.message then return result.status end
  return ("%s: %s"):format(result.status, M.line(result.message))
end

return M

-- scripts/tools/read.lua - the tool `read`: numbered lines of a text file, or a directory's names.
--
-- What is shown can be pasted into `edit`: tabs stay tabs, and a line is cut only where it is
-- over 2,000 bytes, and says so.  Line ends and a BOM are not shown but named.
local lazy = require "terret.lazy"
local match = lazy "terret.match"
local near = lazy "terret.near"
local text = require "terret.text"

local READ_MAX = 67108864
local LINE_BYTES = 2000
local ENTRIES = 500

local MAGIC = {
  { "\x89PNG\r\n", "a PNG image" }, { "\xFF\xD8\xFF", "a JPEG image" }, { "GIF8", "a GIF image" },
  { "RIFF", "a RIFF file (WebP, WAV or AVI)" }, { "%PDF-", "a PDF" }, { "PK\3\4", "a zip archive" },
  { "\x1F\x8B", "a gzip file" }, { "\x7FELF", "an ELF binary" }, { "SQLite format 3\0", "an SQLite database" },
  { "\xFF\xFE", "text in UTF-16" }, { "\xFE\xFF", "text in UTF-16" },
}

-- What a file is that is not shown; nil: text.
local function not_text(path, data)
  for _, m in ipairs(MAGIC) do
    if data:sub(1, #m[1]) == m[1] and (text.is_binary(data) or m[1] == "%PDF-") then
      local hint = m[2]:find("UTF-16", 1, true) and "; convert it with iconv in bash" or ""
      return ("%s is %s of %d bytes and is not shown%s"):format(path, m[2], #data, hint)
    end
  end
  if text.is_binary(data) then return ("%s is a binary file of %d bytes and is not shown"):format(path, #data) end
  return nil
end

local function directory(path, call)
  local entries, message, code = call:list(path)
  if not entries then return near.refusal(call, path, message, code) end
  local out = { ("%s is a directory with %d entries:"):format(path, #entries) }
  for i = 1, math.min(#entries, ENTRIES) do
    local e = entries[i]
    local mark = e.type == "directory" and "/" or e.type == "link" and "@" or ""
    out[#out + 1] = text.safe(e.name, { newline = false }) .. mark
  end
  if #entries > ENTRIES then out[#out + 1] = ("[%d more entries]"):format(#entries - ENTRIES) end
  return text.clean(table.concat(out, "\n"))
end

-- Numbered lines up to `max` bytes; the last line that is in, and how many were cut.
local function numbered(part, from, max)
  local out, size, last, cut = {}, 0, from - 1, 0
  local lines = match.pieces(part)
  if lines[#lines] == "" then lines[#lines] = nil end
  for i, line in ipairs(lines) do
    local whole = #line
    if whole > LINE_BYTES then
      cut = cut + 1
      line = ("%s [cut here; the line has %d bytes]"):format(text.cut(line, LINE_BYTES), whole)
    end
    line = ("%6d\t%s"):format(from + i - 1, text.clean(line))
    if #out > 0 and size + #line + 1 > max then break end
    out[i], size, last = line, size + #line + 1, from + i - 1
  end
  return table.concat(out, "\n"), last, cut
end

local function remarks(data, from, last, total, cut)
  local out = {}
  if last < total then
    out[1] = ("[lines %d-%d of %d; go on with offset=%d]"):format(from, last, total, last + 1)
  elseif from > 1 then
    out[1] = ("[lines %d-%d of %d]"):format(from, last, total)
  end
  if cut > 0 then out[#out + 1] = "[long lines: bash with `cut -c` or grep shows other parts of them]" end
  if data:find("\r\n", 1, true) then out[#out + 1] = "[line ends are CRLF; write them as \\n in edit]" end
  local _, broken = text.clean(data:sub(1, 65536))
  if broken > 0 then out[#out + 1] = "[not valid UTF-8: U+FFFD stands for bytes that can't be shown]" end
  return #out > 0 and "\n" .. table.concat(out, "\n") or ""
end

local function run(args, call)
  local path, from = args.path, args.offset or 1
  if path:find("\0", 1, true) then return nil, "path must not hold a NUL byte" end
  local info, problem, problem_code = call:stat(path)
  if not info then return near.refusal(call, path, problem, problem_code) end
  if info.type == "directory" then return directory(path, call) end
  local data, message, code = call:read(path, { max = READ_MAX })
  if not data then
    if code == "too_large" then
      message = ("%s has %d bytes, too many for read; use grep, or sed -n and tail in bash"):format(path, info.size)
    end
    return near.refusal(call, path, message, code)
  end
  if data == "" then return path .. " is empty" end
  local why = not_text(path, data)
  if why then return why end
  local total = text.count_lines(data)
  if from > total then
    return nil, ("%s has %d line%s; offset %d is beyond the end"):format(path, total, total == 1 and "" or "s", from)
  end
  local to = math.min(total, from - 1 + math.min(args.limit or total, total))
  local part = text.lines(data, from, to)
  if from == 1 and part:sub(1, 3) == "\xEF\xBB\xBF" then part = part:sub(4) end
  local shown, last, cut = numbered(part, from, call.limits.read_bytes)
  return shown .. remarks(data, from, last, total, cut)
end

return {
  name = "read",
  description = "Shows a text file with line numbers (number, tab, line), or the names in a directory.",
  permission = "read",
  parameters = {
    path = { "string", "the file" },
    offset = { "integer?", "first line, from 1", minimum = 1 },
    limit = { "integer?", "how many lines", minimum = 1 },
  },
  run = run,
}

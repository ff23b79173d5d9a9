-- scripts/tools/edit.lua - the tool `edit`: one text of a file for another.
--
-- Where the text is found, and what is forgiven, is decided in terret.match.  What this file
-- adds: nothing outside the match changes, an edit that was not made says what the file has
-- instead, and an edit that was made shows the place.
local lazy = require "terret.lazy"
local diff = lazy "terret.diff"
local match = lazy "terret.match"
local near = lazy "terret.near"
local text = require "terret.text"

local READ_MAX = 67108864
local CONTEXT_BYTES = 1500
local PLACES_SHOWN = 20
local HINT_COST = 1e10 -- bytes of new_string times those of the file: it is looked for as far as that is cheap

local function line_of(data, place)
  return text.count_lines(data:sub(1, place - 1) .. "x")
end

local function places_message(data, found, old)
  local count, lines = #found.places, {}
  for i = 1, math.min(count, PLACES_SHOWN) do lines[i] = line_of(data, found.places[i][1]) end
  local list = table.concat(lines, ", ") .. (count > #lines and ", ..." or "")
  local how = found.forgiven and (" if %s are not compared strictly"):format(found.forgiven) or ""
  local all = found.forgiven and "" or ", or set replace_all"
  local overlap = count == 2 and found.places[2][1] < found.places[1][1] + #old and " (they overlap)" or ""
  return ("old_string is not unique: it occurs %d times%s, at lines %s%s. Add lines around it until only one"
    .. " place fits%s."):format(count, how, list, overlap, all)
end

local function hints(data, old, new)
  local out = {}
  if #new > 2 and #new * #data < HINT_COST then
    local at = data:find(new, 1, true)
    if at then
      out[1] = ("new_string is already there, at line %d: was this edit made before?"):format(line_of(data, at))
    end
  end
  if old:find("&[%a#][%w]*;") then
    out[#out + 1] = "old_string holds HTML entities (&lt; and the like); the file's signs must be written as they are."
  end
  if old:find("<<<<<<<", 1, true) or old:find("\n=======\n", 1, true) then
    out[#out + 1] = "old_string holds the markers of a patch format; give only the text to be replaced."
  end
  return out
end

local function not_found(path, data, old, new, found)
  if found.many then
    return ("old_string occurs more than %d times in %s, too often for one edit; use a command for that"):format(
      match.most, path)
  end
  local parts = { ("old_string was not found in %s."):format(path) }
  if found.signs then
    parts[1] = ("old_string fits only where the file has Unicode quotes, dashes or blanks that new_string would"
      .. " change; copy them from %s."):format(path)
  end
  for _, hint in ipairs(hints(data, old, new)) do parts[#parts + 1] = hint end
  parts[#parts + 1] = near.text(data, old) or "Nothing like it is in the file; read it again."
  return table.concat(parts, "\n")
end

-- The changed lines as they are now, with two lines around, numbered.
local function shown(data, first, last)
  local from = math.max(1, first - 2)
  local part = text.lines(data, from, math.min(last + 2, first + 12))
  local out = {}
  for i, line in ipairs((match.pieces(part))) do
    if part ~= "" and not (line == "" and i == text.count_lines(part) + 1) then
      out[i] = ("%6d\t%s"):format(from + i - 1, text.cut(line, 200))
    end
  end
  return text.cut(text.clean(table.concat(out, "\n")), CONTEXT_BYTES)
end

local function report(path, data, fresh, edits, notes)
  local first = line_of(data, edits[1][1])
  local grown = #fresh - #data
  local final = edits[#edits]
  local stop = final[2] + grown -- the last new byte
  local last = math.max(first, line_of(fresh, math.max(1, stop)))
  local head = ("edited %s: lines %d-%d"):format(path, first, last)
  if #edits > 1 then head = ("edited %s: %d places in lines %d-%d"):format(path, #edits, first, last) end
  for _, note in ipairs(notes) do head = head .. "\n" .. note end
  local patch = diff.unified(data, fresh, { path = path })
  local added, removed = diff.stat(data, fresh)
  return head .. "\n" .. shown(fresh, first, last), { path = path, diff = patch, added = added, removed = removed }
end

local function write(call, path, data, fresh, edits, notes)
  local ok, message, code = call:write(path, fresh)
  if not ok then return near.refusal(call, path, message, code) end
  return report(path, data, fresh, edits, notes)
end

local function create(call, path, content)
  local ok, message, code = call:write(path, content)
  if not ok then return near.refusal(call, path, message, code) end
  local lines = text.count_lines(content)
  return ("created %s: %d line%s"):format(path, lines, lines == 1 and "" or "s"),
    { path = path, diff = diff.unified("", content, { path = path }), added = lines, removed = 0 }
end

-- Why a file can't be edited as text; nil: it can.
local function unfit(path, data, info, new)
  if type(info) == "table" and info.mode & 146 == 0 then -- 0222
    return ("%s is read-only (mode %04o); change its mode first if that is meant"):format(path, info.mode & 4095)
  end
  if text.is_binary(data) then return path .. " is a binary file; edit changes text only" end
  if new:find("[\x80-\xFF]") then
    local _, broken = text.clean(data)
    if broken > 0 then
      return ("%s is not valid UTF-8 (another encoding, such as Latin-1?), and new_string has letters outside ASCII,"
        .. " which would be UTF-8 among other bytes; convert the file first, or use only ASCII"):format(path)
    end
  end
  return nil
end

local function run(args, call)
  local path, old, new = args.path, args.old_string, args.new_string
  if path:find("\0", 1, true) then return nil, "path must not hold a NUL byte" end
  local changed = call:changed(path) -- before the read, which notes the file as seen
  local data, info, code = call:read(path, { max = READ_MAX })
  if not data then
    if code == "not_found" and old == "" then return create(call, path, new) end
    return near.refusal(call, path, info, code)
  end
  if old == "" then
    if data == "" and not args.replace_all then return create(call, path, new) end
    return nil, ("old_string is empty, and %s has %d lines; give the text to be replaced, or use write"):format(
      path, text.count_lines(data))
  end
  if old == new then return nil, "old_string and new_string are the same: nothing to do" end
  local why = unfit(path, data, info, new)
  if why then return nil, why end
  local edits, found = match.find(data, old, new, args.replace_all)
  if not edits then
    local reason = #found.places > 0 and places_message(data, found, old) or not_found(path, data, old, new, found)
    if changed then reason = reason .. "\nThe file changed on disk since it was last read." end
    return nil, text.clean(reason)
  end
  local fresh = match.apply(data, edits)
  if fresh == data then return nil, "the edit would change nothing: the file already has new_string there" end
  local notes = found and { ("note: old_string fits only with tolerance for %s"):format(found) } or {}
  if changed then notes[#notes + 1] = "note: the file had changed on disk since it was last read" end
  return write(call, path, data, fresh, edits, notes)
end

return {
  name = "edit",
  description = "Replaces old_string by new_string in a file. old_string must be exactly what the file has,"
    .. " with its indentation and without the line numbers of `read`, and fit one place only; set replace_all"
    .. " to change every place. An empty old_string creates a file.",
  permission = "write",
  writer = true,
  parameters = {
    path = { "string", "the file" },
    old_string = { "string", "the text to be replaced" },
    new_string = { "string", "the text that stands there afterwards" },
    replace_all = { "boolean?", "replace every occurrence" },
  },
  run = run,
}

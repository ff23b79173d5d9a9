-- scripts/tools/write.lua - the tool `write`: a whole file, made or replaced.
local lazy = require "terret.lazy"
local diff = lazy "terret.diff"
local near = lazy "terret.near"
local text = require "terret.text"

local READ_MAX = 67108864

local function lines(n)
  return ("%d line%s"):format(n, n == 1 and "" or "s")
end

-- What stands at the path: its content (or "" where there is nothing to compare), and its info.
local function before(path, call)
  local info, message, code = call:stat(path)
  if not info then
    if code == "not_found" then return "", nil end
    return nil, message, code
  end
  if info.type == "directory" then return nil, path .. " is a directory; give the name of a file", "is_directory" end
  if info.mode & 146 == 0 then -- 0222
    return nil, ("%s is read-only (mode %04o); change its mode first if that is meant"):format(path, info.mode & 4095),
      "denied"
  end
  local data = info.type == "file" and call:read(path, { max = READ_MAX }) or ""
  return data, info
end

local function run(args, call)
  local path, content = args.path, args.content
  if path:find("\0", 1, true) then return nil, "path must not hold a NUL byte" end
  if path:find("/$") then return nil, path .. " can't be written: the slash at its end names a directory" end
  local changed = call:changed(path)
  local old, info, code = before(path, call)
  if not old then return near.refusal(call, path, info, code) end
  local had = lines(text.count_lines(old))
  if info and old == content then return ("%s already has this content (%s)"):format(path, had) end
  local ok, message, write_code = call:write(path, content)
  if not ok then return near.refusal(call, path, message, write_code) end
  local binary = text.is_binary(old) or text.is_binary(content)
  local extra = { path = path, diff = binary and "" or diff.unified(old, content, { path = path }) }
  extra.added, extra.removed = diff.stat(old, content)
  local count = lines(text.count_lines(content))
  local said = info and ("overwrote %s: %s (it had %s)"):format(path, count, had)
    or ("created %s: %s"):format(path, count)
  if changed then said = said .. "\nnote: the file had changed on disk since it was last read" end
  return said, extra
end

return {
  name = "write",
  description = "Creates a file or replaces its whole content; missing directories are made. To change a part"
    .. " of a file use edit.",
  permission = "write",
  writer = true,
  parameters = {
    path = { "string", "the file" },
    content = { "string", "the whole text" },
  },
  run = run,
}

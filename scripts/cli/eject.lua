-- scripts/cli/eject.lua - `terret eject NAME`: copies a built-in to the user's directory, where it
-- replaces the built-in from then on and can be edited.  Never overwrites.

local fs = require "terret.fs"
local origin = require "terret.origin"

local M = {
  summary = "copy a built-in to your directory, to edit it",
  usage = "terret eject NAME     (tools/bash, loops/react, terret.task, skills/write-a-tool, or a bare word)",
}

local function fail(format, ...)
  io.stderr:write("terret eject: ", format:format(...), "\n")
  return 1
end

-- The files of a bundled skill.
local function skill_files(name)
  local ok, embedded = pcall(require, "terret.embedded")
  local prefix, out = "skills/" .. name .. "/", {}
  if not ok or not name:find("^[%w_%-]+$") then return out end
  for _, file in ipairs(embedded.list()) do
    if file:sub(1, #prefix) == prefix then out[#out + 1] = origin.built_in(file) end
  end
  return out
end

-- What is to be copied, or the reason why nothing is.
local function files_of(name)
  local skill = name:match("^skills/([^/]+)/?$")
  if skill then
    local files = skill_files(skill)
    if #files == 0 then return nil, ("there is no bundled skill '%s'"):format(skill) end
    return files
  end
  local found = origin.find(name)
  if #found == 0 then return nil, ("there is no '%s'"):format(name) end
  if #found > 1 then
    local names = {}
    for i, f in ipairs(found) do names[i] = f.rel end
    return nil, ("'%s' can be %s; name one"):format(name, table.concat(names, ", "))
  end
  local one = found[1]
  if one.level == "C" then return nil, ("'%s' is a C module; those can't be replaced by a file"):format(name) end
  if one.level == "user" then return nil, "it is yours already: " .. one.path end
  return { origin.built_in(one.file, one.rel) or one }
end

local function copy(file)
  local path = origin.user_path(file.file)
  if not path then return nil, "there is no directory of your own: neither XDG_CONFIG_HOME nor HOME is set" end
  local ok, message, code = fs.write(path, file.source, { parents = true, new = true })
  if not ok then return nil, code == "exists" and path .. " exists already; it stays as it is" or message end
  io.write(path, "\n")
  return true
end

---@param args string[]
---@return integer exit status
function M.run(_, args)
  if #args ~= 1 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local files, message = files_of(args[1])
  if not files then return fail("%s", message) end
  for _, file in ipairs(files) do
    local ok, why = copy(file)
    if not ok then return fail("%s", why) end
  end
  return 0
end

return M

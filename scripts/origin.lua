-- scripts/origin.lua - which file a script comes from, and where the user's own would lie.
--
-- The order is the one in which the executable searches: $TERRET_PATH, the user's directory, the
-- installed scripts, the text inside the executable.  In plain lua5.4 it is package.path.

local fs = require "terret.fs"

local M = {}

---Kinds that lie directly below the user's directory; other modules lie in scripts/ there.
M.kinds = { "tools", "loops", "providers", "sandbox", "ui", "agents", "commands" }

local is_kind = {}
for _, kind in ipairs(M.kinds) do is_kind[kind] = true end

local has_embedded, embedded = pcall(require, "terret.embedded")
if not has_embedded then embedded = nil end

---@class terret.origin
---@field rel string "tools/bash", "task", "shell/parse"
---@field path string a file, or "[embedded NAME]", or "[C module ...]"
---@field source string? its text; nil for a C module
---@field level "path"|"user"|"installed"|"embedded"|"C"
---@field file string? name below its root, with the ending: "tools/bash.lua", "sandbox/init.lua"

-- "terret.tools.bash", "tools/bash.lua" and "tools/bash" are one thing.
local function relative(name)
  local rel = name:match("^terret%.(.+)$")
  rel = rel and rel:gsub("%.", "/") or name:gsub("%.lua$", "")
  if rel == "terret" then rel = "init" end
  if not rel:find("^[%w_%-/]+$") or rel:find("^/") or rel:find("//", 1, true) then return nil end
  return rel
end

---The user's directory, or nil where there is none.
---@return string?
function M.user_dir()
  if embedded then return embedded.config_dir end
  return require("terret.sandbox.policy").for_directory(fs.cwd()).config_dir
end

---Where a file of the user's own would lie.
---@param file string "tools/bash.lua", "task.lua", "skills/x/SKILL.md"
---@return string?
function M.user_path(file)
  local dir = M.user_dir()
  if not dir then return nil end
  local first = file:match("^([^/.]+)")
  local own = is_kind[first] or first == "skills"
  return own and dir .. "/" .. file or dir .. "/scripts/" .. file
end

-- What the installed copy and the text inside the executable are named below their root.
local function shipped(file)
  local first = file:match("^([^/.]+)")
  return (first == "sandbox" or first == "skills") and file or "scripts/" .. file
end

local function on_disk(level, path, file, rel)
  local source = path and fs.read(path, { max = 16777216 })
  if source then return { rel = rel, path = path, source = source, level = level, file = file } end
end

---The file as it ships: installed, else inside the executable.
---@param file string
---@param rel string?
---@return terret.origin?
function M.built_in(file, rel)
  if not embedded then return nil end
  local inside = shipped(file)
  local found = on_disk("installed", embedded.share_dir .. "/" .. inside, file, rel)
  local source = not found and embedded.get(inside)
  if not source then return found end
  return { rel = rel, path = "[embedded " .. inside .. "]", source = source, level = "embedded", file = file }
end

local function try_everywhere(file, rel)
  return on_disk("path", embedded.path and embedded.path .. "/" .. file, file, rel)
    or on_disk("user", M.user_path(file), file, rel)
    or on_disk("user", file:find("^sandbox") and M.user_dir() and M.user_dir() .. "/scripts/" .. file, file, rel)
    or M.built_in(file, rel)
end

local function c_module(rel)
  local name = "terret." .. rel:gsub("/", ".")
  if package.preload[name] then return { rel = rel, path = "[C module in the executable]", level = "C" } end
  local path = not embedded and package.searchpath(name, package.cpath)
  if path then return { rel = rel, path = path, level = "C" } end
end

local function in_plain_lua(rel)
  local path = package.searchpath("terret." .. rel:gsub("/", "."), package.path)
  if not path then return nil end
  local file = rel .. (path:find("/init%.lua$") and "/init.lua" or ".lua")
  return { rel = rel, path = path, source = fs.read(path), level = "installed", file = file }
end

local function find(rel)
  local found = c_module(rel)
  if found then return found end
  if not embedded then return in_plain_lua(rel) end
  return try_everywhere(rel .. ".lua", rel) or try_everywhere(rel .. "/init.lua", rel)
    or try_everywhere(rel .. ".md", rel)
end

---All scripts that a name can mean: one for "tools/bash" and "terret.task"; a bare word is looked
---for in every kind.
---@param name string
---@return terret.origin[] found
function M.find(name)
  local rel = relative(name)
  if not rel then return {} end
  local out = {}
  local function add(candidate) out[#out + 1] = find(candidate) end
  if not rel:find("/", 1, true) and name:sub(1, 7) ~= "terret." then
    for _, kind in ipairs(M.kinds) do add(kind .. "/" .. rel) end
    add("cli/" .. rel)
  end
  add(rel)
  return out
end

return M

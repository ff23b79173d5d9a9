-- scripts/registry.lua - a directory is a registry.
--
-- A tool, loop, provider, sandbox backend, user interface, command or agent type is one Lua file
-- in the directory of its kind.  Nothing is listed anywhere: built-ins enter by the same door as
-- the user's files.  Whose file wins: $TERRET_PATH, the user's directory, the installed scripts, the
-- text inside the executable.  A file that breaks its contract is named with the field.

local fs = require "terret.fs"

local M = {}

---@type terret.trust.file[]? files of the project that is trusted; new names only, nothing is replaced
M.project = nil

local has_embedded, embedded = pcall(require, "terret.embedded")
if not has_embedded then embedded = nil end

-- What a file of each kind must return: field -> type ("?" = may be missing).
local CONTRACTS = {
  tools = { name = "string", description = "string", parameters = "table", permission = "string",
    run = "function", subject = "function?", offered = "function?", writer = "boolean?" },
  providers = { name = "string", encode = "function?", build = "function?", parse = "function?",
    answer = "function?" },
  sandbox = { name = "string", available = "function", wrap = "function" },
  ui = { event = "function", ask = "function?", input = "function?" },
  cli = { summary = "string", usage = "string", run = "function" },
  commands = { description = "string", run = "function" },
  agents = { description = "string" },
}

-- Files of a kind's directory that are no members of it.
local NOT_MEMBERS = { sandbox = { init = true, policy = true } }

local function embedded_prefix(kind)
  return kind == "sandbox" and "sandbox/" or "scripts/" .. kind .. "/"
end

-- The directories on disk that may hold files of a kind, the first wins.
local function directories(kind)
  local list = {}
  if not embedded then -- plain lua5.4: beside this very file
    local here = package.searchpath("terret.registry", package.path)
    if here then list[1] = here:match("^(.*)/[^/]*$") .. "/" .. kind end
    return list
  end
  if embedded.path then list[#list + 1] = embedded.path .. "/" .. kind end
  if embedded.config_dir and kind ~= "cli" then list[#list + 1] = embedded.config_dir .. "/" .. kind end
  if embedded.config_dir and kind == "sandbox" then list[#list + 1] = embedded.config_dir .. "/scripts/" .. kind end
  list[#list + 1] = embedded.share_dir .. "/" .. embedded_prefix(kind):sub(1, -2)
  return list
end

---@param kind string "tools", "loops", "providers", ...
---@return string[] names sorted
function M.names(kind)
  local seen, out = {}, {}
  local function add(file)
    local name = file:match("^([%w_%-]+)%.lua$") or kind == "agents" and file:match("^([%w_%-]+)%.md$")
    if name and not seen[name] and not (NOT_MEMBERS[kind] or {})[name] then
      seen[name] = true
      out[#out + 1] = name
    end
  end
  for _, dir in ipairs(directories(kind)) do
    for _, entry in ipairs(fs.list(dir) or {}) do
      if entry.type == "file" or entry.type == "link" then add(entry.name) end
    end
  end
  local prefix = embedded_prefix(kind)
  for _, file in ipairs(embedded and embedded.list(prefix) or {}) do add(file:sub(#prefix + 1)) end
  for _, file in ipairs(M.project or {}) do
    if file.kind == kind then add(file.name .. ".lua") end
  end
  table.sort(out)
  return out
end

-- The trusted project's file of a name.
local function project_file(kind, name)
  for _, file in ipairs(M.project or {}) do
    if file.kind == kind and file.name == name then return file end
  end
end

---Where the file of a name comes from: a path, or "[embedded NAME]".
---@param kind string
---@param name string
---@return string?
function M.where(kind, name)
  if (NOT_MEMBERS[kind] or {})[name] then return nil end
  for _, dir in ipairs(directories(kind)) do
    local path = dir .. "/" .. name .. ".lua"
    if fs.stat(path) then return path end
  end
  local inside = embedded_prefix(kind) .. name .. ".lua"
  if embedded and embedded.has(inside) then return "[embedded " .. inside .. "]" end
  local file = project_file(kind, name)
  return file and file.path, file
end

---Whether a file is the user's or a project's, and not one of terret's own: such code runs on a leash.
---@param kind string
---@param name string
---@return boolean
function M.is_own(kind, name)
  local where, file = M.where(kind, name)
  local dir = embedded and embedded.config_dir
  return file ~= nil or dir ~= nil and where ~= nil and where:sub(1, #dir + 1) == dir .. "/"
end

-- Runs the code that a file is while it loads.
local function run_loading(own, f, ...)
  if not own then return pcall(f, ...) end
  local ok, value = require("terret.leash").run({ seconds = 5 }, f, ...)
  if ok then return true, value end
  return false, (tostring(value):gsub("\nstack traceback:.*$", ""))
end

local function check_table(kind, value, where)
  for field, want in pairs(CONTRACTS[kind]) do
    local optional = want:sub(-1) == "?"
    local kind_of = optional and want:sub(1, -2) or want
    local have = type(value[field])
    if have ~= kind_of and not (optional and have == "nil") then
      return nil, ("%s: field '%s' must be a %s, is %s"):format(where, field, kind_of, have), "bad_script"
    end
  end
  return value
end

---Checks what a file returned against the contract of its kind.
---@param kind string
---@param value any
---@param where string for messages
---@return any value
---@return string? message
---@return string? code "bad_script"
function M.check(kind, value, where)
  if kind == "loops" then
    if type(value) == "function" then return value end
    return nil, ("%s: a loop file returns a function, this returns a %s"):format(where, type(value)), "bad_script"
  end
  if type(value) ~= "table" then
    return nil, ("%s: must return a table, returns a %s"):format(where, type(value)), "bad_script"
  end
  if not CONTRACTS[kind] then return value end
  local ok, message, code = check_table(kind, value, where)
  if not ok then return nil, message, code end
  if kind == "providers" and not (value.answer or value.encode and value.build and value.parse) then
    return nil, where .. ": a provider has encode, build and parse, or answer", "bad_script"
  end
  return value
end

---@param kind string
---@param name string
---@return any value what the file returned
---@return string? message
---@return string? code "not_found" or "bad_script"
function M.load(kind, name)
  if not name:match("^[%w_%-]+$") then
    return nil, ("'%s' is not a name"):format(name), "not_found"
  end
  local where, file = M.where(kind, name)
  if file then return M.load_text(kind, file.path, file.text) end
  if not where then
    return nil, ("no %s '%s' (there are: %s)"):format(kind, name, table.concat(M.names(kind), ", ")), "not_found"
  end
  local ok, value = run_loading(M.is_own(kind, name), require, "terret." .. kind .. "." .. name)
  if not ok then return nil, tostring(value), "bad_script" end
  return M.check(kind, value, where)
end

---A loop by file: --loop ./mine.lua.
---@param kind string
---@param path string
---@return any value
---@return string? message
---@return string? code
function M.load_file(kind, path)
  local source, message, code = fs.read(path)
  if not source then return nil, message, code end
  return M.load_text(kind, path, source)
end

---@param kind string
---@param path string
---@param source string
---@return any value
---@return string? message
---@return string? code
function M.load_text(kind, path, source)
  local chunk, err = load(source, "@" .. path, "t")
  if not chunk then return nil, err, "bad_script" end
  local ok, value = run_loading(true, chunk)
  if not ok then return nil, tostring(value), "bad_script" end
  return M.check(kind, value, path)
end

return M

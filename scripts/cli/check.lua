-- scripts/cli/check.lua - `terret check FILE`: whether a script would load and keeps the contract of
-- its kind, before it is dropped into a directory.
--
-- The kind is that of the directory (tools/x.lua is a tool), or of --kind.  The file is compiled and its
-- body run once, as loading does; tools, loops and the like are not called.  While the body
-- runs it can't write globals, and what it calls of io and os raises: a script does nothing when it
-- loads.  Exit status: 0 good, 1 not, 2 usage.

local fs = require "terret.fs"
local registry = require "terret.registry"
local text = require "terret.text"

local KINDS = { "tools", "loops", "providers", "sandbox", "ui", "cli", "commands", "agents", "extensions", "config",
  "rules" }

local M = {
  summary = "check a script against the contract of its kind",
  usage = "terret check FILE [--kind KIND]",
  options = { { name = "kind", arg = "KIND", choices = KINDS, help = table.concat(KINDS, ", ") } },
}

local PERMISSIONS = { read = true, write = true, exec = true, net = true, none = true }

-- The environment of a loading script -----------------------------------------------------------------

-- A library whose functions are there, but not to be called yet.
local function later(library, name)
  local out = {}
  for key, value in pairs(library) do
    out[key] = type(value) ~= "function" and value or function()
      error(("calls %s.%s while it is loaded"):format(name, key), 2)
    end
  end
  return out
end

local HARMLESS = { date = true, time = true, clock = true, getenv = true, difftime = true }

local function environment()
  local env = {}
  for _, name in ipairs { "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "print", "rawequal",
    "rawget", "rawlen", "rawset", "require", "select", "setmetatable", "tonumber", "tostring", "type", "xpcall",
    "_VERSION", "coroutine", "math", "string", "table", "utf8", "debug", "load", "warn" } do
    env[name] = _G[name]
  end
  env.io, env.os = later(io, "io"), later(os, "os")
  for name in pairs(HARMLESS) do env.os[name] = os[name] end
  env._G = env
  return setmetatable(env, {
    __index = function(_, name) error(("undeclared global '%s'"):format(tostring(name)), 2) end,
    __newindex = function(_, name) error(("sets the global '%s'"):format(tostring(name)), 2) end,
  })
end

-- Kinds ------------------------------------------------------------------------------------------------

local function guess(path)
  if path:find("config%.lua$") then return "config" end
  if path:find("^rules$") or path:find("/rules$") then return "rules" end
  local dir = (fs.realpath(path) or path):match("([^/]+)/[^/]+$")
  for _, kind in ipairs(KINDS) do
    if kind == dir then return kind end
  end
end

local extra = {}

function extra.tools(tool, path)
  if not tool.description:find("%S") then return nil, path .. ": the description is empty" end
  if not PERMISSIONS[tool.permission] then
    return nil, ("%s: permission must be read, write, exec, net or none, is '%s'"):format(path, tool.permission)
  end
  local ok, message = pcall(require("terret.schema").compile, tool.parameters)
  if not ok then return nil, ("%s: parameters: %s"):format(path, tostring(message)) end
  return ("tool '%s', permission %s"):format(tool.name, tool.permission)
end

function extra.loops() return "loop" end
function extra.providers(p) return ("provider '%s'%s"):format(p.name, p.answer and ", without a network" or "") end
function extra.sandbox(b) return ("sandbox backend '%s'"):format(b.name) end

-- An extension in an empty world: what it registers.
function extra.extensions(_, path, source)
  local events = require "terret.events"
  events.anew(function() end)
  local entry, message = require("terret.extensions").load(path, source, "user")
  if not entry then return nil, message end
  local names = {}
  for _, row in ipairs(events.list) do
    for _, h in ipairs(events.handlers[row.name] or {}) do
      names[#names + 1] = ("%s (%s, priority %g)"):format(row.name, row.class, h.priority)
    end
  end
  if #names == 0 then return nil, path .. ": it registers nothing" end
  return "extension that hears " .. table.concat(names, ", ")
end

local function run_chunk(path, source, env)
  local chunk, message = load(source, "@" .. path, "t", env)
  if not chunk then return nil, message end
  local out = table.pack(pcall(chunk))
  if not out[1] then return nil, tostring(out[2]) end
  return out[2], nil, true
end

local function check_rules(path, source)
  local rules, message = require("terret.permissions").parse_rules(source, path)
  if not rules then return nil, message end
  return ("%d rules"):format(#rules)
end

-- What the file is, or what is wrong with it.
local function examine(kind, path, source)
  if kind == "rules" then return check_rules(path, source) end
  if kind == "extensions" then return extra.extensions(nil, path, source) end
  local value, message, ran = run_chunk(path, source, kind == "config" and {} or environment())
  if not ran then return nil, message end
  if kind == "config" then
    if type(value) ~= "table" then return nil, ("%s: must return a table, returns a %s"):format(path, type(value)) end
    return "configuration"
  end
  local checked, why = registry.check(kind, value, path)
  if not checked then return nil, why end
  if extra[kind] then return extra[kind](value, path) end
  return kind:gsub("s$", "")
end

---@param opts table
---@param args string[]
---@return integer exit status
function M.run(opts, args)
  if #args ~= 1 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local path = args[1]
  local source, message = fs.read(path, { max = 4194304 })
  if not source then
    io.stderr:write("terret check: ", message, "\n")
    return 2
  end
  local kind = opts.kind or guess(path)
  if not kind then
    io.stderr:write(("terret check: the directory of %s names no kind; say --kind %s\n"):format(path,
      table.concat(KINDS, "|")))
    return 2
  end
  local what, problem = examine(kind, path, source)
  if not what then
    io.stderr:write("terret check: ", text.safe(problem), "\n")
    return 1
  end
  io.write(text.safe(("%s: %s"):format(path, what)), "\n")
  return 0
end

return M

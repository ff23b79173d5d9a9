-- scripts/listing.lua - `terret tools|loops|providers`: what a directory of scripts holds, and where
-- each file comes from.  Broken files are listed too, with the reason; the exit status stays 0.

local fs = require "terret.fs"
local json = require "terret.json"
local registry = require "terret.registry"
local text = require "terret.text"

local M = {}

---The words after " - " in the comment that a script begins with, up to the end of its sentence.
---@param source string
---@return string? words
function M.headline(source)
  local lines = {}
  for line in source:gmatch("[^\n]*") do
    local words = line:match("^%-%-%s?(.*)$")
    if not words or words == "" then break end
    lines[#lines + 1] = words
  end
  local words = table.concat(lines, " "):match("^%S+ %- (.*)$")
  local stop = words and words:find("%.%s") or nil
  return stop and words:sub(1, stop - 1) or words and words:gsub("%.$", "") or nil
end

local function source_of(where)
  local inside = where:match("^%[embedded (.*)%]$")
  if inside then return require("terret.embedded").get(inside) end
  return (fs.read(where, { max = 1048576 }))
end

-- What a tool must have beyond the fields that the registry knows.
local function tool_problem(tool)
  local ok, message = pcall(require("terret.schema").compile, tool.parameters)
  if not ok then return "parameters: " .. tostring(message) end
end

---@param kind string
---@param name string
---@return {name: string, description: string, path: string, problems: string[]}
function M.entry(kind, name)
  local where = registry.where(kind, name) or "?"
  local problems = json.array {}
  local value, message = registry.load(kind, name)
  if not value then problems[1] = message end
  if value and kind == "tools" then problems[1] = tool_problem(value) end
  local description = type(value) == "table" and value.description or M.headline(source_of(where) or "")
  return { name = name, description = description or "", path = where, problems = problems }
end

---@param kind string
---@return {name: string, description: string, path: string, problems: string[]}[]
function M.list(kind)
  local out = json.array {}
  for i, name in ipairs(registry.names(kind)) do out[i] = M.entry(kind, name) end
  return out
end

-- One line; nothing of a file reaches a terminal raw.
local function line(s, max)
  return text.safe(text.cut((s:gsub("%s+", " ")), max), { newline = false, tab = false })
end

-- The first sentence is enough on a screen.
local function sentence(s) return s:match("^(.-)%.%s") or s:match("^(.*)%.$") or s end

local function show(list, kind)
  for _, e in ipairs(list) do
    io.write(("%-10s "):format(line(e.name, 100)), line(sentence(e.description), 160), "\n           ",
      line(e.path, 1000), "\n")
    for _, problem in ipairs(e.problems) do io.write("           ! ", line(problem, 500), "\n") end
  end
  if #list == 0 then io.write("no ", kind, "\n") end
end

---The subcommand that lists a kind.
---@param kind string
---@return table
function M.command(kind)
  local usage = ("terret %s [--json]"):format(kind)
  return {
    summary = ("list the %s, and where they come from"):format(kind),
    usage = usage,
    options = { { name = "json", help = "an array of {name, description, path, problems}" } },
    run = function(opts, args)
      if #args > 0 then
        io.stderr:write("usage: ", usage, "\n")
        return 2
      end
      local list = M.list(kind)
      if opts.json then io.write(json.encode(list), "\n") else show(list, kind) end
      return 0
    end,
  }
end

return M

-- scripts/schema.lua - terret.schema: what a tool's arguments must be, and reading what models send.
--
-- compile() takes a tool's `parameters`: a subset of JSON Schema, or the shorthand
--   { path = {"string", "file to read"}, limit = {"integer?", "lines"},
--     items = {"array", "the list", items = { text = {"string", "what"} }} }
-- A mistake in it raises.  validate() judges one decoded value.  It forgives what can mean only
-- one thing (a number in quotes, a JSON text for a list, one value for a list of one, the name
-- that another tool has for a key) and says so in `notes`; everything else is refused, all
-- problems in one message, so that one more turn is enough.  A string is never made from a
-- number: "42" and 42 are different files.
local json = require "terret.json"

local M = {}

local TYPES = { string = true, integer = true, number = true, boolean = true, array = true,
  object = true, null = true }
local FIELD_KEYS = { enum = true, items = true, properties = true, minimum = true, maximum = true,
  minLength = true, maxLength = true, minItems = true, maxItems = true, default = true }
local MAX_DEPTH = 32
local MAX_SHOWN = 40 -- bytes of a wrong value in a message

-- Names that other tools and vendors have for our keys; compared without case, "_" and "-".
local ALIASES = {
  path = "file filepath filename targetfile absolutepath fullpath dir directory",
  old_string = "old oldstr oldtext oldcontent search find",
  new_string = "new newstr newtext newcontent replace replacement replacewith",
  command = "cmd script shellcommand commandline",
  content = "contents text filetext filecontent data body",
  pattern = "regex regexp query search searchpattern",
  glob = "include filepattern globpattern",
  limit = "maxresults headlimit numlines maxlines",
  offset = "startline start line linestart",
  replace_all = "all global replaceall",
  timeout = "timeoutseconds timeoutsec seconds",
  background = "runinbackground",
  prompt = "task message instructions",
  items = "todos todolist tasks",
  text = "content task title",
  status = "state",
  name = "skill skillname",
  id = "blob blobid",
  type = "agent agenttype subagenttype",
}
local ENUM_ALIASES = { completed = "done", complete = "done", finished = "done", todo = "pending",
  open = "pending", active = "inprogress", doing = "inprogress", started = "inprogress" }

local function plain(name)
  return (name:lower():gsub("[_%-%s]", ""))
end

local alias_sets = {}
for key, names in pairs(ALIASES) do
  local set = {}
  for name in names:gmatch("%S+") do set[name] = true end
  alias_sets[key] = set
end

-- ---- compiling --------------------------------------------------------------------------------

local shorthand_object, field

local function copy(value)
  if type(value) ~= "table" then return value end
  local out = json.is_array(value) and json.array({}) or {}
  for k, v in pairs(value) do out[k] = copy(v) end
  return out
end

-- A schema, a type's name, a field or a table of fields, wherever one schema may stand.
local function any_schema(spec, where)
  if type(spec) == "string" then return field({ spec }, where) end
  if type(spec) ~= "table" then error(("%s: a schema, got %s"):format(where, type(spec)), 0) end
  if type(spec[1]) == "string" and not spec.type then return field(spec, where) end
  if type(spec.type) == "string" or spec.anyOf or next(spec) == nil then return copy(spec) end
  return shorthand_object(spec, where)
end

function field(spec, where)
  if type(spec) ~= "table" or type(spec[1]) ~= "string" then
    error(where .. ': expected {"type", "description"}', 0)
  end
  local name, optional = spec[1]:match("^(%a+)(%??)$")
  if not TYPES[name] then error(("%s: no type '%s'"):format(where, spec[1]), 0) end
  local out = { type = name, description = spec[2] }
  for key, value in pairs(spec) do
    if key == "items" then
      out.items = any_schema(value, where .. ".items")
    elseif key == "properties" then
      for k, v in pairs(shorthand_object(value, where)) do out[k] = v end
    elseif key == "enum" then
      out.enum = json.array(copy(value))
    elseif FIELD_KEYS[key] then
      out[key] = copy(value)
    elseif key ~= 1 and key ~= 2 then
      error(("%s: unknown key '%s'"):format(where, tostring(key)), 0)
    end
  end
  return out, optional == "?"
end

function shorthand_object(fields, where)
  local out = { type = "object", properties = {}, required = json.array({}), closed = true }
  for name, spec in pairs(fields) do
    if type(name) ~= "string" then error(where .. ": a parameter needs a name", 0) end
    local schema, optional = any_schema(spec, where .. "." .. name)
    out.properties[name] = schema
    if not optional then out.required[#out.required + 1] = name end
  end
  table.sort(out.required)
  return out
end

-- Lists as JSON arrays; `closed` (made from the shorthand: other keys are dropped) goes to a
-- weak set, since the model is not to see it.
local function finish(schema, closed, where, depth)
  if type(schema) ~= "table" then return end
  if depth > MAX_DEPTH then error(where .. ": nested too deeply", 0) end
  if schema.closed then closed[schema], schema.closed = true, nil end
  for _, name in ipairs(type(schema.type) == "table" and schema.type or { schema.type }) do
    if not TYPES[name] then error(("%s: no type '%s'"):format(where, tostring(name)), 0) end
  end
  for _, key in ipairs { "type", "required", "enum", "anyOf" } do
    if type(schema[key]) == "table" then json.array(schema[key]) end
  end
  if schema.required and #schema.required == 0 then schema.required = nil end
  for name, sub in pairs(schema.properties or {}) do
    finish(sub, closed, where .. "." .. name, depth + 1)
  end
  for _, sub in ipairs(schema.anyOf or {}) do finish(sub, closed, where, depth + 1) end
  finish(schema.items, closed, where .. ".items", depth + 1)
end

-- ---- values -----------------------------------------------------------------------------------

local function is_list(value)
  return type(value) == "table"
    and (json.is_array(value) or value[1] ~= nil or next(value) == nil)
end

local function kind(value)
  if value == nil or value == json.null then return "null" end
  if type(value) == "table" then return json.is_array(value) and "an array" or "an object" end
  return type(value)
end

-- "expected integer, got "abc"": short, whatever the model sent.
local function shown(value)
  if type(value) == "string" then
    if #value > MAX_SHOWN then return ("a string of %d bytes"):format(#value) end
    return json.encode(value)
  end
  if type(value) == "number" or type(value) == "boolean" then
    return ("%s %s"):format(type(value), tostring(value))
  end
  return kind(value)
end

local function to_number(text)
  local digits = text:match("^%s*([+-]?%d+%.?%d*)%s*$")
    or text:match("^%s*([+-]?%d+%.?%d*[eE][+-]?%d+)%s*$")
  return digits and tonumber(digits)
end

local judge -- (run, schema, value, where, depth) -> value, ok

local function refuse(run, where, message)
  run.problems[#run.problems + 1] = where == "" and message or where .. ": " .. message
  return nil, false
end

local function note(run, where, message)
  run.notes[#run.notes + 1] = where == "" and message or where .. ": " .. message
end

local as = {} -- type name -> function(run, schema, value, where, depth) -> value, ok

local function expected(run, where, name, value)
  return refuse(run, where, ("expected %s, got %s"):format(name, shown(value)))
end

function as.null(run, _, value, where)
  if value == json.null then return value, true end
  return expected(run, where, "null", value)
end

function as.string(run, schema, value, where)
  if type(value) ~= "string" then return expected(run, where, "string", value) end
  if schema.minLength and #value < schema.minLength then
    return refuse(run, where, ("needs at least %d characters"):format(schema.minLength))
  end
  if schema.maxLength and #value > schema.maxLength then
    return refuse(run, where, ("has over %d characters"):format(schema.maxLength))
  end
  return value, true
end

local function in_range(run, schema, value, where)
  if schema.minimum and value < schema.minimum then
    return refuse(run, where, ("must be at least %s, got %s"):format(schema.minimum, value))
  end
  if schema.maximum and value > schema.maximum then
    return refuse(run, where, ("must be at most %s, got %s"):format(schema.maximum, value))
  end
  return value, true
end

local function number(run, value, where)
  if type(value) == "number" then return value end
  local n = type(value) == "string" and to_number(value)
  if n then note(run, where, "taken as a number") end
  return n
end

function as.number(run, schema, value, where)
  local n = number(run, value, where)
  if not n or n ~= n then return expected(run, where, "number", value) end
  return in_range(run, schema, n, where)
end

function as.integer(run, schema, value, where)
  local n = number(run, value, where)
  if not n or n ~= n or n % 1 ~= 0 then return expected(run, where, "integer", value) end
  local whole = math.tointeger(n)
  if not whole then return refuse(run, where, ("%s is out of range"):format(n)) end
  return in_range(run, schema, whole, where)
end

function as.boolean(run, _, value, where)
  if type(value) == "boolean" then return value, true end
  local word = type(value) == "string" and value:lower()
  if word == "true" or word == "false" then
    note(run, where, "taken as a boolean")
    return word == "true", true
  end
  return expected(run, where, "boolean", value)
end

-- A JSON text where a list or an object is expected.
local function unpacked(run, value, where, opening)
  if type(value) ~= "string" or not value:find("^%s*%" .. opening) then return value end
  local inner, repairs = json.tolerant(value)
  if type(inner) ~= "table" or type(repairs) ~= "table" then return value end
  note(run, where, "taken from JSON text in a string")
  return inner
end

function as.array(run, schema, value, where, depth)
  value = unpacked(run, value, where, "[")
  if value == json.null then return expected(run, where, "array", value) end
  if not is_list(value) then
    if not schema.items then return expected(run, where, "array", value) end
    local before = #run.problems
    local one, ok = judge(run, schema.items, value, where, depth + 1)
    if not ok then
      for i = #run.problems, before + 1, -1 do run.problems[i] = nil end
      return expected(run, where, "array", value)
    end
    note(run, where, "one value taken as a list")
    return json.array({ one }), true
  end
  if schema.minItems and #value < schema.minItems then
    return refuse(run, where, ("needs at least %d items"):format(schema.minItems))
  end
  if schema.maxItems and #value > schema.maxItems then
    return refuse(run, where, ("has over %d items"):format(schema.maxItems))
  end
  local out, all = json.array({}), true
  for i, item in ipairs(value) do
    local one, ok = item, true
    if schema.items then one, ok = judge(run, schema.items, item, ("%s[%d]"):format(where, i), depth + 1) end
    out[i], all = one, all and ok
  end
  return out, all
end

-- Moves a value whose key is near to exactly one declared key that is missing.
local function map_names(run, properties, given, where)
  local wanted = {} -- target -> list of unknown keys that may mean it
  local claims = {} -- unknown key -> number of targets
  for target in pairs(properties) do
    if given[target] == nil then
      local flat, set = plain(target), alias_sets[target] or {}
      local same, other = {}, {}
      for key in pairs(given) do
        if type(key) == "string" and not properties[key] then
          if plain(key) == flat then same[#same + 1] = key
          elseif set[plain(key)] then other[#other + 1] = key end
        end
      end
      wanted[target] = #same > 0 and same or other
      for _, key in ipairs(wanted[target]) do claims[key] = (claims[key] or 0) + 1 end
    end
  end
  for target, keys in pairs(wanted) do
    local key = keys[1]
    if #keys == 1 and claims[key] == 1 then
      given[target], given[key] = given[key], nil
      note(run, where, ("%s taken as %s"):format(key, target))
    end
  end
end

local function inside(where, key)
  return where == "" and key or where .. "." .. key
end

local function type_name(schema)
  return type(schema.type) == "string" and schema.type or "value"
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  return keys
end

-- Keys that the schema doesn't declare: kept where JSON Schema keeps them, never silently.
local function unknown_keys(run, schema, given, out, where)
  local names, properties = {}, schema.properties or {}
  for _, key in ipairs(sorted_keys(given)) do
    if not properties[key] then names[#names + 1] = key end
  end
  if #names == 0 or not schema.properties then
    for _, key in ipairs(names) do out[key] = given[key] end
    return true
  end
  local list = {}
  for i = 1, math.min(#names, 8) do list[i] = require "terret.text".cut(names[i], MAX_SHOWN) end
  local line = "unknown: " .. table.concat(list, ", ") .. (#names > 8 and ", ..." or "")
  run.unknown[#run.unknown + 1] = where == "" and line or where .. ": " .. line
  if schema.additionalProperties == false then return refuse(run, where, line) end
  note(run, where, line)
  if not run.closed[schema] then
    for _, key in ipairs(names) do out[key] = given[key] end
  end
  return true
end

function as.object(run, schema, value, where, depth)
  value = unpacked(run, value, where, "{")
  if type(value) ~= "table" or (is_list(value) and next(value) ~= nil) then
    return expected(run, where, "object", value)
  end
  local given, required, all = {}, {}, true
  for k, v in pairs(value) do given[k] = v end
  for _, key in ipairs(schema.required or {}) do required[key] = true end
  if schema.properties then map_names(run, schema.properties, given, where) end
  local out = {}
  for _, key in ipairs(sorted_keys(schema.properties or {})) do
    local sub, item = schema.properties[key], given[key]
    local absent = item == nil or (item == json.null and not required[key])
      or (item == "" and not required[key] and type_name(sub) ~= "string" and not sub.anyOf)
    if not absent then
      local one, ok = judge(run, sub, item, inside(where, key), depth + 1)
      out[key], all = one, all and ok
    elseif required[key] then
      all = refuse(run, inside(where, key), ("required %s is missing"):format(type_name(sub))) or false
    end
  end
  return out, unknown_keys(run, schema, given, out, where) and all or false
end

local function in_enum(run, schema, value, where)
  for _, allowed in ipairs(schema.enum) do
    if value == allowed then return value, true end
  end
  local found
  if type(value) == "string" then
    local flat = plain(value)
    for _, allowed in ipairs(schema.enum) do
      if type(allowed) == "string" and (plain(allowed) == flat or plain(allowed) == ENUM_ALIASES[flat]) then
        found = allowed
      end
    end
  end
  if found then
    note(run, where, ("%s taken as %s"):format(shown(value), found))
    return found, true
  end
  local names = {}
  for i, allowed in ipairs(schema.enum) do names[i] = tostring(allowed) end
  return refuse(run, where, ("expected one of %s, got %s"):format(table.concat(names, ", "), shown(value)))
end

-- The first alternative that takes the value; of none, the first one's problems.
local function any_of(run, list, value, where, depth)
  local first
  for _, schema in ipairs(list) do
    local try = { problems = {}, notes = {}, unknown = {}, closed = run.closed }
    local out, ok = judge(try, schema, value, where, depth + 1)
    if ok then
      table.move(try.notes, 1, #try.notes, #run.notes + 1, run.notes)
      return out, true
    end
    first = first or try.problems
  end
  table.move(first or {}, 1, #(first or {}), #run.problems + 1, run.problems)
  return nil, false
end

function judge(run, schema, value, where, depth)
  if depth > MAX_DEPTH then return refuse(run, where, "nested too deeply") end
  if schema.anyOf then return any_of(run, schema.anyOf, value, where, depth) end
  local out, ok = value, true
  if type(schema.type) == "table" then
    local list = {}
    for i, name in ipairs(schema.type) do
      list[i] = setmetatable({ type = name }, { __index = function(_, key)
        return key ~= "anyOf" and key ~= "enum" and schema[key] or nil
      end })
    end
    out, ok = any_of(run, list, value, where, depth)
  elseif schema.type then
    out, ok = as[schema.type](run, schema, value, where, depth)
  end
  if ok and schema.enum then return in_enum(run, schema, out, where) end
  return out, ok
end

-- ---- the module -------------------------------------------------------------------------------

---@class terret.schema
---@field json string canonical JSON text of the JSON Schema
local schema_methods = {}

---@param value any a decoded value
---@return table? value what the tool gets
---@return string[]|string notes what was forgiven, or every problem in one message
function schema_methods:validate(value)
  local run = { problems = {}, notes = {}, unknown = {}, closed = self.closed }
  if value == nil then value = json.null end
  local out, ok = judge(run, self.schema, value, "", 0)
  if ok then return out, run.notes end
  local message = table.concat(run.problems, "; ")
  if #run.unknown > 0 and not message:find("unknown: ", 1, true) then
    message = message .. " (" .. table.concat(run.unknown, "; ") .. ")"
  end
  return nil, message == "" and "does not fit" or message
end

---@param parameters table JSON Schema or the shorthand; a mistake in it raises
---@return terret.schema
function M.compile(parameters)
  if type(parameters) ~= "table" then error("parameters: a table, got " .. type(parameters), 2) end
  local closed = setmetatable({}, { __mode = "k" })
  local ok, result = pcall(function()
    local full = parameters.type == "object" or type(parameters.anyOf) == "table"
    local schema = full and copy(parameters) or shorthand_object(parameters, "parameters")
    finish(schema, closed, "parameters", 0)
    return { schema = schema, closed = closed, json = json.encode(schema) }
  end)
  if not ok then error(result, 2) end
  return setmetatable(result, { __index = schema_methods })
end

return M

-- scripts/options.lua - command-line options from one table: parsing, help, completion.
--
-- A spec is a list of {name, short?, arg?, kind?, list?, default?, help}.  Mistakes of the user come back
-- as nil, message, "usage"; nothing is guessed.

local M = {}

---@class terret.option
---@field name string long name
---@field short string? one letter
---@field arg string? name of its argument; none: a switch
---@field kind "integer"|"number"|nil of the argument
---@field list boolean? may be repeated
---@field choices string[]?
---@field help string

local function find(spec, key, value)
  for _, o in ipairs(spec) do
    if o[key] == value then return o end
  end
end

-- The option whose name is nearest, for "did you mean".
local function nearest(spec, name)
  local best, least
  for _, o in ipairs(spec) do
    local common = 0
    while common < #name and common < #o.name and o.name:byte(common + 1) == name:byte(common + 1) do
      common = common + 1
    end
    local distance = #name + #o.name - 2 * common
    if common >= 3 and (not least or distance < least) then best, least = o.name, distance end
  end
  return best
end

local function convert(o, shown, value)
  if o.kind == "integer" then
    local n = tonumber(value)
    n = n and math.tointeger(n)
    if not n or n < 1 then return nil, ("%s needs a whole number above 0, not '%s'"):format(shown, value) end
    return n
  elseif o.kind == "number" then
    local n = tonumber(value)
    if not n or n <= 0 or n ~= n or n == math.huge then
      return nil, ("%s needs a number above 0, not '%s'"):format(shown, value)
    end
    return n
  elseif o.choices then
    for _, choice in ipairs(o.choices) do
      if choice == value then return value end
    end
    return nil, ("%s must be one of %s, not '%s'"):format(shown, table.concat(o.choices, ", "), value)
  end
  return value
end

---@param spec terret.option[]
---@param args string[]
---@param options {stop: boolean?}? stop: the first bare word ends the options (it is a subcommand)
---@return table<string, any>? opts
---@return string[]|string rest the bare words, or the message
---@return string? code "usage"
function M.parse(spec, args, options)
  local opts, rest, i = {}, {}, 1
  local function set(o, shown, value)
    local converted, message = convert(o, shown, value)
    if converted == nil then return nil, message end
    if o.list then
      opts[o.name] = opts[o.name] or {}
      table.insert(opts[o.name], converted)
    else
      opts[o.name] = converted
    end
    return true
  end
  while i <= #args do
    local word = args[i]
    i = i + 1
    local o, value, shown
    if word == "--" then
      table.move(args, i, #args, #rest + 1, rest)
      opts["--"] = true
      break
    elseif word:sub(1, 2) == "--" then
      local name, given = word:match("^%-%-([^=]+)=(.*)$")
      name = name or word:sub(3)
      o, value, shown = find(spec, "name", name), given, "--" .. name
      if not o then
        local near = nearest(spec, name)
        return nil, ("unknown option --%s%s"):format(name, near and " (did you mean --" .. near .. "?)" or ""), "usage"
      end
    elseif word:sub(1, 1) == "-" and #word > 1 then
      o, shown = find(spec, "short", word:sub(2, 2)), word:sub(1, 2)
      if not o then return nil, "unknown option " .. shown, "usage" end
      if #word > 2 then value = word:sub(3) end
    else
      rest[#rest + 1] = word
      if options and options.stop then
        table.move(args, i, #args, #rest + 1, rest)
        break
      end
    end
    if o and not o.arg then
      if value then return nil, shown .. " takes no argument", "usage" end
      opts[o.name] = true
    elseif o then
      if not value then
        value = args[i]
        i = i + 1
        if value == nil then return nil, ("%s needs an argument: %s"):format(shown, o.arg), "usage" end
      end
      local ok, message = set(o, shown, value)
      if not ok then return nil, message, "usage" end
    end
  end
  return opts, rest
end

---@param spec terret.option[]
---@return string text one line an option
function M.help(spec)
  local left, width = {}, 0
  for i, o in ipairs(spec) do
    left[i] = ("  %s--%s%s"):format(o.short and "-" .. o.short .. ", " or "    ", o.name, o.arg and " " .. o.arg or "")
    width = math.max(width, #left[i])
  end
  local lines = {}
  for i, o in ipairs(spec) do lines[i] = left[i] .. (" "):rep(width - #left[i] + 2) .. o.help end
  return table.concat(lines, "\n")
end

return M

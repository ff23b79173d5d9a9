-- scripts/calls.lua - received tool calls, made fit for the history and for running.
--
-- Names: exact, else forgiven (case, separators, a namespace, stray tokens) where exactly one tool fits.
-- Arguments: a JSON object, or a problem in words that becomes the call's result.

local lazy = require "terret.lazy"

local arguments = lazy "terret.arguments"
local json = require "terret.json"
local text = require "terret.text"

local M = {}

local LONGEST_NAME = 128
M.most_arguments = 1048576 -- bytes
local MOST_RAW = 4000 -- bytes kept of arguments that could not be read

-- Names ----------------------------------------------------------------------------------------

local function plain(name) return (name:lower():gsub("[^%w]", "")) end

-- What may be meant by a name: it itself, without stray tokens, without a namespace or a number.
local function readings(name)
  local list = { name }
  local function add(s)
    if s and s ~= "" then list[#list + 1] = s end
  end
  local bare = name:match("^[%s`\"'<]*(.-)%s*$"):gsub("<|.*$", ""):gsub("[%s%(%[{<`\"'].*$", "")
  add(bare)
  bare = bare:gsub(":%d+$", "")
  add(bare)
  add((bare:gsub("^functions?[%.:/_%-]", ""))) -- before what is only its last part
  add(bare:match("[%.:/]([^%.:/]+)$"))
  add(bare:match("^.*__(.+)$"))
  return list
end

---The tool that a name means, or nil.
---@param tools table<string, table>
---@param name string
---@return table? tool
function M.resolve(tools, name)
  if tools[name] then return tools[name] end
  if #name > LONGEST_NAME then return nil end
  for _, reading in ipairs(readings(name)) do
    if tools[reading] then return tools[reading] end
    local have, found, many = plain(reading), nil, false
    for _, tool in pairs(tools) do
      if have ~= "" and plain(tool.name) == have then
        many = many or found ~= nil
        found = tool
      end
    end
    if many then return nil end -- not guessed
    if found then return found end
  end
end

---A name as the history may carry it: endpoints refuse others.
---@param name string
---@return string
function M.history_name(name)
  local out = name:gsub("[^%w_%-]", "_"):sub(1, 64)
  return out ~= "" and out or "unnamed"
end

-- Calls ----------------------------------------------------------------------------------------

local WRAPPERS = { multi_tool_useparallel = true, multitooluseparallel = true, parallel = true }

---Takes calls out of a wrapper that holds several ("multi_tool_use.parallel").
---@param raws table[]
---@param tools table<string, table>
---@return table[]
function M.unpack(raws, tools)
  local out = {}
  for _, raw in ipairs(raws) do
    local name = type(raw.name) == "string" and raw.name or ""
    local uses
    if #name <= LONGEST_NAME and WRAPPERS[plain(name)] and not tools[name] and type(raw.arguments) == "string" then
      local args = json.tolerant(raw.arguments)
      uses = type(args) == "table" and args.tool_uses
    end
    local inner = {}
    for i, use in ipairs(type(uses) == "table" and uses or {}) do
      if type(use) ~= "table" or type(use.recipient_name) ~= "string" then
        inner = {}
        break
      end
      inner[i] = { name = use.recipient_name, arguments = json.encode(type(use.parameters) == "table"
        and use.parameters or {}) }
    end
    if #inner == 0 then inner[1] = raw end
    table.move(inner, 1, #inner, #out + 1, out)
  end
  return out
end

---Makes a received call fit for the history: arguments become a JSON object, the name and the id
---sane.  What was wrong is kept in call.problem and becomes the call's result.
---@param raw {id: any, name: any, arguments: any, extra: table?}
---@param tools table<string, table>?
---@return table call {id, name, arguments, args?, problem?, repairs?, raw?, extra?}
function M.parse(raw, tools)
  local name = type(raw.name) == "string" and raw.name or ""
  local tool = tools and M.resolve(tools, name)
  local call = { id = raw.id, name = tool and tool.name or text.cut(text.clean(name), LONGEST_NAME), extra = raw.extra }
  local given = type(raw.arguments) == "string" and raw.arguments or ""
  local args, detail, code
  if #given > M.most_arguments then
    detail = ("they are %d bytes long, over %d; do it in parts"):format(#given, M.most_arguments)
  else
    args, detail, code = arguments.parse(given)
  end
  if not args then
    call.arguments, call.raw = "{}", text.cut(text.clean(given), MOST_RAW)
    call.problem = not code and "the arguments are too long, so nothing was run: " .. detail
      or code == "truncated"
      and "the arguments were cut off before their end, so nothing was run: " .. detail
      or "the arguments are not valid JSON, so nothing was run: " .. detail
    return call
  end
  call.args, call.arguments = args, json.encode(args)
  if #detail > 0 then call.repairs = table.concat(detail, ", ") end
  return call
end

return M

-- scripts/leak.lua - tool calls that a model wrote as text, since its server did not read them.
--
-- A recovery that scans any text would run what the model quotes, so a call counts only when it is
-- whole, the last thing of the answer, outside of code blocks and spans, and names a known tool.  All
-- formats are read by plain finds of their tags; nothing is closed by guess.

local json = require "terret.json"

local M = {}

local MOST_PLACES = 16 -- openings that are tried

-- Reading pieces ------------------------------------------------------------------------------

local function skip(s, at) return s:find("%S", at) or #s + 1 end
local function starts(s, at, words) return s:sub(at, at + #words - 1) == words end

-- What stands between two tags: text and the position behind the closing one.
local function between(s, at, open, close)
  if not starts(s, at, open) then return nil end
  local from = at + #open
  local to = s:find(close, from, true)
  if not to then return nil end
  return s:sub(from, to - 1), to + #close
end

-- One line break at each end belongs to the format.
local function inner_text(s) return (s:gsub("^\r?\n", ""):gsub("\r?\n$", "")) end

local function call(name, arguments)
  if type(name) ~= "string" then return nil end
  name = name:match("^%s*(.-)%s*$")
  if name == "" then return nil end
  if arguments == nil or arguments == json.null then arguments = {} end
  local args = arguments
  if type(args) == "string" then args = json.tolerant(args) end
  if type(args) ~= "table" or json.is_array(args) then return nil end
  return { name = name, arguments = json.encode(args) }
end

-- Calls out of JSON: an object with a name and arguments, or a list of them.
local function json_calls(s)
  local value = json.tolerant(s)
  if type(value) ~= "table" then return nil end
  local list, out = json.is_array(value) and value or { value }, {}
  for i, item in ipairs(list) do
    if type(item) ~= "table" then return nil end
    local fn = type(item["function"]) == "table" and item["function"] or item
    local arguments = fn.arguments
    if arguments == nil then arguments = fn.parameters end
    if arguments == nil then arguments = fn.input end
    out[i] = call(fn.name or fn["function"], arguments)
    if not out[i] then return nil end
  end
  return #out > 0 and out or nil
end

-- Parameters in tags: open .. NAME .. after_name, value, close; nothing else between.
local function parameters(s, open, after_name, close)
  local out, at = {}, skip(s, 1)
  while at <= #s do
    if not starts(s, at, open) then return nil end
    local name_end = s:find(after_name, at + #open, true)
    local gt = name_end and s:find(">", name_end, true)
    local to = gt and s:find(close, gt, true)
    if not to then return nil end
    out[s:sub(at + #open, name_end - 1)] = inner_text(s:sub(gt + 1, to - 1))
    at = skip(s, to + #close)
  end
  return out
end

-- <function=NAME> with parameters in tags, or with JSON.
local function function_tag(s, at)
  local body, behind = between(s, at, "<function=", "</function>")
  local gt = body and body:find(">", 1, true)
  if not gt then return nil end
  local rest = body:sub(gt + 1)
  local args = rest:find("^%s*{") and rest or parameters(rest, "<parameter=", ">", "</parameter>")
  local one = args and call(body:sub(1, gt - 1), args)
  return one and { one }, behind
end

-- <invoke name="NAME"> with parameters; some models put a prefix on each tag.
local function invoke_tag(prefix)
  return function(s, at)
    local body, behind = between(s, at, "<" .. prefix .. 'invoke name="', "</" .. prefix .. "invoke>")
    local quote = body and body:find('">', 1, true)
    if not quote then return nil end
    local open, close = "<" .. prefix .. 'parameter name="', "</" .. prefix .. "parameter>"
    local args = parameters(body:sub(quote + 2), open, '"', close)
    local one = args and call(body:sub(1, quote - 1), args)
    return one and { one }, behind
  end
end

local sequence

-- <tool_call>: JSON, one of the tags above, or name and pairs of keys and values (GLM).
local function tool_call_tag(s, at)
  local from = at
  for _ = 1, 4 do -- the closing tag may stand in a string of the JSON
    local to = s:find("</tool_call>", from, true)
    if not to then return nil end
    local body = s:sub(at + #"<tool_call>", to - 1)
    local behind = to + #"</tool_call>"
    local list = json_calls(body) or sequence(body, 1)
    if not list and body:find("<arg_key>", 1, true) then
      local name, rest = body:match("^%s*([^<%s]+)%s*(<arg_key>.*)$")
      local args, pos = {}, 1
      while name and pos <= #rest do
        local key, value
        key, pos = between(rest, skip(rest, pos), "<arg_key>", "</arg_key>")
        if key then value, pos = between(rest, skip(rest, pos), "<arg_value>", "</arg_value>") end
        if not value then return nil end
        args[key] = value
        pos = skip(rest, pos)
      end
      local one = name and call(name, args)
      list = one and { one }
    end
    if list then return list, behind end
    from = behind
  end
end

-- Any container of the calls above.
local function container(open, close)
  return function(s, at)
    local body, behind = between(s, at, open, close)
    local list = body and (sequence(body, 1) or json_calls(body))
    return list, behind
  end
end

-- Kimi: functions.NAME:0, then the arguments.
local function kimi_call(s, at)
  local body, behind = between(s, at, "<|tool_call_begin|>", "<|tool_call_end|>")
  local split = body and body:find("<|tool_call_argument_begin|>", 1, true)
  if not split then return nil end
  local name = body:sub(1, split - 1):match("^%s*(.-)%s*$"):gsub("^functions%.", ""):gsub(":%d+$", "")
  local one = call(name, body:sub(split + #"<|tool_call_argument_begin|>"))
  return one and { one }, behind
end

-- DeepSeek: NAME, a separator, the arguments; an older form says "function" first and fences the JSON.
local function deepseek_call(s, at)
  local body, behind = between(s, at, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
  local sep = "<｜tool▁sep｜>"
  local split = body and body:find(sep, 1, true)
  if not split then return nil end
  local name, args = body:sub(1, split - 1), body:sub(split + #sep)
  if name:find("^%s*function%s*$") then name, args = args:match("^%s*([^\n]+)\n(.*)$") end
  local one = name and call(name, args)
  return one and { one }, behind
end

-- Mistral: a list, or NAME[ARGS]{...}; it ends with the text.
local function mistral_calls(s, at)
  local open = "[TOOL_CALLS]"
  if not starts(s, at, open) then return nil end
  local body = s:sub(at + #open)
  local list = json_calls(body)
  if not list then
    local name, args = body:match("^%s*([%w_%-%.]+)%s*%[ARGS%](.*)$")
    if not name then name, args = body:match("^%s*([%w_%-%.]+)%s*({.*)$") end
    local one = name and call(name, args)
    list = one and { one }
  end
  return list, #s + 1
end

-- Harmony: <|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{...}<|call|>
local function harmony_call(s, at)
  if not starts(s, at, "<|channel|>") and not starts(s, at, "<|start|>assistant") then return nil end
  local message = s:find("<|message|>", at, true)
  local head = message and s:sub(at, message - 1)
  local name = head and #head < 300 and head:match("to=([%w_%-%.]+)")
  if not name then return nil end
  local from = message + #"<|message|>"
  local to = s:find("<|call|>", from, true)
  local one = call((name:gsub("^functions%.", "")), s:sub(from, (to or #s + 1) - 1))
  return one and { one }, to and to + #"<|call|>" or #s + 1
end

local function python_tag(s, at)
  if not starts(s, at, "<|python_tag|>") then return nil end
  local body = s:sub(at + #"<|python_tag|>"):gsub("<|e[o%l]+_id|>%s*$", "")
  return json_calls(body), #s + 1
end

-- The openings; `line`: at the start of a line only, for tags that stand in ordinary text too.
local FORMATS = {
  { "<tool_call>", tool_call_tag, line = true },
  { "<function=", function_tag, line = true },
  { '<invoke name="', invoke_tag "", line = true },
  { '<｜DSML｜invoke name="', invoke_tag "｜DSML｜" },
  { "<function_calls>", container("<function_calls>", "</function_calls>"), line = true },
  { "<｜DSML｜function_calls>", container("<｜DSML｜function_calls>", "</｜DSML｜function_calls>") },
  { "<minimax:tool_call>", container("<minimax:tool_call>", "</minimax:tool_call>"), line = true },
  { "<tool_calls>", container("<tool_calls>", "</tool_calls>"), line = true },
  { "<|tool_calls_section_begin|>", container("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>") },
  { "<|tool_call_begin|>", kimi_call },
  { "<｜tool▁calls▁begin｜>", container("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>") },
  { "<｜tool▁call▁begin｜>", deepseek_call },
  { "[TOOL_CALLS]", mistral_calls },
  { "<|channel|>", harmony_call },
  { "<|start|>assistant", harmony_call },
  { "<|python_tag|>", python_tag },
}

-- Calls from a position to the end of the text, with nothing but space between; nil: there is more.
function sequence(s, at)
  local out = {}
  at = skip(s, at)
  while at <= #s do
    local list, behind
    for _, format in ipairs(FORMATS) do
      if starts(s, at, format[1]) then
        list, behind = format[2](s, at)
        if list then break end
      end
    end
    if not list then return nil end
    table.move(list, 1, #list, #out + 1, out)
    at = skip(s, behind)
  end
  return #out > 0 and out or nil
end

-- Places ----------------------------------------------------------------------------------------

-- True in a code block, a code span or a quoted line.
local function quoted(s, at)
  local before = s:sub(1, at - 1)
  local _, fences = ("\n" .. before):gsub("\n[ \t]*```", "")
  local _, tildes = ("\n" .. before):gsub("\n[ \t]*~~~", "")
  if fences % 2 == 1 or tildes % 2 == 1 then return true end
  local line = before:match("[^\n]*$")
  local _, ticks = line:gsub("`", "")
  return ticks % 2 == 1 or line:find("^%s*>") ~= nil
end

local function begins_line(s, at) return s:sub(1, at - 1):find("[^\n%s][ \t]*$") == nil end

-- Where calls may begin, in order.
local function places(s)
  local list = {}
  for _, format in ipairs(FORMATS) do
    local at = 1
    for _ = 1, MOST_PLACES do
      at = s:find(format[1], at, true)
      if not at then break end
      if not (format.line and not begins_line(s, at)) and not quoted(s, at) then list[#list + 1] = at end
      at = at + 1
    end
  end
  table.sort(list)
  return list
end

-- Markup that ends the text, or that was cut off, is no answer; talk about tags is one.
local function is_broken(s, at)
  if not at then return false end
  local rest = s:sub(at)
  local tag_end = rest:find("[>%]]%s*[{<\n]") or rest:find("^<function=") or rest:find('^<%S- name="')
  if not tag_end and not rest:find("^<[|｜]") then return false end
  return rest:find("[>%]}]%s*$") ~= nil or not rest:find("</", 1, true) and not rest:find("_end|>", 1, true)
    and not rest:find("\n%s*\n", 1)
end

---The calls at the end of a text.
---@param s string
---@param known fun(name: string): string? the name of the tool that is meant, or nil
---@return {name: string, arguments: string}[]? calls
---@return string? rest the text before them
---@return boolean? broken there is markup of a call at the end that can't be used
function M.recover(s, known)
  local list = places(s)
  for i = 1, math.min(#list, MOST_PLACES) do
    local calls = sequence(s, list[i])
    local all = calls ~= nil
    for _, one in ipairs(calls or {}) do
      local name = known(one.name)
      all = all and name ~= nil
      one.name = name or one.name
    end
    if all then return calls, (s:sub(1, list[i] - 1):gsub("%s+$", "")) end
  end
  return nil, nil, is_broken(s, list[#list])
end

return M

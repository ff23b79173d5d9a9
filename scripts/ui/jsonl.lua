-- scripts/ui/jsonl.lua - one JSON object a line for each event, last the result (docs/jsonl.md).
--
-- Nobody can be asked.  A line is written whole and flushed; when the reader is gone nothing more is
-- written and the run goes on.  With only_result the events but the last are left out, and
-- what went wrong is said on stderr.

local json = require "terret.json"

local M = {}

-- Loaded when there is something to say: most runs have nothing.
local function render() return require "terret.render" end

local VERSION = 1 -- of the events; raised when a field changes its meaning or goes away

-- The fields that an event has here; what else it carries inside terret stays inside.
local FIELDS = {
  session = { "session", "dir", "model", "project" },
  text = { "delta" },
  reasoning = { "delta" },
  tool_call = { "id", "name", "arguments" },
  permission = { "id", "tool", "verdict", "allowed", "reason", "rule" },
  tool_progress = { "id", "text" },
  tool_result = { "id", "name", "ok", "text", "seconds", "extra" },
  usage = { "input", "cached", "output", "cost", "context", "window" },
  compaction = { "kind", "tokens", "before", "after", "results", "messages" },
  retry = { "text", "class", "attempt", "seconds" },
  subagent = { "id", "state", "prompt" },
  warning = { "text" },
  error = { "text" },
  result = { "status", "text", "message", "steps", "usage", "cost", "session" },
}
local SAID = { warning = true, error = true, retry = true }

-- Arguments are a JSON text with the digits that the model wrote; they go out as an object.
local function arguments(value)
  if type(value) ~= "string" then return value end
  local ok, raw = pcall(json.raw, value)
  return ok and raw or value
end

-- The line of an event, or nil for one that isn't documented.
local function encode(e)
  local names = FIELDS[e.type]
  if not names then return nil end
  local line = { type = e.type, agent = e.agent, v = e.type == "session" and VERSION or nil }
  for _, name in ipairs(names) do line[name] = e[name] end
  if e.type == "tool_call" then line.arguments = arguments(e.arguments) end
  local ok, encoded = pcall(json.encode, line)
  if ok then return encoded end
  line.extra = nil -- a tool may put there what is no JSON
  ok, encoded = pcall(json.encode, line)
  return ok and encoded or nil
end

---@param options {out: file*?, err: file*?, only_result: boolean?}?
---@return table ui
function M.new(options)
  options = options or {}
  local out, err = options.out or io.stdout, options.err or io.stderr
  local ui, broken = {}, nil

  local function say(words) err:write("terret: ", words, "\n") end

  local function write(e)
    local line = encode(e)
    if not line or broken then return end
    local ok, message = out:write(line, "\n")
    if ok then ok, message = out:flush() end
    if not ok then
      broken = tostring(message)
      say("the output can't be written: " .. render().line(broken))
    end
  end

  ---@param e table
  function ui.event(e)
    if e.type == "result" then return end -- finish() has the last line
    if not options.only_result then return write(e) end
    if SAID[e.type] then say(render().notice(e)) end
  end

  ---@param result table
  ---@return boolean? ok
  ---@return string? message
  function ui.finish(result)
    local e = setmetatable({ type = "result" }, { __index = result })
    write(e)
    if broken then return nil, broken end
    return true
  end

  return ui
end

local default

---@param e table
function M.event(e)
  default = default or M.new()
  default.event(e)
end

return M

-- scripts/ui/quiet.lua - headless text: the final answer on stdout, one line on stderr for each thing
-- that went wrong.  A terminal gets the answer with its control characters shown; a pipe gets its bytes.

local text = require "terret.text"
local tty = require "terret.tty"

local M = {}

-- Loaded when there is something to say: most runs have nothing.
local function render() return require "terret.render" end

local SAID = { warning = true, error = true, retry = true }

---@param options {out: file*?, err: file*?, terminal: boolean?}? terminal: out is one (default: looked at)
---@return table ui
function M.new(options)
  options = options or {}
  local out, err = options.out or io.stdout, options.err or io.stderr
  local terminal = options.terminal
  if terminal == nil then terminal = out == io.stdout and tty.isatty(1) end
  local ui = {}

  local function say(words) err:write("terret: ", words, "\n") end

  ---@param e table
  function ui.event(e)
    if SAID[e.type] then say(render().notice(e)) end
  end

  ---@param result table
  ---@return boolean? ok
  ---@return string? message
  function ui.finish(result)
    local answer = result.text or ""
    answer = terminal and text.safe(answer) or text.clean(answer)
    if answer ~= "" and answer:sub(-1) ~= "\n" then answer = answer .. "\n" end
    local ok, message = out:write(answer)
    if ok then ok, message = out:flush() end
    if result.status ~= "done" then say(render().outcome(result)) end
    if ok then return true end
    say("the answer can't be written: " .. render().line(tostring(message)))
    return nil, message
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

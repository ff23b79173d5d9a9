-- scripts/slash.lua - slash commands: "/name words".  Each is a file in commands/ that returns
-- {description =, run = function(ctx, args) -> text}; ctx is {agent =, ui =, cfg =}.  A command with
-- anytime = true may also run while the agent works.

local registry = require "terret.registry"
local task = require "terret.task"
local text = require "terret.text"

local M = {}

---@param words string
---@return string? name nil: this is no command ("/usr/bin is full" is none)
---@return string args
function M.parse(words)
  local name, args = words:match("^/(%l[%l%d%-]*)%s+(.*)$")
  if not name then name, args = words:match("^/(%l[%l%d%-]*)$"), "" end
  if not name and words:find("^/%?%s*$") then name = "help" end
  return name, (args or ""):match("^(.-)%s*$")
end

---@param name string
---@return table? command
---@return string? message
function M.load(name)
  local command, message, code = registry.load("commands", name)
  if command then return command end
  if code ~= "not_found" then return nil, message end
  return nil, ("no command /%s; there are: /%s"):format(text.cut(name, 40),
    table.concat(registry.names("commands"), " /"))
end

---Runs one command; whatever it does, a text comes back.  Only cancelling passes through.
---@param ctx {agent: table, ui: table, cfg: table}
---@param words string as typed
---@param busy boolean? the agent works
---@return string
function M.run(ctx, words, busy)
  local name, args = M.parse(words)
  if not name then return "not a command: " .. words end
  local command, message = M.load(name)
  if not command then return message end
  if busy and not command.anytime then return ("/%s has to wait until the turn has ended"):format(name) end
  local ok, reply = pcall(command.run, ctx, args)
  if ok then return type(reply) == "string" and reply or "" end
  if task.is_cancelled(reply) then error(reply, 0) end
  return ("/%s failed: %s"):format(name, tostring(reply))
end

return M

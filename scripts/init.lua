-- scripts/init.lua - `require "terret"`: what extensions and orchestration scripts use.
--
-- terret.api is raised when something that worked stops working; within one number names are only added.

local events = require "terret.events"
local frozen = require "terret.frozen"

local M = {}

M.api = events.api
M.on = events.on
M.copy = frozen.copy

---An agent of its own, for scripts: a session, a budget and the tools, as the command line would make it.
---@param options table fields of the configuration (scripts/setup.lua); ui: {event =, ask =}?
---@return terret.agent?
---@return string? message
---@return string? code
function M.new_agent(options)
  options = options or {}
  local cfg, message, code = require("terret.config").load({}, require("terret.fs").cwd())
  if not cfg then return nil, message, code end
  local ui, session = options.ui or { event = function() end }, options.session
  for key, value in pairs(options) do
    if key ~= "ui" and key ~= "session" then cfg[key] = value end
  end
  if cfg.provider == "scripted" then cfg.model = cfg.model or "scripted" end
  if not cfg.model then return nil, "no model is set", "usage" end
  return require("terret.setup").open(cfg, ui, session)
end

return M

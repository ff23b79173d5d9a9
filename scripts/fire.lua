-- scripts/fire.lua - fires an event, if somebody listens.
--
--     local e = fire(agent, "tool.result", { text = text })          -- the input itself, perhaps changed
--     local reply = fire(agent, "request", { model = m }, send)      -- send(e), with handlers around it
--
-- As long as no file has registered a handler, terret.events isn't even loaded.

local loaded = package.loaded

---@param agent terret.agent?
---@param name string of the table in events/list.lua
---@param e table what happens
---@param default any a function of e, or a value; nil: e itself
---@return any
return function(agent, name, e, default)
  local events = loaded["terret.events"]
  if events and events.handlers[name] then return events.fire(agent, name, e, default) end
  if type(default) == "function" then return default(e) end
  if default == nil then return e end
  return default
end

-- scripts/lazy.lua - a module that is loaded when it is first used: lazy "terret.diff".
-- Start-up is mostly loading; what the first request doesn't need waits.

---@param name string
---@return table module a stand-in with the same fields
return function(name)
  return setmetatable({}, { __index = function(self, key)
    local value = require(name)[key]
    rawset(self, key, value)
    return value
  end })
end

-- scripts/failure.lua - an error that ends a turn with a status of its own.
--
-- Everything else that goes wrong in a call is that call's result; a Failure passes through all
-- boundaries up to agent:prompt.

local M = {}

local Failure = { __tostring = function(e) return e.message end }

---@param status "failed"|"endpoint"|"limit"
---@param message string
---@param code string?
function M.raise(status, message, code)
  error(setmetatable({ status = status, message = message, code = code }, Failure), 0)
end

---@param err any
---@return boolean
function M.is(err) return getmetatable(err) == Failure end

return M

-- scripts/budget.lua - limits of the runner: steps, tokens, money, seconds.
--
-- Reserved before each request and settled after it, in this budget and all above it, so that two
-- subagents that ask at the same time can't together pass a limit.  A loop can't forget them.

local reactor = require "terret.reactor"

local M = {}

---@class terret.budget
---@field spent {steps: integer, tokens: integer, cost: number} steps: requests that were answered
---@field usage {input: integer, cached: integer, output: integer} of the whole tree
---@field limits {steps: integer?, tokens: integer?, cost: number?, seconds: number?}
local Budget = {}
Budget.__index = Budget

---@param limits {steps: integer?, tokens: integer?, cost: number?, seconds: number?}
---@param parent terret.budget?
---@return terret.budget
function M.new(limits, parent)
  return setmetatable({
    limits = limits or {}, parent = parent, started = reactor.now(),
    spent = { steps = 0, tokens = 0, cost = 0 }, held = { steps = 0, tokens = 0, cost = 0 },
    usage = { input = 0, cached = 0, output = 0 },
  }, Budget)
end

local KEYS = { "steps", "tokens", "cost" }
local NAMES = { steps = "steps", tokens = "tokens", cost = "USD" }
local MOST = 1 << 53 -- where a sum stops: it never wraps around, and never becomes endless
local USAGE = { "input", "cached", "output" }

-- What stands against a reservation here, or nil.
function Budget:refusal(want)
  for _, key in ipairs(KEYS) do
    local limit = self.limits[key]
    if limit and self.spent[key] + self.held[key] + (want[key] or 0) > limit then
      return ("the limit of %s %s is reached"):format(limit, NAMES[key])
    end
  end
  if self.limits.seconds and reactor.now() - self.started >= self.limits.seconds then
    return ("the limit of %s seconds is reached"):format(self.limits.seconds)
  end
end

---@param want {steps: integer?, tokens: integer?, cost: number?} the most that the request may use
---@return table? reservation for settle
---@return string? message
---@return string? code "limit"
function Budget:reserve(want)
  local level = self
  while level do
    local message = level:refusal(want)
    if message then return nil, message, "limit" end
    level = level.parent
  end
  level = self
  while level do
    for _, key in ipairs(KEYS) do level.held[key] = level.held[key] + (want[key] or 0) end
    level = level.parent
  end
  return { want = want }
end

---Gives a reservation back and books what was really used.  A second time books nothing held.
---@param reservation table
---@param used {steps: integer?, tokens: integer?, cost: number?, input: integer?, cached: integer?, output: integer?}
function Budget:settle(reservation, used)
  local want = reservation.want
  reservation.want = {}
  local level = self
  while level do
    for _, key in ipairs(KEYS) do
      level.held[key] = level.held[key] - (want[key] or 0)
      level.spent[key] = math.min(MOST, level.spent[key] + math.min(MOST, used[key] or 0))
    end
    for _, key in ipairs(USAGE) do
      level.usage[key] = math.min(MOST, level.usage[key] + math.min(MOST, used[key] or 0))
    end
    level = level.parent
  end
end

---What a limit leaves, the least of all levels; nil: there is none.
---@param key "steps"|"tokens"|"cost"
---@return number?
function Budget:left(key)
  local left
  local level = self
  while level do
    local limit = level.limits[key]
    local mine = limit and math.max(0, limit - level.spent[key] - level.held[key])
    left = mine and math.min(left or mine, mine) or left
    level = level.parent
  end
  return left
end

---@param key "steps"|"tokens"|"cost"|"seconds"
---@return boolean true: here or above there is a limit of it
function Budget:limits_any(key)
  local level = self
  while level do
    if level.limits[key] then return true end
    level = level.parent
  end
  return false
end

---@return number? seconds that are left, the least of all levels
function Budget:seconds_left()
  local left
  local level = self
  while level do
    if level.limits.seconds then
      local mine = level.limits.seconds - (reactor.now() - level.started)
      left = math.min(left or mine, mine)
    end
    level = level.parent
  end
  return left
end

return M

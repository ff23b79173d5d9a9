-- scripts/stuck.lua - a model that repeats itself: it is told once, then the turn is stopped.
--
-- The last steps are compared with a period of 1 to 4 steps.  The same calls with the same results count as
-- stuck after `repeats` rounds (3; a tool may say more with its field `repeats`), the same calls with
-- other results after twice as many: polling is no circle.  What happens is the event loop.stuck's to say.
-- Who set a limit of steps has said when to stop: then the model is only told.

local failure = require "terret.failure"
local fire = require "terret.fire"

local M = {}

M.repeats = 3
M.periods = 4

local NUDGE = "You have made the same calls %d times now, with the same results. Don't repeat them: try another way, or"
  .. " say what is in the way and end."

-- How often the last `period` steps stand at the end of the list.
local function rounds(steps, period, key)
  local count, n = 1, #steps
  while true do
    for i = 0, period - 1 do
      local old = steps[n - count * period - i]
      if not old or old[key] ~= steps[n - i][key] then return count end
    end
    count = count + 1
  end
end

local function patience(agent, steps, period)
  local most = M.repeats
  for i = 0, period - 1 do
    for _, name in ipairs(steps[#steps - i].names) do
      local tool = agent.tools[name]
      most = math.max(most, tool and tool.repeats or 0)
    end
  end
  return most
end

local function find(agent, steps)
  for period = 1, M.periods do
    if #steps >= period * 2 then
      local most = patience(agent, steps, period)
      local same = rounds(steps, period, "whole")
      if same >= most then return period, same end
      local loose = rounds(steps, period, "asked")
      if loose >= 2 * most then return period, loose end
    end
  end
end

local function step_of(calls, results)
  local asked, whole, names = {}, {}, {}
  for i, call in ipairs(calls) do
    asked[i], names[i] = call.name .. call.arguments, call.name
    whole[i] = asked[i] .. "\0" .. (results[i] and results[i].content or "")
  end
  return { asked = table.concat(asked, "\1"), whole = table.concat(whole, "\1"), names = names }
end

---Looks at the step that was just done; may say a nudge, or end the turn.
---@param agent terret.agent
---@param calls table[]
---@param results table[]
function M.watch(agent, calls, results)
  if #calls == 0 then return end
  local steps = agent.steps or {}
  agent.steps = steps
  steps[#steps + 1] = step_of(calls, results)
  if #steps > 200 then table.remove(steps, 1) end
  local period, times = find(agent, steps)
  if not period then return end
  steps.nudged = steps.nudged or 0
  local say = fire(agent, "loop.stuck", { period = period, times = times, nudged = steps.nudged }, false)
    or steps.nudged == 0 and { nudge = NUDGE:format(times) }
    or agent.cfg.own_steps and { go_on = true }
    or { stop = ("the model repeats itself (%d times the same %s)"):format(times,
      period == 1 and "step" or period .. " steps") }
  agent.steps = { nudged = steps.nudged + 1 }
  if say.stop then failure.raise("limit", say.stop, "stuck") end
  if say.nudge then agent:say("user", say.nudge, "note") end
end

return M

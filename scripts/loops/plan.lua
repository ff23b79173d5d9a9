-- scripts/loops/plan.lua - plan, approve, act: nothing is done before the user has agreed to the plan.
local PLAN = "First only a plan: what you will change and how you will prove it, in at most ten lines. You may look at"
  .. " files; change nothing yet."
local ROUNDS = 5

-- Looks around until it has a plan; what would change something waits.
local function plan(agent)
  local mode = agent.permissions.mode
  agent.permissions:set_mode "plan"
  local _restore <close> = setmetatable({}, { __close = function() agent.permissions:set_mode(mode) end })
  local reply
  repeat
    reply = agent:ask { tail = PLAN }
    agent:act(reply.tool_calls)
  until #reply.tool_calls == 0
  return reply.text
end

return function(agent)
  for _ = 1, ROUNDS do
    local text = plan(agent)
    local agreed, words = agent:confirm("act on the plan", text)
    if agreed then break end
    if not words or words == "" then return end -- no, and nothing to do better: the plan is the answer
    agent:say("user", "Not like that: " .. words, "note")
  end
  agent:say("user", "The plan is agreed to. Carry it out.", "note")
  repeat
    local reply = agent:ask()
    agent:act(reply.tool_calls)
  until #reply.tool_calls == 0
end

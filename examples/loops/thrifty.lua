-- thrifty.lua - a loop that reads with a cheap model and writes with the good one.
--
-- As long as the last step only looked around (read, grep), the next one is asked of the cheap model; the first step, and
-- every step after a change or a command, is the good one's.  Set CHEAP to a model of the same endpoint.
local CHEAP = os.getenv("TERRET_CHEAP_MODEL") or "gpt-4o-mini"
local LOOKS = { read = true, grep = true, recall = true, todo = true }

local function only_looks(calls)
  for _, call in ipairs(calls) do
    if not LOOKS[call.name] then return false end
  end
  return #calls > 0
end

return function(agent)
  local model -- nil: the model of the session
  while true do
    local reply = agent:ask { model = model }
    agent:act(reply.tool_calls)
    if #reply.tool_calls == 0 then
      if not model then return end
      model = nil -- the cheap one thinks that it is done: the good one has the last word
    else
      model = only_looks(reply.tool_calls) and CHEAP or nil
    end
  end
end

-- scripts/loops/react.lua - the default loop: ask, act, until the model calls nothing.
return function(agent)
  repeat
    local reply = agent:ask()
    agent:act(reply.tool_calls)
  until #reply.tool_calls == 0
end

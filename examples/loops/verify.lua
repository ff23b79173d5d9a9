-- verify.lua - a loop in one file: the default loop, but "done" counts only when the tests pass.
--
-- Copy it to ~/.config/terret/loops/ and run `terret --loop verify`.  A project without a file
-- run-tests.sh is left alone.  Limits and interrupts are the runner's business: the loop handles none.
local TEST = "test ! -f run-tests.sh || sh run-tests.sh"
local TRIES = 3

return function(agent)
  for _ = 1, TRIES do
    repeat
      local reply = agent:ask() -- one model request; streams; the reply is stored
      agent:act(reply.tool_calls) -- checked, permitted, sandboxed, one result each, stored
    until #reply.tool_calls == 0
    local result, message = agent:exec(TEST, { timeout = 300 }) -- in the sandbox
    if not result then return agent:emit("warning", { text = "the tests could not be run: " .. message }) end
    if result.code == 0 then return end
    agent:say("user", "The tests fail:\n" .. result.head .. result.tail, "note")
  end
end

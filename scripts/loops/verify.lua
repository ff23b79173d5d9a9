-- scripts/loops/verify.lua - act until a check command passes; each failure is fed back.
--
-- The command is --check COMMAND, or what the project is tested with: run-tests.sh, or make test.
local TRIES = 5
local GUESS = "if [ -f run-tests.sh ]; then sh run-tests.sh; elif grep -qs '^test:' Makefile; then make test; else"
  .. " echo 'no check is known: say --check COMMAND'; exit 99; fi"

return function(agent)
  local check = agent.cfg.check or GUESS
  for try = 1, TRIES do
    repeat
      local reply = agent:ask()
      agent:act(reply.tool_calls)
    until #reply.tool_calls == 0
    local result, message = agent:exec(check, { timeout = 600 })
    if not result or result.code == 99 and not agent.cfg.check then
      agent:emit("warning", { text = "the check can't be run: " .. (message or result.head) })
      return
    end
    if result.code == 0 then return agent:emit("warning", { text = ("the check passes (try %d)"):format(try) }) end
    if try == TRIES then agent:fail(("the check still fails after %d tries"):format(TRIES)) end
    agent:say("user", "The check fails:\n" .. result.head .. result.tail, "note")
  end
end

-- approve.lua - asks a command of your own instead of you: it gets the question as JSON on its standard input and
-- answers by its exit status (0 yes, 1 no, anything else: ask me).  For chat bots, on-call phones, a second person.
local exec = require "terret.exec"
local json = require "terret.json"
local task = require "terret.task"
local terret = require "terret"

local COMMAND = os.getenv("TERRET_APPROVE") or (os.getenv("HOME") or "") .. "/bin/terret-approve"

terret.on("tool.ask", function(e)
  local question = json.encode { tool = e.tool, request = terret.copy(e.request), reason = e.reason }
  local process <close> = exec.spawn { argv = { COMMAND }, stdin = question, timeout = 600 }
  if not process then return nil end -- no such command: the next handler, or the user
  task.await(process)
  local status, output = process:status(), process:output()
  if status.code == 0 then return { verdict = "allow" } end
  if status.code == 1 then return { verdict = "deny", words = output.head } end
end, { name = "approve", wait = 610 }) -- it may wait; its own computing is still limited to a second

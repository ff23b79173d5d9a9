-- scripts/loops/text.lua - for models without tool calling: one fenced command per reply.
--
-- No tools are sent.  The command runs through the tool bash, so permissions and the sandbox are the same.
local RULES = [[
You have no tools here but one: a shell. To use it, end your reply with exactly one command in a fence:
```sh
ls
```
You get its output in the next message, then go on. Files are changed with commands, too (a here-document, sed).
When the task is done, answer without a fence.]]

-- The command of a reply; nil, what is wrong, when there is not exactly one.
local function command_of(text)
  local first, stop = nil, 1
  local count = 0
  while true do
    local _, open, language = text:find("^```(%a*)[^\n]*\n", stop)
    if not open then
      local _, at = text:find("\n", stop, true)
      if not at then break end
      stop = at + 1
    else
      local close = text:find("\n```", open, true) or #text + 1
      if language == "" or language == "sh" or language == "bash" then
        count, first = count + 1, first or text:sub(open + 1, close - 1)
      end
      stop = close + 4
    end
  end
  if count > 1 then return nil, "One command per reply, please; nothing was run." end
  return first
end

return function(agent)
  if not agent.session.state.text_rules then
    agent:say("user", RULES, "note")
    agent:record { type = "state", key = "text_rules", value = true }
  end
  while true do
    local command, problem = command_of(agent:ask({ bare = true }).text)
    if not command and not problem then return end
    agent:say("user", problem or "Output:\n" .. agent:call("bash", { command = command }).content, "note")
  end
end

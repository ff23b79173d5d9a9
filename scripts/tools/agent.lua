-- scripts/tools/agent.lua - the tool `agent`: a task for a subagent; its last message comes back.
local registry = require "terret.registry"

-- The kinds that there are; the model can't know of them otherwise.
local function kinds()
  local names = registry.names "agents"
  return #names > 0 and "kind of agent: " .. table.concat(names, ", ") or "kind of agent"
end

local function run(args, call)
  if not args.prompt:find("%S") then return nil, "prompt is empty" end
  if not (call.agent and call.agent.spawn) then return nil, "subagents are not available here" end
  local report, message, code = call.agent:spawn { prompt = args.prompt, type = args.type }
  if not report then return nil, message, code end
  local words = report.text or ""
  if not words:find("%S") then words = "(the subagent ended without a report)" end
  if report.status and report.status ~= "done" then words = ("%s\n[status: %s]"):format(words, report.status) end
  return words, { status = report.status, session = report.session }
end

return {
  name = "agent",
  description = "Gives a task to a subagent with a context of its own, and returns its report. It sees nothing of"
    .. " this conversation, so the prompt must say everything. Several calls in one reply run side by side.",
  permission = "none",
  parameters = {
    prompt = { "string", "the whole task, and what the report should hold" },
    type = { "string?", kinds() },
  },
  run = run,
}

-- scripts/loops/review.lua - a second model criticises before the end (config.lua: review_model = "...").
local ROUNDS = 2
local ASK = "Review what was just done in this project. The task was:\n%s\n\nThe author says:\n%s\n\nLook at the files"
  .. " and at `git diff` yourself, run the tests. Object only to real mistakes: wrong behaviour, a part of the task"
  .. " that is missing, a claim that is not true."
local ANSWER = { good = { "boolean", "true: nothing has to be changed" },
  objections = { "string?", "what is wrong, with file and line" } }

return function(agent)
  local task = agent.prompt_text
  for round = 0, ROUNDS do
    repeat
      local reply = agent:ask()
      agent:act(reply.tool_calls)
    until #reply.tool_calls == 0
    if round == ROUNDS then return end
    local report, message = agent:spawn { prompt = ASK:format(task, agent.last_text), schema = ANSWER,
      model = agent.cfg.review_model }
    if not report then return agent:emit("warning", { text = "there was no review: " .. message }) end
    if report.value.good then return end
    agent:say("user", "A reviewer objects. Mend what is right about it, or say why it is not:\n"
      .. (report.value.objections or report.text), "note")
  end
end

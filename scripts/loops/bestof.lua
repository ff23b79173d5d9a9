-- scripts/loops/bestof.lua - N forks in git worktrees of their own; a check command or a judge chooses.
--
-- --check COMMAND: the first whose check passes wins.  Without it a judge reads the differences.  The winner's
-- changes are applied to the project; the worktrees go, also when the turn is cancelled.
local task = require "terret.task"
local worktrees = require "terret.worktrees"

local JUDGE = "Several attempts were made at this task:\n%s\n\nEach is a patch with the last words of its author."
  .. " Which is the best: right, whole, small? Answer with its number.\n\n%s"

local function judge(agent, attempts)
  local parts = {}
  for i, a in ipairs(attempts) do parts[i] = ("## %d\n%s\n```diff\n%s```"):format(i, a.result.text, a.patch) end
  local report = agent:spawn { prompt = JUDGE:format(agent.prompt_text, table.concat(parts, "\n\n")), tools = {},
    schema = { best = { "integer", "number of the best attempt" } } }
  return report and attempts[report.value.best] or attempts[1]
end

local function choose(agent, attempts, last)
  if #attempts == 0 then agent:fail(last.message or "no attempt came to an end", last.status) end
  if not agent.cfg.check then return #attempts == 1 and attempts[1] or judge(agent, attempts) end
  for _, a in ipairs(attempts) do
    local r = a.fork:exec(agent.cfg.check, { timeout = 600 })
    if r and r.code == 0 then return a end
  end
  agent:fail "the check passes in none of the attempts"
end

return function(agent)
  local trees <close> = worktrees.new(agent, agent.cfg.attempts or 3)
  local attempts, last = {}, {}
  task.scope(function(scope)
    for i, dir in ipairs(trees.dirs) do
      scope:spawn(function()
        local fork = trees:fork(i)
        local result = fork:prompt(("Work in %s, a copy of the project that is yours alone."):format(dir))
        last = result
        if result.status == "done" then attempts[#attempts + 1] = { fork = fork, result = result, number = i } end
      end)
    end
  end)
  table.sort(attempts, function(a, b) return a.number < b.number end)
  for _, a in ipairs(attempts) do a.patch = trees:patch(a.number) end
  local best = choose(agent, attempts, last)
  trees:apply(best.number)
  agent:say("assistant", best.result.text)
  agent.last_text = best.result.text
end

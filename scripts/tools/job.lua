-- scripts/tools/job.lua - the tool `job`: new output of a background job, or its end.
local jobs = require("terret.lazy") "terret.jobs"

local function run(args, call)
  local list = call.jobs or jobs.of(call.agent)
  local job, message, code = list:find(args.id, call.agent.policy)
  if not job then return nil, message, code end
  local max = call.limits.bash_bytes
  if args.action == "stop" then return list:stop(job, max) end
  return list:output(job, max)
end

return {
  name = "job",
  description = "Shows what a background job of bash wrote since you last asked, and whether it runs; or stops it.",
  permission = "none",
  parameters = {
    id = { "string", "of the job, as bash said it" },
    action = { "string?", "output (default) or stop", enum = { "output", "stop" } },
  },
  run = run,
}

-- scripts/commands/skills.lua - /skills: the skills that were found.
local text = require "terret.text"

return {
  description = "the skills that were found",
  anytime = true,
  run = function(ctx)
    local lines = {}
    for _, skill in ipairs(ctx.agent.skills or {}) do
      if not skill.shadowed then
        local words = skill.description or "can't be used: " .. table.concat(skill.problems or {}, "; ")
        lines[#lines + 1] = ("  %-20s %s"):format(skill.name, text.cut((words:gsub("%s+", " ")), 100))
      end
    end
    return #lines > 0 and table.concat(lines, "\n") or "there are no skills"
  end,
}

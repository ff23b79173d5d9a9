-- scripts/cli/skills.lua - terret skills: what was found, and what is wrong with it.
local json = require "terret.json"
local skills = require "terret.skills"
local text = require "terret.text"

local function entry(skill)
  return { name = skill.name, description = skill.description or "", path = skill.path,
    problems = json.array(skill.problems) }
end

local function print_json(list)
  local out = json.array({})
  for i, skill in ipairs(list) do out[i] = entry(skill) end
  io.stdout:write(json.encode(out), "\n")
end

-- One line a skill, its path and problems below.  Nothing of a skill reaches a terminal raw.
local function print_plain(list)
  local function safe(s, max)
    return text.safe(skills.one_line(s, max), { newline = false, tab = false })
  end
  for _, skill in ipairs(list) do
    io.stdout:write(safe(skill.name, 100), "  ", safe(skill.description or "(no description)", 200), "\n")
    io.stdout:write("    ", safe(skill.path, 1000), "\n")
    for _, problem in ipairs(skill.problems) do io.stdout:write("    ! ", safe(problem, 300), "\n") end
  end
  if #list == 0 then io.stdout:write("no skills\n") end
end

return {
  summary = "list the skills that are found here, and their problems",
  usage = "terret skills [--json]",
  options = { { name = "json", help = "an array of {name, description, path, problems}" } },
  run = function(opts, args, ctx)
    if #args > 0 then
      io.stderr:write("terret skills: takes no arguments\nusage: terret skills [--json]\n")
      return 2
    end
    local ok, cfg = pcall(function() return ctx and ctx.config and ctx.config() end)
    cfg = ok and type(cfg) == "table" and cfg or {}
    local list = skills.scan { cwd = cfg.cwd, home = cfg.home, config_dir = cfg.config_dir }
    if opts.json then print_json(list) else print_plain(list) end
    return 0
  end,
}

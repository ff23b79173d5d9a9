-- scripts/tools/skill.lua - the tool `skill`: the text of one skill, and where its files are.
local skills = require "terret.skills"
local text = require "terret.text"

local function list_of(call)
  return call.agent and call.agent.skills or skills.scan { cwd = call.cwd }
end

local function names(list)
  local out = {}
  for _, skill in ipairs(list) do
    if not skill.shadowed and skill.description then out[#out + 1] = skill.name end
  end
  return #out > 0 and "there are: " .. table.concat(out, ", ") or "there are no skills here"
end

local function run(args, call)
  local list = list_of(call)
  local skill = skills.find(list, args.name) or skills.find(list, args.name:lower())
  if not skill then return nil, text.clean(("there is no skill '%s'; %s"):format(args.name, names(list))) end
  if not skill.text then -- a link of the user's own may lead to what is hidden from tools
    local place, why, refusal = call:resolve(skill.path, "read")
    if not place and refusal ~= "not_found" then return nil, text.clean(why), refusal end
  end
  local body, message, code = skills.body(skill)
  if not body then return nil, message, code end
  local out = { ("Skill %s, in %s"):format(skill.name, text.safe(skill.dir)), body }
  local files, more = skills.files(skill)
  if #files > 0 then
    for i, name in ipairs(files) do files[i] = text.safe(name, { newline = false }) end
    out[#out + 1] = ("Files there: %s%s"):format(table.concat(files, ", "), more and ", ..." or "")
  end
  return table.concat(out, "\n\n"), { skill = skill.name, path = skill.path }
end

return {
  name = "skill",
  description = "Loads a skill: instructions for a special task. The first message lists them.",
  permission = "none",
  parameters = { name = { "string", "the skill's name" } },
  run = run,
}

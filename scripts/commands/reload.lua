-- scripts/commands/reload.lua - /reload: extensions, tools and the loop anew from their files; the session
-- stays.  When something is broken, all stays as it was.
local setup = require "terret.setup"

-- Modules of the kinds that are loaded by name are forgotten, so that the files are read again.
local function forget()
  local before = {}
  for name, value in pairs(package.loaded) do
    local kind = name:match("^terret%.(%a+)%.")
    if kind == "tools" or kind == "loops" or kind == "agents" or kind == "commands" then
      before[name], package.loaded[name] = value, nil
    end
  end
  return before
end

-- The tools of the agent with the new code; what the model was told of them can't change any more.
local function new_tools(agent, problems)
  local tools, notes = {}, {}
  for _, tool in ipairs(setup.tools(function(words) problems[#problems + 1] = words end)) do
    local old = agent.tools[tool.name]
    if old and old.schema.json == tool.schema.json and old.description == tool.description then
      tools[tool.name] = tool
    else
      notes[#notes + 1] = tool.name
    end
  end
  return tools, notes
end

return {
  description = "loads extensions, tools and the loop anew; the session stays",
  anytime = true,
  run = function(ctx)
    local agent = ctx.agent
    local before, problems = forget(), {}
    local function back(message)
      for name, value in pairs(before) do package.loaded[name] = value end
      return "nothing was changed: " .. tostring(message)
    end
    local loop, message = setup.loop(agent.cfg.loop or "react")
    if not loop then return back(message) end
    local tools, notes = new_tools(agent, problems)
    if #problems > 0 then return back(table.concat(problems, "\n")) end
    local ok, trace = setup.extensions(agent.cfg, function(words) problems[#problems + 1] = words end, true)
    if not ok then return back(trace) end
    for name, tool in pairs(tools) do agent.tools[name] = tool end
    agent.loop = loop
    local said = #problems > 0 and table.concat(problems, "\n") .. "\n" or ""
    if #notes == 0 then return said .. "loaded anew" end
    return said .. "loaded anew; new or described differently, so for the next session: " .. table.concat(notes, ", ")
  end,
}

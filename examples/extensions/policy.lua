-- policy.lua - a company's rules as a guard: no push to protected branches, no package from elsewhere, no
-- work after hours.  A guard that fails denies, and nothing that a model says can change it.
local terret = require "terret"

local PROTECTED = { main = true, master = true, release = true }
local REGISTRY = "https://packages.example.com"

terret.on("tool.policy", function(e, next)
  local hour = tonumber(os.date("%H"))
  if hour < 6 or hour >= 22 then return "deny", "company policy: agents rest from 22 to 6" end
  local command = e.command or ""
  if command:find("git push", 1, true) then
    for word in command:gmatch("[%w_/-]+") do
      if PROTECTED[word] then return "deny", "company policy: '" .. word .. "' takes merge requests only" end
    end
    return "ask", "company policy: a person agrees to every push"
  end
  local installs = command:find("pip install", 1, true) or command:find("npm install", 1, true)
  if installs and not command:find(REGISTRY, 1, true) then
    return "deny", "company policy: packages come from " .. REGISTRY
  end
  return next()
end, { name = "company policy", priority = 100 })

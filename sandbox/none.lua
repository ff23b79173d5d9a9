-- sandbox/none.lua - no sandbox at all: the command runs as the user, with the filtered environment
-- and the process limits that hold without namespaces.  Only taken when it is named.

local M = { name = "none", isolated = false }

---@return boolean
function M.available() return true end

---@param policy terret.sandbox.policy
---@param argv string[]
---@param env table<string, string>
---@return table plan
function M.wrap(policy, argv, env)
  -- The private directories have no mounts here.
  local out = {}
  for name, value in pairs(env) do out[name] = value end
  if policy.tmp then out.TMPDIR = policy.tmp end
  for _, name in ipairs { "XDG_CACHE_HOME", "npm_config_cache" } do
    if out[name] and out[name]:sub(1, 5) == "/tmp/" then out[name] = nil end
  end
  return { argv = argv, env = out, rlimits = { core = policy.limits.core, fsize = policy.limits.fsize },
    cwd_is_host = true }
end

return M

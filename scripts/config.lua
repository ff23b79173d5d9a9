-- scripts/config.lua - one configuration from flags, environment, config.lua and ~/.agents/env.
--
-- Order: flags, environment, config.lua, ~/.agents/env.  config.lua is data: it returns a table and
-- runs in an empty environment.  A key goes only to the host that was set at the same or a higher
-- level; a vendor's key only to the vendor's host, unless --api-key-env names it.
-- Mistakes of the user come back as nil, message, "usage".

local fs = require "terret.fs"
local profiles = require "terret.profiles"
local wire = require "terret.wire"

local M = {}

-- Keys of config.lua and their types; the environment variable of the same name where there is one.
local KEYS = {
  model = { "string", "TERRET_MODEL" }, provider = { "string" }, base_url = { "string", "OPENAI_BASE_URL" },
  api_key_env = { "string" }, loop = { "string" }, mode = { "string" }, sandbox = { "string" },
  rw = { "table" }, net = { "table" }, sandbox_limits = { "table" }, limits = { "table" }, models = { "table" },
  sampling = { "table" },
  check = { "string" }, review_model = { "string" }, attempts = { "number" }, stream = { "boolean" },
  ui = { "string" }, profiles = { "table" }, profile = { "string", "TERRET_PROFILE" },
  context = { "string", "TERRET_CONTEXT" }, summary_model = { "string", "TERRET_SUMMARY_MODEL" },
  context_window = { "number", "TERRET_CONTEXT_WINDOW" }, max_output = { "number", "TERRET_MAX_OUTPUT" },
  tool_timeout = { "number", "TERRET_TOOL_TIMEOUT" }, first_byte_timeout = { "number", "TERRET_FIRST_BYTE_TIMEOUT" },
  idle_timeout = { "number", "TERRET_IDLE_TIMEOUT" }, progress_timeout = { "number", "TERRET_PROGRESS_TIMEOUT" },
}

local LIMITS = { nproc = true, memory = true, fsize = true, nofile = true }
local RUN_LIMITS = { steps = true, tokens = true, cost = true, seconds = true }
local MODES = { ask = true, auto = true, plan = true, yolo = true }
local LISTS = { "rw", "net" } -- of strings

-- Vendors whose endpoint is taken when only their key is set, in this order.
local DEFAULTS = { "openai", "openrouter", "anthropic" }

local FLAG, ENV, FILE, SEED = 4, 3, 2, 1 -- levels

local function usage(format, ...) return nil, format:format(...), "usage" end

local function positive(x) return math.type(x) ~= nil and x > 0 and x < math.huge end

-- What is wrong with a setting of config.lua, or nil.
local function fault_of(key, x)
  local known = KEYS[key]
  if not known then return ("unknown key '%s'"):format(tostring(key)) end
  if type(x) ~= known[1] then return ("'%s' must be a %s, is a %s"):format(key, known[1], type(x)) end
  if known[1] == "number" and not positive(x) then return ("'%s' must be above 0, not %s"):format(key, x) end
  if key == "mode" and not MODES[x] then return ("'mode' must be ask, auto, plan or yolo, not '%s'"):format(x) end
end

-- The same for what is inside.
local function fault_within(value)
  for key, x in pairs(value.sandbox_limits or {}) do
    if not LIMITS[key] or math.type(x) ~= "integer" or x < 1 then
      return ("sandbox_limits takes whole numbers for nproc, memory, fsize, nofile; not '%s'"):format(tostring(key))
    end
  end
  for key, x in pairs(value.limits or {}) do
    if not RUN_LIMITS[key] or not positive(x) then
      return ("limits takes numbers above 0 for steps, tokens, cost, seconds; not '%s'"):format(tostring(key))
    end
  end
  for _, name in ipairs(LISTS) do
    for i, x in pairs(value[name] or {}) do
      if math.type(i) ~= "integer" or type(x) ~= "string" then return ("%s is a list of strings"):format(name) end
    end
  end
end

-- config.lua: nothing to call, nothing to read, and no time to waste.
local function read_file(path)
  local source, message, code = fs.read(path, { max = 1048576 })
  if not source then
    if code == "not_found" then return {} end
    return usage("%s", message)
  end
  local chunk, err = load(source, "@" .. path, "t", {})
  if not chunk then return usage("%s", err) end
  local ok, value = require("terret.leash").run({ seconds = 0.25 }, chunk)
  if not ok then return usage("%s", tostring(value):gsub("\nstack traceback:.*$", "")) end
  if type(value) ~= "table" then return usage("%s: must return a table", path) end
  local fault
  for key, x in pairs(value) do fault = fault or fault_of(key, x) end
  fault = fault or fault_within(value)
  if fault then return usage("%s: %s", path, fault) end
  return value
end

-- ~/.agents/env: lines NAME=value.
local function read_seed(home)
  local out = {}
  for line in (fs.read(home .. "/.agents/env", { max = 65536 }) or ""):gmatch("[^\r\n]+") do
    local name, value = line:match("^%s*e?x?p?o?r?t?%s*([%u_]+)=(.*)$")
    if name then out[name] = value:match('^"(.*)"$') or value:match("^'(.*)'$") or value end
  end
  return out
end

---@param url string
---@return boolean
function M.is_loopback(url)
  local host = wire.host(url)
  return host == "localhost" or host == "[::1]" or host:find("^127%.%d+%.%d+%.%d+$") ~= nil
end

-- A setting and the level that it was found at.
local function pick(name, flag, file, seed_value)
  local known = KEYS[name]
  if flag ~= nil then return flag, FLAG end
  local env = known[2] and os.getenv(known[2])
  if env and env ~= "" then
    if known[1] ~= "number" then return env, ENV end
    local n = tonumber(env)
    if not positive(n or 0) then return nil, nil, ("%s must be a number above 0, not '%s'"):format(known[2], env) end
    return n, ENV
  end
  if file[name] ~= nil then return file[name], FILE end
  if seed_value and seed_value ~= "" then return seed_value, SEED end
end

-- The key for a base URL, or none; url_level is where the URL came from.
local function find_key(opts, file, seed, url, url_level)
  local named = opts["api-key-env"]
  if named then
    local value = os.getenv(named)
    if not value or value == "" then return usage("--api-key-env: the variable %s is not set", named) end
    return value
  end
  if file.api_key_env and url_level >= FILE then
    local value = os.getenv(file.api_key_env)
    if value and value ~= "" then return value end
  end
  local vendor = profiles.get(profiles.of_url(url) or "")
  local value = vendor and vendor.key_env and os.getenv(vendor.key_env)
  if value and value ~= "" and url:find("^https:") then return value end
  -- OPENAI_BASE_URL beside OPENAI_API_KEY is one setting of one level.
  value = url_level == ENV and os.getenv("OPENAI_API_KEY")
  if value and value ~= "" then return value end
  if seed.API_KEY and seed.API_KEY ~= "" and seed.BASE_URL == url then return seed.API_KEY end
  return false
end

-- The endpoint of the first vendor whose key is set.
local function default_url()
  for _, name in ipairs(DEFAULTS) do
    local row = profiles.rows[name]
    local value = os.getenv(row.key_env)
    if value and value ~= "" then return row.url, ENV end
  end
end

local function directories(cwd)
  return require("terret.sandbox.policy").for_directory(cwd)
end

local function timeouts(file)
  local t = {}
  for _, name in ipairs { "tool", "first_byte", "idle", "progress" } do
    local value, _, message = pick(name .. "_timeout", nil, file)
    if message then return usage("%s", message) end
    t[name] = value
  end
  t.progress = t.progress or 600
  return t
end

local function check_url(url)
  if not url:find("^https?://[^/%s]") then return usage("'%s' is no http or https URL", url) end
  return true
end

local function add_rules(list, verdict, given)
  for _, rule in ipairs(given or {}) do
    local parsed, message
    if not rule:find("[\r\n]") then
      parsed, message = require("terret.permissions").parse_rules(verdict .. " " .. rule, "--" .. verdict)
    end
    if not parsed or #parsed ~= 1 then
      return usage("--%s: '%s' is no rule%s", verdict, rule, message and " (" .. message .. ")" or "")
    end
    list[#list + 1] = { verdict = verdict, rule = rule, source = "--" .. verdict }
  end
  return true
end

-- Rules of the command line and of the user's `rules` file.
local function load_rules(opts, config_dir)
  local list = {}
  for _, verdict in ipairs { "allow", "deny" } do
    local ok, err = add_rules(list, verdict, opts[verdict])
    if not ok then return usage("%s", err) end
  end
  local path = config_dir .. "/rules"
  local text, message, code = fs.read(path, { max = 1048576 })
  if not text then
    if code == "not_found" then return list end
    return usage("%s", message)
  end
  local more, err = require("terret.permissions").parse_rules(text, path)
  if not more then return usage("%s", err) end
  table.move(more, 1, #more, #list + 1, list)
  return list
end

-- The user's last word on commands: policy.lua returns a function of the parsed command and the verdict.
-- A guard: one that is there and can't be loaded ends the start.
local function load_policy(config_dir)
  local path = config_dir .. "/policy.lua"
  local source, message, code = fs.read(path, { max = 1048576 })
  if not source then return nil, code ~= "not_found" and message or nil end
  local chunk, err = load(source, "@" .. path, "t")
  if not chunk then return nil, err end
  local ok, value = pcall(chunk)
  if not ok then return nil, tostring(value) end
  if type(value) ~= "function" then return nil, path .. ": must return a function" end
  return value
end

---What to say when there is no endpoint.
M.no_endpoint = [[
no endpoint is set. The three commonest ways:
  export OPENROUTER_API_KEY=...        then: terret -m VENDOR/MODEL
  export OPENAI_API_KEY=...            then: terret -m MODEL
  terret --base-url http://127.0.0.1:8080/v1 -m MODEL     (llama.cpp, Ollama, LM Studio, vLLM)
Or try `terret demo`, which needs none.]]

---@param opts table<string, any> parsed options of the command line
---@param cwd string
---@return table? cfg see scripts/setup.lua
---@return string? message
---@return string? code "usage"
function M.load(opts, cwd)
  local dirs = directories(cwd)
  local file, message = read_file(dirs.config_dir .. "/config.lua")
  if not file then return usage("%s", message) end
  local seed = read_seed(dirs.home)
  local cfg = { project = dirs.project, home = dirs.home, state_dir = dirs.state_dir, config_dir = dirs.config_dir,
    cache_dir = dirs.cache_dir, cwd = cwd, rw = {}, limits = {}, models = file.models, sampling = file.sampling,
    net = file.net, sandbox_limits = file.sandbox_limits, stream = file.stream ~= false and not opts["no-stream"] }
  local url, level = pick("base_url", opts["base-url"], file, seed.BASE_URL)
  if not url then url, level = default_url() end
  cfg.profiles = file.profiles
  cfg.profile = pick("profile", nil, file)
  cfg.provider = opts.provider or file.provider
    or profiles.of({ profile = cfg.profile, base_url = url, profiles = file.profiles }).provider or "openai"
  if url then
    local ok, err = check_url(url)
    if not ok then return usage("%s", err) end
    cfg.base_url = url
    local key
    key, err = find_key(opts, file, seed, url, level)
    if key == nil then return usage("%s", err) end
    cfg.api_key = key or nil
  end
  cfg.secrets = { cfg.api_key, seed.API_KEY }
  cfg.model = pick("model", opts.model, file, seed.MODEL)
  for key, name in pairs { window = "context_window", max_output = "max_output" } do
    local value, _, err = pick(name, nil, file)
    if err then return usage("%s", err) end
    cfg[key] = value and math.floor(value)
  end
  cfg.context, cfg.summary_model = pick("context", nil, file), pick("summary_model", nil, file)
  local err
  cfg.timeouts, err = timeouts(file)
  if not cfg.timeouts then return usage("%s", err) end
  cfg.rules, err = load_rules(opts, dirs.config_dir)
  if not cfg.rules then return usage("%s", err) end
  cfg.policy, err = load_policy(dirs.config_dir)
  if err then return usage("%s", err) end
  cfg.check, cfg.trust = opts.check or file.check, opts.trust
  cfg.review_model, cfg.attempts = file.review_model, file.attempts and math.floor(file.attempts)
  cfg.loop, cfg.mode = opts.loop or file.loop, opts.mode or file.mode or "ask"
  cfg.sandbox = opts.sandbox or file.sandbox or "auto"
  for _, list in ipairs { file.rw or {}, opts.rw or {} } do
    for _, path in ipairs(list) do
      cfg.rw[#cfg.rw + 1] = path:sub(1, 1) == "/" and path or cwd .. "/" .. path
    end
  end
  local limits = file.limits or {}
  cfg.limits.steps = opts["max-steps"] or limits.steps
  cfg.own_steps = cfg.limits.steps ~= nil
  cfg.limits.tokens = opts["max-tokens"] or limits.tokens
  cfg.limits.cost = opts["max-cost"] or limits.cost
  cfg.limits.seconds = opts.timeout or limits.seconds
  return cfg
end

return M

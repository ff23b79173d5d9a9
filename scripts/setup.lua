-- scripts/setup.lua - puts an agent together from a configuration: provider, tools, session, policy.
--
-- cfg: model, provider, base_url, api_key, loop, project, cwd, home, state_dir, config_dir, cache_dir,
-- mode, rules, sandbox, rw, net, limits {steps, tokens, cost, seconds}, timeouts {connect, first_byte, idle,
-- progress, tool}, context (its profile), summary_model, window, max_output, stream, models, profile, profiles,
-- sampling, script (scripted provider), secrets.
-- Failures come back as nil, message, code; code "usage" is the user's command line.

local agent_mod = require "terret.agent"
local budget = require "terret.budget"
local dialect_mod = require "terret.dialect"
local exec = require "terret.exec"
local fire = require "terret.fire"
local fork = require("terret.lazy") "terret.session.fork"
local fs = require "terret.fs"
local manifest = require "terret.manifest"
local models = require "terret.models"
local permissions = require "terret.permissions"
local plan = require "terret.context.plan"
local policy_mod = require "terret.sandbox.policy"
local prompt = require "terret.prompt"
local redact = require "terret.redact"
local registry = require "terret.registry"
local schema = require "terret.schema"
local session_mod = require "terret.session"
local wire = require "terret.wire"

local M = {}

---A loop by name or by file.
---@param name string
---@return function? loop
---@return string? message
---@return string? code
function M.loop(name)
  if name:find("/", 1, true) or name:find("%.lua$") then return registry.load_file("loops", name) end
  return registry.load("loops", name)
end

---A provider by name.  One without a network may leave open how messages are kept.
---@param name string
---@return table? provider
---@return string? message
---@return string? code
function M.provider(name)
  local provider, message, code = registry.load("providers", name)
  if not provider then return nil, message, code end
  if provider.encode and provider.encode_tools then return provider end
  local openai = require "terret.providers.openai"
  return setmetatable({ encode = provider.encode or openai.encode,
    encode_tools = provider.encode_tools or openai.encode_tools }, { __index = provider })
end

-- All tools that can be loaded; a broken one is named and left out.
---@param warn fun(text: string)
---@return table[] sorted by name
function M.tools(warn)
  local list, seen = {}, {}
  for _, name in ipairs(registry.names("tools")) do
    local tool, message = registry.load("tools", name)
    local compiled, problem
    if tool then
      compiled, problem = pcall(schema.compile, tool.parameters)
      if compiled and seen[tool.name] then
        compiled, problem = false, ("its name '%s' is that of another file"):format(tool.name)
      elseif compiled then
        seen[tool.name] = true
        tool.schema, tool.own = problem, registry.is_own("tools", name)
        list[#list + 1] = tool
      end
    end
    if not compiled then warn(("tool '%s' left out: %s"):format(name, tostring(problem or message))) end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- What handlers of tools.offer leave of a list.
local function offered(agent, list)
  local names, keep, out = {}, {}, {}
  for i, tool in ipairs(list) do names[i] = tool.name end
  for _, name in ipairs(fire(agent, "tools.offer", { tools = names }).tools) do keep[name] = true end
  for _, tool in ipairs(list) do
    if keep[tool.name] then out[#out + 1] = tool end
  end
  return out
end

---The set that one agent may call, and the text of it that is sent.
---@param provider table
---@param list table[]
---@param agent terret.agent? the parent
---@return table<string, table> by_name
---@return string encoded
function M.tool_set(provider, list, agent)
  list = offered(agent, list)
  local by_name, sent = {}, {}
  for i, tool in ipairs(list) do
    by_name[tool.name] = tool
    sent[i] = { name = tool.name, description = tool.description, schema = tool.schema.json }
  end
  return by_name, provider.encode_tools(sent)
end

---@param cfg table
---@param session terret.session
---@param readonly boolean?
---@return table? policy
---@return string? message
---@return string? code
function M.policy(cfg, session, readonly)
  return policy_mod.new { project = cfg.project, home = cfg.home, rw = cfg.rw, net = cfg.net,
    tmp = session.dir .. "/tmp", cache_dir = cfg.cache_dir, state_dir = cfg.state_dir,
    config_dir = cfg.config_dir, readonly = readonly, limits = cfg.sandbox_limits }
end

-- "ID", "ID@RECORD" or a directory -> directory, record.
local function find_session(cfg, named)
  local id, record = named:match("^(.-)@(%d+)$")
  id, record = id or named, math.tointeger(tonumber(record))
  if id:find("/", 1, true) then return id, record end -- a directory
  local dir, message, code = session_mod.find(cfg.state_dir, id)
  return dir, record, message, code
end

-- Opens a session; with a record it goes on from there.
local function resume(dir, encode, record)
  local session, repaired, code = session_mod.resume { dir = dir, encode = encode }
  if not session or not record then return session, repaired, code end
  local ok, message, why = session:rewind(record)
  if ok then ok, message, why = session:answer_open("interrupted: the conversation goes on from before its result") end
  if ok then return session, repaired end
  session:close()
  return nil, message, why
end

-- The session that the options ask for: a new one, or one to go on with.
local function open_session(cfg, encode, options, system, tools_json)
  local named = options.resume or options.fork
  if named then
    local dir, record, message, code = find_session(cfg, named)
    if not dir then return nil, message, (code == "not_found" or code == "ambiguous") and "usage" or code end
    if options.fork then
      dir, message, code = fork.at(dir, record)
      if not dir then return nil, message, code end
    end
    return resume(dir, encode, not options.fork and record)
  elseif options.continue then
    local last = session_mod.list(cfg.state_dir, cfg.project)[1]
    if not last then return nil, "there is no session of this project to continue", "usage" end
    return resume(last.dir, encode)
  end
  return session_mod.create { state_dir = cfg.state_dir, project = cfg.project, encode = encode,
    ephemeral = options.none, header = { model = cfg.model, provider = cfg.provider, base_url = cfg.base_url,
      system = system, tools = tools_json, manifest = manifest.make(cfg) } }
end

-- How this configuration's endpoint wants things said.
local function dialect_of(cfg)
  return dialect_mod.new { base_url = cfg.base_url, model = cfg.model, provider = cfg.provider, profile = cfg.profile,
    profiles = cfg.profiles, state_dir = cfg.state_dir }
end

-- The tools of a session as its provider says them: those of its first request, if need be translated.
local function tools_of(session, cfg, provider)
  local header = session.header
  if header.provider == cfg.provider or not header.tools then return header.tools end
  return provider.encode_tools(wire.plain_tools(header.tools))
end

-- isolated: says whether commands run in namespaces of their own, asked when it matters.
local function make_permissions(cfg, isolated)
  return permissions.new { mode = cfg.mode or "ask", rules = cfg.rules or {}, project = cfg.project,
    cwd = cfg.cwd or cfg.project, isolated = isolated, builtin = true, policy = cfg.policy }
end

---Lets an agent work in another directory (a worktree): its configuration, policy and permissions.
---@param agent terret.agent not started yet
---@param options {project: string?, rw: string[]?}
---@return boolean? ok
---@return string? message
---@return string? code
function M.move(agent, options)
  local cfg = setmetatable({ project = options.project, cwd = options.project, rw = options.rw },
    { __index = agent.cfg })
  local policy, message, code = M.policy(cfg, agent.session)
  if not policy then return nil, message, code end
  agent.cfg, agent.policy, agent.files = cfg, policy, nil
  agent.permissions = make_permissions(setmetatable({ mode = agent.permissions.mode }, { __index = cfg }),
    agent.permissions.isolated)
  return true
end

---Extensions and what a trusted project brings; nothing is loaded where there are no such files.
---@param cfg table
---@param warn fun(text: string)
---@param again boolean? those that are loaded, too; when one is broken all stays as it was
---@return boolean? ok
---@return string? traceback
function M.extensions(cfg, warn, again)
  cfg.trusted = nil
  if cfg.project and fs.stat(cfg.project .. "/.terret") then
    local words
    cfg.trusted, words = require("terret.trust").load(cfg)
    if words then warn(words) end
  end
  registry.project = cfg.trusted
  local dir = cfg.config_dir
  if again and package.loaded["terret.extensions"] then return require("terret.extensions").reload(cfg) end
  if cfg.trusted or dir and (fs.stat(dir .. "/extensions") or fs.stat(dir .. "/hooks.json")) then
    for _, words in ipairs(require("terret.extensions").open(cfg)) do warn(words) end
  end
  return true
end

-- Words that a handler of session.record may change; everything else of a record is its structure.
local WORDS = { content = true, text = true, reason = true, summary = true }

-- A record as handlers leave it: other words, further fields, the same structure.
local function filter_record(agent, record)
  local changed = fire(agent, "session.record", { record = record }).record
  if changed == record then return record end
  local out = {}
  for key, value in pairs(changed) do out[key] = value end
  for key, value in pairs(record) do
    if not WORDS[key] or type(out[key]) ~= type(value) then out[key] = value end
  end
  return out
end

---What handlers hear of an agent's session, from its beginning to its end.
---@param agent terret.agent
---@param resumed boolean
function M.attach(agent, resumed)
  local events, session = package.loaded["terret.events"], agent.session
  if not events then return end
  events.settle(agent)
  if events.handlers["session.record"] then
    session.filter = function(record) return filter_record(agent, record) end
  end
  session.on_close = function() fire(agent, "session.close", { dir = session.dir }) end
  fire(agent, "session.open", { dir = session.dir, resumed = resumed })
end

local function secrets_of(cfg)
  local list = { key = cfg.api_key }
  for _, value in pairs(cfg.secrets or {}) do list[#list + 1] = value end
  return list
end

-- What stands against this configuration before anything is opened.
local function check(cfg)
  if cfg.limits and cfg.limits.cost and not models.find(cfg.model, cfg.models).price
    and cfg.provider ~= "scripted" then
    return nil, ("--max-cost needs the price of '%s', which is unknown; set it in config.lua (models)")
      :format(cfg.model), "usage"
  end
  if cfg.context and not plan.profiles[cfg.context] then
    return nil, ("there is no context profile '%s'; there are: eco, balanced, rich"):format(cfg.context), "usage"
  end
  return true
end

---@param cfg table
---@param ui table
---@param options {resume: string?, fork: string?, continue: boolean?, none: boolean?}? the session
---@return terret.agent?
---@return string? message
---@return string? code
function M.open(cfg, ui, options)
  options = options or {}
  local ok, message, code = check(cfg)
  if not ok then return nil, message, code end
  local provider, loop
  local warnings = {}
  local function warn(words) warnings[#warnings + 1] = words end
  M.extensions(cfg, warn)
  provider, message, code = M.provider(cfg.provider)
  if not provider then return nil, message, code end
  loop, message, code = M.loop(cfg.loop or "react")
  if not loop then return nil, message, code == "not_found" and "usage" or code end
  local by_name, tools_json = M.tool_set(provider, M.tools(warn))
  local redactor = redact.new(exec.environ(), secrets_of(cfg))
  local dialect, unknown = dialect_of(cfg)
  if unknown then warnings[#warnings + 1] = unknown end
  local session, repaired, session_code = open_session(cfg, dialect:speaker(provider), options,
    fire(nil, "prompt.system", { text = prompt.system(cfg) }).text, tools_json)
  if not session then
    if session_code ~= "usage" and not (options.resume or options.continue or options.fork) then
      repaired = repaired .. " (XDG_STATE_HOME names another place for sessions, --no-session keeps none)"
    end
    return nil, repaired, session_code
  end
  local policy
  policy, message, code = M.policy(cfg, session)
  if not policy then
    session:close()
    if not (options.resume or options.continue or options.fork) then fs.remove(session.dir, { recursive = true }) end
    return nil, message, code
  end
  local agent
  local function isolated()
    local backend = agent:backend()
    return backend ~= nil and backend.isolated == true
  end
  agent = agent_mod.new { cfg = cfg, ui = ui, session = session, provider = provider, loop = loop,
    tools = by_name, tools_json = tools_of(session, cfg, provider), dialect = dialect, policy = policy,
    redactor = redactor, permissions = make_permissions(cfg, isolated),
    budget = budget.new(cfg.limits), shared = { unasked = 0 } }
  local left_out
  agent.first, agent.skills, left_out = prompt.first(cfg)
  table.move(left_out, 1, #left_out, #warnings + 1, warnings)
  for _, words in ipairs(warnings) do agent:emit("warning", { text = words }) end
  if type(repaired) == "table" then
    for _, words in ipairs(repaired) do agent:emit("warning", { text = "session: " .. words }) end
  end
  M.attach(agent, type(repaired) == "table")
  return agent
end

return M

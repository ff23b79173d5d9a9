-- scripts/setup.lua - puts an agent together from a configuration: provider, tools, session, policy.
--
-- cfg: model, provider, base_url, api_key, loop, project, cwd, home, state_dir, config_dir, cache_dir,
-- mode, rules, sandbox, rw, net, limits {steps, tokens, cost, seconds}, timeouts {connect, first_byte, idle,
-- progress, tool}, window, max_output, stream, models, profile, profiles, sampling, script (scripted provider),
-- secrets.
-- Failures come back as nil, message, code; code "usage" is the user's command line.

local agent_mod = require "terret.agent"
local budget = require "terret.budget"
local dialect_mod = require "terret.dialect"
local exec = require "terret.exec"
local models = require "terret.models"
local permissions = require "terret.permissions"
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
        tool.schema = problem
        list[#list + 1] = tool
      end
    end
    if not compiled then warn(("tool '%s' left out: %s"):format(name, tostring(problem or message))) end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- The set that one agent may call, and the text of it that is sent.
local function tool_set(provider, list)
  local by_name, sent = {}, {}
  for i, tool in ipairs(list) do
    by_name[tool.name] = tool
    sent[i] = { name = tool.name, description = tool.description, schema = tool.schema.json }
  end
  return by_name, provider.encode_tools(sent)
end

local function make_policy(cfg, session, readonly)
  return policy_mod.new { project = cfg.project, home = cfg.home, rw = cfg.rw, net = cfg.net,
    tmp = session.dir .. "/tmp", cache_dir = cfg.cache_dir, state_dir = cfg.state_dir,
    config_dir = cfg.config_dir, readonly = readonly }
end

-- The session that the options ask for: a new one, or one to go on with.
local function open_session(cfg, encode, options, system, tools_json)
  if options.resume then
    local dir, message, code = options.resume, nil, nil
    if not dir:find("/", 1, true) then dir, message, code = session_mod.find(cfg.state_dir, dir) end
    if not dir then return nil, message, code end
    return session_mod.resume { dir = dir, encode = encode }
  elseif options.continue then
    local last = session_mod.list(cfg.state_dir, cfg.project)[1]
    if not last then return nil, "there is no session of this project to continue", "usage" end
    return session_mod.resume { dir = last.dir, encode = encode }
  end
  return session_mod.create { state_dir = cfg.state_dir, project = cfg.project, encode = encode,
    ephemeral = options.none, header = { model = cfg.model, provider = cfg.provider, base_url = cfg.base_url,
      system = system, tools = tools_json } }
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
  return true
end

---@param cfg table
---@param ui table
---@param options {resume: string?, continue: boolean?, none: boolean?}? the session
---@return terret.agent?
---@return string? message
---@return string? code
function M.open(cfg, ui, options)
  local ok, message, code = check(cfg)
  if not ok then return nil, message, code end
  local provider, loop
  provider, message, code = M.provider(cfg.provider)
  if not provider then return nil, message, code end
  loop, message, code = M.loop(cfg.loop or "react")
  if not loop then return nil, message, code end
  local warnings = {}
  local list = M.tools(function(words) warnings[#warnings + 1] = words end)
  local by_name, tools_json = tool_set(provider, list)
  local redactor = redact.new(exec.environ(), secrets_of(cfg))
  local dialect, unknown = dialect_of(cfg)
  if unknown then warnings[#warnings + 1] = unknown end
  local session, repaired, session_code = open_session(cfg, dialect:speaker(provider), options or {},
    prompt.system(cfg), tools_json)
  if not session then return nil, repaired, session_code end
  local policy
  policy, message, code = make_policy(cfg, session)
  if not policy then
    session:close()
    return nil, message, code
  end
  local agent
  local function isolated()
    local backend = agent:backend()
    return backend ~= nil and backend.isolated == true
  end
  agent = agent_mod.new { cfg = cfg, ui = ui, session = session, provider = provider, loop = loop,
    tools = by_name, tools_json = tools_of(session, cfg, provider), dialect = dialect, policy = policy,
    redactor = redactor,
    permissions = permissions.new { mode = cfg.mode or "ask", rules = cfg.rules or {}, project = cfg.project,
      cwd = cfg.cwd or cfg.project, isolated = isolated, builtin = true, policy = cfg.policy },
    budget = budget.new(cfg.limits), shared = { unasked = 0 } }
  local left_out
  agent.first, agent.skills, left_out = prompt.first(cfg)
  table.move(left_out, 1, #left_out, #warnings + 1, warnings)
  for _, words in ipairs(warnings) do agent:emit("warning", { text = words }) end
  if type(repaired) == "table" then
    for _, words in ipairs(repaired) do agent:emit("warning", { text = "session: " .. words }) end
  end
  return agent
end

-- Subagents ----------------------------------------------------------------------------------

local ROLE = [[
You are a subagent of terret, a coding agent. You get one task from the main agent, work alone, and can't ask back. You
may read files and run commands, but not change the project. Your last message is all that the main agent
gets: the answer, with the paths, lines, names and figures that it needs, and what you could not find out.]]

-- A subagent starts no further ones, keeps no todos, writes nothing; asked by name or not.
local function allowed(tool)
  return tool.permission ~= "write" and not tool.writer and tool.name ~= "agent" and tool.name ~= "todo"
end

---@param parent terret.agent
---@param options {prompt: string, loop: function|string?, model: string?, tools: string[]?, budget: table?}
---@return {text: string, status: string, session: string}? report
---@return string? message
---@return string? code
function M.subagent(parent, options)
  local wanted
  if options.tools then
    wanted = {}
    for _, name in ipairs(options.tools) do wanted[name] = true end
  end
  local list = {}
  for _, tool in pairs(parent.tools) do
    if allowed(tool) and (not wanted or wanted[tool.name]) then list[#list + 1] = tool end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  local by_name, tools_json = tool_set(parent.provider, list)
  local cfg = setmetatable({ model = options.model }, { __index = parent.cfg })
  local loop = options.loop or require "terret.loops.react"
  if type(loop) == "string" then
    local message, code
    loop, message, code = M.loop(loop)
    if not loop then return nil, message, code end
  end
  local dialect = parent.dialect
  if options.model and options.model ~= parent.cfg.model then dialect = dialect:for_model(options.model) end
  local session, message, code = session_mod.create { parent = parent.session, project = cfg.project,
    encode = dialect:speaker(parent.provider), header = { model = cfg.model, provider = cfg.provider,
      tools = tools_json, system = prompt.system(cfg, { role = ROLE, read_only = true }) } }
  if not session then return nil, message, code end
  local _closing <close> = setmetatable({}, { __close = function() session:close() end })
  local policy
  policy, message, code = make_policy(cfg, parent.session, true)
  if not policy then return nil, message, code end
  session.spoken = dialect.version
  local child = agent_mod.new { cfg = cfg, ui = parent.ui, session = session, provider = parent.provider, loop = loop,
    dialect = dialect, tools = by_name, tools_json = tools_json, policy = policy, redactor = parent.redactor,
    id = session.id,
    permissions = parent.permissions, budget = budget.new(options.budget or {}, parent.budget),
    shared = parent.shared, depth = parent.depth + 1, skills = parent.skills }
  parent:emit("subagent", { id = session.id, state = "start", prompt = options.prompt })
  local result = child:prompt(options.prompt)
  parent:emit("subagent", { id = session.id, state = result.status })
  if result.status == "limit" then
    local words = result.text:find("%S") and "; its last words: " .. result.text or ""
    return nil, "a limit ended the subagent: " .. (result.message or "") .. words, "limit"
  end
  if result.status ~= "done" and result.status ~= "refused" then
    return nil, ("the subagent ended with '%s': %s"):format(result.status, result.message or ""), result.status
  end
  return { text = result.text, status = result.status, session = session.id }
end

return M

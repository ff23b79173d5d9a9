-- scripts/subagent.lua - subagents: own context, fewer tools, one report, the budget of the tree.
--
-- A type is a file agents/NAME.lua, a table {description, prompt, tools, model, loop, budget}, or agents/NAME.md:
-- the same as front matter, and the text below it is the prompt.  What the caller says wins.

local agent_mod = require "terret.agent"
local budget = require "terret.budget"
local fire = require "terret.fire"
local fs = require "terret.fs"
local json = require "terret.json"
local prompt = require "terret.prompt"
local registry = require "terret.registry"
local schema = require "terret.schema"
local session_mod = require "terret.session"
local setup = require "terret.setup"

local M = {}

local TRIES = 2 -- answers that may miss their schema

local ROLE = [[
You are a subagent of terret, a coding agent. You get one task from the main agent, work alone, and can't ask back. You
may read files and run commands, but not change the project. Your last message is all that the main agent
gets: the answer, with the paths, lines, names and figures that it needs, and what you could not find out.]]

-- Types ----------------------------------------------------------------------------------------

local function list_of(value)
  if not value then return nil end
  if value.kind == "list" then return value.items end
  local out = {}
  for word in (value.text or ""):gmatch("[^%s,]+") do out[#out + 1] = word end
  return out
end

-- A type from Markdown.
local function parse_type(text, path)
  local head = require("terret.frontmatter").parse(text)
  local f = head.fields
  local function word(key) return f[key] and f[key].text or nil end
  if not word "description" then return nil, path .. ": there is no description", "bad_script" end
  local limits = {}
  for _, key in ipairs { "steps", "tokens", "cost", "seconds" } do limits[key] = tonumber(word(key)) end
  return { description = word "description", tools = list_of(f.tools), model = word "model", loop = word "loop",
    budget = next(limits) and limits or nil, prompt = text:sub(head.body):match("^%s*(.-)%s*$") }
end

---@param name string
---@param cfg table
---@return table? type
---@return string? message
---@return string? code
function M.type(name, cfg)
  if not name:find("^[%w_%-]+$") then return nil, ("'%s' is no type of agent"):format(name), "not_found" end
  local path = (cfg.config_dir or "") .. "/agents/" .. name .. ".md"
  local text = cfg.config_dir and fs.read(path, { max = 1048576 })
  for _, file in ipairs(registry.project or {}) do
    if not text and file.kind == "agents" and file.name == name and file.rel:find("%.md$") then
      text, path = file.text, file.path
    end
  end
  if text then return parse_type(text, path) end
  return registry.load("agents", name)
end

-- Running --------------------------------------------------------------------------------------

-- A subagent starts no further ones, keeps no todos, writes nothing; asked by name or not.
local function allowed(tool)
  return tool.permission ~= "write" and not tool.writer and tool.name ~= "agent" and tool.name ~= "todo"
end

local function tools_of(parent, names)
  local wanted
  if names then
    wanted = {}
    for _, name in ipairs(names) do wanted[name] = true end
  end
  local list = {}
  for _, tool in pairs(parent.tools) do
    if allowed(tool) and (not wanted or wanted[tool.name]) then list[#list + 1] = tool end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return setup.tool_set(parent.provider, list, parent)
end

-- The options with what the type says where the caller says nothing.
local function with_type(parent, options)
  if not options.type or options.type == "" then return options end
  local kind, message, code = M.type(options.type, parent.cfg)
  if not kind then return nil, message, code end
  local out = { role = kind.prompt }
  for _, key in ipairs { "tools", "model", "loop", "budget" } do out[key] = kind[key] end
  for key, value in pairs(options) do out[key] = value end
  return out
end

local function open_session(parent, cfg, options, tools_json, dialect)
  local role = options.role and ROLE .. "\n\n" .. options.role or ROLE
  local system = fire(parent, "prompt.system", { text = prompt.system(cfg, { role = role, read_only = true }) }).text
  return session_mod.create { parent = parent.session, project = cfg.project, encode = dialect:speaker(parent.provider),
    header = { model = cfg.model, provider = cfg.provider, tools = tools_json, system = system } }
end

local function ask_of(options, compiled)
  if not compiled then return options.prompt end
  return options.prompt .. "\n\nYour last message must be one JSON object and nothing else, of this schema:\n"
    .. compiled.json
end

-- The value in a report, or what is wrong with it.
local function value_of(compiled, words)
  local inside = words:match("```json%s*\n(.-)```") or words:match("^[^{]*({.*})[^}]*$") or words
  local value, why = json.tolerant(inside)
  if type(value) ~= "table" then return nil, "it is no JSON object: " .. tostring(why) end
  local good, problems = compiled:validate(value)
  if not good then return nil, problems end
  return good
end

-- The prompt, again where the report misses its schema.
local function run_child(child, options, compiled)
  local words, problem = ask_of(options, compiled), nil
  for _ = 1, TRIES do
    local result = child:prompt(words)
    if result.status ~= "done" and result.status ~= "refused" or not compiled then return result end
    local value, why = value_of(compiled, result.text)
    if value then return result, value end
    problem = why
    words = "That answer does not fit the schema: " .. problem .. "\nAnswer with the JSON object alone."
  end
  return { status = "failed", text = "", message = "the report does not fit its schema: " .. problem }
end

local function report_of(parent, session, result, value)
  if result.status == "limit" then
    local words = result.text:find("%S") and "; its last words: " .. result.text or ""
    return nil, "a limit ended the subagent: " .. (result.message or "") .. words, "limit"
  end
  if result.status ~= "done" and result.status ~= "refused" then
    return nil, ("the subagent ended with '%s': %s"):format(result.status, result.message or ""), result.status
  end
  local e = fire(parent, "agent.report", { text = result.text, status = result.status, session = session.id })
  return { text = e.text, status = result.status, session = session.id, value = value }
end

---@param parent terret.agent
---@param options {prompt: string, type: string?, loop: function|string?, model: string?, tools: string[]?, budget: table?,
---  schema: table?}
---@return {text: string, status: string, session: string, value: table?}? report
---@return string? message
---@return string? code
function M.run(parent, options)
  local message, code
  options, message, code = with_type(parent, options)
  if not options then return nil, message, code end
  local compiled = options.schema and schema.compile(options.schema)
  local by_name, tools_json = tools_of(parent, options.tools)
  local cfg = setmetatable({ model = options.model }, { __index = parent.cfg })
  local loop = options.loop or require "terret.loops.react"
  if type(loop) == "string" then
    loop, message, code = setup.loop(loop)
    if not loop then return nil, message, code end
  end
  local dialect = parent.dialect
  if options.model and options.model ~= parent.cfg.model then dialect = dialect:for_model(options.model) end
  local session
  session, message, code = open_session(parent, cfg, options, tools_json, dialect)
  if not session then return nil, message, code end
  local child
  local _closing <close> = setmetatable({}, { __close = function()
    if child then child:close() else session:close() end
  end })
  local policy
  policy, message, code = setup.policy(cfg, parent.session, true)
  if not policy then return nil, message, code end
  session.spoken = dialect.version
  child = agent_mod.new { cfg = cfg, ui = parent.ui, session = session, provider = parent.provider, loop = loop,
    dialect = dialect, tools = by_name, tools_json = tools_json, policy = policy, redactor = parent.redactor,
    id = session.id,
    permissions = parent.permissions, budget = budget.new(options.budget or {}, parent.budget),
    shared = parent.shared, depth = parent.depth + 1, skills = parent.skills }
  setup.attach(child, false)
  parent:emit("subagent", { id = session.id, state = "start", prompt = options.prompt })
  local result, value = run_child(child, options, compiled)
  parent:emit("subagent", { id = session.id, state = result.status })
  return report_of(parent, session, result, value)
end

return M

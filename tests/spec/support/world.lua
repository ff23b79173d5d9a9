-- tests/spec/support/world.lua - a project, a state directory, a user interface that records, and
-- agents made by terret.setup over the scripted provider.
--
--     local world = require "support.world"
--     local w <close> = world.new { script = { { tool_calls = { { name = "echo" } } }, { text = "done" } } }
--     w:tool("echo", function(args) return args.text or "" end)
--     local result = w:prompt("do it")
--
-- script: a list of replies for the main agent, or {main = list, sub = list}; an item may be a function of
-- the request.  It is played on across all agents of the world, also after a resume.
local fs = require "terret.fs"
local json = require "terret.json"
local schema = require "terret.schema"
local session = require "terret.session"
local setup = require "terret.setup"
local task = require "terret.task"

local M = {}

local World = {}
World.__index = World

-- Cycles through two scripts: that of the main agent and that of all subagents.
local function player(script)
  local lists = script.main and script or { main = script, sub = script.sub or {} }
  local at = { main = 0, sub = 0 }
  return function(request)
    local who = request.agent == "main" and "main" or "sub"
    at[who] = at[who] + 1
    local reply = lists[who] and lists[who][at[who]]
    if type(reply) == "function" then return reply(request) end
    return reply
  end
end

---@param options table? fields of the configuration; script; ask: function of the user interface
function M.new(options)
  options = options or {}
  local dir = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-world-"))))
  local self = setmetatable({ dir = dir, project = dir .. "/project", state = dir .. "/state", events = {},
    extra = {}, agents = {} }, World)
  for _, sub in ipairs { "project", "state", "home", "config" } do assert(fs.mkdir(dir .. "/" .. sub)) end
  self.ui = { event = function(e) self.events[#self.events + 1] = e end, ask = options.ask }
  self.cfg = { model = "gpt-4o", provider = "scripted", project = self.project, cwd = self.project,
    home = dir .. "/home", state_dir = self.state, config_dir = dir .. "/config", mode = "yolo", sandbox = "auto",
    limits = {}, script = options.script and player(options.script) or nil }
  for key, value in pairs(options) do
    if key ~= "script" and key ~= "ask" then self.cfg[key] = value end
  end
  return self
end

function World:close()
  for _, agent in ipairs(self.agents) do
    if agent.session.log then agent.session:close() end
  end
  fs.remove(self.dir, { recursive = true })
end
World.__close = World.close

function World:put(path, data)
  assert(fs.write(self.project .. "/" .. path, data, { parents = true, sync = false }))
end

function World:get(path) return (fs.read(self.project .. "/" .. path)) end

---A tool of this world's agents, beside the real ones.
---@param name string
---@param run function
---@param fields table? permission, parameters, ...
function World:tool(name, run, fields)
  local tool = { name = name, description = name, permission = "none", run = run, repeats = 1000,
    parameters = { text = { "string?", "text" }, n = { "number?", "number" } } }
  for key, value in pairs(fields or {}) do tool[key] = value end
  tool.schema = schema.compile(tool.parameters)
  self.extra[name] = tool
  for _, agent in ipairs(self.agents) do agent.tools[name] = tool end
end

---@param options table? of setup.open
---@return terret.agent agent (nil, message, code when refused)
function World:open(options)
  local agent, message, code = setup.open(self.cfg, self.ui, options)
  if not agent then return nil, message, code end
  for name, tool in pairs(self.extra) do agent.tools[name] = tool end
  self.agents[#self.agents + 1] = agent
  self.agent = agent
  return agent
end

---A prompt to the agent opened last; opens one if there is none.
function World:prompt(words)
  local agent = self.agent or assert(self:open())
  return task.run(function() return agent:prompt(words or "go") end)
end

---Runs a function with the agent as a task; a loop without the loop.
function World:run(f)
  local agent = self.agent or assert(self:open())
  return task.run(f, agent)
end

---Ends the process, as far as a session can see, and goes on with it.
function World:resume()
  local dir = self.agent.session.dir
  if self.agent.session.log then self.agent.session:close() end
  return self:open { resume = dir }
end

---@return table[] events of a type
function World:seen(kind)
  local out = {}
  for _, e in ipairs(self.events) do
    if e.type == kind then out[#out + 1] = e end
  end
  return out
end

---@return table[] decoded messages that the model sees
function World:view(agent)
  return (assert(json.decode((agent or self.agent).session.view:render("[", "]"))))
end

---@return string[] content of the results, in the order of the view
function World:results(agent)
  local out = {}
  for _, m in ipairs(self:view(agent)) do
    if m.role == "tool" then out[#out + 1] = m.content end
  end
  return out
end

---@return table[] records of the log
function World:records(agent)
  return (assert(session.read((agent or self.agent).session.dir .. "/log.jsonl")))
end

---@return table[] records of a type
function World:logged(kind)
  local out = {}
  for _, r in ipairs(self:records()) do
    if r.type == kind then out[#out + 1] = r end
  end
  return out
end

---The first thing that a strict endpoint would refuse in a list of messages, or nil.
---@param messages table[]
---@return string?
function M.flaw(messages)
  if not messages[1] or messages[1].role ~= "system" then return "no system message first" end
  local open, last = {}, nil
  for i, m in ipairs(messages) do
    if i > 1 and m.role == "system" then return i .. ": a second system message" end
    if m.role == "user" and last == "user" then return i .. ": two user messages in a row" end
    if m.role == "tool" then
      if not open[m.tool_call_id] then return i .. ": a result without its call" end
      open[m.tool_call_id] = nil
    elseif next(open) then
      return i .. ": a call without its result"
    end
    for _, call in ipairs(m.tool_calls or {}) do
      if open[call.id] then return i .. ": an id twice" end
      open[call.id] = true
      if type(json.decode(call["function"].arguments)) ~= "table" then return i .. ": arguments are no object" end
    end
    last = m.role
  end
  if next(open) then return "a call without its result at the end" end
  return nil
end

---The view of a world's agent must be one that endpoints take, and what its log makes.
function World:check(agent)
  agent = agent or self.agent
  local flaw = M.flaw(self:view(agent))
  if flaw then error("the view is broken: " .. flaw, 2) end
  local replayed = session.replay(self:records(agent), agent.session.encode)
  local live, again = agent.session.view:render("[", "]"), replayed.view:render("[", "]")
  if live ~= again then error("the view is not what its log makes:\n" .. live .. "\n" .. again, 2) end
end


return M

-- scripts/testkit.lua - for specs of tools, loops and extensions: a fake model, a fake exec, a fake clock, a
-- real agent in a scratch project.  `terret test FILE` runs a busted spec that uses it.
--
--     local kit = require "terret.testkit"
--     local t <close> = kit.new { model = { { text = "hi" } }, exec = function(argv) return { code = 0, head = "x" } end }
--     t:extension("examples/extensions/policy.lua")
--     local result = t:prompt("go")                t:results(), t:seen("warning"), t:said()

local events = require "terret.events"
local extensions = require "terret.extensions"
local fs = require "terret.fs"
local json = require "terret.json"
local registry = require "terret.registry"
local schema = require "terret.schema"
local session = require "terret.session"
local setup = require "terret.setup"
local task = require "terret.task"

local M = {}

---@class terret.testkit
---@field dir string scratch directory
---@field project string
---@field agent terret.agent
---@field events table[] what the user interface was told
---@field commands string[][] argument vectors that the fake exec got
local Kit = {}
Kit.__index = Kit
M.Kit = Kit

-- The answers in their order, of all agents together; an item may be a function of the request.
local function player(model)
  if type(model) == "function" then return model end
  local at = 0
  return function(request)
    at = at + 1
    local reply = model[at]
    if type(reply) == "function" then return reply(request) end
    return reply
  end
end

-- Handlers of the kit itself stand innermost: they are the world, not a guard.
local function fake_exec(self, f)
  events.on("exec", function(e)
    local argv = events.copy(e.argv)
    self.commands[#self.commands + 1] = argv
    local r = f(argv, events.copy(e.options)) or {}
    return { code = r.code or 0, head = r.head or "", tail = r.tail or "", total = #(r.head or ""), elided = 0,
      seconds = 0, timed_out = false, stderr = r.stderr, signal = r.signal }
  end, { name = "fake exec", priority = -1000 })
end

---@param options {model: table|function, exec: function?, mode: string?, ask: function?, loop: string|function?,
---  config: table?}
---@return terret.testkit
function M.new(options)
  events.anew(function() end)
  extensions.loaded, registry.project = {}, nil
  local dir = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-test-"))))
  local self = setmetatable({ dir = dir, project = dir .. "/project", events = {}, commands = {} }, Kit)
  for _, sub in ipairs { "project", "home", "config", "state" } do assert(fs.mkdir(dir .. "/" .. sub)) end
  self.ui = { event = function(e) self.events[#self.events + 1] = e end, ask = options.ask }
  self.cfg = { model = "scripted", provider = "scripted", project = self.project, cwd = self.project,
    home = dir .. "/home", state_dir = dir .. "/state", config_dir = dir .. "/config", mode = options.mode or "yolo",
    sandbox = "auto", limits = { steps = 50, seconds = 60 }, script = player(options.model or {}) }
  for key, value in pairs(options.config or {}) do self.cfg[key] = value end
  if type(options.loop) == "string" then self.cfg.loop = options.loop end
  self.loop = type(options.loop) == "function" and options.loop or nil
  if options.exec then fake_exec(self, options.exec) end
  return self
end

---Loads an extension; raises when it is broken.
---@param path string
function Kit:extension(path)
  local source = assert(fs.read(path))
  local entry, message = extensions.load(path, source, "user")
  if not entry then error(message, 2) end
  return self
end

---A tool of the agent's, from a file of its own.
---@param path string
function Kit:tool(path)
  local tool, message = registry.load_file("tools", path)
  if not tool then error(message, 2) end
  tool.schema = schema.compile(tool.parameters)
  self.tools = self.tools or {}
  self.tools[tool.name] = tool
  if self.agent then self.agent.tools[tool.name] = tool end
  return self
end

---@param path string below the project
---@param data string
function Kit:put(path, data)
  assert(fs.write(self.project .. "/" .. path, data, { parents = true, sync = false }))
end

---@param path string
---@return string? data
function Kit:get(path) return (fs.read(self.project .. "/" .. path)) end

---The agent; made at the first use.
---@return terret.agent
function Kit:open()
  if not self.agent then
    self.agent = assert(setup.open(self.cfg, self.ui))
    self.agent.loop = self.loop or self.agent.loop
    for name, tool in pairs(self.tools or {}) do self.agent.tools[name] = tool end
  end
  return self.agent
end

---One turn.
---@param words string?
---@return table result
function Kit:prompt(words)
  local agent = self:open()
  return task.run(function() return agent:prompt(words or "go") end)
end

---@return string[] what the tools answered
function Kit:results()
  local out = {}
  for _, m in ipairs(assert(json.decode(self:said()))) do
    if m.role == "tool" then out[#out + 1] = m.content end
  end
  return out
end

---@param kind string
---@return table[] events of that type
function Kit:seen(kind)
  local out = {}
  for _, e in ipairs(self.events) do
    if e.type == kind then out[#out + 1] = e end
  end
  return out
end

---@return string the conversation as the model gets it
function Kit:said() return self:open().session.view:render("[", "]") end

---@return table[] the records of the log
function Kit:records() return assert(session.read(self:open().session.dir .. "/log.jsonl")) end

---A clock that only moves when it is told to: os.time and os.date of the scripts.
---@param now integer
---@return {set: fun(now: integer)} closes with <close>
function M.clock(now)
  local time, date = os.time, os.date
  os.time = function(t) return t and time(t) or now end -- luacheck: ignore
  os.date = function(format, t) return date(format, t or now) end -- luacheck: ignore
  return setmetatable({ set = function(t) now = t end }, { __close = function()
    os.time, os.date = time, date -- luacheck: ignore
  end })
end

function Kit:close()
  if self.agent then self.agent:close() end
  events.anew(function() end)
  extensions.loaded = {}
  fs.remove(self.dir, { recursive = true })
end
Kit.__close = Kit.close

return M

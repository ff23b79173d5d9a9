-- tests/spec/support/agent.lua - a real agent over a scratch project, with a scripted model.
--
--     local a <close> = agents.open { script = { { text = "hi" } } }
--     local result = a:prompt("go")          a.agent, a.events, a:put("x.c", "...")
local fs = require "terret.fs"
local setup = require "terret.setup"
local task = require "terret.task"

local M = {}

local Run = {}
Run.__index = Run

---@param options {script: table|function, loop: string?, mode: string?, limits: table?, ui: table?, provider: string?}
function M.open(options)
  local dir = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-agent-"))))
  assert(fs.mkdir(dir .. "/project"))
  local self = setmetatable({ dir = dir, project = dir .. "/project", events = {} }, Run)
  local cfg = { project = self.project, cwd = self.project, home = dir .. "/home", state_dir = dir .. "/state",
    config_dir = dir .. "/config", cache_dir = dir .. "/cache", provider = options.provider or "scripted",
    model = "scripted", script = options.script, mode = options.mode or "yolo", sandbox = "auto",
    rules = {}, rw = {}, limits = options.limits or { steps = 50, seconds = 30 }, timeouts = { tool = 10 },
    loop = options.loop }
  assert(fs.mkdir(cfg.home))
  local ui = options.ui or {}
  ui.event = ui.event or function(e) self.events[#self.events + 1] = e end
  self.agent = assert(setup.open(cfg, ui))
  return self
end

function Run:put(path, data) assert(fs.write(self.project .. "/" .. path, data, { parents = true, sync = false })) end

---@return table result
function Run:prompt(words) return task.run(function() return self.agent:prompt(words) end) end

---The records of the log so far.
---@return table[]
function Run:records() return assert(require("terret.session").read(self.agent.session.dir .. "/log.jsonl")) end

---@return string[] what was warned of
function Run:warnings()
  local out = {}
  for _, r in ipairs(self:records()) do
    if r.type == "warning" then out[#out + 1] = r.text end
  end
  return out
end

function Run:close()
  self.agent.session:close()
  fs.remove(self.dir, { recursive = true })
end
Run.__close = Run.close

return M

-- tests/spec/support/terret.lua - runs the executable ($TERRET) as a user does, in a home of its own.
--
--     local terret = require "support.terret"
--     local home <close> = terret.home()
--     local r = home:run { "-p", "hi", "--provider", "scripted", "--script", home:put("s.lua", "return ...") }
--     r.code, r.out, r.err
local exec = require "terret.exec"
local fs = require "terret.fs"
local json = require "terret.json"
local task = require "terret.task"

local M = {}

local KEYS = { "OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENROUTER_API_KEY", "ANTHROPIC_API_KEY", "TERRET_MODEL",
  "http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY" }

---@class support.home
---@field dir string scratch directory
---@field project string working directory of the runs
---@field config string the user's directory of terret
---@field state string
local Home = {}
Home.__index = Home

---@return support.home
function M.home()
  local dir = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-home-"))))
  local self = setmetatable({ dir = dir, project = dir .. "/project", config = dir .. "/config/terret",
    state = dir .. "/state/terret" }, Home)
  assert(fs.mkdir(self.project))
  assert(fs.mkdir(dir .. "/tmp"))
  return self
end

function Home:close() fs.remove(self.dir, { recursive = true }) end
Home.__close = Home.close

---A file below the scratch directory, or at an absolute path.
---@return string path
function Home:put(path, data)
  if path:sub(1, 1) ~= "/" then path = self.dir .. "/" .. path end
  assert(fs.write(path, data, { parents = true, sync = false }))
  return path
end

---@param path string
---@return string? data
function Home:get(path)
  if path:sub(1, 1) ~= "/" then path = self.dir .. "/" .. path end
  return (fs.read(path))
end

function Home:environ(extra)
  local env = exec.environ()
  for _, name in ipairs(KEYS) do env[name] = nil end
  env.HOME, env.TMPDIR = self.dir .. "/home", self.dir .. "/tmp"
  env.XDG_CONFIG_HOME, env.XDG_STATE_HOME, env.XDG_CACHE_HOME = self.dir .. "/config", self.dir .. "/state",
    self.dir .. "/cache"
  for name, value in pairs(extra or {}) do env[name] = value or nil end
  return env
end

---@return string path of the executable
function M.executable()
  local path = os.getenv("TERRET") or "build/terret"
  return assert(fs.realpath(path), path .. " is missing; set TERRET")
end

---@param args string[]
---@param options {env: table?, cwd: string?, stdin: string?}?
---@return {code: integer?, signal: string?, out: string, err: string}
function Home:run(args, options)
  options = options or {}
  local argv = { M.executable() }
  table.move(args, 1, #args, 2, argv)
  local process <close> = assert(exec.spawn { argv = argv, env = self:environ(options.env),
    cwd = options.cwd or self.project, stdin = options.stdin, merge = false, timeout = 60, head = 4194304,
    err_head = 1048576 })
  task.await(process)
  local status, output = process:status(), process:output()
  return { code = status.code, signal = status.signal, out = output.head .. output.tail, err = output.stderr }
end

---One headless run of a scripted model.
---@param script string Lua source of the answers
---@param args string[]?
function Home:play(script, args, options)
  local argv = { "-p", "go", "--provider", "scripted", "--script", self:put("script.lua", script) }
  table.move(args or {}, 1, #(args or {}), #argv + 1, argv)
  return self:run(argv, options)
end

---The events of a run with --output jsonl.
---@return table[]
function M.events(out)
  local list = {}
  for line in out:gmatch("[^\n]+") do list[#list + 1] = assert(json.decode(line)) end
  return list
end

---The first event of a type (and name).
function M.event(list, type, name)
  for _, e in ipairs(list) do
    if e.type == type and (not name or e.name == name) then return e end
  end
end

return M

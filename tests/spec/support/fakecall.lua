-- tests/spec/support/fakecall.lua - the `call` that a tool gets, over a temporary directory and
-- without a sandbox, a session or a model: so that each tool is tested alone.
--
--     local fake = require "support.fakecall"
--     local call <close> = fake.new { limits = { read_bytes = 100 } }
--     call:put("a.txt", "one\n")   call:get("a.txt")   fake.run("read", { path = "a.txt" }, call)
local exec = require "terret.exec"
local fs = require "terret.fs"
local reactor = require "terret.reactor"
local schema = require "terret.schema"

local M = {}

local Call = {}
Call.__index = Call

local function remove(self)
  fs.remove(self.dir, { recursive = true })
end
Call.__close = remove

---@param options {limits: table?, agent: table?, jobs: table?, session: table?, env: table?}?
function M.new(options)
  options = options or {}
  local dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-tool-"))
  local cwd = dir .. "/project"
  assert(fs.mkdir(cwd))
  assert(fs.mkdir(dir .. "/blobs"))
  local limits = { bash_bytes = 16384, read_bytes = 51200, timeout = 120 }
  for key, value in pairs(options.limits or {}) do limits[key] = value end
  return setmetatable({ id = "call_1", dir = dir, cwd = cwd, root = assert(fs.root(cwd)), limits = limits,
    agent = options.agent, jobs = options.jobs, session = options.session, env = options.env, blobs = 0, seen = {},
    argvs = {}, said = {} }, Call)
end

-- ---- for specs ----

function Call:put(path, data)
  assert(fs.write(self.cwd .. "/" .. path, data, { parents = true, sync = false }))
end

function Call:get(path)
  return (fs.read(self.cwd .. "/" .. path))
end

---A tool's run with arguments that went through its schema, as a model's do.
---@return string? text
---@return any extra or message
function M.run(name, args, call)
  local tool = require("terret.tools." .. name)
  local checked, message = schema.compile(tool.parameters):validate(args)
  if not checked then return nil, message end
  return tool.run(checked, call)
end

-- ---- what tools call ----

function Call:resolve(path, access)
  if path:find("^~/") then return nil, path .. " is outside the project", "denied" end
  local rel = path
  if path:sub(1, 1) == "/" then
    if path ~= self.cwd and path:sub(1, #self.cwd + 1) ~= self.cwd .. "/" then
      return nil, ("%s is outside the project: %s refused"):format(path, access), "denied"
    end
    rel = path:sub(#self.cwd + 2)
  end
  if rel == "" then rel = "." end
  return { root = self.root, rel = rel, host = self.cwd .. "/" .. rel, path = path }
end

-- `call.secret = { ["a.txt"] = true }`: what rules forbid to read.
function Call:readable(path) return not (self.secret and self.secret[path]) end
function Call:hides_below() return self.secret ~= nil end

local function stamp(info)
  return info and ("%d:%.9f:%d"):format(info.size, info.mtime, info.inode) or "gone"
end

local function touch(self, place)
  self.seen[place.host] = stamp(place.root:stat(place.rel))
end

local function on(method)
  return function(self, path, options)
    local place, message, code = self:resolve(path, "read")
    if not place then return nil, message, code end
    return place.root[method](place.root, place.rel, options)
  end
end
Call.stat, Call.list = on("stat"), on("list")

function Call:read(path, options)
  local data, info, code = on("read")(self, path, options)
  if data then touch(self, self:resolve(path, "read")) end
  return data, info, code
end

function Call:write(path, data)
  local place, message, code = self:resolve(path, "write")
  if not place then return nil, message, code end
  local ok, why, why_code = place.root:write(place.rel, data, { parents = true, sync = false })
  if not ok then return nil, why, why_code end
  touch(self, place)
  return true
end

function Call:changed(path)
  local place = self:resolve(path, "read")
  local known = place and self.seen[place.host]
  return known ~= nil and known ~= stamp(place.root:stat(place.rel))
end

function Call:exec(argv, options)
  self.argvs[#self.argvs + 1] = argv
  local all = { argv = argv, cwd = self.cwd, env = self.env }
  for key, value in pairs(options or {}) do all[key] = value end
  local process, message, code = exec.spawn(all)
  if not process then return nil, message, code end
  while not process:status() do reactor.poll(1) end
  local result = process:output()
  for key, value in pairs(process:status()) do result[key] = value end
  process:close()
  return result
end

function Call:blob_path()
  self.blobs = self.blobs + 1
  local id = "b" .. self.blobs
  return id, self.dir .. "/blobs/" .. id
end

function Call:blob(data)
  local id, path = self:blob_path()
  assert(fs.write(path, data))
  return id
end

function Call:blob_read(id)
  return fs.read(self.dir .. "/blobs/" .. id)
end

function Call:progress(text)
  self.said[#self.said + 1] = text
end

return M

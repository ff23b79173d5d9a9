-- scripts/call.lua - what a tool's run(args, call) may do: files under the sandbox's policy, commands in
-- the sandbox, blobs of the session, progress.  World failures come back as nil, message, code.

local fire = require "terret.fire"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local clean = require("terret.text").clean

local M = {}

---@class terret.call
---@field id string
---@field name string
---@field cwd string the project
---@field agent terret.agent
---@field session terret.session
---@field notes string[] said below the result
---@field limits {bash_bytes: integer, read_bytes: integer, timeout: number}
local Call = {}
Call.__index = Call

---@param agent terret.agent
---@param id string
---@param name string
---@return terret.call
function M.new(agent, id, name)
  return setmetatable({ id = id, name = name, cwd = agent.cfg.project, agent = agent,
    session = agent.session, limits = agent.limits, notes = {} }, Call)
end

---@param text string shown live, never sent to the model
function Call:progress(text) self.agent:emit("tool_progress", { id = self.id, text = clean(text) }) end

---@param path string as the model wrote it
---@param access "read"|"write"
---@return {root: terret.fs.root, rel: string, host: string, path: string}?
---@return string? message
---@return string? code
function Call:resolve(path, access) return self.agent.policy:resolve(path, access) end

---Whether a search may show a file of this path: by its name, and by where links lead.
---@param path string
---@return boolean
function Call:readable(path)
  local permissions, place = self.agent.permissions, self:resolve(path, "read")
  return place ~= nil and permissions:readable(path) and permissions:readable(place.path)
end

---Whether files may be below a path that a search leaves out.
---@param path string
---@return boolean
function Call:hides_below(path)
  local place = self:resolve(path, "read")
  return self.agent.permissions:hides_below(place and place.path or path)
end

-- Notes what a file looked like when a tool last read or wrote it.
local function touch(self, place, info)
  self.agent.files:touch(place.host, place.path, info)
end

---@param path string
---@param options terret.fs.read_options?
---@return string? data
---@return table|string info or message
---@return string? code
function Call:read(path, options)
  local place, message, code = self:resolve(path, "read")
  if not place then return nil, message, code end
  local data, info, err_code = place.root:read(place.rel, options)
  if not data then return nil, info, err_code end
  touch(self, place, info)
  return data, info
end

---@param path string
---@return table? info
---@return string? message
---@return string? code
function Call:stat(path)
  local place, message, code = self:resolve(path, "read")
  if not place then return nil, message, code end
  return place.root:stat(place.rel)
end

---@param path string
---@return {name: string, type: string}[]?
---@return string? message
---@return string? code
function Call:list(path)
  local place, message, code = self:resolve(path, "read")
  if not place then return nil, message, code end
  return place.root:list(place.rel)
end

---Writes a whole file; what stood there before goes to the undo list of the turn.
---@param path string
---@param data string
---@return boolean? ok
---@return string? message
---@return string? code
function Call:write(path, data)
  if self.agent.redactor:has_placeholder(data) then
    return nil, "the text holds a placeholder of a redacted secret; it can't be written", "denied"
  end
  local place, message, code = self:resolve(path, "write")
  if not place then return nil, message, code end
  local may = fire(self.agent, "file.write", { path = place.path, data = data })
  if may.verdict == "deny" then return nil, "denied: " .. (may.reason or "a guard forbids this file"), "denied" end
  local ok
  ok, message, code = place.root:write(place.rel, data, { parents = true })
  if not ok then return nil, message, code end
  touch(self, place, place.root:stat(place.rel))
  fire(self.agent, "file.written", { path = place.path })
  touch(self, place, place.root:stat(place.rel)) -- a formatter may have been at it
  return true
end

---@param path string
---@return boolean true: the file is not as the tools of this session last saw it
function Call:changed(path)
  local place = self:resolve(path, "read")
  return place ~= nil and self.agent.files:changed(place.host)
end

-- What the command left in a protected place is put aside, also when it was interrupted: then it must
-- have ended first.  The model is told with the result.
local function finish(self, process)
  if not process:status() then
    process:kill("KILL")
    task.shield(task.await, process)
  end
  for _, note in ipairs(sandbox.finish(process)) do self.notes[#self.notes + 1] = note end
end

-- The command itself, in the sandbox.
local function execute(self, argv, options)
  local backend, message, code = self.agent:backend()
  if not backend then return nil, message, code end
  local process <close>, err, err_code = sandbox.spawn(backend, self.agent.policy, argv, options)
  if not process then return nil, err, err_code end
  local _finish <close> = setmetatable({}, { __close = function() finish(self, process) end })
  task.await(process)
  local result = process:output()
  for key, value in pairs(process:status()) do result[key] = value end
  return result
end

---Runs a command in the sandbox and waits for its end.
---@param argv string[]
---@param options table? options of terret.exec.spawn
---@return table? result {code, signal, timed_out, seconds, head, tail, total, elided, blob, stderr}
---@return string? message
---@return string? code
function Call:exec(argv, options)
  local message, code
  local result = fire(self.agent, "exec", { argv = argv, options = options or {} }, function(e)
    local may = fire(self.agent, "exec.check", { argv = e.argv })
    local out
    if may.verdict == "deny" then
      message, code = "denied: " .. (may.reason or "a guard forbids this command"), "denied"
    else
      out, message, code = execute(self, e.argv, e.options)
    end
    return out or false
  end)
  if not result then return nil, message, code end
  return result
end

---@return string id
---@return string path a blob file that does not exist yet
function Call:blob_path() return self.session:new_blob() end
---@param data string
---@return string? id
---@return string? message
---@return string? code
function Call:blob(data) return self.session:save_blob(data) end
---@param id string
---@return string? data
---@return string? message
---@return string? code
function Call:blob_read(id) return self.session:read_blob(id) end

return M

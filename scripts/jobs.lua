-- scripts/jobs.lua - commands that go on after their call: started by `bash` with background, read and
-- stopped by `job`.
--
-- A job runs in its session's sandbox, so that later calls reach what it serves on the loopback.  It
-- ends with the session, at the latest with terret.  Its output is drained by the reactor while
-- anything waits; what doesn't fit in memory is in a blob of the session, so that "since last
-- asked" is an offset.
--
-- An agent sees the jobs of its own policy: a read-only subagent's are not the main agent's.

local fs = require "terret.fs"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local text = require "terret.text"

local M = {}

local KEPT = 65536 -- bytes of head and of tail in memory; more is in the blob
local FIRST_LOOK = 0.25 -- seconds
local STOP_WAIT = 5 -- seconds for the end after `stop`
local NAME = 60 -- bytes of the command in a list
local NOTE_TAIL = 400 -- bytes of output in a note

---@class terret.jobs
local Jobs = {}
Jobs.__index = Jobs

---@param options {first_look: number?, grace: number?}? seconds: that a start waits for what fails at once;
--- from TERM to KILL
---@return terret.jobs
function M.new(options)
  options = options or {}
  return setmetatable({ list = {}, first_look = options.first_look or FIRST_LOOK, grace = options.grace or 1 }, Jobs)
end

---The jobs of an agent and all that share its run.
---@param agent terret.agent
---@return terret.jobs
function M.of(agent)
  agent.shared.jobs = agent.shared.jobs or M.new()
  return agent.shared.jobs
end

local function short(job) return text.safe(text.cut(job.command, NAME), { newline = false }) end

-- Reads a part of the whole output, from the blob once there is one.
local function part(output, from)
  if output.elided == 0 then return (output.head .. output.tail):sub(from + 1) end
  if output.blob and from < (output.blob_bytes or 0) then
    local data = fs.read(output.blob, { offset = from, length = output.blob_bytes - from })
    if data then return data end
  end
  local first = output.total - #output.tail
  if from >= first then return output.tail:sub(from - first + 1) end
  return ("[%d bytes were not kept]\n"):format(first - from) .. output.tail
end

-- Its output since the last time, at most max bytes of it.
local function take(job, max)
  local output = job.output or job.process:output()
  local from = math.max(job.seen, output.total - 64 * max)
  local new, skipped = text.clean(part(output, from)), from - job.seen
  job.seen = output.total
  if #new <= max and skipped == 0 then return new end
  local head, tail, elided = text.headtail(new, max // 4, max - max // 4)
  local more = output.blob and ("; whole output: recall{id=%q}"):format(job.blob) or ""
  return ("%s\n[%d bytes elided%s]\n%s"):format(head, elided + skipped, more, tail)
end

-- Once it has ended, its process is closed and what it left is looked at.
local function settle(job)
  if job.status or not job.process:status() then return job.status ~= nil end
  job.status, job.output = job.process:status(), job.process:output()
  job.notes = sandbox.finish(job.process)
  job.process:close()
  return true
end

local function state(job)
  local s = job.status
  if not s then return "running" end
  local how = s.timed_out and "timed out" or s.signal and "killed by " .. s.signal or "exit status " .. s.code
  return ("%s, after %.1f s"):format(how, s.seconds)
end

local function describe(job, max)
  local words = { (take(job, max):gsub("\n$", "")) }
  if not words[1]:find("%S") then words[1] = "(no new output)" end
  words[2] = ("[job %s: %s]"):format(job.id, state(job))
  for _, note in ipairs(job.notes or {}) do words[#words + 1] = ("[%s]"):format(note) end
  job.notes = nil
  if job.status then job.told = true end
  return table.concat(words, "\n")
end

---@param options {command: string, argv: string[], timeout: number?}
---@param call terret.call
---@return string? text
---@return string? message
---@return string? code
function Jobs:start(options, call)
  local backend, message, code = call.agent:backend()
  if not backend then return nil, message, code end
  local blob, path = call:blob_path()
  local process
  process, message, code = sandbox.spawn(backend, call.agent.policy, options.argv,
    { head = KEPT, tail = KEPT, blob = path, timeout = options.timeout, grace = self.grace })
  if not process then return nil, message, code end
  local job = { id = "j" .. blob:match("%d+$"), command = options.command, process = process, blob = blob, seen = 0,
    policy = call.agent.policy }
  self.list[#self.list + 1] = job
  task.await(process, self.first_look)
  settle(job)
  local words = describe(job, call.limits.bash_bytes)
  if job.status then return words end
  return ("started as job %s; job{id=%q} shows new output, action=\"stop\" ends it\n%s"):format(job.id, job.id, words)
end

---@param id string
---@param policy terret.sandbox.policy
---@return table? job
---@return string? message
---@return string? code "not_found"
function Jobs:find(id, policy)
  local names = {}
  for _, job in ipairs(self.list) do
    if job.policy == policy then
      settle(job)
      if job.id == id then return job end
      names[#names + 1] = ("%s (%s: %s)"):format(job.id, short(job), state(job))
    end
  end
  local there = #names > 0 and "there are: " .. table.concat(names, ", ") or "there are none; jobs end with the session"
  return nil, ("no job '%s'; %s"):format(text.safe(text.cut(id, NAME), { newline = false }), there), "not_found"
end

---@param job table
---@param max integer bytes
---@return string
function Jobs.output(_, job, max) return describe(job, max) end

---Asks a job to end, kills it after a second.
---@param job table
---@param max integer bytes of its last output
---@return string
function Jobs.stop(_, job, max)
  if not job.status then
    job.process:kill("TERM")
    task.await(job.process, STOP_WAIT)
    settle(job)
  end
  return describe(job, max)
end

---What ended since it was last looked at, each said once.
---@param policy terret.sandbox.policy
---@return string[]
function Jobs:finished_notes(policy)
  local notes = {}
  for _, job in ipairs(self.list) do
    if job.policy == policy and settle(job) and not job.told then
      job.told = true
      local output = job.output
      local last = text.cut(output.tail ~= "" and output.tail or output.head, NOTE_TAIL, true)
      last = text.safe(last, { newline = false })
      notes[#notes + 1] = ("job %s (%s) has ended: %s%s"):format(job.id, short(job), state(job),
        output.total > job.seen and "; its last words: " .. last or "")
      for _, note in ipairs(job.notes or {}) do notes[#notes + 1] = note end
      job.notes = nil
    end
  end
  return notes
end

---Ends the jobs of a policy, or all.
---@param policy terret.sandbox.policy?
function Jobs:close(policy)
  for i = #self.list, 1, -1 do
    local job = self.list[i]
    if not policy or job.policy == policy then
      if not job.status then
        job.process:close()
        sandbox.finish(job.process)
      end
      table.remove(self.list, i)
    end
  end
end
Jobs.__close = Jobs.close

return M

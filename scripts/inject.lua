-- scripts/inject.lua - late injection: small facts are appended when they change, never repeated.
--
-- What was said last is a record of the session, so a resume says nothing twice.  Nothing is scanned
-- and no subprocess runs: the branch is read from .git/HEAD, files are those that the tools touched.

local fs = require "terret.fs"
local text = require "terret.text"

local M = {}

-- The git directory of a project: .git, or what its "gitdir:" line names.
local function git_dir(project)
  local info = fs.stat(project .. "/.git")
  if not info then return nil end
  if info.type == "directory" then return project .. "/.git" end
  local line = fs.read(project .. "/.git", { max = 4096 })
  local path = line and line:match("^gitdir: ([^\n]+)")
  if path and path:sub(1, 1) ~= "/" then path = project .. "/" .. path end
  return path
end

---@param project string
---@return string? branch, or the short id of a detached head
function M.branch(project)
  local dir = git_dir(project)
  local head = dir and fs.read(dir .. "/HEAD", { max = 4096 })
  if not head then return nil end
  return head:match("^ref: refs/heads/([^\n]+)") or head:match("^(%x%x%x%x%x%x%x)")
end

-- Each source returns its line when there is something to say, and what to remember.
local SOURCES = {
  branch = function(agent, last)
    local now = M.branch(agent.cfg.project)
    if now == last or not now then return nil end
    return "git branch: " .. text.cut(text.safe(now, { newline = false }), 200), now
  end,
  files = function(agent)
    local changed = agent.files:take_changes()
    if #changed == 0 then return nil end
    return "changed on disk since you saw them: " .. text.safe(table.concat(changed, ", "), { newline = false })
  end,
  jobs = function(agent)
    local jobs = agent.shared.jobs
    local ended = jobs and jobs:finished_notes(agent.policy) or {}
    return #ended > 0 and table.concat(ended, "\n") or nil
  end,
}
local ORDER = { "branch", "files", "jobs" }

---Facts that changed since the last request, as one note.
---@param agent terret.agent
---@return string?
function M.collect(agent)
  local lines = {}
  for _, name in ipairs(ORDER) do
    local line, remember = SOURCES[name](agent, agent.session.state[name])
    if line then lines[#lines + 1] = line end
    if remember then agent:must_record { type = "state", key = name, value = remember } end
  end
  if #lines == 0 then return nil end
  return "<note>\n" .. table.concat(lines, "\n") .. "\n</note>"
end

return M

-- scripts/session/fork.lua - a session of its own that begins with the records of another, up to any of them.
--
-- The other session is only read.  Its blobs stay where they are: a fork reads them there.

local fs = require "terret.fs"
local json = require "terret.json"
local session = require "terret.session"
local view = require "terret.view"

local M = {}

-- How many blobs there are: a fork counts on from there.
local function blob_count(dir)
  local most = 0
  for _, e in ipairs(fs.list(dir .. "/blobs") or {}) do
    most = math.max(most, tonumber(e.name:match("^b(%d+)$")) or 0)
  end
  return most
end

---@param dir string of the other session
---@param record integer? the last one that the fork has; default: where the other stands
---@return string? dir of the fork, to be resumed
---@return string? message
---@return string? code
function M.at(dir, record)
  local records, message, code = session.read(dir .. "/log.jsonl")
  if not records then return nil, message, code end
  local branch = view.branch(records, record, true)
  if #branch == 0 then return nil, ("no record %d"):format(record or 0), "not_found" end
  if branch[1].type ~= "session" then return nil, dir .. ": the first record is lost", "bad_session" end
  local id, made, err = session.new_dir(dir:match("^(.*)/[^/]+/?$"))
  if not id then return nil, made, err end
  local head, lines = branch[1], {}
  local from = type(head.from) == "table" and head.from or {}
  head.from = { session = head.session, record = branch[#branch].id,
    dirs = json.array { dir, table.unpack(type(from.dirs) == "table" and from.dirs or {}) },
    blobs = math.max(blob_count(dir), tonumber(from.blobs) or 0) }
  head.session = id
  for i, r in ipairs(branch) do lines[i] = json.encode(r) end
  local ok
  ok, message, code = fs.write(made .. "/log.jsonl", table.concat(lines, "\n") .. "\n", { mode = 384 })
  if not ok then return nil, message, code end
  return made
end

return M

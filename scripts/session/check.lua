-- scripts/session/check.lua - what is wrong with a log, and its repair.
--
-- Good records are never edited: a repair moves what can't be read, and all but the last of records that
-- stand there twice, from the log to PATH.bad, and keeps the other lines byte for byte.  A torn tail goes to
-- PATH.torn (terret.log), a call without a result gets one (session.resume).  What else is found (a missing
-- parent, a result without a call) is passed over whenever the log is read, and stays.

local fs = require "terret.fs"
local log = require "terret.log"
local session = require "terret.session"
local transcript = require "terret.transcript"

local M = {}

-- Finding ----------------------------------------------------------------------------------------

-- Calls and results that don't belong together, in the branch that is the present.
local function pairing(branch, say)
  local open_calls = {}
  for _, r in ipairs(branch) do
    for _, call in ipairs(transcript.calls(r)) do
      open_calls[call.id or "?"] = { name = call.name, record = r.id }
    end
    if r.role == "tool" then
      if not open_calls[r.call_id or "?"] then
        say("record %d is a result of no open call (%s)", r.id, tostring(r.call_id))
      end
      open_calls[r.call_id or "?"] = nil
    end
  end
  local orphans = {}
  for id, call in pairs(open_calls) do orphans[#orphans + 1] = { id = id, name = call.name, record = call.record } end
  table.sort(orphans, function(a, b) return a.record < b.record end)
  for _, o in ipairs(orphans) do
    say("call %s (%s) in record %d has no result", o.id, tostring(o.name), o.record)
  end
end

local function torn_bytes(path)
  local reader = log.read(path)
  if not reader then return 0 end
  while reader:next() do end -- torn() is known at the end
  local torn = reader:torn()
  reader:close()
  return torn
end

---Complains about one log.
---@param path string
---@param say fun(format: string, ...)
---@return integer records
function M.check(path, say)
  local records, bad = session.read(path)
  if not records then
    say("%s", bad)
    return 0
  end
  local torn = torn_bytes(path)
  if torn > 0 then say("the last line is torn (%d bytes); resuming cuts it off", torn) end
  if bad > 0 then say("%d lines can't be read", bad) end
  if not records[1] or records[1].type ~= "session" then
    say("does not begin with a session record")
    return #records
  end
  local known, last = {}, 0
  for _, r in ipairs(records) do
    if known[r.id] then
      say("record %d stands there twice", r.id)
    elseif r.id <= last then
      say("record %d follows record %d", r.id, last)
    end
    if r.parent and not known[r.parent] then say("record %d: its parent %s is missing", r.id, tostring(r.parent)) end
    known[r.id], last = true, r.id
  end
  pairing(session.branch(records), say)
  return #records
end

-- Repairing ----------------------------------------------------------------------------------------

-- The lines of a log that stay, and those that go.
local function sort_lines(path)
  local reader, message, code = log.read(path)
  if not reader then return nil, message, code end
  local list, last_of = {}, {}
  for line in function() return (reader:next()) end do
    local record, whole = session.parse(line)
    list[#list + 1] = { line = whole or line, record = record, salvaged = record and whole ~= line }
    if record then last_of[record.id] = #list end
  end
  reader:close()
  local good, bad, changed = {}, {}, false
  for i, l in ipairs(list) do
    local stays = l.record and last_of[l.record.id] == i
    table.insert(stays and good or bad, l.line)
    changed = changed or not stays or l.salvaged
  end
  return good, bad, changed
end

local function text_of(lines) return #lines > 0 and table.concat(lines, "\n") .. "\n" or "" end

---Repairs one log.
---@param dir string of the session
---@return string[]? done what was done, in words
---@return string? message
---@return string? code
function M.repair(dir)
  local path = dir .. "/log.jsonl"
  local handle <close>, message, code = log.open(path, { create = false })
  if not handle then return nil, message, code end
  local done = {}
  local torn = handle:repaired()
  if torn > 0 then done[1] = ("%d bytes of a torn last line moved to log.jsonl.torn"):format(torn) end
  local good, bad, changed = sort_lines(path)
  if not good then return nil, bad, changed end
  if not good[1] then return nil, path .. " holds no record that can be read", "bad_session" end
  if changed then
    -- First the copy of what goes, then the log without it.
    local old = fs.read(path .. ".bad") or ""
    local ok
    ok, message, code = fs.write(path .. ".bad", old .. text_of(bad), { mode = 384 })
    if ok then ok, message, code = fs.write(path, text_of(good), { mode = 384 }) end
    if not ok then return nil, message, code end
    done[#done + 1] = ("%d lines moved to log.jsonl.bad"):format(#bad)
  end
  handle:close()
  local opened, said, why = session.resume { dir = dir, encode = require("terret.providers.openai").encode }
  if not opened then return nil, said, why end
  opened:close()
  for _, words in ipairs(said) do done[#done + 1] = words end
  return done
end

return M

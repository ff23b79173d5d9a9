-- tests/crash/crash.lua - kills a busy session (busy.lua) again and again, and looks at what is left.
--
-- After each kill: every acknowledged record is in its log, byte for byte; all lines but the last can be
-- read; the session opens again and shows the model a conversation without orphans; no effect happened
-- twice, and none before the call that asked for it was logged.
local exec = require "terret.exec"
local fs = require "terret.fs"
local hash = require "terret.hash"
local openai = require "terret.providers.openai"
local reactor = require "terret.reactor"
local session = require "terret.session"

local M = {}

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") or "tests/crash"
local HOST = os.getenv "TERRET" or "build/terret"

---@class crash.place
local Place = {}
Place.__index = Place
Place.__close = function(self) self:close() end

---A scratch directory with one session in it.
---@return crash.place
function M.place()
  local dir = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-crash-"))))
  for _, sub in ipairs { "project", "home", "config", "state" } do assert(fs.mkdir(dir .. "/" .. sub)) end
  return setmetatable({ dir = dir, acks = {}, forks = {}, effects = 0, tokens = {} }, Place)
end

function Place:close() fs.remove(self.dir, { recursive = true }) end

-- What the child said; its last line may be cut.
local function take_lines(self, output)
  for line in output:gmatch("([^\n]*)\n") do
    local word, a, b, c = line:match("^(%u+) (%S+) ?(%S*) ?(%S*)$")
    if word == "SESSION" then
      self.session = a
    elseif word == "ACK" then
      self.acks[a] = self.acks[a] or {}
      self.acks[a][tonumber(b)] = c
      self.acked = (self.acked or 0) + 1
    elseif word == "FORK" then
      self.forks[a] = tonumber(b)
    elseif word == "TURN" then
      self.status = a
    end
  end
end

---Runs the child for so many seconds (nil: until it ends), then kills it.
---@param options {seconds: number?, fail: integer?, turns: integer?, exec: table?}
---@return table status of the process
---@return string stderr
function Place:run(options)
  local env = exec.environ()
  env.TURNS = options.turns and tostring(options.turns) or nil
  local spawn = { argv = { HOST, "--lua", here .. "/busy.lua", self.dir, self.session or "-",
    options.fail and tostring(options.fail) or nil }, stream = true, merge = false, env = env }
  for key, value in pairs(options.exec or {}) do spawn[key] = value end
  local process <close> = assert(exec.spawn(spawn))
  local stop, parts = options.seconds and reactor.now() + options.seconds or math.huge, {}
  local killed
  while true do
    local data = process:read()
    if data == nil then break end
    if data ~= "" then parts[#parts + 1] = data end
    local left = stop - reactor.now()
    if left <= 0 and not killed then
      process:kill("KILL")
      killed = true
    end
    if data == "" then reactor.poll(killed and 1 or math.min(1, math.max(0.0001, left))) end
  end
  while not process:status() do reactor.poll(1) end
  take_lines(self, table.concat(parts))
  return process:status(), process:output().stderr or ""
end

local function lines_of(path)
  local data = fs.read(path, { max = 1 << 30 }) or ""
  local list = {}
  for line in data:gmatch("([^\n]*)\n") do list[#list + 1] = line end
  return list, data
end

-- The first complaint about one log, or nil.
local function check_log(self, dir)
  local path = dir .. "/log.jsonl"
  local lines, data = lines_of(path)
  local records, bad = session.read(path)
  if not records then return ("%s: %s"):format(path, bad) end
  if bad > 0 then return ("%s: %d lines can't be read"):format(path, bad) end
  local by_id, last = {}, 0
  for i, r in ipairs(records) do
    if r.id <= last then return ("%s: record %d follows record %d"):format(path, r.id, last) end
    last, by_id[r.id] = r.id, lines[i]
  end
  local id = records[1] and records[1].session or dir:match("[^/]+$")
  for n, sum in pairs(self.acks[id] or {}) do
    if not by_id[n] then return ("%s: record %d was acknowledged and is not there"):format(path, n) end
    if hash.sha256(by_id[n]):sub(1, 16) ~= sum then return ("%s: record %d has other bytes"):format(path, n) end
  end
  if self.forks[dir] and last < self.forks[dir] then return path .. ": a fork lacks records of its parent" end
  return nil, data
end

-- Effects: each once, and its call logged.
local function check_effects(self, text)
  for _, token in ipairs(lines_of(self.dir .. "/effects")) do
    self.tokens[token] = (self.tokens[token] or 0) + 1
  end
  local count = 0
  for token, n in pairs(self.tokens) do
    if n > 1 then return ("effect %s happened %d times"):format(token, n) end
    if not text:find(token, 1, true) then return ("effect %s happened, and no log has its call"):format(token) end
    count = count + 1
  end
  self.effects, self.tokens = count, {}
end

---@return string? complaint
function Place:check()
  if not self.session then return nil end -- killed before it said where
  local dirs, text = { self.session }, {}
  for _, e in ipairs(fs.list(self.session .. "/agents") or {}) do
    dirs[#dirs + 1] = self.session .. "/agents/" .. e.name
  end
  for _, dir in ipairs(dirs) do
    local known = dir == self.session or self.forks[dir] or self.acks[dir:match("[^/]+$")]
    local complaint, data = check_log(self, dir)
    if complaint and known then return complaint end
    text[#text + 1] = data or ""
  end
  return check_effects(self, table.concat(text))
end

-- What a strict endpoint would refuse.
local function flaw(messages)
  return require("support.world").flaw(messages)
end

---Opens the session as `terret -r` does.
---@return string? complaint
function Place:resume()
  if not self.session then return nil end
  local s, message = session.resume { dir = self.session, encode = openai.encode }
  if not s then return "can't be resumed: " .. message end
  local messages = require("terret.json").decode(s.view:render("[", "]"))
  local complaint = flaw(messages)
  if #s.open > 0 then complaint = "calls are open after a resume" end
  s:close()
  return complaint
end

---Kills busy sessions at random moments.
---@param kills integer
---@param options {seed: integer?, longest: number?, each: integer?, say: fun(text: string)?}?
---@return string? complaint
---@return {kills: integer, acked: integer, effects: integer, sessions: integer} sum
function M.kill(kills, options)
  options = options or {}
  if options.seed then math.randomseed(options.seed) end
  local longest, each = options.longest or 0.08, options.each or 20
  local sum = { kills = 0, acked = 0, effects = 0, sessions = 0 }
  while sum.kills < kills do
    local place <close> = M.place()
    sum.sessions = sum.sessions + 1
    for _ = 1, math.min(each, kills - sum.kills) do
      local status, err = place:run { seconds = math.random() * longest }
      if status.code then return ("ended by itself with %d: %s"):format(status.code, err), sum end
      sum.kills = sum.kills + 1
      local complaint = place:check()
      -- Sometimes the next run meets what the kill left, sometimes a session that was opened before.
      if not complaint and math.random() < 0.5 then complaint = place:resume() or place:check() end
      if complaint then return complaint, sum end
    end
    local complaint = place:resume()
    if complaint then return complaint, sum end
    sum.acked, sum.effects = sum.acked + (place.acked or 0), sum.effects + place.effects
    if options.say then options.say(("%d kills, %d records, %d effects"):format(sum.kills, sum.acked, sum.effects)) end
  end
  return nil, sum
end

-- A run that the disk ends, then one that goes on.
local function refused(options, words)
  local place <close> = M.place()
  local status, err = place:run(options)
  if not status.code then return ("ended by %s"):format(status.signal or "?") end
  if status.code == 0 then return nil, false end
  if not err:find("can't", 1, true) and place.status ~= "failed" then return "ended without saying why: " .. err end
  if words and place.session and not err:find(words, 1, true) and place.status ~= "failed" then return err end
  local complaint = place:check() or place:resume() or place:check()
  if complaint then return complaint end
  if not place.session then return nil, true end
  status, err = place:run { turns = 2 }
  if status.code ~= 0 then return "can't go on: " .. err end
  return place:check(), true
end

---A disk that is full after so many bytes of a file, for each of these.
---@param sizes integer[]
---@return string? complaint
---@return integer refused how many runs it ended
function M.full(sizes)
  local count = 0
  for _, size in ipairs(sizes) do
    local complaint, ended = refused { turns = 6, exec = { rlimits = { fsize = size } } }
    if complaint then return ("file size limit %d: %s"):format(size, complaint), count end
    if ended then count = count + 1 end
  end
  return nil, count
end

---An I/O error at the n-th record, for each n.
---@param list integer[]
---@return string? complaint
---@return integer refused
function M.io_error(list)
  local count = 0
  for _, n in ipairs(list) do
    local complaint, ended = refused { turns = 6, fail = n }
    if complaint then return ("EIO at record %d: %s"):format(n, complaint), count end
    if ended then count = count + 1 end
  end
  return nil, count
end

local function chmod(mode, path)
  local process <close> = assert(exec.spawn { argv = { "chmod", mode, path } })
  while not process:status() do reactor.poll(1) end
  assert(process:status().code == 0)
end

---A state directory that can't be written: nothing is started, and a session that is there stays as it is.
---@return string? complaint
function M.read_only()
  local place <close> = M.place()
  local status, err = place:run { turns = 2 }
  if status.code ~= 0 then return "first run: " .. err end
  local before = select(2, lines_of(place.session .. "/log.jsonl"))
  local bare = { drop = true } -- root without capabilities meets the mode of a directory, too
  chmod("0400", place.session .. "/log.jsonl")
  chmod("0500", place.session)
  status, err = place:run { turns = 1, exec = bare }
  if status.code == 0 or status.signal then return "a read-only session was gone on with" end
  if not err:find("can't open", 1, true) then return "ended without saying why: " .. err end
  if select(2, lines_of(place.session .. "/log.jsonl")) ~= before then return "a read-only log was changed" end
  chmod("0700", place.session)
  chmod("0600", place.session .. "/log.jsonl")
  local complaint = place:check() or place:resume()
  if complaint then return complaint end
  local there, above = place.session, place.session:match("^(.*)/")
  chmod("0500", above)
  place.session = nil
  status, err = place:run { turns = 1, exec = bare }
  chmod("0700", above)
  place.session = there
  if status.code ~= 3 or not err:find("can't open", 1, true) then return "a read-only state directory: " .. err end
end

return M

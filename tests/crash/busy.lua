-- tests/crash/busy.lua DIR [SESSION [FAIL]] - a busy session that never ends: parallel tools, commands, compactions,
-- forks, rewinds.  It is there to be killed.  What it prints, one line each, unbuffered:
--
--     SESSION dir       the session is open
--     ACK id n hash     record n of session id was acknowledged; hash: of its line
--     FORK dir n        a fork was made and acknowledged, with n records
--     TURN status       a turn has ended
--
-- FAIL = n makes the n-th append of the run fail with EIO, and all after it.  With TURNS set in the environment
-- it ends after so many turns.
local hash = require "terret.hash"
local json = require "terret.json"
local schema = require "terret.schema"
local setup = require "terret.setup"
local task = require "terret.task"

local dir, resume, fail = arg[1], arg[2] ~= "-" and arg[2] or nil, tonumber(arg[3])
local turns = tonumber(os.getenv "TURNS") or math.huge
io.stdout:setvbuf("no")
math.randomseed(tonumber(hash.random(6), 16), 0)
local random = math.random

local function print_line(format, ...) io.stdout:write(format:format(...), "\n") end

-- What can be injected, and the acknowledgements, sit around the one function that writes.
local function wrap(session)
  local methods = getmetatable(session).__index
  local append, count = methods.append, 0
  function methods.append(self, record)
    count = count + 1
    if fail and count >= fail then return nil, "log: Input/output error", "io" end
    local id, message, code = append(self, record)
    if id then print_line("ACK %s %d %s", self.id, id, hash.sha256(json.encode(record)):sub(1, 16)) end
    return id, message, code
  end
end

-- Replies: one to four calls at once, each with a token of its own.
local function script(request)
  if request.messages:find("Write that summary now", 1, true) then return { text = "what was done so far" } end
  if random() < 0.3 then return { text = "done" } end
  local calls = {}
  for i = 1, random(4) do
    local token = "t" .. hash.random(8)
    calls[i] = random() < 0.15
      and { name = "bash", arguments = { command = ("echo %s >> %s/effects"):format(token, dir) } }
      or { name = "effect", arguments = { token = token, wait = random(3) } }
  end
  return { text = ("thinking "):rep(random(40)), tool_calls = calls }
end

local effect = { name = "effect", description = "leaves a token in a file", permission = "none",
  parameters = { token = { "string", "token" }, wait = { "integer", "milliseconds" } } }
effect.schema = schema.compile(effect.parameters)
function effect.run(args)
  task.sleep(args.wait / 1000)
  local file = assert(io.open(dir .. "/effects", "a"))
  file:write(args.token, "\n")
  file:close()
  task.sleep(args.wait / 2000)
  return ("left %s\n"):format(args.token) .. ("more text\n"):rep(random(30))
end

local cfg = { model = "scripted", provider = "scripted", project = dir .. "/project", cwd = dir .. "/project",
  home = dir .. "/home", state_dir = dir .. "/state", config_dir = dir .. "/config", mode = "yolo", sandbox = "none",
  rules = {}, rw = {}, limits = {}, script = script, window = 6000 }
local agent, message = setup.open(cfg, { event = function() end }, { resume = resume })
if not agent then
  io.stderr:write("can't open: ", message, "\n")
  os.exit(3)
end
wrap(agent.session)
agent.tools.effect = effect
print_line("SESSION %s", agent.session.dir)

local function one_turn()
  local result = agent:prompt("task " .. hash.random(4))
  print_line("TURN %s", result.status)
  if result.status ~= "done" then return result.status end
  local dice = random()
  if dice < 0.2 then
    agent:compact()
  elseif dice < 0.3 then
    local fork = agent:fork()
    print_line("FORK %s %d", fork.session.dir, fork.session.last)
    fork:prompt("another way")
    fork.session:close()
  elseif dice < 0.35 then
    agent:rewind(agent.session.entries[random(#agent.session.entries)].id)
    agent.session:answer_open("rewound")
  end
  return "done"
end

os.exit(task.run(function()
  for _ = 1, turns do
    local ok, status = pcall(one_turn)
    if not ok or status ~= "done" then
      io.stderr:write(tostring(status), "\n")
      agent.session:close()
      return 1
    end
  end
  agent.session:close()
  return 0
end))

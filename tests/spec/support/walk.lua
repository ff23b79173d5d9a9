-- tests/spec/support/walk.lua - a random walk over everything that changes what the model sees, with the
-- invariants of design.md checked all the way:
--
-- the view is what its log makes, here and in another process; it is a conversation that a strict endpoint takes;
-- between two batches each request is a byte prefix of the next, minus its tail; what is sent fits the window.
local context = require "terret.context"
local exec = require "terret.exec"
local hand = require "terret.session.hand"
local hash = require "terret.hash"
local reactor = require "terret.reactor"
local world = require "support.world"

local M = {}

local WINDOW = 6000
local LINE = "the quick brown fox jumps over the lazy dog\n"

-- A script for another process: the hash of the view that a log makes.
local OTHER = [[
local session = require "terret.session"
local records = assert(session.read(arg[1]))
local view = session.replay(records, require("terret.providers.openai").encode).view
io.write(require("terret.hash").sha256(view:render("[", "]")))
]]

local function any(session)
  return session.entries[math.random(#session.entries)].id
end

local steps = {
  say = function(agent) agent:say("user", ("word "):rep(math.random(50))) end,
  ask = function(agent) agent:ask { prompt = "next" } end,
  act = function(agent)
    local reply = agent:ask { prompt = "call" }
    agent:act(reply.tool_calls)
  end,
  act_again = function(agent)
    local reply = agent:ask { prompt = "call" }
    agent:act(reply.tool_calls)
  end,
  pass_over = function(agent) agent:ask { prompt = "calls that nobody runs" } end,
  compact = function(agent) agent:compact() end,
  overflow = function(agent) if math.random() < 0.3 then context.overflow(agent) end end,
  rewind = function(agent)
    agent.session:answer_open("closed")
    if math.random() < 0.5 then agent:rewind(math.random(agent.session.next_id - 1)) else agent:rewind(agent:mark()) end
    agent.session:answer_open("closed")
  end,
  todos = function(agent) agent.session:set_todos { { text = "x" } } end,
  drop = function(agent)
    local session = agent.session
    hand.drop(session, any(session), math.random() < 0.3 and any(session) or nil)
  end,
  pin = function(agent) hand.pin(agent.session, any(agent.session), nil, math.random() < 0.6) end,
  undo = function(agent)
    agent.session:answer_open("closed")
    hand.undo(agent.session, math.random() < 0.5 and math.random(agent.session.next_id) or nil)
    agent.session:answer_open("closed") -- of a call that came back
  end,
}
local names = {}
for name in pairs(steps) do names[#names + 1] = name end
table.sort(names)

local function fail(format, ...) error(format:format(...), 0) end

-- What the model is sent, checked against what it was sent before.
local function watch(w)
  local last
  w.cfg.script = function(request)
    local session = w.speaking or w.agent.session
    local body = request.messages:sub(1, -2)
    if request.tail then body = body:sub(1, -#request.tail - 2) end
    if last and last.session == session and last.epoch == session.epoch and body:sub(1, #last.body) ~= last.body then
      fail("a request is no prefix of the next, and nothing was shortened")
    end
    last = { session = session, epoch = session.epoch, body = body }
    local size = context.size(w.agent)
    if size > w.agent.model_info.window then fail("%d tokens were sent; the window has %d", size, WINDOW) end
    if request.messages:find("Write that summary now", 1, true) then
      return math.random() < 0.3 and { error = "x", class = "bad_request" } or { text = "sum " .. math.random(1000) }
    end
    local r = { text = ("t"):rep(math.random(300)) }
    if math.random() < 0.7 then
      r.tool_calls = {}
      for i = 1, math.random(3) do
        r.tool_calls[i] = { id = "dup", name = "big",
          arguments = { n = math.random(20), path = "f" .. math.random(4) } }
      end
    end
    return r
  end
end

-- The view in another process.
local function elsewhere(w)
  local process <close> = assert(exec.spawn { argv = { os.getenv "TERRET", "--lua", w.dir .. "/other.lua",
    w.agent.session.dir .. "/log.jsonl" } })
  while not process:status() do reactor.poll(1) end
  local out = process:output()
  if out.head ~= hash.sha256(w.agent.session.view:render("[", "]")) then
    fail("another process sees another view: %s", out.head)
  end
end

local function fork(w)
  local f = assert(w.agent.session:fork())
  if f.view:render("", "") ~= w.agent.session.view:render("", "") then fail("a fork shows something else") end
  f:answer_open("in the fork")
  f:append { type = "message", role = "user", content = "in the fork" }
  w:check { session = f }
  f:close()
end

local function one_step(w, every)
  local dice = math.random()
  if dice < 0.04 then
    w:resume()
  elseif dice < 0.07 then
    fork(w)
  else
    local name = names[math.random(#names)]
    local ok, err = pcall(w.run, w, function(agent) steps[name](agent) end)
    if not ok then fail("%s: %s", name, tostring(err)) end
  end
  if every and #w.agent.session.open == 0 then w:check() end
end

---@param count integer operations
---@param seed integer
---@param options {length: integer?, every: integer?, processes: boolean?}? operations of one session; how often all is checked
function M.run(count, seed, options)
  options = options or {}
  local length, every = options.length or 60, options.every or 1
  math.randomseed(seed)
  local done = 0
  while done < count do
    local w <close> = world.new { window = WINDOW, context = ({ "eco", "balanced", "rich" })[math.random(3)] }
    w:tool("big", function(args) return LINE:rep(args.n or 1) end,
      { parameters = { n = { "number?", "n" }, path = { "string?", "path" } } })
    w:open()
    watch(w)
    assert(require("terret.fs").write(w.dir .. "/other.lua", OTHER))
    for i = 1, math.min(length, count - done) do
      local ok, err = pcall(one_step, w, i % every == 0)
      if not ok then fail("seed %d, operation %d: %s", seed, done + i, tostring(err)) end
    end
    done = done + length
    w:resume()
    w:check()
    if options.processes then elsewhere(w) end
  end
end

return M

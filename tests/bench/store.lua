-- tests/bench/store.lua - speed of the session: append, open, render, fork.  Figures are printed, never asserted.
--
--     build/terret --lua tests/bench/store.lua [full]      full: 100,000 messages, 200 MB
local fs = require "terret.fs"
local openai = require "terret.providers.openai"
local reactor = require "terret.reactor"
local session = require "terret.session"
local store = require "terret.store"

local function row(name, value, unit, goal)
  print(("%-58s %10.2f %-3s %s"):format(name, value, unit, goal and ("(goal: under %s)"):format(goal) or ""))
end

-- Seconds of f, the best of n.
local function best(n, f)
  local least = math.huge
  for _ = 1, n do
    collectgarbage()
    local started = reactor.now()
    f()
    least = math.min(least, reactor.now() - started)
  end
  return least
end

local dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-bench-"))

local function made(records, text)
  local s = assert(session.create { state_dir = dir, project = "/p", encode = openai.encode,
    header = { model = "m", provider = "openai", system = "be good", tools = "[]" } })
  local started = reactor.now()
  for i = 1, records do
    local phase = i % 3
    if phase == 1 then
      s:append { type = "message", role = "assistant", content = text, tool_calls = { { id = "c" .. i, name = "read",
        arguments = '{"path":"src/file.c"}' } } }
    elseif phase == 2 then
      s:append { type = "message", role = "tool", call_id = "c" .. i - 1, name = "read", content = text }
    else
      s:append { type = "usage", input = 1000, cached = 900, output = 20 }
    end
  end
  return s, (reactor.now() - started) / records
end

local function log_figures()
  local s, each = made(10000, ("some text of a message, with \"quotes\"\n"):rep(8))
  row("append a record of 0.4 KB (encode, write, apply; no sync)", each * 1e6, "us", "20")
  local where = s.dir
  s:close()
  row("open a session of 10,000 records", 1e3 * best(3, function()
    assert(session.resume { dir = where, encode = openai.encode }):close()
  end), "ms", "100")
end

local function body_figures()
  local st = store.new()
  local view = st:view()
  for _ = 1, 1000 do view:push(st:add(('{"content":"%s","role":"user"}'):format(("x"):rep(1020)), 300)) end
  row("render a body of 1 MB, 1,000 messages", 1e3 * best(20, function() view:render("[", "]") end), "ms", "0.3")
end

local function large_figures(count)
  local st = store.new()
  local view = st:view()
  local text = ("y"):rep(2000)
  local half
  local started = reactor.now()
  for i = 1, count do
    view:push(st:add(('{"content":"%s%d","role":"user"}'):format(text, i), 500))
    if i == count // 2 then half = reactor.now() - started end
  end
  local whole = reactor.now() - started
  row(("add %d messages of 2 KB, each"):format(count), whole / count * 1e6, "us")
  row("  second half to first half (1: no quadratic cost)", (whole - half) / half, "")
  row("  fork the view", 1e6 * best(5, function() view:fork() end), "us")
  row("  render all of it, for each MB", 1e3 * best(1, function() view:render("[", "]") end) / (count * 2 / 1024), "ms")
end

log_figures()
body_figures()
large_figures(arg[1] == "full" and 100000 or 20000)
fs.remove(dir, { recursive = true })

-- tests/oom/reactor.lua - each function of terret.reactor once, for the harness that fails
-- allocations.
local reactor = require "terret.reactor"

reactor.now()
reactor.poll(0)

do
  local short <close> = reactor.timer(0)
  local long <close> = reactor.timer(1000)
  while not short:ready() do reactor.poll() end
  reactor.poll(0)
  long:ready()
  long:close()
  reactor.poll(0)
end

-- More nodes than the first scratch memory has room for.
local many = {}
for i = 1, 40 do many[i] = reactor.timer(0) end
assert(#reactor.poll(1) == #many)

local signals = assert(reactor.signals { "WINCH" })
reactor.signals { "WINCH", "CONT" }
-- The shell is our child; its signal is there when close returns.
local p = assert(io.popen("kill -WINCH $PPID"))
p:close()
reactor.poll(0)
signals:ready()
signals:take()
signals:take()
reactor.running(coroutine.create(print))
reactor.running()

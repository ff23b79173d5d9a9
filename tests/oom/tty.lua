-- tests/oom/tty.lua - each function of terret.tty once, for the harness that fails allocations.
-- Without a controlling terminal only the first two do anything.
local tty = require "terret.tty"

tty.isatty(0)
local t <close> = tty.open()
if t then
  t:size()
  t:flush_input()
  t:ready()
  t:read()
  t:write("")
  t:raw()
  t:restore()
end

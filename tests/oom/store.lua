-- Every function of terret.store once, for the harness that fails allocations.
local store = require "terret.store"

local s = store.new()
local v = s:view()
for i = 1, 20 do v:push(s:add(("x"):rep(i * 100), i)) end
v:push(s:add(("y"):rep(50000), 1))
s:set_tokens(1, 7)
assert(s:tokens(1) == 7 and s:get(1) == ("x"):rep(100) and s:size() == 21)
assert(v:count() == 21 and v:tokens() == 217 and v:bytes() == 71000 and v:at(-1) == 21)
local mark = v:mark()
local w = v:fork()
w:push(1)
w:rewind(mark)
assert(#w:list() == 21 and #w:render("[", "]") == 71000 + 20 + 2)
w:replace { 3, 2, 1 }
assert(tostring(w) .. tostring(s))
assert(not pcall(w.rewind, w, mark))
assert(not pcall(w.push, w, 99))

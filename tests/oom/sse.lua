-- Every function of terret.sse once; run again and again with one more allocation allowed.
local sse = require "terret.sse"

local parser = sse.new { max_event = 2000 }
local stream = "\u{FEFF}: hi\r\nid: 7\nevent: e\ndata: " .. ("x"):rep(600) .. "\ndata: y\n\n"
local count = 0
for i = 1, #stream, 50 do count = count + #parser:feed(stream:sub(i, i + 49)) end
count = count + #parser:feed("data: " .. ("z"):rep(3000) .. "\n\n")
count = count + #parser:feed "data: last"
count = count + #parser:finish()
assert(count == 3)
assert(tostring(parser))
local other <close> = sse.new()
other:feed "data: held"

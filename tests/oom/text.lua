-- Every function of terret.text once, for the harness that fails allocations.
local text = require "terret.text"

local broken = ("grüße\xff\0\27[0m\u{202e}日本\n"):rep(200)
local clean = text.clean(broken)
assert(text.clean(clean) == clean)
text.safe(broken, { newline = false, tab = false })
text.safe(broken)
assert(#text.cut(clean, 7) <= 7 and #text.cut(clean, 7, true) <= 7)
text.headtail(clean, 100, 100)
text.headtail(clean, 100000, 100000)
text.width(clean)
text.truncate(clean, 10)
text.count_lines(clean)
text.lines(clean, 2, 5)
text.is_binary(broken)

-- Every function of terret.json once; run again and again with one more allocation allowed.
local json = require "terret.json"

local text = '{"b":[1,2.5,-0,"\\u0041\\ud83d\\ude00"],"a":{"x":null,"long":"' .. ("v\\n"):rep(800) .. '"}}'
local value = assert(json.decode(text))
local many = json.array {}
for i = 1, 40 do many[i] = { ["key" .. i] = i / 3, other = "\xFF", list = {} } end
local wide = {}
for i = 1, 40 do wide["key" .. i] = i end
local encoded = json.encode { value = value, many = many, wide = wide, raw = json.raw(text), null = json.null }
assert(json.decode(encoded))
assert(json.canonical(encoded))
assert(json.canonical(text))
assert(json.slice(text, "a"))
assert(not json.slice(text, "c"))
assert(json.is_array(many))
assert(tostring(json.raw "[1]") == "[1]")
assert(json.tolerant "```json\n{a: 'x\n', b: [True, None,], c: '\xFF', } // end\n```")
assert(json.tolerant '"{\\"a\\": [1,]}"')
assert(not json.tolerant '{"a":')
assert(not json.decode '{"a":1,"a":2}')
assert(not json.canonical '{"a":1,"b":1,"a":2}')

std = "lua54"
max_line_length = 120
max_comment_line_length = false
cache = false
ignore = { "211/_.*", "231/_.*" } -- variables that only close something
exclude_files = { "build", "runtime/types.lua", "types" }
files["tests/spec"] = { std = "lua54+busted" }
files["tests/contract"] = { std = "lua54+busted" }
files["tests/integration"] = { std = "lua54+busted" }

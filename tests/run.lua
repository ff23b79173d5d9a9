-- tests/run.lua - runs busted inside this very host: build/terret --lua tests/run.lua ARG...
-- The bare `busted` of Debian starts Lua 5.1; this can't.  Works in plain lua5.4 as well, with
-- the .so files on LUA_CPATH.
assert(_VERSION == "Lua 5.4", "the specs need Lua 5.4, this is " .. _VERSION)
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = ("%s/spec/?.lua;%s"):format(here, package.path)
table.insert(arg, 1, "--ignore-lua") -- .busted names lua5.4 for those who type `busted`
require "busted.runner" { standalone = false, output = "plainTerminal" }

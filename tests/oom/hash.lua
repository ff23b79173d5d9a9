-- Every function of terret.hash once, for the harness that fails allocations.
local hash = require "terret.hash"

hash.sha256(("x"):rep(100))
hash.random(64)
local bytes = ("\0\1\2"):rep(2000)
assert(hash.unbase64(hash.base64(bytes)) == bytes)
assert(not hash.unbase64("!!!!"))

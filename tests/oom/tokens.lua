-- Every function of terret.tokens once, for the harness that fails allocations.
local tokens = require "terret.tokens"

assert(tokens.estimate("One word, two numbers: 12345; grüße.\n") > 5)

-- A short random walk; the long one of 10,000 operations is in `make test-crash`.
local walk = require "support.walk"

describe("a random walk", function()
  for seed = 1, 4 do
    it("keeps all invariants, seed " .. seed, function()
      walk.run(120, seed, { processes = os.getenv "TERRET" ~= nil and seed == 1 })
    end)
  end
end)

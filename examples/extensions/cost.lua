-- cost.lua - says when a session has cost more than so much, and again at each doubling.
local terret = require "terret"

local limit = 1.00 -- USD

terret.on("usage", function(e)
  local spent = e.total.cost or 0
  if spent < limit then return end
  e.agent:emit("warning", { text = ("this session has cost %.2f USD so far"):format(spent) })
  while limit <= spent do limit = limit * 2 end
end, { name = "cost warning" })

-- Hands the limit over at /reload.
return { save = function() return limit end, restore = function(kept) limit = kept end }

-- scripts/commands/compact.lua - /compact [WISHES]: the model sums up the older part.
return {
  description = "sums up the older part of the conversation; words after it say what matters",
  run = function(ctx, args)
    if ctx.agent:compact(args ~= "" and args or nil) then return "" end -- the events said it
    return "there is nothing to gain: the conversation is short"
  end,
}

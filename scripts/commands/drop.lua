-- scripts/commands/drop.lua - /drop N or N-M or undo: takes messages out of the model's context.
local by_number = require "terret.session.by_number"
local hand = require "terret.session.hand"

return {
  description = "takes messages N or N-M (see /context) out of the context; /drop undo",
  run = function(ctx, args)
    return by_number(ctx, args, "drop", function(session, from, to)
      local ids, message = hand.drop(session, from, to)
      return ids and ("%d messages are out of the context; /drop undo takes that back"):format(#ids), message
    end)
  end,
}

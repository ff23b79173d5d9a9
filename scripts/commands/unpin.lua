-- scripts/commands/unpin.lua - /unpin N or N-M or undo: what was pinned is as any other message again.
local by_number = require "terret.session.by_number"
local hand = require "terret.session.hand"

return {
  description = "unpins messages N or N-M (see /context); /unpin undo",
  run = function(ctx, args)
    return by_number(ctx, args, "unpin", function(session, from, to)
      local ids, message = hand.pin(session, from, to, false)
      return ids and ("%d messages are unpinned"):format(#ids), message
    end)
  end,
}

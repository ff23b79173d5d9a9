-- scripts/commands/pin.lua - /pin N or N-M or undo: messages that are never stubbed, dropped or summed up.
local by_number = require "terret.session.by_number"
local hand = require "terret.session.hand"

return {
  description = "keeps messages N or N-M (see /context) word for word; /pin undo, /unpin N",
  run = function(ctx, args)
    return by_number(ctx, args, "pin", function(session, from, to)
      local ids, message = hand.pin(session, from, to)
      return ids and ("%d messages are pinned"):format(#ids), message
    end)
  end,
}

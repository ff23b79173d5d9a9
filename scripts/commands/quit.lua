-- scripts/commands/quit.lua - /quit: ends terret; what runs is interrupted.
return {
  description = "ends terret (also Ctrl-D)",
  anytime = true,
  run = function(ctx)
    ctx.ui.stop()
    ctx.agent:interrupt()
    return ""
  end,
}

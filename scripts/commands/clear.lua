-- scripts/commands/clear.lua - /clear: an empty conversation in the same session.  The log keeps all of it.
return {
  description = "begins an empty conversation (the log keeps the old one)",
  run = function(ctx)
    local session = ctx.agent.session
    if #session.entries <= 1 then return "the conversation is empty" end
    local ok, message = session:rewind(session.entries[1].id)
    if not ok then return "can't clear: " .. message end
    ctx.agent.pending = {}
    return "cleared"
  end,
}

-- scripts/commands/tools.lua - /tools: what the model may call.
return {
  description = "the tools that the model may call",
  anytime = true,
  run = function(ctx)
    local lines = {}
    for name, tool in pairs(ctx.agent.tools) do
      lines[#lines + 1] = ("  %-10s %-6s %s"):format(name, tool.permission, tool.description:match("^[^.\n]*"))
    end
    table.sort(lines)
    return table.concat(lines, "\n")
  end,
}

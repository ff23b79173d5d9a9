-- scripts/commands/help.lua - /help: the commands and the keys.
local registry = require "terret.registry"

local KEYS = [[
Enter sends, Alt-Enter or \ Enter begins a new line; while the agent works Enter adds a message.
Esc or Ctrl-C interrupts the turn; Ctrl-C twice on an empty line, or Ctrl-D, ends terret.
Ctrl-A Ctrl-E Alt-B Alt-F move, Ctrl-W Ctrl-U Ctrl-K cut, Ctrl-Y puts back, Up and Down go through what was said.]]

return {
  description = "this list",
  anytime = true,
  run = function()
    local lines = {}
    for _, name in ipairs(registry.names("commands")) do
      local command, message = registry.load("commands", name)
      lines[#lines + 1] = ("  /%-9s %s"):format(name, command and command.description or "broken: " .. message)
    end
    return table.concat(lines, "\n") .. "\n" .. KEYS
  end,
}

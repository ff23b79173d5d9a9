-- scripts/cli/test.lua - `terret test FILE...`: runs specs with the installed busted, inside this very
-- executable, so that they can use terret.testkit.  Exit status: that of busted; 2 when it isn't there.

local M = {
  summary = "run specs of your scripts (busted)",
  usage = "terret test FILE... [busted's options]",
  stop = true,
}

---@param args string[]
---@return integer exit status
function M.run(_, args)
  if not args[1] then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local ok, runner = pcall(require, "busted.runner")
  if not ok then
    io.stderr:write("terret test: busted is not installed for Lua 5.4: luarocks --lua-version 5.4 install busted, or",
      " apt install lua-busted\n")
    return 2
  end
  _G.arg = table.move(args, 1, #args, 2, { "--ignore-lua", [0] = "terret test" })
  runner { standalone = false, output = "plainTerminal" } -- ends the process itself
  return 0
end

return M

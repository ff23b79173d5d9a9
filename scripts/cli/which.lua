-- scripts/cli/which.lua - `terret which NAME`: the file that a name stands for.
--
-- A bare word is looked for in every kind, so it may have several answers, one a line.  Exit status 1
-- when there is none.

local origin = require "terret.origin"

local M = {
  summary = "the file that a tool, loop, module... comes from",
  usage = "terret which NAME     (tools/bash, loops/react, terret.task, or a bare word)",
}

---@param args string[]
---@return integer exit status
function M.run(_, args)
  if #args ~= 1 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local found = origin.find(args[1])
  if #found == 0 then
    io.stderr:write(("terret which: there is no '%s'; terret tools, loops and providers list some\n"):format(args[1]))
    return 1
  end
  for _, f in ipairs(found) do
    io.write(#found > 1 and ("%-18s "):format(f.rel) or "", f.path, "\n")
  end
  return 0
end

return M

-- scripts/cli/run.lua - `terret run FILE.lua [ARG...]`: an orchestration script over the scripting interface.
--
-- The file runs as a task with its arguments in `...`; it makes agents with require("terret").new_agent.
-- Ctrl-C cancels it.  Exit status: what it returns when that is an integer, else 0; 1 when it raises.

local M = {
  summary = "run an orchestration script",
  usage = "terret run FILE.lua [ARG...]",
  stop = true,
}

---@param args string[]
---@return integer exit status
function M.run(_, args)
  local fs, task, reactor = require "terret.fs", require "terret.task", require "terret.reactor"
  local text = require "terret.text"
  local function fail(status, message)
    io.stderr:write("terret run: ", text.safe(message), "\n")
    return status
  end
  if not args[1] then return fail(2, "usage: " .. M.usage) end
  local source, message = fs.read(args[1])
  if not source then return fail(2, message) end
  local chunk, why = load(source, "@" .. args[1], "t")
  if not chunk then return fail(1, why) end
  local ok, result = xpcall(function()
    return task.run(function()
      local me = task.current()
      local signals = reactor.signals { "INT", "TERM" }
      task.spawn(function()
        task.await(signals)
        task.cancel(me, "interrupted")
      end)
      return chunk(table.unpack(args, 2))
    end)
  end, function(err) return task.is_cancelled(err) and err or debug.traceback(tostring(err), 2) end)
  if ok then return math.type(result) == "integer" and result or 0 end
  if task.is_cancelled(result) then return 130 end
  return fail(1, result)
end

return M

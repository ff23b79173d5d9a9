-- scripts/cli/trust.lua - `terret trust [DIR]`: shows what a project's .terret/ would load, then asks.
--
-- Nothing of it is run for that.  Exit status: 0 trusted (or nothing to trust), 1 not, 2 usage.

local fs = require "terret.fs"
local text = require "terret.text"
local trust = require "terret.trust"
local tty = require "terret.tty"

local M = {
  summary = "show what a project's .terret would load, and trust it",
  usage = "terret trust [DIR] [--list] [--revoke]",
  options = { { name = "list", help = "show it, ask nothing" }, { name = "revoke", help = "trust it no longer" } },
}

local function safe(s) return text.safe(s, { newline = false, tab = false }) end

local function show(project, files, state)
  io.write(safe(project), "/.terret ", ({ trusted = "is trusted", new = "is not trusted",
    changed = "has changed since it was trusted" })[state], "\n")
  for _, f in ipairs(files) do
    io.write(("  %s  %-34s %s\n"):format(f.hash:sub(1, 12), safe(f.rel:sub(9)), safe(trust.describe(f))))
  end
  io.write("Lua files run with your rights, outside the sandbox. Read them before you say yes.\n")
end

local function ask()
  if not (tty.isatty(0) and tty.isatty(1)) then
    io.stderr:write("terret trust: nobody can be asked here, so it stays as it is\n")
    return false
  end
  io.write("Trust these files as they are now? [y/N] ")
  io.stdout:flush()
  local answer = io.read("l")
  return answer ~= nil and answer:lower():find("^%s*y") ~= nil
end

---@param opts table
---@param args string[]
---@param ctx table
---@return integer exit status
function M.run(opts, args, ctx)
  if #args > 1 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local function fail(message)
    io.stderr:write("terret trust: ", safe(message), "\n")
    return 2
  end
  if args[1] then
    local ok, why = fs.chdir(args[1])
    if not ok then return fail(why) end
  end
  local cfg, message = ctx.config {}
  if not cfg then return fail(message) end
  local files
  files, message = trust.scan(cfg.project)
  if not files then return fail(message) end
  if opts.revoke then
    local ok, why = trust.remember(cfg.state_dir, cfg.project, nil)
    return ok and 0 or fail(why)
  end
  local state = trust.state(cfg.state_dir, cfg.project, files)
  if state == "empty" then
    io.write("there is nothing to trust in ", safe(cfg.project), "\n")
    return 0
  end
  show(cfg.project, files, state)
  if state == "trusted" then return 0 end
  if opts.list or not ask() then return 1 end
  local ok, why = trust.remember(cfg.state_dir, cfg.project, files)
  return ok and 0 or fail(why)
end

return M

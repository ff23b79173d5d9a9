-- format.lua - runs a formatter after each file that a tool wrote, in the sandbox.
local terret = require "terret"

local FORMATTERS = {
  c = { "clang-format", "-i" }, h = { "clang-format", "-i" }, go = { "gofmt", "-w" },
  py = { "black", "-q" }, rs = { "rustfmt" }, lua = { "stylua" },
}

terret.on("file.written", function(e)
  local formatter = FORMATTERS[e.path:match("%.(%w+)$") or ""]
  if not formatter then return end
  local argv = table.move(formatter, 1, #formatter, 1, {})
  argv[#argv + 1] = e.path
  local result, message = e.agent:exec(argv, { timeout = 20 })
  if not result then
    e.agent:emit("warning", { text = "not formatted: " .. message })
  elseif result.code ~= 0 then
    e.agent:emit("warning", { text = ("%s failed on %s: %s"):format(argv[1], e.path, result.head) })
  end
end, { name = "format" })

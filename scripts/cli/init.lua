-- scripts/cli/init.lua - `terret init`: a configuration to begin with, and what an editor needs to
-- complete and check Lua scripts.  Never overwrites: a file that exists is named and left.

local fs = require "terret.fs"
local json = require "terret.json"
local origin = require "terret.origin"

local M = { summary = "write a commented config.lua and .luarc.json", usage = "terret init" }

local CONFIG = [[
-- Configuration of terret: data only, nothing can be called here.  Flags and environment variables
-- win over it.  Uncomment what you want; `terret doctor` says what works.
return {
  -- base_url = "http://127.0.0.1:8080/v1",     -- an OpenAI-compatible endpoint
  -- api_key_env = "MY_KEY",                    -- the variable that holds its key
  -- model = "some-model",
  -- loop = "react",                            -- terret loops lists them
  -- mode = "ask",                              -- ask, auto, plan, yolo
  -- sandbox = "auto",                          -- a backend, or none at your own risk
  -- rw = { "/path/that/commands/may/write" },
  -- limits = { steps = 100, tokens = 1000000, cost = 2.0, seconds = 3600 },
  -- models = { ["some-model"] = { window = 131072, max_output = 8192,
  --   price = { input = 1.0, cached = 0.1, output = 4.0 } } },   -- USD per million tokens
  -- sampling = { temperature = 0.2 },
  -- tool_timeout = 120, first_byte_timeout = 300, idle_timeout = 120,
}
]]

local function write(path, data)
  local ok, message, code = fs.write(path, data, { parents = true, new = true })
  if ok then
    io.write("wrote  ", path, "\n")
    return true
  elseif code == "exists" then
    io.write("kept   ", path, "\n")
    return true
  end
  io.stderr:write("terret init: ", message, "\n")
  return false
end

-- The stubs of the scripting interface, where the executable carries them.
local function stubs(dir)
  local ok, embedded = pcall(require, "terret.embedded")
  local out = {}
  for _, file in ipairs(ok and embedded.list() or {}) do
    if file:sub(1, 6) == "types/" then out[dir .. "/" .. file] = embedded.get(file) end
  end
  return out
end

local function luarc(dir)
  local library = json.array { dir .. "/types" }
  local ok, embedded = pcall(require, "terret.embedded")
  if ok and fs.stat(embedded.share_dir) then library[2] = embedded.share_dir end
  local shown = json.encode { ["runtime.version"] = "Lua 5.4", ["workspace.library"] = library,
    ["workspace.checkThirdParty"] = false, ["diagnostics.globals"] = json.array {} }
  return (shown:gsub(',"', ',\n "')) .. "\n"
end

---@param args string[]
---@return integer exit status
function M.run(_, args)
  if #args > 0 then
    io.stderr:write("usage: ", M.usage, "\n")
    return 2
  end
  local dir = origin.user_dir()
  if not dir then
    io.stderr:write("terret init: neither XDG_CONFIG_HOME nor HOME is set\n")
    return 1
  end
  local files = stubs(dir)
  files[dir .. "/config.lua"], files[dir .. "/.luarc.json"] = CONFIG, luarc(dir)
  local paths = {}
  for path in pairs(files) do paths[#paths + 1] = path end
  table.sort(paths)
  local good = true
  for _, path in ipairs(paths) do good = write(path, files[path]) and good end
  return good and 0 or 1
end

return M

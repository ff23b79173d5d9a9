-- scripts/cli/models.lua - `terret models`: what the endpoint offers.
--
-- Exit status: 0; 2 no endpoint is set; 5 the endpoint can't be asked.

local json = require "terret.json"
local models = require "terret.models"
local text = require "terret.text"

local M = {
  summary = "list the models of the endpoint",
  usage = "terret models [--base-url URL] [--api-key-env VAR] [--json]",
  options = {
    { name = "base-url", arg = "URL", help = "an OpenAI-compatible endpoint" },
    { name = "api-key-env", arg = "VAR", help = "variable that holds the key" },
    { name = "json", help = "an array of {id, window, price}; window and price where they are known" },
  },
}

local function fail(status, message)
  io.stderr:write("terret models: ", text.safe(message), "\n")
  return status
end

-- What is known beside the name; a price that isn't known is left out, not zero.
local function entry(name, cfg)
  local info = models.find(name, cfg.models)
  return { id = name, window = info.price and info.window or nil, price = info.price }
end

local function line(name, cfg)
  local e = entry(name, cfg)
  local facts = e.price and ("%d tokens, %g/%g USD per million in/out"):format(e.window, e.price.input, e.price.output)
  local mark = name == cfg.model and "*" or " "
  return ("%s %-40s %s"):format(mark, text.safe(name, { newline = false }), facts or ""):gsub("%s+$", "")
end

---@param opts table
---@param args string[]
---@param ctx table
---@return integer exit status
function M.run(opts, args, ctx)
  if #args > 0 then return fail(2, "takes no arguments; usage: " .. M.usage) end
  local cfg, message = ctx.config(opts)
  if not cfg then return fail(2, message) end
  if not cfg.base_url then return fail(2, require("terret.config").no_endpoint) end
  local names
  names, message = require("terret.cli").model_list(cfg)
  if not names then return fail(5, ("%s: %s"):format(cfg.base_url, message)) end
  if opts.json then
    local list = json.array {}
    for i, name in ipairs(names) do list[i] = entry(name, cfg) end
    io.write(json.encode(list), "\n")
    return 0
  end
  for _, name in ipairs(names) do io.write((line(name, cfg)), "\n") end
  if #names == 0 then io.write("the endpoint names no models\n") end
  return 0
end

return M

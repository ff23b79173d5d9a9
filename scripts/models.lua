-- scripts/models.lua - windows (tokens) and prices (USD per million tokens) of models.
--
-- Data only.  A user adds to it with `models = { ["name"] = {...} }` in config.lua.  A price that
-- is not here is unknown, not zero.  Endpoints change prices: these are list prices as known in 2025.

local M = {}

-- window, most output, price in / cached / out, and of what is written to the cache where that is dearer
local TABLE = {
  ["gpt-4o"] = { 128000, 16384, 2.5, 1.25, 10 },
  ["gpt-4o-mini"] = { 128000, 16384, 0.15, 0.075, 0.6 },
  ["gpt-4.1"] = { 1047576, 32768, 2, 0.5, 8 },
  ["gpt-4.1-mini"] = { 1047576, 32768, 0.4, 0.1, 1.6 },
  ["gpt-5"] = { 400000, 128000, 1.25, 0.125, 10 },
  ["gpt-5-mini"] = { 400000, 128000, 0.25, 0.025, 2 },
  ["claude-sonnet-4"] = { 200000, 64000, 3, 0.3, 15, 3.75 },
  ["claude-sonnet-4.5"] = { 200000, 64000, 3, 0.3, 15, 3.75 },
  ["claude-opus-4.5"] = { 200000, 64000, 5, 0.5, 25, 6.25 },
  ["deepseek-chat"] = { 128000, 8192, 0.28, 0.028, 0.42 },
}

---@class terret.model
---@field window integer tokens
---@field max_output integer? tokens
---@field price {input: number, cached: number, output: number, write: number?}? USD per million; nil: unknown

local DEFAULT_WINDOW = 128000

-- "openrouter-style/vendor-model:tag" -> the part that prices go by.
local function plain_name(model)
  return (model:gsub("^.*/", ""):gsub(":.*$", ""):gsub("%-%d%d%d%d%-?%d%d%-?%d%d$", ""))
end

---@param model string
---@param extra table<string, table>? the user's own; a price without input or output is unknown
---@return terret.model
function M.find(model, extra)
  local own = extra and (extra[model] or extra[plain_name(model)])
  if own then
    local price = own.price and own.price.input and own.price.output and { input = own.price.input,
      cached = own.price.cached or own.price.input, output = own.price.output, write = own.price.write }
    return { window = own.window or DEFAULT_WINDOW, max_output = own.max_output, price = price or nil }
  end
  local row = TABLE[model] or TABLE[plain_name(model)]
  if not row then return { window = DEFAULT_WINDOW } end
  return { window = row[1], max_output = row[2],
    price = { input = row[3], cached = row[4], output = row[5], write = row[6] } }
end

---@param price {input: number, cached: number, output: number, write: number?}?
---@param usage {input: integer?, cached: integer?, output: integer?, written: integer?}
---@return number? usd nil when the price is unknown
function M.cost(price, usage)
  if not price then return nil end
  local input = usage.input or 0
  local cached = math.min(usage.cached or 0, input)
  local written = math.min(usage.written or 0, input - cached)
  return (input - cached - written) * price.input / 1e6 + cached * price.cached / 1e6
    + written * (price.write or price.input) / 1e6 + (usage.output or 0) * price.output / 1e6
end

return M

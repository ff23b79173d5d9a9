-- scripts/calibrate.lua - brings the estimate of tokens to what an endpoint counts, and remembers it by model.
--
-- Two facts are learnt from each reported usage: the count of this very prompt, and how many tokens are counted
-- for one that we estimate.  The second comes from what was appended between two requests: tools and
-- templates, which are counted in ways that can't be seen, are in both and cancel out.  The next request
-- is the last count and the estimate of the difference.
--
-- The ratio is kept across sessions in STATE/calibration.json.  That file is a cache: a broken or missing one
-- costs nothing but the first estimates.

local fs = require "terret.fs"
local json = require "terret.json"

local M = {}

M.least = 200 -- tokens; a smaller prompt teaches nothing
M.delta = 100 -- tokens; nor does a smaller difference
local LOWEST, HIGHEST = 0.2, 5 -- a ratio outside says more about the endpoint than about the text
local MOST = 200 -- models in the file

local function file(state_dir) return state_dir .. "/calibration.json" end

local function read(state_dir)
  local data = fs.read(file(state_dir), { max = 1 << 20 })
  local t = data and json.decode(data)
  return type(t) == "table" and not json.is_array(t) and t or {}
end

local function plausible(ratio) return type(ratio) == "number" and ratio > LOWEST and ratio < HIGHEST end

---@param state_dir string?
---@param model string
---@return number ratio
function M.load(state_dir, model)
  local ratio = state_dir and read(state_dir)[model]
  return plausible(ratio) and ratio or 1.0
end

local function save(state_dir, model, ratio)
  local all, count = read(state_dir), 0
  for _ in pairs(all) do count = count + 1 end
  if count >= MOST then all = {} end
  all[model] = math.floor(ratio * 1e4 + 0.5) / 1e4
  fs.write(file(state_dir), json.encode(all), { mode = 384, sync = false }) -- a failure loses nothing
end

-- The ratio of what was appended since the last request; of the whole prompt where there was none.
local function slope(agent, usage, estimated)
  local anchor, fit = agent.anchor, agent.fit
  if not anchor then return usage.input / estimated end
  local raw, input = estimated - anchor.raw, usage.input - anchor.input
  if anchor.epoch ~= agent.session.epoch or raw < M.delta then return agent.ratio end
  fit = fit or { raw = 0, input = 0 }
  fit = { raw = fit.raw / 2 + raw, input = fit.input / 2 + input }
  if not plausible(fit.input / fit.raw) then return agent.ratio end
  agent.fit = fit
  return fit.input / fit.raw
end

---Learns from the usage of a request.
---@param agent terret.agent
---@param usage {input: integer?, estimated: boolean?}?
---@param estimated integer what the prompt was estimated at, without calibration
---@param options {tail: string?, model: string?}
function M.learn(agent, usage, estimated, options)
  if not usage or usage.estimated or not usage.input or usage.input < M.least or estimated < M.least then return end
  if options.tail or options.model and options.model ~= agent.cfg.model then return end
  if not plausible(usage.input / estimated) then return end
  agent.ratio = slope(agent, usage, estimated)
  agent.anchor = { epoch = agent.session.epoch, raw = estimated, input = usage.input }
  local keep = agent.cfg.state_dir and not agent.session.ephemeral
  if keep and math.abs(agent.ratio / (agent.saved_ratio or 1.0) - 1) > 0.005 then
    agent.saved_ratio = agent.ratio
    save(agent.cfg.state_dir, agent.cfg.model, agent.ratio)
  end
end

---@param agent terret.agent
---@param raw integer estimated tokens of a request
---@return integer tokens that the endpoint will count, about
function M.size(agent, raw)
  local anchor = agent.anchor
  if not anchor then return math.ceil(raw * agent.ratio) end
  return math.ceil(math.max(anchor.input + (raw - anchor.raw) * agent.ratio, raw * LOWEST))
end

return M

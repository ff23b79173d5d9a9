-- scripts/context/policies.lua - context policies for a replay: our own profiles, and those of other agents
-- as their sources state them (constants only; nothing of them is run).
--
-- A policy is {about, admit(run, item) -> item?, before(run)}; see scripts/context/replay.lua.

local plan = require "terret.context.plan"

local M = {}

local STUB = 300
local GUESS = 4 -- bytes of a token as the other agents estimate what they keep

-- The head and tail that an admission cap leaves.
local function capped(run, e, cap, head)
  if e.role ~= "tool" or e.size <= cap then return e end
  local first = math.floor(cap * head)
  return run:shorter(e, e.text:sub(1, first) .. "\n" .. e.text:sub(first - cap), { capped = true })
end

-- Our own: the same rules that a live agent follows.
local function ours(profile)
  return {
    about = "this program's profile " .. profile,
    admit = function(run, e) return capped(run, e, e.name == "bash" and 16384 or 51200, 0.25) end,
    before = function(run)
      local limits = plan.limits(run.window, run.max_output, profile)
      local function compact()
        local first = plan.tail(run.view, limits.keep)
        if first <= 3 then return end
        local set = plan.working_set(run.view, first, limits.set)
        run:summarize(first, { cached = true, users = 4000, more = set })
        run.meter = { rent = 0, floor = run:size() }
      end
      local last = run.view[#run.view]
      local size = { total = run:size(), fixed = run.view[1].tokens, task = last.role == "user" }
      if plan.due(run.meter, limits, run.prices, size) then compact() end
      if run:size() <= limits.high then return end
      run:stub(plan.strip(run.view, plan.tail(run.view, limits.keep), 2 * STUB), STUB)
      if run:size() > limits.high then compact() end
      if run:size() > limits.high then
        run:drop(plan.drop(run.view, plan.tail(run.view, limits.keep), run:size() - limits.high))
      end
    end,
  }
end

for name in pairs(plan.profiles) do M[name] = ours(name) end

M.append = { about = "only appends; no window" }

-- A summary by a prompt of its own or on the prefix, when the context is over a limit.
local function threshold(about, options)
  return {
    about = about,
    admit = options.cap and function(run, e) return capped(run, e, options.cap, options.head) end or nil,
    before = function(run)
      if options.mask then options.mask(run) end
      local limit = options.limit(run.window)
      if run:size() <= limit then return end
      -- In a window that is too small for its constants a policy would do nothing else.
      local keep = options.keep and math.min(options.keep(run.window) * GUESS / run.ratio, limit / 2)
      local words = options.users and options.users * GUESS / run.ratio
      run:summarize(keep and plan.tail(run.view, keep) or #run.view + 1, { cached = options.cached, users = words,
        result = options.result })
    end,
  }
end

M.pi = threshold("summary in a prompt of its own above W - 16,384; keeps 20k tokens", { cap = 51200, head = 0.5,
  limit = function(w) return w - 16384 end, keep = function() return 20000 end, result = 2000 })

M.codex = threshold("summary on the prefix above 0.9 W; keeps 20k tokens of the user's words, no results", {
  cap = 40000, head = 0.5, limit = function(w) return 0.9 * w end, cached = true, users = 20000 })

M.opencode = threshold("summary in a prompt of its own above W - 32k - 20k; keeps 2k to 15k tokens", { cap = 51200,
  head = 1, limit = function(w) return math.max(w - 52000, w / 2) end,
  keep = function(w) return math.max(2000, math.min(15000, 0.25 * w)) end, result = 2000 })

-- The newest 50k tokens of results stay; what is older is masked when that frees 30k.
local function mask(run)
  local protected, old, freed, seen = 0, {}, 0, false
  for i = #run.view, 2, -1 do
    local e = run.view[i]
    if e.role == "tool" then
      protected = protected + e.tokens
      if seen and protected * run.ratio / GUESS > 50000 and not e.stub and e.size > 2 * STUB then
        old[#old + 1] = e
        freed = freed + e.tokens
      end
    end
    seen = seen or e.role == "assistant"
  end
  if freed * run.ratio / GUESS > 30000 then run:stub(old, STUB) end
end

M.gemini = threshold("masks results older than 50k tokens in batches of 30k; summary above W / 2, keeps 30%", {
  cap = 40000, head = 0.2, limit = function(w) return 0.5 * w end, keep = function(w) return 0.3 * 0.5 * w end,
  mask = mask })

-- Cuts each result to 300 bytes before the model sees it; what was over 10,000 stays at 10,000.
M.seed = threshold("stubs of 300 bytes before every request; summary above 0.85 W, keeps 0.35 W", {
  limit = function(w) return 0.85 * w end, keep = function(w) return 0.35 * w end })

function M.seed.admit(run, e)
  if e.role ~= "tool" or e.size <= STUB then return e end
  return run:shorter(e, e.text:sub(1, e.size > 10000 and 10000 or STUB))
end

M.names = { "eco", "balanced", "rich", "append", "seed", "pi", "codex", "opencode", "gemini" }

return M

-- scripts/retry.lua - which failure of a request is tried again, and when.
--
-- A policy of pure functions: the clock and the waiting are the caller's.  Nothing is retried here
-- that has already shown text or run a tool; agent.lua sees to that.

local M = {}

M.attempts = 5
M.first_wait = 1 -- seconds; doubles
M.longest_wait = 60

local OVERFLOW = {
  "context_length_exceeded", "maximum context length", "context window", "prompt is too long",
  "exceeds the context", "input token count", "too many tokens", "context size", "exceed_context_size",
  "maximum prompt length", "prompt token count", "exceeded model token limit",
}

local RETRIED = {
  connect = true, dns = true, timeout_connect = true, timeout_first_byte = true, timeout_idle = true,
  cut = true, network = true, rate_limit = true, overload = true, empty = true,
}

---Classifies a failed answer.
---@param status integer? HTTP status
---@param text string message of the endpoint
---@param code string? of the transport
---@return string class "overflow", "rate_limit", "quota", "overload", "auth", "bad_request", or the transport's code
function M.classify(status, text, code)
  local lower = text:lower()
  for _, mark in ipairs(status == 429 and {} or OVERFLOW) do -- a 429 means tokens a minute
    if lower:find(mark, 1, true) then return "overflow" end
  end
  if code and not status then return code end
  if lower:find("insufficient_quota", 1, true) or status == 402 then return "quota" end
  if status == 429 or lower:find("rate limit", 1, true) or lower:find("rate_limit", 1, true) then
    return "rate_limit"
  end
  if status == 401 or status == 403 then return "auth" end
  if status == 413 then return "overflow" end
  if status and status >= 500 or status == 408 or lower:find("overloaded", 1, true) then return "overload" end
  if status then return "bad_request" end -- redirects too: they are not followed
  if lower:find("api key", 1, true) or lower:find("api_key", 1, true) then return "auth" end
  return "overload"
end

---Seconds of a Retry-After header in its common forms.
---@param value string?
---@param now integer? unix time, for the date form
---@return number?
function M.retry_after(value, now)
  if not value then return nil end
  local n = tonumber(value)
  if n then return math.max(0, n) end
  local d, mon, y, h, m, s = value:match("%f[%d](%d%d?) (%a%a%a) (%d%d%d%d) (%d%d):(%d%d):(%d%d)%f[^%d]")
  local months = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10,
    Nov = 11, Dec = 12 }
  if not d or not months[mon] then return nil end
  -- os.time reads local time: both go through it the same way, without summer time.
  local utc = os.time(os.date("!*t", now) --[[@as osdateparam]])
  local at = os.time { year = y, month = months[mon], day = d, hour = h, min = m, sec = s, isdst = false }
  return math.max(0, at - utc)
end

---How long to wait before the next attempt, or nil: give up.
---@param class string of classify
---@param attempt integer from 1: how many were made
---@param after number? seconds that the endpoint asked for
---@param random number? 0..1, jitter
---@return number? seconds
function M.wait(class, attempt, after, random)
  if not RETRIED[class] or attempt >= M.attempts then return nil end
  if after then
    if after > M.longest_wait then return nil end
    return after
  end
  local base = math.min(M.longest_wait, M.first_wait * 2 ^ (attempt - 1))
  return base * (0.75 + 0.5 * (random or math.random()))
end

return M

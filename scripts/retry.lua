-- scripts/retry.lua - which failure of a request is tried again, and when.
--
-- A policy of pure functions: the clock and the waiting are the caller's.  Nothing is retried here
-- that has already shown text or run a tool; agent.lua sees to that.
--
-- Classes:  overflow     the request is longer than the window: it is shortened, never sent again as it is
--           output       it asks for more output than there is room for: asked for less, once
--           rate_limit   too much in a minute: waits, as long as the endpoint says
--           quota        a day's, a month's, the money's end: final
--           overload     the endpoint's fault, or on the way to it
--           loading      a local server reads its model: asked for minutes
--           sampling     the model wrote a call that its server could not use: another try
--           empty        nothing at all came
--           filtered, auth, bad_request, length: final; and the transport's own codes

local M = {}

M.attempts = 5
M.first_wait = 1 -- seconds; doubles
M.longest_wait = 60

-- Classes that are tried again, and how often at most; loading: every few seconds.
local TRIES = {
  connect = M.attempts, dns = M.attempts, timeout_connect = M.attempts, timeout_first_byte = 2,
  timeout_idle = 3, cut = M.attempts, network = M.attempts, rate_limit = M.attempts, overload = M.attempts,
  empty = 3, sampling = 3, loading = 100,
}
M.loading_wait = 3

-- Words -----------------------------------------------------------------------------------------

local OUTPUT = {
  "max_tokens` must be less", "max_tokens is too large", "max_completion_tokens is too large", "supports at most",
  "can only afford", "maximum value for `max_", "`max_tokens` exceed", "max_tokens: ", "max_tokens must be",
}
local OVERFLOW = {
  "context_length_exceeded", "maximum context length", "context window", "prompt is too long", "prompt too long",
  "exceeds the context", "input token count", "too many tokens", "context size", "exceed_context_size",
  "maximum prompt length", "prompt token count", "exceeded model token limit", "input is too long", "context length",
  "context limit", "reduce the length of the messages", "request_too_large", "total message size",
  "tokens to keep from", "model_context_window_exceeded", "too large for model", "longer than the model", "token limit",
  "context_window_exceeded", "request body too large", "request entity too large", "payload too large",
  "max_prompt_tokens", "longer than the maximum", "max_new_tokens",
}
local PER_MINUTE = { "per minute", "per min", "perminute", "tpm", "rpm", "try again in", "retry in", "retrydelay" }
local QUOTA = {
  "insufficient_quota", "current quota", "billing", "insufficient balance", "insufficient credit", "insufficient fund",
  "credit balance", "out of credits", "not enough credit", "more credits", "no credits", "monthly", "weekly", "daily",
  "per day", "perday", "usage limit", "spend_limit", "spend limit", "spending limit", "payment required",
  "premium request", "quota exceeded", "quota_exceeded", "insufficient_balance", "arrears", "subscription",
}
local RATE = {
  "rate limit", "rate_limit", "ratelimit", "too many requests", "throttl", "resource_exhausted",
  "resource has been exhausted", "slow down", "requests per", "tokens per min",
}
local FILTERED = {
  "content_filter", "content filter", "content management policy", "flagged", "moderation", "usage polic", "safety",
  "responsible_ai", "prohibited_content", "datainspection", "sensitive",
}
local AUTH = { "api key", "api_key", "apikey", "unauthorized", "authentication", "invalid_token", "credentials" }
local LOADING = { "loading model", "model is loading", "currently loading", "is being loaded", "warming up",
  "loading_model" }
local SAMPLING = { "tool_use_failed", "failed to call a function", "tool call validation failed",
  "failed to parse input at", "failed to parse tool", "malformed_function_call", "unexpected_tool_call" }
local OVERLOAD = {
  "overloaded", "unavailable", "capacity", "try again later", "internal error", "internal server error",
  "server_error", "timed out", "timeout", "insufficient_system_resource", "network_error", "network error", "upstream",
  "bad gateway",
}

local function any(s, list)
  for _, words in ipairs(list) do
    if s:find(words, 1, true) then return true end
  end
  return false
end

-- Without a status, or with one that says little.
local function by_words(s)
  if any(s, SAMPLING) then return "sampling" end
  if any(s, LOADING) then return "loading" end
  if any(s, RATE) and not (any(s, QUOTA) and not any(s, PER_MINUTE)) then return "rate_limit" end
  if any(s, QUOTA) then return "quota" end
  if any(s, FILTERED) then return "filtered" end
  if any(s, AUTH) then return "auth" end
end

---Classifies a failed answer.
---@param status integer? HTTP status, or the one that an error in the stream names
---@param text string all words of the endpoint that tell what it was
---@param code string? of the transport
---@return string class see the head of this file, or the transport's code
function M.classify(status, text, code)
  local s = text:lower()
  if code and not status then return code end
  local minute = s:find("tokens per min", 1, true) or s:find("tpm", 1, true)
  -- One request over a minute's allowance: no waiting helps, a smaller one does.
  if minute and s:find("too large", 1, true) then return "overflow" end
  if s:find("can only afford", 1, true) then return "output" end
  if status == 429 or status == 402 then
    if any(s, QUOTA) and not (status == 429 and any(s, PER_MINUTE)) then return "quota" end
    return status == 402 and "quota" or "rate_limit"
  end
  if s:find("throttl", 1, true) then return "rate_limit" end
  if any(s, OVERFLOW) and not (status == 401 or status == 403) then return "overflow" end
  if any(s, OUTPUT) then return "output" end
  if status == 413 then return "overflow" end
  if status == 401 then return "auth" end
  local class = by_words(s)
  if status == 403 then
    return (class == "filtered" or class == "quota" or class == "rate_limit") and class or "auth"
  end
  if status and status >= 500 then
    return (class == "sampling" or class == "loading" or class == "quota") and class or "overload"
  end
  if status == 408 or status == 409 or status == 425 then return "overload" end
  if class then return class end
  if any(s, OVERLOAD) and (not status or status >= 400) and status ~= 404 and status ~= 422 then return "overload" end
  if status then return "bad_request" end -- redirects too: they are not followed
  return "overload"
end

-- Numbers -----------------------------------------------------------------------------------------

local function number(s) return s and tonumber((s:gsub("[,_]", ""))) or nil end

---The output that an endpoint has room for, out of its refusal.
---@param text string
---@param sent integer? the output that was asked for
---@return integer? tokens
function M.output_limit(text, sent)
  local s = text:lower()
  local a, b, window = s:match("(%d+)%s*%+%s*(%d+)%s*>%s*(%d+)")
  if a and number(b) then return number(window) - number(a) end
  window = s:match("maximum context length is (%d+)") or s:match("maximum context length of (%d+)")
  local prompt = s:match("%((%d+) in the messages") or s:match("at least (%d+) input tokens")
    or s:match("(%d+) of text input") or s:match("%((%d+) input tokens")
  if window and prompt then return number(window) - number(prompt) end
  local limit, requested = s:match("limit:? ([%d,]+),.-requested:? ([%d,]+)")
  if limit and sent then return number(limit) - (number(requested) - sent) end
  local most = s:match("supports at most ([%d,]+)") or s:match("can only afford ([%d,]+)")
    or s:match("less than or equal to [`']?([%d,]+)") or s:match("maximum value for [^%d]-([%d,]+)")
    or s:match("max_tokens: [%d,]+ > ([%d,]+)") or s:match("range[^%d]-%[?1, ?([%d,]+)")
  return number(most) --[[@as integer?]]
end

---The window that an endpoint names in a refusal.
---@param text string
---@return integer? tokens
function M.window(text)
  local s = text:lower()
  local n = s:match("maximum context length is ([%d,]+)") or s:match("maximum context length of ([%d,]+)")
    or s:match('n_ctx"?:? ?([%d,]+)') or s:match("context size %(([%d,]+)") or s:match("> ([%d,]+) maximum")
    or s:match("with ([%d,]+) maximum context") or s:match("exceeds the limit of ([%d,]+)")
    or s:match("maximum prompt length is ([%d,]+)") or s:match("number of tokens allowed %(([%d,]+)%)")
    or s:match("context limit: %d+ %+ %d+ > (%d+)") or s:match("token limit: ([%d,]+)")
  local value = number(n)
  return value and value >= 256 and value < 1e8 and math.floor(value) or nil
end

-- Waiting -----------------------------------------------------------------------------------------

local MONTHS = { Jan = 1, Feb = 2, Mar = 3, Apr = 4, May = 5, Jun = 6, Jul = 7, Aug = 8, Sep = 9, Oct = 10,
  Nov = 11, Dec = 12 }

-- Seconds until a moment in UTC.  os.time reads local time: both go through it the same way, without
-- summer time.
local function until_utc(t, now)
  t.isdst = false
  local utc = os.time(os.date("!*t", now) --[[@as osdateparam]])
  return math.max(0, os.time(t) - utc)
end

---Seconds of a Retry-After header in its common forms.
---@param value string?
---@param now integer? unix time, for the date form
---@return number?
function M.retry_after(value, now)
  if not value then return nil end
  local n = tonumber(value)
  if n then return n == n and math.max(0, n) or nil end
  local d, mon, y, h, m, s = value:match("%f[%d](%d%d?)[ %-](%a%a%a)[ %-](%d%d%d%d) (%d%d):(%d%d):(%d%d)%f[^%d]")
  if d and MONTHS[mon] then
    return until_utc({ year = y, month = MONTHS[mon], day = d, hour = h, min = m, sec = s }, now)
  end
  y, mon, d, h, m, s = value:match("^%s*(%d%d%d%d)%-(%d%d)%-(%d%d)T(%d%d):(%d%d):(%d%d)")
  if y then return until_utc({ year = y, month = mon, day = d, hour = h, min = m, sec = s }, now) end
  return M.duration(value)
end

local UNITS = { ms = 0.001, s = 1, m = 60, h = 3600, d = 86400 }

---Seconds of a duration such as "12ms", "7.66s", "6m0s", "1h2m".
---@param value string
---@return number?
function M.duration(value)
  local rest, sum = value:match("^%s*(.-)%s*$"), 0
  if #rest > 40 or rest == "" then return nil end
  while rest ~= "" do
    local n, unit, after = rest:match("^([%d%.]+)(m?s?h?d?)(.*)$")
    if not n or not UNITS[unit] or not tonumber(n) then return nil end
    sum, rest = sum + tonumber(n) * UNITS[unit], after
  end
  return sum
end

-- A reset as a duration, seconds, or a moment in seconds or milliseconds since 1970.
local function reset(value, now)
  local n = tonumber(value)
  if not n then return M.retry_after(value, now) end
  now = now or os.time()
  if n > 1e12 then return math.max(0, n / 1000 - now) end
  if n > 1e9 then return math.max(0, n - now) end
  return math.max(0, n)
end

-- The exhausted bucket decides; a bucket that says nothing of what remains may be it.
local function by_buckets(header, now)
  local longest
  for _, prefix in ipairs { "x-ratelimit-", "anthropic-ratelimit-" } do
    for _, kind in ipairs { "requests", "tokens", "input-tokens", "output-tokens" } do
      local remaining, at
      if prefix == "x-ratelimit-" then
        remaining, at = header(prefix .. "remaining-" .. kind), header(prefix .. "reset-" .. kind)
      else
        remaining, at = header(prefix .. kind .. "-remaining"), header(prefix .. kind .. "-reset")
      end
      local seconds = at and tonumber(remaining) == 0 and reset(at, now)
      if seconds and (not longest or seconds > longest) then longest = seconds end
    end
  end
  local at = not longest and header("x-ratelimit-reset")
  return longest or at and reset(at, now) or nil
end

local WORDS_BEFORE = { "try again in ", "retry in ", 'retrydelay"?: ?"?', "retry after ", "wait " }

local function by_text(s)
  s = s:lower()
  for _, before in ipairs(WORDS_BEFORE) do
    local token, unit = s:match(before .. "(%d[%d%.hms]*) ?(%a*)")
    local n = token and tonumber((token:gsub("%.$", "")))
    if n and unit:find("^min") then return n * 60 end
    if n and unit:find("^hour") then return n * 3600 end
    if n and unit:find("^milli") then return n / 1000 end
    if n then return n end
    n = token and M.duration((token:gsub("%.$", "")))
    if n then return n end
  end
end

---How long an endpoint asks to wait, in whichever form it says so.
---@param header fun(name: string): string?
---@param text string its words
---@param now integer? unix time
---@return number? seconds
function M.after(header, text, now)
  local ms = tonumber(header("retry-after-ms") or nil)
  if ms and ms >= 0 then return ms / 1000 end
  return M.retry_after(header("retry-after"), now) or by_buckets(header, now) or by_text(text)
end

---How long to wait before the next attempt, or nil: give up.
---@param class string of classify
---@param attempt integer from 1: how many were made
---@param after number? seconds that the endpoint asked for
---@param random number? 0..1, jitter
---@return number? seconds
function M.wait(class, attempt, after, random)
  local tries = TRIES[class]
  if not tries or attempt >= tries then return nil end
  random = random or math.random()
  if after and after > M.longest_wait then return nil end
  local base = math.min(M.longest_wait, M.first_wait * 2 ^ math.min(attempt - 1, 16))
  if class == "loading" then base = M.loading_wait end
  -- Never before the moment it named, nor all at that moment.
  if after and after > 0 then return after + math.min(1, after / 10) * random end
  return base * (0.75 + 0.5 * random)
end

---Seconds in words, for a wait that is too long to be waited.
---@param seconds number
---@return string
function M.words(seconds)
  if seconds < 120 then return ("%d seconds"):format(math.ceil(seconds)) end
  if seconds < 7200 then return ("%d minutes"):format(math.ceil(seconds / 60)) end
  return seconds < 1e7 and ("%d hours"):format(math.ceil(seconds / 3600)) or "very long"
end

return M

-- scripts/retry.lua: pure functions, so nothing here waits.
local retry = require "terret.retry"

describe("retry", function()
  describe("classify", function()
    local cases = {
      { 429, "slow down", "rate_limit" }, { 429, "You exceeded your current quota (insufficient_quota)", "quota" },
      { 402, "pay", "quota" }, { 401, "bad key", "auth" }, { 403, "no", "auth" }, { 500, "oops", "overload" },
      { 503, "<html>busy</html>", "overload" }, { 529, "Overloaded", "overload" }, { 408, "slow", "overload" },
      { 404, "no such model", "bad_request" }, { 400, "bad", "bad_request" }, { 302, "elsewhere", "bad_request" },
      { 400, "This model's maximum context length is 8192 tokens", "overflow" }, { 413, "too large", "overflow" },
      { 400, "prompt is too long: 300000 tokens > 200000", "overflow" },
      { 429, "Too many tokens, please wait before trying again", "rate_limit" },
      { nil, "context_length_exceeded", "overflow" }, { nil, "Rate limit exceeded", "rate_limit" },
      { nil, "insufficient_quota", "quota" }, { nil, "Incorrect API key provided", "auth" },
      { nil, "something broke", "overload" },
      { 413, "Request too large on tokens per minute (TPM): Limit 8000, Requested 32979", "overflow" },
      { 429, "Resource has been exhausted (check quota). RESOURCE_EXHAUSTED", "rate_limit" },
      { 429, "You exceeded your current quota. Please retry in 34.07s", "rate_limit" },
      { 429, "You've reached your monthly usage limit", "quota" }, { nil, "insufficient balance 1008", "quota" },
      { 503, "Loading model", "loading" }, { 500, "the model is loading", "loading" },
      { 400, "Failed to call a function. tool_use_failed", "sampling" }, { 500, "Failed to parse input at pos 3",
        "sampling" },
      { 403, "Your input was flagged", "filtered" }, { 400, "blocked by the content management policy", "filtered" },
      { 400, "input length and `max_tokens` exceed context limit: 1 + 2 > 3", "overflow" },
      { 400, "max_tokens is too large: 9. This model supports at most 4 completion tokens", "output" },
      { 402, "You requested up to 9 tokens, but can only afford 3", "output" },
      { 400, "Input is too long for requested model.", "overflow" }, { 400, "total message size 9 exceeds limit 8",
        "overflow" },
      { 500, "the request exceeds the available context size", "overflow" }, { 520, "a web page (HTML)", "overload" },
      { nil, "upstream lane closed", "overload" }, { 400, "'x' is not supported", "bad_request" },
    }
    for _, c in ipairs(cases) do
      it(("%s %s"):format(c[1] or "200", c[2]), function() assert.equal(c[3], retry.classify(c[1], c[2])) end)
    end

    it("keeps the transport's code", function() assert.equal("dns", retry.classify(nil, "no host", "dns")) end)
  end)

  describe("retry_after", function()
    local now = 1445412480 -- Wed, 21 Oct 2015 07:28:00 GMT

    it("reads seconds", function()
      assert.equal(7, retry.retry_after("7"))
      assert.equal(0.5, retry.retry_after("0.5"))
      assert.equal(0, retry.retry_after("-3"))
      assert.equal(3, retry.retry_after(" 3 "))
    end)

    it("reads a date, in summer as in winter", function()
      assert.equal(60, retry.retry_after("Wed, 21 Oct 2015 07:29:00 GMT", now))
      assert.equal(0, retry.retry_after("Wed, 21 Oct 2015 07:00:00 GMT", now))
      assert.equal(90, retry.retry_after("Thu, 15 Jan 2015 12:01:30 GMT", 1421323200))
    end)

    it("ignores what is neither, and what would overflow", function()
      for _, bad in ipairs { "", "soon", "Wed, 21 Foo 2015 07:28:00 GMT",
        "Wed, 99999999999999999999 Jan 2015 07:28:00 GMT",
        "Wed, 21 Oct 99999999999999999999 07:28:00 GMT", ("9"):rep(5000) .. "x", "21 Oct 2015" } do
        assert.is_nil(retry.retry_after(bad, now), bad)
      end
      assert.is_nil(retry.retry_after(nil))
    end)
  end)

  describe("after", function()
    local now = 1445412480
    local function after(headers, text)
      return retry.after(function(name) return headers[name] end, text or "", now)
    end

    it("prefers milliseconds, then the header, then the exhausted bucket, then words", function()
      assert.equal(1.75, after({ ["retry-after-ms"] = "1750", ["retry-after"] = "9" }, "try again in 3s"))
      assert.equal(9, after({ ["retry-after"] = "9" }, "try again in 3s"))
      assert.equal(2.2, after({ ["x-ratelimit-remaining-tokens"] = "0", ["x-ratelimit-reset-tokens"] = "2.2s",
        ["x-ratelimit-remaining-requests"] = "40", ["x-ratelimit-reset-requests"] = "6m0s" }, "try again in 3s"))
      assert.equal(60, after { ["anthropic-ratelimit-tokens-remaining"] = "0",
        ["anthropic-ratelimit-tokens-reset"] = "2015-10-21T07:29:00Z" })
      assert.equal(3, after({}, "try again in 3s"))
      assert.is_nil(after({}, "slow down"))
      assert.is_nil(after { ["x-ratelimit-reset-tokens"] = "2s" }) -- nothing says that it is exhausted
    end)

    it("reads moments and durations", function()
      assert.equal(2.5, after { ["x-ratelimit-reset"] = ("%d"):format(now * 1000 + 2500) })
      assert.equal(7, after { ["x-ratelimit-reset"] = ("%d"):format(now + 7) })
      assert.equal(0, after { ["x-ratelimit-reset"] = ("%d"):format(now - 7) })
      assert.same({ 360, 0.012, 179.56, 3600 }, { retry.duration "6m0s", retry.duration "12ms",
        retry.duration "2m59.56s", retry.duration "1h" })
      for _, bad in ipairs { "", "x", "3x", "s", "1.2.3s", ("9s"):rep(50) } do assert.is_nil(retry.duration(bad),
        bad) end
    end)

    it("reads words", function()
      for text, want in pairs { ["Please try again in 7.66s."] = 7.66, ["try again in 2m59.56s"] = 179.56,
        ["Please try again in 20 minutes"] = 1200, ["retry in 34.07s"] = 34.07, ['"retryDelay": "34s"'] = 34,
        ["retry after 5 seconds"] = 5, ["try again in 300ms"] = 0.3, ["wait 2 hours"] = 7200 } do
        assert.near(want, after({}, text), 1e-9, text)
      end
      assert.is_nil(after({}, "wait until it is over"))
    end)
  end)

  it("finds the room for output in a refusal", function()
    for text, want in pairs { ["exceed context limit: 156321 + 48384 > 200000"] = 43679,
      ["supports at most 4096 completion tokens"] = 4096, ["Limit 8000, Requested 9000, please"] = 7000,
      ["maximum context length is 8192 tokens. However, you requested 9000 tokens (6000 in the messages, 3000 in the "
        .. "completion)"] = 2192, ["but can only afford 3000"] = 3000,
      ["`max_tokens` must be less than or equal to `8192`"] = 8192 } do
      assert.equal(want, retry.output_limit(text, 8000), text)
    end
    assert.is_nil(retry.output_limit("too long", 8000))
  end)

  it("finds the window in a refusal", function()
    for text, want in pairs { ["maximum context length is 131072 tokens"] = 131072, ['"n_ctx":60160'] = 60160,
      ["prompt is too long: 300000 tokens > 200,000 maximum"] = 200000,
      ["prompt token count of 9 exceeds the limit of 64000"] = 64000 } do
      assert.equal(want, retry.window(text), text)
    end
    for _, text in ipairs { "", "too long", "maximum context length is 3", "n_ctx: 99999999999999" } do
      assert.is_nil(retry.window(text), text)
    end
  end)

  it("says how long a wait would be", function()
    assert.same({ "90 seconds", "60 minutes", "24 hours", "very long" }, { retry.words(90), retry.words(3600),
      retry.words(86400), retry.words(math.huge) })
  end)

  describe("wait", function()
    it("doubles, with jitter, and gives up", function()
      assert.equal(1, retry.wait("overload", 1, nil, 0.5))
      assert.equal(2, retry.wait("overload", 2, nil, 0.5))
      assert.equal(8, retry.wait("overload", 4, nil, 0.5))
      assert.equal(0.75, retry.wait("overload", 1, nil, 0))
      assert.is_nil(retry.wait("overload", retry.attempts, nil, 0.5))
    end)

    it("keeps to what the endpoint asked for, unless that is too long", function()
      assert.equal(13, retry.wait("rate_limit", 1, 13, 0))
      assert.equal(14, retry.wait("rate_limit", 1, 13, 1)) -- not all clients at one moment
      assert.equal(0.75, retry.wait("rate_limit", 1, 0, 0)) -- a date in the past is no invitation to a busy loop
      assert.is_nil(retry.wait("rate_limit", 1, retry.longest_wait + 1))
      assert.is_nil(retry.wait("rate_limit", 1, math.huge))
    end)

    it("asks a server that loads its model for minutes", function()
      local sum = 0
      for attempt = 1, 200 do
        local seconds = retry.wait("loading", attempt, nil, 0.5)
        if not seconds then break end
        sum = sum + seconds
      end
      assert.is_true(sum > 240 and sum < 600)
    end)

    it("tries only what may pass", function()
      for _, class in ipairs { "auth", "quota", "bad_request", "overflow", "tls", "too_large", "length", "url",
        "output", "filtered" } do
        assert.is_nil(retry.wait(class, 1), class)
      end
      for _, class in ipairs { "connect", "dns", "cut", "timeout_idle", "empty", "rate_limit", "overload" } do
        assert.is_number(retry.wait(class, 1), class)
      end
    end)
  end)
end)

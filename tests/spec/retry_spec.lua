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

  describe("wait", function()
    it("doubles, with jitter, and gives up", function()
      assert.equal(1, retry.wait("overload", 1, nil, 0.5))
      assert.equal(2, retry.wait("overload", 2, nil, 0.5))
      assert.equal(8, retry.wait("overload", 4, nil, 0.5))
      assert.equal(0.75, retry.wait("overload", 1, nil, 0))
      assert.is_nil(retry.wait("overload", retry.attempts, nil, 0.5))
    end)

    it("keeps to what the endpoint asked for, unless that is too long", function()
      assert.equal(13, retry.wait("rate_limit", 1, 13))
      assert.equal(0, retry.wait("rate_limit", 1, 0))
      assert.is_nil(retry.wait("rate_limit", 1, retry.longest_wait + 1))
      assert.is_nil(retry.wait("rate_limit", 1, math.huge))
    end)

    it("tries only what may pass", function()
      for _, class in ipairs { "auth", "quota", "bad_request", "overflow", "tls", "too_large", "length", "url" } do
        assert.is_nil(retry.wait(class, 1), class)
      end
      for _, class in ipairs { "connect", "dns", "cut", "timeout_idle", "empty", "rate_limit", "overload" } do
        assert.is_number(retry.wait(class, 1), class)
      end
    end)
  end)
end)

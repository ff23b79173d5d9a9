-- scripts/dialect.lua and scripts/profiles.lua: what an endpoint takes, and what its refusals teach.
local dialect = require "terret.dialect"
local fault = require "terret.fault"
local fs = require "terret.fs"
local json = require "terret.json"
local profiles = require "terret.profiles"

local TOOLS = '[{"type":"function","function":{"name":"t","parameters":{"additionalProperties":false}}}]'

-- A request with these fields before its messages.
local function body(fields)
  fields.model = "m"
  fields.tools = json.raw(TOOLS)
  return json.encode(fields):sub(1, -2) .. ',"messages":[]}'
end

local function new(options)
  options = options or {}
  options.base_url, options.model = options.base_url or "https://h/v1", options.model or "m"
  options.provider = options.provider or "openai"
  return dialect.new(options)
end

local function refuse(d, text, fields, status)
  return d:learn(status or 400, fault.of_body(json.encode { error = { message = text } }), body(fields or {}))
end

describe("profiles", function()
  it("are found by the host, at a dot only", function()
    assert.equal("openai", profiles.of_url "https://api.openai.com/v1")
    assert.equal("azure", profiles.of_url "https://res.openai.azure.com/openai")
    assert.equal("openrouter", profiles.of_url("https://openrouter.ai/api/v1", "openai/gpt"))
    assert.equal("openrouter-anthropic", profiles.of_url("https://openrouter.ai/api/v1", "anthropic/claude"))
    for _, url in ipairs { "https://evilapi.openai.com.example/v1", "https://notapi.openai.com.evil",
      "http://localhost",
      "https://xapi.mistral.ai.example", "https://evil-openrouter.ai", "" } do
      assert.is_nil(profiles.of_url(url), url)
    end
  end)

  it("build on others, and on the user's own", function()
    assert.is_true(profiles.fields("openrouter-anthropic").cache_marks)
    local own = { mine = { base = "mistral", echo = true, hosts = { "mine.example" } },
      mistral = { after_tool = false } }
    local got = profiles.fields("mine", own)
    assert.same({ "mistral", false, true }, { got.ids, got.after_tool, got.echo })
    assert.equal("mine", profiles.of_url("https://mine.example/v1", nil, own))
    local fields, message = profiles.fields "nosuch"
    assert.same({}, fields)
    assert.matches("nosuch", message)
    assert.same({}, profiles.fields(nil))
  end)

  it("say only what the file's head explains", function()
    local known = { base = true, hosts = true, key_env = true, url = true }
    for _, key in ipairs(profiles.keys) do known[key] = true end
    for _, name in ipairs(profiles.names()) do
      for key in pairs(profiles.rows[name]) do assert.is_true(known[key], name .. "." .. key) end
    end
  end)
end)

describe("dialect", function()
  local lessons = {
    { "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
      { max_tokens = 8 }, "max_field", "max_completion_tokens" },
    { "max_completion_tokens: Extra inputs are not permitted", { max_completion_tokens = 8 }, "max_field",
      "max_tokens" },
    { "Extra inputs are not permitted, field: 'stream_options'", { stream_options = {} }, "drop.stream_options", true },
    { "Unrecognized request argument supplied: prompt_cache_key", { prompt_cache_key = "x" }, "drop.prompt_cache_key",
      true },
    { "Unsupported value: 'temperature' does not support 0 with this model", { temperature = 0 }, "drop.temperature",
      true },
    { "Streaming is not supported for this model", { stream = true }, "stream", false },
    { 'Invalid JSON payload received. Unknown name "additionalProperties" at tools', {},
      "schema_drop.additionalProperties", true },
    { "Tool call id was x but must be a-z, A-Z, 0-9, with a length of 9.", {}, "ids", "mistral" },
    { "'messages[0].role' does not support 'system' with this model", {}, "system", "user" },
    { "System role not supported", {}, "system", "user" },
    { "Unexpected role 'user' after role 'tool'", {}, "after_tool", true },
    { "The `reasoning_content` in the thinking mode must be passed back to the API.", {}, "echo_empty",
      "reasoning_content" },
    { "messages.2.assistant.reasoning_content: Extra inputs are not permitted", {}, "no_echo.reasoning_content", true },
    { "property 'extra_content' is unsupported", {}, "no_echo.extra_content", true },
    { "messages: text content blocks must be non-empty", {}, "empty", "omit" },
    { "Function call is missing a thought_signature in functionCall parts", {}, "call_extra.extra_content",
      '{"google":{"thought_signature":"skip_thought_signature_validator"}}' },
  }
  for i, c in ipairs(lessons) do
    it(("learns (%d) %s"):format(i, c[3]), function()
      local d = new()
      assert.is_string(refuse(d, c[1], c[2]))
      local value = d
      for part in c[3]:gmatch("[^.]+") do value = value[part] end
      assert.equal(c[4], value)
      -- The same refusal again teaches nothing, or something else; it ends.
      local n = 0
      while n < 5 and refuse(d, c[1], c[2]) do n = n + 1 end
      assert.is_true(n < 3)
    end)
  end

  it("learns nothing from what names no field, or one that was not sent", function()
    local d = new()
    for _, text in ipairs { "bad request", "", "unsupported", "'top_k' is not supported", "model not found",
      "max_tokens is too large: 9 > 8", "invalid api key", ("x"):rep(10000) } do
      assert.is_nil(refuse(d, text, { max_tokens = 9 }), text)
    end
    assert.is_nil(refuse(d, "'stream_options' is not supported", { stream_options = {} }, 429))
    assert.equal(1, d.version)
    assert.same({}, d.learned)
  end)

  it("never leaves out what a request needs", function()
    for _, field in ipairs { "model", "messages", "tools" } do
      local d = new()
      refuse(d, ("'%s' is not supported"):format(field), {})
      assert.is_nil((d.drop or {})[field])
    end
  end)

  it("counts only lessons that change how messages are encoded", function()
    local d = new()
    refuse(d, "'stream_options' is not supported", { stream_options = {} })
    assert.equal(1, d.version)
    refuse(d, "System role not supported")
    assert.equal(2, d.version)
  end)

  it("drops reasoning that an endpoint can't verify, for this run", function()
    local d = new()
    assert.is_string(refuse(d, "messages.1.content.0: Invalid `signature` in `thinking` block"))
    assert.is_false(d.echo)
    assert.same({}, d.learned)
    assert.is_nil(refuse(d, "messages.1.content.0: Invalid `signature` in `thinking` block"))
  end)

  describe("in a state directory", function()
    local dir
    before_each(function() dir = assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-dialect-")) end)
    after_each(function() fs.remove(dir, { recursive = true }) end)

    it("keeps lessons by endpoint and model, for a month", function()
      local d = new { state_dir = dir, now = 1000 }
      refuse(d, "'stream_options' is not supported", { stream_options = {} })
      refuse(d, "System role not supported")
      assert.equal("user", new({ state_dir = dir, now = 2000 }).system)
      assert.is_true(new({ state_dir = dir, now = 2000 }).drop.stream_options)
      assert.is_nil(new({ state_dir = dir, now = 1000 + 40 * 86400 }).system)
      assert.is_nil(new({ state_dir = dir, now = 2000, model = "other" }).system)
      assert.is_nil(new({ state_dir = dir, now = 2000, base_url = "https://other/v1" }).system)
      assert.is_nil(d:for_model("other").system)
      assert.equal("user", d:for_model("m").system)
    end)

    it("adds to the profile's sets, and leaves the profile as it was", function()
      local d = new { state_dir = dir, profile = "mistral" }
      refuse(d, "'user' is not supported", { user = "u" })
      assert.is_true(d.drop.user and d.drop.stream_options)
      assert.is_nil(profiles.rows.mistral.drop.user)
    end)

    it("survives a file that is none of ours", function()
      for _, data in ipairs { "", "7", "[]", "{", '{"openai https://h/v1 m":7}', "\0",
        '{"openai https://h/v1 m":{"time":9e9,"system":7,"drop":"x","junk":{},"max_field":[1]}}' } do
        assert(fs.write(dir .. "/dialects.json", data))
        local d = new { state_dir = dir }
        assert.is_nil(d.system)
        assert.is_nil(d.junk)
        assert.is_string(refuse(d, "System role not supported"))
      end
      assert.equal("user", new({ state_dir = dir .. "/none" }).system or "user")
    end)
  end)
end)

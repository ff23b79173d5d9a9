-- scripts/wire.lua and scripts/marks.lua: what the providers share.
local json = require "terret.json"
local marks = require "terret.marks"
local store = require "terret.store"
local wire = require "terret.wire"

describe("wire", function()
  describe("url", function()
    for base, want in pairs { ["https://h"] = "https://h/v1/x", ["https://h/v1/"] = "https://h/v1/x",
      ["https://h/v1beta/openai"] = "https://h/v1beta/openai/x", ["https://h/api/paas/v4"] = "https://h/api/paas/v4/x",
      ["https://h/v1/chat/completions"] = "https://h/v1/x", ["https://h/v1/messages?a=b"] = "https://h/v1/x?a=b",
      ["https://h/deployments/d/chat/completions?api-version=2"] = "https://h/deployments/d/x?api-version=2",
      ["http://127.0.0.1:1?k"] = "http://127.0.0.1:1/v1/x?k", ["https://h/responses"] = "https://h/x" } do
      it("of " .. base, function() assert.equal(want, wire.url(base, "/x")) end)
    end

    it("may always name the version", function()
      assert.equal("https://h/anthropic/v1/x", wire.url("https://h/anthropic", "/x", true))
      assert.equal("https://h/v1/x", wire.url("https://h/v1", "/x", true))
    end)

    it("has a host", function()
      assert.same({ "h.example", "h", "[::1]", "", "h" }, { wire.host "https://H.example:8080/v1",
        wire.host "http://u:p@h/",
        wire.host "http://[::1]:80", wire.host "nothing", wire.host "http://h?x@y" })
    end)
  end)

  it("counts what is a count", function()
    assert.same({ 812, 812, 0, 7 }, { wire.count(812.0), wire.count "812", wire.count(0), wire.count "7.0" })
    for _, bad in ipairs { -1, 1.5, 0 / 0, math.huge, "x", "", "-3", ("9"):rep(30), true, {}, json.null } do
      assert.is_nil(wire.count(bad))
    end
  end)

  it("takes no count of tokens that would end each sum", function()
    assert.same({ 0, 1 << 40 }, { wire.tokens(0), wire.tokens(1 << 40) })
    for _, bad in ipairs { (1 << 40) + 1, 1 << 62, 2.0 ^ 62, -1, "x" } do assert.is_nil(wire.tokens(bad)) end
    assert.is_nil(wire.usage(nil, { prompt_tokens = 1 << 62, completion_tokens = 1 << 62 }))
  end)

  it("reads events that hold one value, several lines of values, or none", function()
    assert.same({ { a = 1 } }, wire.values { data = '{"a":1}' })
    assert.same({ { a = 1 } }, wire.values { data = '{"a":\n1}' })
    assert.same({ { a = 1 }, { b = 2 }, "[DONE]" }, wire.values { data = '{"a":1}\n{"b":2}\n[DONE]' })
    assert.same({ { a = 1 } }, wire.values { data = '[{"a":1}]' })
    assert.same({ "[DONE]" }, wire.values { data = " [DONE] " })
    assert.same({ "words" }, wire.values { data = '"words"' })
    for _, nothing in ipairs { "", " ", "[]", "[[1]]" } do assert.same({}, wire.values { data = nothing }) end
    assert.same({ { a = "x\n\u{FFFD}" } }, wire.values { data = 'data: {"a":"x\n\xff"}' })
    for _, bad in ipairs { "{", '{"a":1}\n{', "7", "x", '{"a":1}\n7',
      '{"a":"x' } do assert.is_nil(wire.values { data = bad }) end
  end)

  it("takes usage under every name, the last report that has a field", function()
    for _, u in ipairs { { prompt_tokens = 9, prompt_tokens_details = { cached_tokens = 4 } },
      { input_tokens = 9, input_tokens_details = { cached_tokens = 4 } }, { prompt_tokens = 9, cached_tokens = 4 },
      { prompt_tokens = 9, prompt_cache_hit_tokens = 4 }, { prompt_tokens = "9", cache_read_input_tokens = 4.0 },
      { promptTokenCount = 9, cachedContentTokenCount = 4 } } do
      assert.same({ input = 9, cached = 4 }, wire.usage(nil, u))
    end
    local usage = wire.usage({ input = 1, cached = 2, output = 3, cost = 4 }, { prompt_tokens = 7, cost = -1 })
    assert.same({ input = 7, cached = 2, output = 3, cost = 4 }, usage)
    assert.same(usage, wire.usage(usage, { prompt_tokens = 0, completion_tokens = 0 }))
    for _, nothing in ipairs { 7, "x", json.null, {}, { prompt_tokens = -1 }, { prompt_tokens = 0 } } do
      assert.is_nil(wire.usage(nil, nothing))
    end
  end)

  it("knows ends by their words", function()
    assert.same({ "length", "filtered", "overload", "overflow", "sampling" }, { wire.end_class "LENGTH",
      wire.end_class "content_filter", wire.end_class "network_error", wire.end_class "model_context_window_exceeded",
      wire.end_class "MALFORMED_FUNCTION_CALL" })
    for _, word in ipairs { "stop", "STOP", "end_turn", "tool_calls", "whatever", "" } do
      assert.is_nil(wire.end_class(word))
    end
    assert.is_nil(wire.end_class(nil))
  end)

  it("makes short ids, the same for the same id and others for others", function()
    local a, b = wire.short_id("tooluse_Ac_bpe71yCfRu2b5", 9), wire.short_id("tooluse_Ac_x9QmmLw2Pq7Zt", 9)
    assert.matches("^%w%w%w%w%w%w%w%w%w$", a)
    assert.not_equal(a, b)
    assert.equal(a, wire.short_id("tooluse_Ac_bpe71yCfRu2b5", 9))
  end)

  it("leaves words of schemas out, but not properties that are called like them", function()
    local tools = json.encode(json.array { { parameters = { additionalProperties = false, type = "object",
      properties = { format = { type = "string", format = "uri" } } } } })
    local out = wire.without(tools, { additionalProperties = true, format = true })
    assert.equal('[{"parameters":{"properties":{"format":{"type":"string"}},"type":"object"}}]', out)
    assert.equal(tools, wire.without(tools, {}))
    assert.equal(tools, wire.without(tools, nil))
  end)

  it("reads tools of each provider", function()
    local list = { { name = "t", description = "d", schema = '{"type":"object"}' } }
    for _, name in ipairs { "openai", "responses", "anthropic" } do
      assert.same(list, wire.plain_tools(require("terret.providers." .. name).encode_tools(list)))
    end
    for _, bad in ipairs { "", "7", "[]", "{" } do assert.same({}, wire.plain_tools(bad)) end
  end)
end)

describe("marks", function()
  local function view_of(...)
    local s = store.new()
    local view = s:view()
    for _, fragment in ipairs { ... } do view:push(s:add(fragment, 1)) end
    return view, s
  end
  local function message(role, n) return ('{"content":"%s%d","role":"%s"}'):format(role, n, role) end
  local function marked(fragment) return "*" .. fragment end

  it("stand on the last message and on the one before the last answer", function()
    local list = { message("system", 1), message("user", 1), message("assistant", 1), message("user", 2),
      message("assistant", 2), message("user", 3), message("user", 4) }
    local view, s = view_of(table.unpack(list))
    local body = marks.render(view, s, "[", "]", 2, marked)
    assert.equal("[" .. table.concat({ list[1], list[2], list[3], "*" .. list[4], list[5], list[6], "*" .. list[7] },
      ",")
      .. "]", body)
    assert.equal(body, marks.render(view, nil, "[", "]", 2, marked)) -- also without the store
    assert.equal(7, view:count())
  end)

  it("may be one, or none", function()
    local system, user = message("system", 1), message("user", 1)
    assert.equal("[" .. system .. ",*" .. user .. "]", marks.render(view_of(system, user), nil, "[", "]", 2, marked))
    assert.equal("[" .. system .. "]", marks.render(view_of(system), nil, "[", "]", 2, marked))
    assert.equal("[]", marks.render(view_of(), nil, "[", "]", 2, marked))
    assert.equal("[*" .. user .. "]", marks.render(view_of(user), nil, "[", "]", 1, marked))
  end)
end)

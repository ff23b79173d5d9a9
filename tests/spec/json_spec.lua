-- terret.json: canonical encoder, strict and tolerant decoder, raw texts.
local json = require "terret.json"
local cjson = require "cjson"

local FFFD = "\u{FFFD}"

--- The text is canonical: decode and encode give it back.
local function roundtrip(text)
  local value, message = json.decode(text)
  assert.is_not_nil(value, message)
  assert.equal(text, json.encode(value))
end

local function nested(depth)
  return ("["):rep(depth) .. ("]"):rep(depth)
end

--- A small generator of its own: the same values on every machine.
local function random(seed)
  local state = seed
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
end

local STRINGS = { "", "a", "key", "é", "日本", "\u{1F600}", "\"quoted\"", "back\\slash", "a/b",
  "line\nbreak\ttab\r\b\f", "\1\31\127", "nul\0inside", ("long "):rep(300), "</script>", "\u{2028}" }

local function generate(pick, depth)
  local kind = pick(depth > 4 and 5 or 7)
  if kind == 1 then return STRINGS[pick(#STRINGS)] end
  if kind == 2 then return pick(2000) - 1000 end
  if kind == 3 then return (pick(1 << 30) - (1 << 29)) / (1 << pick(40)) end
  if kind == 4 then return pick(2) == 1 end
  if kind == 5 then return json.null end
  local t = {}
  if kind == 6 then
    for i = 1, pick(6) - 1 do t[i] = generate(pick, depth + 1) end
    return json.array(t)
  end
  for _ = 1, pick(24) - 1 do t[STRINGS[pick(#STRINGS)] .. pick(20)] = generate(pick, depth + 1) end
  return t
end

--- Equality of a value of ours and one of cjson's, which knows neither integers nor empty arrays.
local function agree(a, b)
  if type(a) ~= "table" then return a == b and type(a) == type(b) end
  if type(b) ~= "table" then return false end
  for k, v in pairs(a) do
    if not agree(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

describe("json.encode", function()
  it("sorts keys by bytes", function()
    assert.equal('{"":0,"A":1,"B":2,"a":3,"aa":4,"b":5,"é":6}',
      json.encode { b = 5, a = 3, aa = 4, A = 1, B = 2, ["é"] = 6, [""] = 0 })
    assert.equal('{"a":1,"a\\u0000":2,"a\\nb":3,"a b":4}',
      json.encode { ["a b"] = 4, ["a\nb"] = 3, ["a\0"] = 2, a = 1 })
  end)

  it("sorts many keys", function()
    local t, keys = {}, {}
    for i = 1, 500 do
      keys[i] = ("k%d"):format(i)
      t[keys[i]] = i
    end
    table.sort(keys)
    local parts = {}
    for i, k in ipairs(keys) do parts[i] = ('"%s":%d'):format(k, t[k]) end
    assert.equal("{" .. table.concat(parts, ",") .. "}", json.encode(t))
  end)

  it("writes integers with all digits", function()
    assert.equal("[0,-1,123456789012345678,9223372036854775807,-9223372036854775808]",
      json.encode { 0, -1, 123456789012345678, math.maxinteger, math.mininteger })
  end)

  it("writes floats as the shortest that reads back, and as floats", function()
    for _, case in ipairs { { 1.0, "1.0" }, { -0.0, "-0.0" }, { 0.1, "0.1" }, { 1e15, "1e+15" }, { 1e300, "1e+300" },
      { 123456789012345.0, "123456789012345.0" }, { 0.1 + 0.2, "0.30000000000000004" },
      { 1 / 3, "0.3333333333333333" },
      { 5e-324, "4.94065645841247e-324" }, { 2.0 ^ 53, "9007199254740992.0" }, { -2.5, "-2.5" } } do
      assert.equal(case[2], json.encode(case[1]))
      local back = json.decode(case[2])
      assert.equal("float", math.type(back))
      assert.equal(("%a"):format(case[1]), ("%a"):format(back))
    end
  end)

  it("does not depend on the locale", function()
    local old = os.setlocale(nil, "numeric")
    for _, name in ipairs { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE" } do
      if os.setlocale(name, "numeric") then break end
    end
    local text, value = json.encode { 0.5, 1e100 }, json.decode "[1.234567890123456789,2]"
    os.setlocale(old, "numeric")
    assert.equal("[0.5,1e+100]", text)
    assert.equal(1.234567890123456789, value[1])
  end)

  it("escapes what must be escaped and nothing else", function()
    assert.equal([["\"\\/\b\f\n\r\t\u0000\u0001\u001f]] .. '\127é"',
      json.encode "\"\\/\b\f\n\r\t\0\1\31\127é")
  end)

  it("finds the odd byte at each place of a word", function()
    for at = 1, 24 do
      for odd, written in pairs { ['"'] = '\\"', ["\\"] = "\\\\", ["\31"] = "\\u001f", ["\n"] = "\\n",
        ["\xFF"] = FFFD, ["é"] = "é", ["\127"] = "\127", [" "] = " ", ["!"] = "!", ["#"] = "#" } do
        local before, after = ("x"):rep(at - 1), ("y"):rep(24 - at)
        local text = json.encode(before .. odd .. after)
        assert.equal('"' .. before .. written .. after .. '"', text)
        if odd ~= "\xFF" then assert.equal(before .. odd .. after, json.decode(text)) end
      end
    end
  end)

  it("repairs what is not UTF-8", function()
    local cases = { ["\xFF"] = 1, ["\x80"] = 1, ["\xC0\x80"] = 2, ["\xC1\xBF"] = 2, ["\xE0\x80\x80"] = 3,
      ["\xE0\x9F\xBF"] = 3, ["\xED\xA0\x80"] = 3, ["\xED\xBF\xBF"] = 3, ["\xF0\x80\x80\x80"] = 4,
      ["\xF4\x90\x80\x80"] = 4, ["\xF5\x80\x80\x80"] = 4, ["\xE2\x82"] = 1, ["\xF0\x9F\x98"] = 1,
      ["\xF0\x9F"] = 1, ["\xC3"] = 1, ["\xF8\x88\x80\x80\x80"] = 5 }
    for bytes, count in pairs(cases) do
      assert.equal('"a' .. FFFD:rep(count) .. 'z"', json.encode("a" .. bytes .. "z"))
      assert.equal('"' .. FFFD:rep(count) .. '"', json.encode(bytes))
    end
    for _, fine in ipairs { "\u{80}", "\u{7FF}", "\u{800}", "\u{D7FF}", "\u{E000}", "\u{FFFF}", "\u{10000}",
      "\u{10FFFF}" } do
      assert.equal('"' .. fine .. '"', json.encode(fine))
    end
    assert.equal('{"' .. FFFD .. '":1}', json.encode { ["\xFF"] = 1 })
  end)

  it("tells arrays from objects", function()
    assert.equal("{}", json.encode {})
    assert.equal("[]", json.encode(json.array {}))
    assert.equal("[1,2]", json.encode { 1, 2 })
    assert.equal('{"1":1}', json.encode { ["1"] = 1 })
    assert.equal('[[],{},[{}]]', json.encode { json.array {}, {}, { {} } })
  end)

  it("writes null, true, false at the top and inside", function()
    assert.equal("null", json.encode(json.null))
    assert.equal("null", json.encode(cjson.null))
    assert.equal("[true,false,null]", json.encode { true, false, json.null })
    assert.equal('"s"', json.encode "s")
  end)

  it("raises on what has no form", function()
    for _, case in ipairs {
      { print, "function" }, { { a = print }, "function" }, { coroutine.create(print), "thread" },
      { io.stdout, "userdata" }, { 0 / 0, "nan" }, { math.huge, "inf" }, { { -math.huge }, "inf" },
      { { 1, 2, x = 3 }, "mixed" }, { { 1, nil, 3, [10] = 1 }, "sparse" }, { { [2] = 1 }, "sparse" },
      { { [0] = 1 }, "sparse" }, { { [-1] = 1 }, "sparse" }, { { [1.5] = 1 }, "key" }, { { [true] = 1 }, "key" },
      { json.array { x = 1 }, "mixed" }, { json.array { [3] = 1 }, "sparse" },
      { json.array { 1, [true] = 2 }, "mixed" } } do
      local ok, message = pcall(json.encode, case[1])
      assert.is_false(ok)
      assert.truthy(message:find(case[2], 1, true), message)
    end
    assert.has_error(function() json.encode(nil) end)
    assert.has_error(function() json.encode() end)
  end)

  it("refuses a proxy rather than write it empty", function()
    local proxy = setmetatable({}, { __pairs = function() return next, { a = 1 } end })
    assert.error_matches(function() json.encode(proxy) end, "__pairs")
    assert.equal('{"a":1}', json.encode(setmetatable({ a = 1 }, { __index = { b = 2 } })))
  end)

  it("goes 200 deep and no deeper", function()
    local t = json.array {}
    for _ = 2, 200 do t = { t } end
    assert.equal(nested(200), json.encode(t))
    assert.error_matches(function() json.encode { t } end, "depth")
    local o = {}
    for _ = 2, 200 do o = { k = o } end
    assert.equal(#json.encode(o), 199 * 6 + 2)
    assert.error_matches(function() json.encode { k = o } end, "depth")
  end)

  it("ends on a cycle", function()
    local t = {}
    t.t = t
    assert.error_matches(function() json.encode(t) end, "depth")
    local a = {}
    a[1] = a
    assert.error_matches(function() json.encode(a) end, "depth")
  end)

  it("grows over its first buffer", function()
    local t = {}
    for i = 1, 3000 do t[i] = ("v%d"):format(i) end
    assert.equal('["' .. table.concat(t, '","') .. '"]', json.encode(t))
  end)
end)

describe("json.decode", function()
  it("keeps integers and floats apart", function()
    local t = json.decode "[1,1.0,1e2,-7,-0,-0.0,9223372036854775807,-9223372036854775808]"
    assert.same({ "integer", "float", "float", "integer", "float", "float", "integer", "integer" },
      { math.type(t[1]), math.type(t[2]), math.type(t[3]), math.type(t[4]), math.type(t[5]), math.type(t[6]),
        math.type(t[7]), math.type(t[8]) })
    assert.equal("-0.0", tostring(t[5]))
    assert.equal(math.maxinteger, t[7])
    assert.equal(math.mininteger, t[8])
  end)

  it("makes floats of integers that do not fit", function()
    for _, text in ipairs { "9223372036854775808", "-9223372036854775809", "18446744073709551616",
      "123456789012345678901234567890", "1" .. ("0"):rep(308) } do
      local value = json.decode(text)
      assert.equal("float", math.type(value))
      assert.equal(tonumber(text .. ".0"), value)
    end
  end)

  it("reads floats exactly", function()
    for _, text in ipairs { "0.1", "1e22", "1e23", "1.7976931348623157e308", "4.9e-324", "1e-400", "2.5e-7",
      "123456789012345", "999999999999999.9", "0." .. ("0"):rep(400) .. "1", "0.000001e6", "1E+2", "1e-2",
      "9007199254740993.0", "0e999999999999", "8.41e21", "9.2233720368547758e18", "0.30000000000000004" } do
      assert.equal(("%a"):format(tonumber(text) + 0.0), ("%a"):format(json.decode(text) + 0.0), text)
    end
    local pick = random(7)
    for _ = 1, 2000 do
      local text = ("%d.%de%d"):format(pick(1 << 30), pick(1 << pick(30)), pick(80) - 40)
      assert.equal(tonumber(text), json.decode(text))
    end
  end)

  it("reads numbers of any length", function()
    local zeros = ("0"):rep(3000000)
    assert.equal(1.0, json.decode("1" .. zeros .. "e-3000000"))
    assert.equal(1.5, json.decode("0." .. zeros .. "15e3000001"))
    assert.equal(1 / 3, json.decode("0." .. ("3"):rep(1000000)))
    assert.equal(0.0, json.decode("0e" .. ("9"):rep(1000)))
    assert.equal(0.0, json.decode("1e-" .. ("9"):rep(1000)))
    assert.is_nil((json.decode("1" .. zeros .. "e-1000000")))
    assert.is_nil((json.decode("1e" .. ("9"):rep(1000))))
    assert.is_nil((json.canonical("1" .. zeros .. "e-1000000")))
  end)

  it("reads escapes", function()
    assert.equal("\"\\/\b\f\n\r\t", json.decode [["\"\\\/\b\f\n\r\t"]])
    assert.equal("A\0é€\u{1F600}\u{FFFF}", json.decode [["\u0041\u0000\u00E9\u20aC\uD83D\ude00\uffff"]])
    assert.equal("\u{10FFFF}\u{10000}", json.decode [["\uDBFF\uDFFF\uD800\uDC00"]])
  end)

  it("makes U+FFFD of lone surrogates", function()
    assert.equal(FFFD, json.decode [["\ud800"]])
    assert.equal(FFFD, json.decode [["\udc00"]])
    assert.equal(FFFD .. FFFD, json.decode [["\udc00\ud800"]])
    assert.equal(FFFD .. "\u{1F600}", json.decode [["\ud800\ud83d\ude00"]])
    assert.equal(FFFD .. "A", json.decode [["\ud800\u0041"]])
    assert.equal(FFFD .. "\n", json.decode [["\ud800\n"]])
    assert.equal(FFFD .. "x", json.decode [["\ud800x"]])
  end)

  it("marks arrays, so that they stay arrays", function()
    roundtrip '{"properties":{},"required":[]}'
    roundtrip "[[],{},[[]]]"
    assert.is_true(json.is_array(json.decode "[]"))
    assert.is_false(json.is_array(json.decode "{}"))
  end)

  it("skips white space", function()
    assert.equal('{"a":[1,{}]}', json.encode(json.decode " \t\r\n{ \"a\" :\n[ 1 , { } ] }\n"))
  end)

  it("returns false and null as values", function()
    assert.is_false(json.decode "false")
    assert.equal(json.null, json.decode "null")
    assert.equal(cjson.null, json.decode "null")
    assert.is_true(json.decode "true")
  end)

  it("refuses what is not strict JSON, and says where", function()
    local cases = {
      { "", "byte 1: unexpected end" }, { "  ", "byte 3: unexpected end" }, { "[1", "byte 3: unexpected end" },
      { "[1,", "byte 4: unexpected end" }, { '{"a"', "byte 5: unexpected end" },
      { '{"a":', "byte 6: unexpected end" },
      { '"abc', "byte 5: unexpected end" }, { '"a\\', "byte 4: unexpected end" },
      { '"\\u12', "byte 6: unexpected end" },
      { "tru", "byte 4: unexpected end" }, { "trux", "byte 1: unexpected character" },
      { "True", "unexpected character" },
      { "None", "unexpected character" }, { "nul", "unexpected end" }, { "NaN", "unexpected character" },
      { "Infinity", "unexpected character" }, { "-Infinity", "byte 2: expected a digit" },
      { "+1", "unexpected character" },
      { "01", "leading zero" }, { "-01", "leading zero" }, { "00", "leading zero" }, { "1.", "unexpected end" },
      { "[1.]", "byte 4: expected a digit" }, { ".5", "unexpected character" },
      { "[1e]", "byte 4: expected a digit" },
      { "[1e+]", "byte 5: expected a digit" }, { "-", "unexpected end" }, { "0x10", "byte 2: something follows" },
      { "1e999", "out of range" }, { "-1e309", "out of range" }, { "1" .. ("0"):rep(309), "out of range" },
      { "[1,]", "byte 3: trailing comma" }, { '{"a":1,}', "byte 7: trailing comma" },
      { "[,]", "byte 2: unexpected character" },
      { "[1 2]", "byte 4: expected ',' or ']'" }, { '{"a":1 "b":2}', "byte 8: expected ',' or '}'" },
      { '{"a" 1}', "byte 6: expected ':'" }, { "{a:1}", "byte 2: expected a key" }, { "{1:1}", "expected a key" },
      { "{,}", "expected a key" }, { "{'a':1}", "expected a key" }, { "['a']", "unexpected character" },
      { "[1}", "expected ',' or ']'" }, { "]", "unexpected character" }, { "1 2", "byte 3: something follows" },
      { "{}{}", "byte 3: something follows" }, { "{}\0", "byte 3: something follows" },
      { "// x\n1", "unexpected character" },
      { "[1] // x", "something follows" }, { "\u{FEFF}{}", "byte 1: unexpected character" },
      { '"a\nb"', "line 1, byte 3: control character" }, { '"\0"', "byte 2: control character" },
      { '"\31"', "control character" }, { '"\\x"', "byte 2: invalid escape" }, { [["\']], "invalid escape" },
      { '"\\\0"', "invalid escape" }, { '"\\u12g4"', "byte 6: invalid \\u escape" },
      { '"\\U0041"', "invalid escape" },
      { '"\xFF"', "byte 2: invalid UTF-8" }, { '"\xC0\x80"', "invalid UTF-8" }, { '"\xED\xA0\x80"', "invalid UTF-8" },
      { '"\xF4\x90\x80\x80"', "invalid UTF-8" }, { '"\xE2\x82"', "invalid UTF-8" },
      { "\xFF", "unexpected character" },
      { '{"a":1,"a":2}', "line 1, byte 8: duplicate key" },
      { '{"a":1,\n"\\u0061":2}', "line 2, byte 9: duplicate key" },
      { '{"a":null,"a":null}', "duplicate key" }, { '{"a":false,"a":1}', "duplicate key" },
      { "{\n\n  \"a\": tru }", "line 3, byte 11: unexpected character" } }
    for _, case in ipairs(cases) do
      local value, message, code = json.decode(case[1])
      assert.is_nil(value, case[1])
      assert.truthy(message:find(case[2], 1, true), case[1] .. " -> " .. message)
      assert.truthy(message:find("^line %d+, byte %d+: "), message)
      assert.equal("bad_json", code)
    end
  end)

  it("allows the same key in different objects", function()
    roundtrip '{"a":{"a":1},"b":{"a":1}}'
  end)

  it("goes 200 deep and no deeper", function()
    roundtrip(nested(200))
    local value, message, code = json.decode(nested(201))
    assert.is_nil(value)
    assert.truthy(message:find("byte 201: depth", 1, true), message)
    assert.equal("bad_json", code)
    assert.is_nil((json.decode(("["):rep(1000000))))
    assert.is_nil((json.decode(('{"a":'):rep(1000000))))
  end)

  it("takes long keys, long strings, many members", function()
    local parts = {}
    for i = 1, 2000 do parts[i] = ('"%s%05d":"%s\\n"'):format(("k"):rep(100), i, ("v"):rep(i)) end
    local text = "{" .. table.concat(parts, ",") .. "}"
    roundtrip(text)
  end)

  it("raises on a wrong argument", function()
    for _, f in ipairs { "decode", "tolerant", "canonical", "raw", "slice" } do
      assert.has_error(function() json[f]() end)
      assert.has_error(function() json[f](12) end)
      assert.has_error(function() json[f] {} end)
    end
    assert.has_error(function() json.slice("{}", 1) end)
  end)
end)

describe("json and cjson", function()
  it("agree on generated values", function()
    for seed = 1, 300 do
      local value = generate(random(seed), 0)
      local text = json.encode(value)
      local mine, message = json.decode(text)
      assert.is_not_nil(mine, message)
      assert.equal(text, json.encode(mine))
      assert.equal(text, json.canonical(text))
      if type(value) == "table" then
        assert.is_true(agree(mine, cjson.decode(text)), text)
        assert.is_true(agree(json.decode(cjson.encode(mine)), cjson.decode(cjson.encode(mine))), text)
      end
    end
  end)

  it("agree on which cut texts are bad", function()
    local text = json.encode(generate(random(11), 1))
    for i = 0, #text - 1 do
      local cut = text:sub(1, i)
      if not pcall(cjson.decode, cut) then assert.is_nil((json.decode(cut)), cut) end
    end
  end)
end)

describe("json.tolerant", function()
  --- The canonical text of the value, and the repairs in one string.
  local function forgive(text)
    local value, repairs, code = json.tolerant(text)
    if value == nil then return nil, repairs, code end
    return json.encode(value), table.concat(repairs, " ")
  end

  it("reads strict JSON without repairs", function()
    for _, text in ipairs { "{}", "[]", '{"a":[1,2.5,true,null]}', '"text"', "12", "null", '"https://x//y"' } do
      local got, repairs = forgive(text)
      assert.equal(text, got)
      assert.equal("", repairs)
    end
    assert.is_true(json.is_array((select(2, json.tolerant "{}"))))
  end)

  it("forgives one thing each, and says what", function()
    local cases = {
      { "```json\n{\"a\":1}\n```", '{"a":1}', "fence" }, { "```\n[1]```\n", "[1]", "fence" },
      { " ```{\"a\":1}``` ", '{"a":1}', "fence" }, { "```json\n{}", "{}", "fence" },
      { "[1,]", "[1]", "trailing_comma" }, { '{"a":1 , }', '{"a":1}', "trailing_comma" },
      { '{"a":"x\ny\tz"}', '{"a":"x\\ny\\tz"}', "control_characters" }, { '"\1"', '"\\u0001"', "control_characters" },
      { "{'a':'b'}", '{"a":"b"}', "single_quotes" }, { [['it\'s "x"']], [["it's \"x\""]], "single_quotes" },
      { "[True,False,None]", "[true,false,null]", "python_literals" },
      { "{a:1,_b$2:2,c-d:3}", '{"_b$2":2,"a":1,"c-d":3}', "unquoted_keys" },
      { "{$ref:1}", '{"$ref":1}', "unquoted_keys" }, { "{true : 1}", '{"true":1}', "unquoted_keys" },
      { '"{\\"a\\":1}"', '{"a":1}', "double_encoding" }, { '" [1] "', "[1]", "double_encoding" },
      { '{"a":1 // why\n}', '{"a":1}', "comments" }, { "// first\n[1]//last", "[1]", "comments" },
      { '["a\xFFb"]', '["a' .. FFFD .. 'b"]', "utf8" } }
    for _, case in ipairs(cases) do
      local got, repairs = forgive(case[1])
      assert.equal(case[2], got, case[1] .. " " .. tostring(repairs))
      assert.equal(case[3], repairs, case[1])
      if case[3] ~= "double_encoding" then assert.is_nil((json.decode(case[1]))) end
    end
  end)

  it("lists all repairs, each once, in one order", function()
    local text = "```js\n// c\n{a: 'x\n', b: [True, None,], c: '\xFF', }\n```"
    local got, repairs = forgive(text)
    assert.equal('{"a":"x\\n","b":[true,null],"c":"' .. FFFD .. '"}', got)
    assert.equal("fence comments control_characters python_literals single_quotes trailing_comma unquoted_keys utf8",
      repairs)
    got, repairs = forgive(cjson.encode "{'a': 1,}")
    assert.equal('{"a":1}', got)
    assert.equal("double_encoding single_quotes trailing_comma", repairs)
  end)

  it("keeps a string that only looks like JSON", function()
    for _, text in ipairs { '"[note] x"', '"{"', '"{\\"a\\":"', '"plain"', '""', '"  "' } do
      local got, repairs = forgive(text)
      assert.equal(text, got)
      assert.equal("", repairs)
    end
    assert.equal('{"a":"[1]"}', (forgive '{"a":"[1]"}'))
  end)

  it("unpacks one level only", function()
    local twice = cjson.encode(cjson.encode '{"a":1}')
    assert.equal(twice, (forgive(twice)))
  end)

  it("never completes what is cut off", function()
    local text = '{"path":"a\\u0041\\"b","n":[-1.5e+3,true,{"x":null}],"last":false}'
    for i = 1, #text - 1 do
      local value, message, code = json.tolerant(text:sub(1, i))
      assert.is_nil(value)
      assert.equal("truncated", code, text:sub(1, i) .. " -> " .. message)
    end
    local loose = "```json\n{path: 'a\\'b\n', 'n': [None, True,], \"u\": \"\xF0\x9F\x98\"}"
    for i = 1, #loose - 1 do
      local value, _, code = json.tolerant(loose:sub(1, i))
      assert.is_nil(value)
      assert.equal(i < 3 and "bad_json" or "truncated", code, loose:sub(1, i))
    end
    assert.equal("truncated", (select(3, json.tolerant '{"a":1 // }')))
    assert.equal("truncated", (select(3, json.tolerant '{"a":1,')))
    assert.equal("truncated", (select(3, json.tolerant "```json\n")))
  end)

  it("refuses the rest", function()
    local cases = {
      { "", "no value" }, { " \n", "no value" }, { '{"a":1,"a":2}', "duplicate key" },
      { "{a:1,'a':2}", "duplicate key" },
      { "{a:1,\"\\u0061\":2}", "duplicate key" }, { '{"a":NaN}', "unexpected character" },
      { "[Infinity]", "unexpected character" },
      { "[-Infinity]", "expected a digit" }, { "[1e999]", "out of range" }, { '{"a":1}}', "something follows" },
      { '{"a":1} then', "something follows" }, { "```\n{}\n``` then", "something follows" },
      { "Here: {}", "unexpected character" },
      { "[,]", "unexpected character" }, { "[1,,]", "unexpected character" }, { "{,}", "expected a key" },
      { "{1:2}", "expected a key" },
      { "{-a:2}", "expected a key" }, { "{a b:2}", "expected ':'" }, { "{a}", "expected ':'" },
      { '{"a":b}', "unexpected character" },
      { "[undefined]", "unexpected character" }, { [["\'"]], "invalid escape" }, { [["\d"]], "invalid escape" },
      { "[1 /* x */]", "expected ','" }, { "# x\n[]", "unexpected character" }, { "[+1]", "unexpected character" },
      { "{} /", "something follows" }, { "\u{FEFF}{}", "unexpected character" } }
    for _, case in ipairs(cases) do
      local value, message, code = json.tolerant(case[1])
      assert.is_nil(value, case[1])
      assert.truthy(message:find(case[2], 1, true), case[1] .. " -> " .. message)
      assert.equal("bad_json", code, case[1])
    end
  end)

  it("refuses NUL in any dress", function()
    for text, at in pairs { ["{}\0"] = "byte 3", ['"a\0b"'] = "byte 3", ["\0"] = "byte 1", ['"\\u0000"'] = "NUL",
      ["['\\u0000']"] = "NUL", ['{"\\u0000":1}'] = "NUL", ["[1, \0"] = "byte 5" } do
      local value, message, code = json.tolerant(text)
      assert.is_nil(value)
      assert.truthy(message:find("NUL", 1, true), message)
      assert.truthy(message:find(at, 1, true), message)
      assert.equal("bad_json", code)
    end
    assert.equal("string", type((json.tolerant [["{\"a\":\"\\u0000\"}"]])))
  end)

  it("goes 64 deep and no deeper", function()
    assert.equal(nested(64), (forgive(nested(64))))
    local value, message, code = json.tolerant(nested(65))
    assert.is_nil(value)
    assert.truthy(message:find("depth", 1, true))
    assert.equal("bad_json", code)
  end)

  it("takes 16 MiB and no more", function()
    local text = '"' .. ("a"):rep((16 << 20) - 2) .. '"'
    assert.equal(#text - 2, #json.tolerant(text))
    local value, message, code = json.tolerant(text .. " ")
    assert.is_nil(value)
    assert.truthy(message:find("16 MiB", 1, true))
    assert.equal("bad_json", code)
  end)
end)

describe("json.array and json.is_array", function()
  it("mark a table and return it", function()
    local t = {}
    assert.equal(t, json.array(t))
    assert.equal(t, json.array(t))
    assert.is_true(json.is_array(t))
    assert.is_false(json.is_array {})
    assert.is_false(json.is_array "x")
    assert.is_false(json.is_array(nil))
    assert.is_false(json.is_array(setmetatable({}, {})))
  end)

  it("keep the mark in a plain copy", function()
    local t = json.array { 1 }
    local copy = setmetatable({ table.unpack(t) }, getmetatable(t))
    assert.is_true(json.is_array(copy))
  end)

  it("do not take another metatable away", function()
    assert.error_matches(function() json.array(setmetatable({}, {})) end, "another metatable")
    assert.has_error(function() json.array "x" end)
    assert.has_error(function() json.is_array() end)
  end)
end)

describe("json.raw", function()
  it("is written as it is", function()
    assert.equal('[{"b": 1,"a":2},1.50]', json.encode { json.raw '{"b": 1,"a":2}', json.raw "1.50" })
    assert.equal(' "x" ', json.encode(json.raw ' "x" '))
    assert.equal("[1]", tostring(json.raw "[1]"))
  end)

  it("is one valid text or raises", function()
    for _, text in ipairs { "", "{", "1 2", "{'a':1}", '{"a":1,"a":2}', '"\xFF"', "[1,]",
      "nul", nested(201), "1e999" } do
      assert.error_matches(function() json.raw(text) end, "line 1, byte")
    end
  end)

  it("counts for the depth", function()
    local raw = json.raw(nested(199))
    assert.equal(nested(200), json.encode { raw })
    assert.error_matches(function() json.encode { { raw } } end, "depth")
  end)

  it("survives the collection of its text", function()
    local list = {}
    for i = 1, 100 do list[i] = json.raw(('"%s"'):format(("x"):rep(i))) end
    collectgarbage()
    assert.equal(('"%s"'):format(("x"):rep(100)), tostring(list[100]))
  end)
end)

describe("json.canonical", function()
  it("sorts, strips space and keeps the digits", function()
    assert.equal('{"a":[1.50,1E5,-0,123456789012345678901234567890],"b":{}}',
      json.canonical ' { "b" : { } , "a" : [ 1.50 , 1E5 , -0, 123456789012345678901234567890 ] } ')
    assert.equal('{"a":{"x":1,"y":{"k":1,"l":2}},"b":1,"c":[{"d":1,"e":2}]}',
      json.canonical '{"c":[{"e":2,"d":1}],"b":1,"a":{"y":{"l":2,"k":1},"x":1}}')
  end)

  it("writes strings as encode does", function()
    assert.equal([["A/é\u0001\n\" ]] .. FFFD .. '"', json.canonical [["\u0041\/\u00e9\u0001\u000a\u0022 \ud800"]])
  end)

  it("orders by what the keys stand for", function()
    for _, keys in ipairs { { "a", "a\0" }, { "a\n", "a " }, { "a\"", "a#" }, { "a\\", "a]" }, { "\31", " " },
      { "\b", "\t" }, { "\t", "\n" }, { "\f", "\r" }, { "[", "\\" }, { "\\", "é" } } do
      local t = { [keys[1]] = 1, [keys[2]] = 2 }
      local text = "{" .. json.encode(keys[2]) .. ":2," .. json.encode(keys[1]) .. ":1}"
      assert.equal(json.encode(t), json.canonical(text))
    end
  end)

  it("agrees with encode of decode on texts of cjson, whose keys come in any order", function()
    for seed = 1, 200 do
      local value = generate(random(seed), 0)
      if type(value) == "table" then
        local text = cjson.encode(json.decode(json.encode(value)))
        assert.equal(json.encode(json.decode(text)), json.canonical(text))
      end
    end
  end)

  it("refuses what decode refuses, with the same words", function()
    for _, text in ipairs { "", "{", "[1,]",
      "1 2", '{"a":1,"b":2,"a":3}', '{"a":1,\n"\\u0061":2}', '"\xFF"', '"\\ud8"',
      nested(201), "tru", "[01]", "{a:1}", "'a'", "[1e999]", '"\1"' } do
      local _, expected = json.decode(text)
      local value, message, code = json.canonical(text)
      assert.is_nil(value)
      assert.equal(expected, message)
      assert.equal("bad_json", code)
    end
  end)

  it("takes 200 levels and many members", function()
    assert.equal(nested(200), json.canonical(nested(200)))
    local parts, sorted = {}, {}
    for i = 1, 1000 do
      parts[i] = ('"%04d" : [%d]'):format(1001 - i, i)
      sorted[1001 - i] = ('"%04d":[%d]'):format(1001 - i, i)
    end
    assert.equal("{" .. table.concat(sorted, ",") .. "}", json.canonical("{" .. table.concat(parts, ",") .. "}"))
  end)
end)

describe("json.slice", function()
  it("gives the raw text of a member", function()
    local text = ' { "b" : [1, 2 ,{"a":9}] , "a" : "x\\u0041" ,"n":null, "":-0 }'
    assert.equal("[1, 2 ,{\"a\":9}]", json.slice(text, "b"))
    assert.equal('"x\\u0041"', json.slice(text, "a"))
    assert.equal("null", json.slice(text, "n"))
    assert.equal("-0", json.slice(text, ""))
    assert.is_nil(json.slice(text, "c"))
  end)

  it("compares keys by what they stand for", function()
    assert.equal("1", json.slice([[{"\u0061\n":1}]], "a\n"))
    assert.equal("1", json.slice('{"a\\u0000b":1,"a":2}', "a\0b"))
    assert.is_nil(json.slice([[{"\u0061\n":1}]], "\\u0061\\n"))
  end)

  it("looks into the outermost object only", function()
    assert.is_nil(json.slice('[{"a":1}]', "a"))
    assert.is_nil(json.slice('{"b":{"a":1}}', "a"))
    assert.is_nil(json.slice('"a"', "a"))
  end)

  it("gives nothing of a bad text", function()
    for _, text in ipairs { "", '{"a":1', '{"a":1}}', '{"a":1,"a":2}', '{"a":1,}', '{"a":01}' } do
      assert.is_nil(json.slice(text, "a"))
    end
  end)
end)

describe("json under a hostile finalizer", function()
  it("survives a table that changes while it is encoded", function()
    local victim, encoding, struck = {}, false, 0
    local function plant()
      setmetatable({}, { __gc = function()
        if not encoding then return end
        struck = struck + 1
        for k in pairs(victim) do victim[k] = nil end
        json.encode { again = { "x" } }
      end })
    end
    local mode = collectgarbage("generational")
    for round = 1, 10 do -- the output grows past the heap, so collections fall into the encoding
      for i = 1, 100 do victim["key" .. i .. round] = { ("v"):rep(20000), i } end
      collectgarbage()
      plant()
      encoding = true
      local ok, text = pcall(json.encode, victim)
      encoding = false
      if ok then assert.is_not_nil((json.decode(text))) end
    end
    collectgarbage(mode)
    collectgarbage()
    assert.is_true(struck > 0)
  end)
end)

-- scripts/schema.lua: what is forgiven, what is refused, and that one message names every problem.
local json = require "terret.json"
local schema = require "terret.schema"

local function compile(parameters)
  return schema.compile(parameters)
end

local function validate(parameters, value)
  return compile(parameters):validate(value)
end

describe("schema", function()
  describe("compile", function()
    it("turns the shorthand into JSON Schema with sorted keys", function()
      local s = compile { path = { "string", "a file" }, limit = { "integer?", "lines", minimum = 1 } }
      assert.equal('{"properties":{"limit":{"description":"lines","minimum":1,"type":"integer"},'
        .. '"path":{"description":"a file","type":"string"}},"required":["path"],"type":"object"}', s.json)
    end)

    it("writes lists as arrays, nested objects and enums too", function()
      local s = compile { items = { "array", "steps", items = { text = { "string" },
        status = { "string?", "", enum = { "a", "b" } } } } }
      local decoded = json.decode(s.json)
      local inner = decoded.properties.items.items
      assert.same({ "text" }, inner.required)
      assert.same({ "a", "b" }, inner.properties.status.enum)
      assert.is_true(json.is_array(inner.properties.status.enum))
    end)

    it("takes a type's name, a field or a schema as items, and nested properties", function()
      for _, items in ipairs { "string", { "string", "one" }, { type = "string" } } do
        assert.same("string", json.decode(compile { a = { "array", "", items = items } }.json).properties.a.items.type)
      end
      local s = compile { o = { "object?", "", properties = { x = { "integer" } } } }
      assert.equal("integer", json.decode(s.json).properties.o.properties.x.type)
    end)

    it("keeps full JSON Schema, unknown keywords too", function()
      local s = compile { type = "object", properties = { a = { type = "string", format = "uri" } },
        required = { "a" }, additionalProperties = false }
      assert.equal('{"additionalProperties":false,"properties":{"a":{"format":"uri","type":"string"}},'
        .. '"required":["a"],"type":"object"}', s.json)
    end)

    it("allows a parameter called type, and none at all", function()
      local s = compile { type = { "string", "kind" } }
      assert.equal("string", json.decode(s.json).properties.type.type)
      assert.equal('{"properties":{},"type":"object"}', compile({}).json)
      assert.same({}, (compile({}):validate({})))
    end)

    it("is the same text each time", function()
      local p = { z = { "string" }, a = { "string" }, m = { "integer?" } }
      assert.equal(compile(p).json, compile(p).json)
    end)

    it("raises on a script's mistakes and names the place", function()
      assert.has_error(function() schema.compile(nil) end)
      for _, bad in ipairs {
        { a = { "strnig" } }, { a = { "string", "", requird = true } }, { a = 5 }, { [1] = { "string" } },
        { type = "object", properties = { a = { type = "text" } } },
      } do
        local ok, message = pcall(schema.compile, bad)
        assert.is_false(ok)
        assert.truthy(message:find("parameters", 1, true))
      end
    end)

    it("does not keep or change the caller's table", function()
      local p = { type = "object", properties = { a = { type = "string" } }, required = { "a" } }
      local s = compile(p)
      p.required[1] = "b"
      assert.same({ a = "x" }, (s:validate { a = "x" }))
      assert.is_false(json.is_array(p.required))
    end)
  end)

  describe("validate", function()
    local P = { path = { "string", "" }, limit = { "integer?", "" }, all = { "boolean?", "" }, n = { "number?", "" } }

    it("returns the value without notes when nothing was forgiven", function()
      local v, notes = validate(P, { path = "a", limit = 3, all = true, n = 1.5 })
      assert.same({ path = "a", limit = 3, all = true, n = 1.5 }, v)
      assert.same({}, notes)
    end)

    it("takes numbers and booleans in quotes", function()
      local v, notes = validate(P, { path = "a", limit = " 10 ", all = "False", n = "1e2" })
      assert.same({ path = "a", limit = 10, all = false, n = 100 }, v)
      assert.equal("integer", math.type(v.limit))
      assert.equal(3, #notes)
    end)

    it("makes a whole float an integer and refuses other ones", function()
      assert.equal("integer", math.type(validate(P, { path = "a", limit = 10.0 }).limit))
      assert.equal(1000000000000000000, validate(P, { path = "a", limit = 1e18 }).limit)
      for _, bad in ipairs { 1.5, 1e23, 0 / 0, 1 / 0, "abc", "0x10", "1.5", true, {} } do
        local v, message = validate(P, { path = "a", limit = bad })
        assert.is_nil(v)
        assert.truthy(message:find("limit", 1, true), message)
      end
    end)

    it("never makes a string from something else", function()
      for _, bad in ipairs { 5, true, json.array { "a" }, { a = 1 } } do
        local v, message = validate(P, { path = bad })
        assert.is_nil(v)
        assert.truthy(message:find("path: expected string", 1, true), message)
      end
    end)

    it("takes null for an optional as absent, for a required one as missing", function()
      assert.same({ path = "a" }, (validate(P, { path = "a", limit = json.null, all = json.null })))
      local v, message = validate(P, { path = json.null })
      assert.is_nil(v)
      assert.truthy(message:find("path", 1, true))
    end)

    it("takes an empty string for an optional number as absent, but keeps an empty string", function()
      assert.same({ path = "" }, (validate(P, { path = "", limit = "" })))
    end)

    it("names every problem in one message", function()
      local _, message = validate(P, { limit = "abc", all = 3 })
      assert.equal('all: expected boolean, got number 3; limit: expected integer, got "abc"; '
        .. "path: required string is missing", message)
    end)

    it("shows a wrong value short", function()
      local _, message = validate(P, { path = "a", limit = ("x"):rep(100000) })
      assert.is_true(#message < 200)
    end)

    it("refuses what is no object", function()
      for _, bad in ipairs { "abc", 5, true, json.array { 1 }, json.null } do
        local v, message = validate(P, bad)
        assert.is_nil(v)
        assert.truthy(message:find("object", 1, true), message)
      end
      assert.is_nil((validate(P, nil)))
    end)

    it("takes the object from JSON text in a string", function()
      assert.same({ path = "a" }, (validate(P, '{"path": "a"}')))
    end)

    it("holds minimum and maximum", function()
      local p = { a = { "integer", "", minimum = 1, maximum = 9 } }
      assert.same({ a = 9 }, (validate(p, { a = 9 })))
      assert.equal("a: must be at least 1, got 0", select(2, validate(p, { a = 0 })))
      assert.equal("a: must be at most 9, got 10", select(2, validate(p, { a = "10" })))
    end)
  end)

  describe("keys", function()
    local EDIT = { path = { "string", "" }, old_string = { "string", "" }, new_string = { "string", "" },
      replace_all = { "boolean?", "" } }

    it("maps the names of other tools, and says so", function()
      for _, names in ipairs { { "file_path", "oldString", "newString" }, { "filePath", "old_str", "new_str" },
        { "filename", "oldText", "newText" }, { "file", "search", "replace" },
        { "Path", "OLD_STRING", "new-string" } } do
        local v, notes = validate(EDIT, { [names[1]] = "p", [names[2]] = "o", [names[3]] = "n" })
        assert.same({ path = "p", old_string = "o", new_string = "n" }, v, names[1])
        assert.equal(3, #notes)
      end
    end)

    it("does not map when the key is there, or when two could be meant", function()
      local v, notes = validate(EDIT, { path = "p", file = "q", old_string = "o", new_string = "n" })
      assert.equal("p", v.path)
      assert.same({ "unknown: file" }, notes)
      local none, message = validate(EDIT, { file = "p", filename = "q", old_string = "o", new_string = "n" })
      assert.is_nil(none)
      assert.equal("path: required string is missing (unknown: file, filename)", message)
    end)

    it("prefers the same word in other letters to an alias", function()
      local v = validate(EDIT, { PATH = "p", file = "q", old_string = "o", new_string = "n" })
      assert.equal("p", v.path)
    end)

    it("does not give one key to two targets", function()
      local none = validate({ pattern = { "string", "" }, old_string = { "string", "" } }, { search = "x" })
      assert.is_nil(none)
    end)

    it("drops and names unknown keys, shortened", function()
      local v, notes = validate({ a = { "string", "" } }, { a = "x", description = "why" })
      assert.same({ a = "x" }, v)
      assert.same({ "unknown: description" }, notes)
      local many = { a = "x", [("k"):rep(5000)] = 1 }
      for i = 1, 50 do many["k" .. i] = i end
      local _, few = validate({ a = { "string", "" } }, many)
      assert.is_true(#few[1] < 300)
    end)

    it("leaves other keys where JSON Schema does, and refuses them where it says so", function()
      local open = { type = "object", properties = { a = { type = "string" } } }
      assert.same({ a = "x", b = 1 }, (validate(open, { a = "x", b = 1 })))
      open.additionalProperties = false
      assert.equal("unknown: b", select(2, validate(open, { a = "x", b = 1 })))
      assert.same({ z = 1 }, (validate({ type = "object" }, { z = 1 })))
    end)
  end)

  describe("lists", function()
    local P = { items = { "array", "", items = { text = { "string", "" }, n = { "integer?", "" } } } }

    it("checks and mends each item, and names its place", function()
      local v = validate(P, { items = json.array { { text = "a", n = "2" } } })
      assert.same({ { text = "a", n = 2 } }, v.items)
      assert.is_true(json.is_array(v.items))
      local _, message = validate(P, { items = json.array { { text = "a" }, { n = 1 } } })
      assert.equal("items[2].text: required string is missing", message)
    end)

    it("takes JSON text, and one value for a list of one", function()
      assert.same({ { text = "a" } }, (validate(P, { items = '[{"text":"a"}]' })).items)
      assert.same({ { text = "a" } }, (validate(P, { items = { text = "a" } })).items)
      assert.same({ "x" }, (validate({ l = { "array", "", items = "string" } }, { l = "x" })).l)
    end)

    it("refuses what fits no item, with one problem", function()
      assert.equal("items: expected array, got number 5", select(2, validate(P, { items = 5 })))
      assert.is_nil((validate({ l = { "array", "" } }, { l = "x" })))
    end)

    it("keeps an empty list", function()
      assert.same({}, (validate(P, { items = json.array {} })).items)
      assert.equal("l: needs at least 1 items", select(2, validate({ l = { "array", "", minItems = 1 } }, { l = {} })))
    end)
  end)

  describe("choices", function()
    local P = { s = { "string", "", enum = { "pending", "in_progress", "done" } } }

    it("takes an enum's word, in other letters too", function()
      for given, want in pairs { done = "done", ["In Progress"] = "in_progress", ["in-progress"] = "in_progress",
        completed = "done", todo = "pending" } do
        assert.equal(want, validate(P, { s = given }).s)
      end
      assert.equal('s: expected one of pending, in_progress, done, got "later"',
        select(2, validate(P, { s = "later" })))
    end)

    it("tries the alternatives of anyOf and of a list of types", function()
      local any = { type = "object", properties = { a = { anyOf = { { type = "integer" }, { type = "string" } } } } }
      assert.equal("x", validate(any, { a = "x" }).a)
      assert.equal(5, validate(any, { a = 5 }).a)
      local list = { type = "object", properties = { a = { type = { "string", "null" } } } }
      assert.equal("x", validate(list, { a = "x" }).a)
      assert.is_nil((validate(list, { a = true })))
    end)
  end)

  it("survives deep values", function()
    local deep = {}
    local at = deep
    for _ = 1, 5000 do
      at.x = {}
      at = at.x
    end
    assert.same({ a = "x" }, (validate({ a = { "string", "" } }, { a = "x", b = deep })))
    local nested = { type = "object", properties = {} }
    local inner = nested
    for _ = 1, 100 do
      inner.properties.x = { type = "object", properties = {} }
      inner = inner.properties.x
    end
    assert.has_error(function() schema.compile(nested) end)
  end)
end)

-- scripts/redact.lua: secrets go once, at admission, for log, model and screen alike.
local json = require "terret.json"
local redact = require "terret.redact"
local world = require "support.world"

local SECRET = "sk-live-0123456789abcdef"

describe("redact", function()
  it("takes values of key-like names, of 12 bytes or more, that are no paths", function()
    local r = redact.new { OPENAI_API_KEY = SECRET, MY_TOKEN = "short", HOME = "/home/somebody/long",
      SSH_KEY = "/home/a/.ssh/id", db_password = "correct horse battery" }
    assert.equal("a [redacted:OPENAI_API_KEY] b", r:clean("a " .. SECRET .. " b"))
    assert.equal("short /home/somebody/long /home/a/.ssh/id", r:clean("short /home/somebody/long /home/a/.ssh/id"))
    assert.equal("[redacted:db_password]!", r:clean("correct horse battery!"))
  end)

  it("takes all occurrences, plain and as JSON, and no patterns", function()
    local value = 'a.b%d"[x]\\12345'
    local r = redact.new { A_KEY = value }
    assert.equal("[redacted:A_KEY][redacted:A_KEY]", r:clean(value .. value))
    assert.is_nil(r:clean(json.encode { value }):find("12345", 1, true))
    assert.equal("axbyd", r:clean("axbyd"))
  end)

  it("takes the longer of two first, and the same name in each process", function()
    for _ = 1, 20 do
      local r = redact.new { B_KEY = SECRET, A_KEY = SECRET, C_KEY = SECRET .. "-more" }
      assert.equal("[redacted:C_KEY] [redacted:A_KEY]", r:clean(SECRET .. "-more " .. SECRET))
    end
  end)

  it("takes further values, also behind a hole in the list", function()
    local r = redact.new({}, { [2] = SECRET })
    assert.equal("[redacted:key]", r:clean(SECRET))
    assert.is_true(r:has_placeholder("x [redacted:key]"))
    assert.is_false(r:has_placeholder("[redacted:other]"))
  end)

  it("cleans plain data deeply and leaves out what is none", function()
    local r = redact.new { A_KEY = SECRET }
    local given = { a = { SECRET, { b = SECRET } }, f = print, n = 1 }
    given.loop = given
    local out = r:clean_all(given)
    assert.same({ "[redacted:A_KEY]", { b = "[redacted:A_KEY]" } }, out.a)
    assert.is_nil(out.f)
    assert.equal(SECRET, given.a[1])
    assert.is_true(json.is_array(r:clean_all(json.array {})))
  end)

  it("finds a secret that comes in pieces, whatever the cut", function()
    local whole = "say " .. SECRET .. " and sk-live- end sk-"
    for size = 1, 12 do
      local feed, finish = redact.new({ A_KEY = SECRET }):stream()
      local out = {}
      for at = 1, #whole, size do out[#out + 1] = feed(whole:sub(at, at + size - 1)) end
      out[#out + 1] = finish()
      assert.equal("say [redacted:A_KEY] and sk-live- end sk-", table.concat(out))
    end
  end)

  describe("in an agent", function()
    it("shows log, model and screen the same", function()
      local w <close> = world.new { secrets = { SECRET }, script = {
        { text = "I say " .. SECRET, tool_calls = { { name = "leak" }, { name = "leak", arguments = { text = SECRET } },
          { name = "fail", arguments = '{"text": "' .. SECRET } } },
        { text = "done " .. SECRET } } }
      w:tool("leak", function(_, call)
        call:progress("progress " .. SECRET)
        return "result " .. SECRET, { diff = "+" .. SECRET }
      end)
      w:tool("fail", function() error(SECRET) end)
      w:tool("raise", function() error("raised " .. SECRET) end)
      local result = w:prompt("my key is " .. SECRET)
      assert.equal("done [redacted:key]", result.text)
      w:check()
      assert.matches("result [redacted:key]", w:results()[1], 1, true)
      assert.matches("hold a secret", w:results()[2], 1, true)
      for _, where in ipairs { w.agent.session.view:render("", ""), json.encode(w.events), json.encode(w:records()),
        json.encode(result) } do
        assert.is_nil(where:find(SECRET, 1, true))
        assert.truthy(where:find("[redacted:key]", 1, true))
      end
    end)

    it("keeps placeholders from being written into files", function()
      local w <close> = world.new { secrets = { SECRET }, script = { { tool_calls = {
        { name = "write", arguments = { path = "a", content = "key = [redacted:key]" } },
        { name = "edit", arguments = { path = "b", old_string = "x", new_string = "[redacted:key]" } } } },
        { text = "ok" } } }
      w:put("b", "x\n")
      w:prompt()
      assert.is_nil(w:get("a"))
      assert.equal("x\n", w:get("b"))
      for _, r in ipairs(w:results()) do assert.matches("redacted", r) end
    end)
  end)
end)

-- The examples, tested as you would test your own: terret test examples/spec/extensions_spec.lua
local fs = require "terret.fs"
local kit = require "terret.testkit"

local here = debug.getinfo(1, "S").source:match("^@(.*)/[^/]*$") .. "/../"

local function bash(command) return { tool_calls = { { name = "bash", arguments = { command = command } } } } end
local function write(path, content)
  return { tool_calls = { { name = "write", arguments = { path = path, content = content } } } }
end

describe("policy.lua", function()
  local function results(command, hour)
    local _clock <close> = kit.clock(os.time { year = 2024, month = 5, day = 6, hour = hour or 12 })
    local t <close> = kit.new { model = { bash(command), { text = "end" } },
      exec = function() return { head = "ran" } end }
    t:extension(here .. "extensions/policy.lua"):prompt()
    return t:results()[1], #t.commands
  end

  it("lets ordinary commands run", function() assert.equal("ran", (results "ls")) end)
  it("denies a push to a protected branch, and asks before any other", function()
    local text, count = results "git push origin main"
    assert.truthy(text:find("takes merge requests only", 1, true))
    assert.equal(0, count)
    assert.truthy(results("git push origin my-work"):find("nobody can be asked", 1, true))
  end)
  it("denies packages from elsewhere", function()
    assert.truthy(results("pip install left-pad"):find("packages come from", 1, true))
    assert.equal("ran", (results "pip install -i https://packages.example.com left-pad"))
  end)
  it("denies after hours", function() assert.truthy(results("ls", 23):find("agents rest", 1, true)) end)
end)

describe("format.lua", function()
  it("formats what was written, and only that", function()
    local t <close> = kit.new { model = { write("a.c", "int x;"), write("a.txt", "x"), { text = "end" } },
      exec = function() return {} end }
    t:extension(here .. "extensions/format.lua"):prompt()
    assert.same({ { "clang-format", "-i", t.commands[1][3] } }, t.commands)
    assert.truthy(t.commands[1][3]:find("a.c", 1, true))
  end)
  it("says when it failed; the file stays written", function()
    local t <close> = kit.new { model = { write("a.py", "x = 1"), { text = "end" } },
      exec = function() return { code = 123, head = "bad syntax" } end }
    t:extension(here .. "extensions/format.lua"):prompt()
    assert.truthy(t:seen("warning")[1].text:find("bad syntax", 1, true))
    assert.equal("x = 1", t:get "a.py")
  end)
end)

describe("cost.lua", function()
  it("warns once at each doubling", function()
    local replies = {}
    for i = 1, 6 do replies[i] = bash("echo " .. i) end
    for _, r in ipairs(replies) do r.usage = { input = 10, output = 10, cost = 0.6 } end
    local t <close> = kit.new { model = replies, exec = function() return {} end, config = { limits = { steps = 6 } } }
    t:extension(here .. "extensions/cost.lua"):prompt()
    local said = {}
    for i, e in ipairs(t:seen "warning") do said[i] = e.text:match("%d%.%d%d") end
    assert.same({ "1.20", "2.40" }, said)
  end)
end)

describe("redact.lua", function()
  it("takes secrets out of results, and nothing else", function()
    local t <close> = kit.new { model = { bash "cat .env", { text = "end" } }, exec = function()
      return { head = "API_KEY=abcdef123456\npassword: 'hunter2hunter2' # old\nkeyboard = qwerty\nTOKEN=short\n" }
    end }
    t:extension(here .. "extensions/redact.lua"):prompt()
    assert.equal("API_KEY=[redacted]\npassword: '[redacted]' # old\nkeyboard = qwerty\nTOKEN=short", t:results()[1])
    assert.is_nil(t:said():find("hunter2", 1, true))
  end)
end)

describe("approve.lua", function()
  local function result(script)
    local t <close> = kit.new { model = { bash "make deploy", { text = "end" } }, mode = "ask", exec = function()
      return { head = "ran" }
    end }
    local path = t.dir .. "/home/bin/terret-approve"
    if script then assert(fs.write(path, "#!/bin/sh\n" .. script, { parents = true, mode = 493 })) end
    local getenv = os.getenv
    os.getenv = function(name) return name == "HOME" and t.dir .. "/home" or getenv(name) end -- luacheck: ignore
    t:extension(here .. "extensions/approve.lua")
    os.getenv = getenv -- luacheck: ignore
    t:prompt()
    return t:results()[1]
  end

  it("yes, no with words, and no opinion", function()
    assert.equal("ran", result "grep -q '\"command\":\"make deploy\"' || exit 1")
    local no = result "echo ask again on Monday; exit 1"
    assert.truthy(no:find("refused by the user: ask again on Monday", 1, true), no)
    assert.truthy(result("exit 5"):find("nobody can be asked", 1, true))
    assert.truthy(result(nil):find("nobody can be asked", 1, true))
  end)
end)

describe("thrifty.lua", function()
  it("reads with the cheap model; the good one changes things and has the last word", function()
    local asked = {}
    local steps = { { tool_calls = { { name = "read", arguments = { path = "a.txt" } } } },
      { tool_calls = { { name = "grep", arguments = { pattern = "x" } } } }, write("a.txt", "y"), { text = "cheap" },
      { text = "done" } }
    local t <close> = kit.new { loop = dofile(here .. "loops/thrifty.lua"), exec = function() return {} end,
      model = function(request)
        asked[#asked + 1] = request.model
        if #asked == 4 then return { tool_calls = { { name = "read", arguments = { path = "a.txt" } } } } end
        return table.remove(steps, 1)
      end }
    t:put("a.txt", "x")
    local result = t:prompt()
    assert.equal("done", result.text)
    assert.same({ "scripted", "gpt-4o-mini", "gpt-4o-mini", "scripted", "gpt-4o-mini" },
      { table.unpack(asked, 1, 5) })
    assert.equal("scripted", asked[#asked])
  end)
end)

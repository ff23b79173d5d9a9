-- Bad scripts of the user's own: named with file and line, left out, and the session goes on.
local terret = require "support.terret"

describe("a script of the user's own", function()
  local home
  before_each(function() home = terret.home() end)
  after_each(function() home:close() end)

  local HEAD = [[return { name = "bad", description = "x", permission = "none", parameters = {}, ]]
  local SCRIPT = [[return { { tool_calls = { { name = "bad" } } }, { text = "end" } }]]

  local function play(source)
    home:put(home.config .. "/tools/bad.lua", source)
    local r = home:play(SCRIPT, { "--output", "jsonl", "--mode", "yolo" })
    local list = terret.events(r.out)
    assert.equal("done", terret.event(list, "result").status, r.err)
    local warning = terret.event(list, "warning")
    return terret.event(list, "tool_result").text, warning and warning.text
  end

  it("with a syntax error", function()
    local _, warning = play "return {\n\n= }"
    assert.truthy(warning:find("bad.lua:3:", 1, true), warning)
  end)
  it("that raises while it loads", function()
    local _, warning = play "\nerror 'boom'"
    assert.truthy(warning:find("bad.lua:2: boom", 1, true), warning)
  end)
  it("with a broken schema", function()
    local _, warning = play [[return { name = "bad", description = "x", permission = "none",
      parameters = { a = { "strin" } }, run = print }]]
    assert.truthy(warning:find("strin", 1, true), warning)
  end)
  it("that waits inside table.sort", function()
    local text = play(HEAD .. [[run = function()
      table.sort({ 3, 2, 1 }, function(a, b) require("terret.task").sleep(0.01) return a < b end)
    end }]])
    assert.truthy(text:find("can't yield", 1, true), text)
  end)
  it("that shadows a core module", function()
    local text = play(HEAD .. [[run = function() return tostring(require("terret.json").encode { 1 }) end }]])
    assert.equal("[1]", text)
    home:put(home.config .. "/scripts/json.lua", "error('shadowed')")
    home:put(home.config .. "/json.lua", "error('shadowed')")
    assert.equal("[1]", (play(HEAD .. [[run = function() return require("terret.json").encode { 1 } end }]])))
  end)
  it("that takes all memory", function()
    local text = play(HEAD .. [[run = function()
      local t = {}
      while true do t[#t + 1] = ("x"):rep(100000) .. #t end
    end }]])
    assert.truthy(text:find("too much memory", 1, true), text)
  end)
  it("that never returns, also behind pcall", function()
    home:put(home.config .. "/scripts/leash.lua", assert(require("terret.fs").read((debug.getinfo(1, "S").source
      :match("^@(.*)/tests/spec/[^/]*$") or ".") .. "/scripts/leash.lua")):gsub("options.seconds or M.seconds", "0.1"))
    local text = play(HEAD .. [[run = function()
      while true do pcall(function() while true do end end) end
    end }]])
    assert.truthy(text:find("computed longer than", 1, true), text)
    local _, warning = play "while true do end"
    assert.truthy(warning:find("bad.lua:1", 1, true), warning)
  end)
  it("terret check says what an extension registers, or what is wrong", function()
    local r = home:run { "check", home:put(home.config .. "/extensions/x.lua",
      [[require("terret").on("tool.policy", print, { priority = 3 })]]) }
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("hears tool.policy (guard, priority 3)", 1, true), r.out)
    r = home:run { "check", home:put(home.config .. "/extensions/x.lua", "\nlocal t = terret.on('x')") }
    assert.equal(1, r.code)
    assert.truthy(r.err:find("x.lua:2:", 1, true), r.err)
  end)
end)

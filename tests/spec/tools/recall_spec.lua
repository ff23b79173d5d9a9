-- scripts/tools/recall.lua
local fake = require "support.fakecall"

local call

local function has(text, words)
  assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
end

describe("recall", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  local id

  local function recall(more)
    local args = { id = id }
    for k, v in pairs(more or {}) do args[k] = v end
    return fake.run("recall", args, call)
  end

  before_each(function()
    local lines = {}
    for i = 1, 100 do lines[i] = ("line %d%s"):format(i, i % 10 == 0 and " %d*" or "") end
    id = call:blob(table.concat(lines, "\n") .. "\n")
  end)

  it("shows lines", function()
    assert.equal("     3\tline 3\n     4\tline 4\n[lines 3-4 of 100]", (recall { from = 3, to = 4 }))
    has((recall { from = 100 }), "   100\tline 100 %d*\n[lines 100-100 of 100]")
    has((recall()), "[lines 1-100 of 100]")
  end)

  it("searches for plain text, within the lines given", function()
    local text = recall { pattern = "%d*" }
    has(text, "    10\tline 10 %d*")
    has(text, "[10 matching lines]")
    has((recall { pattern = "%d*", from = 15, to = 25 }), "[1 matching lines]")
    assert.equal("no line holds this text", (recall { pattern = "line .*" }))
  end)

  it("is capped and says how to go on", function()
    call.limits.read_bytes = 60
    has((recall { from = 5 }), "go on with from=")
    has((recall { pattern = "line" }), "[100 matching lines, ")
    call:blob(("x"):rep(100000))
    id = "b2"
    assert.is_true(#recall() < 2200)
    has((recall { pattern = "xx" }), "[cut;")
  end)

  it("refuses other ids, unknown ones, and lines that are not there", function()
    for _, bad in ipairs { "../b1", "b1/x", "x", "b" } do
      id = bad
      has(select(2, recall()), "ids look like")
    end
    id = "b99"
    has(select(2, recall()), "no output b99")
    id = "b1"
    has(select(2, recall { from = 101 }), "100 lines")
    has(select(2, recall { from = 5, to = 4 }), "before")
    has(select(2, recall { from = 0 }), "from")
    call:blob("")
    id = "b2"
    assert.equal("b2 is empty", (recall()))
  end)
end)

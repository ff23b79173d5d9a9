-- scripts/tools/todo.lua
local fake = require "support.fakecall"
local json = require "terret.json"

local call

local function has(text, words)
  assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
end

describe("todo", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  local function todo(items)
    return fake.run("todo", { items = json.array(items) }, call)
  end

  it("stores and shows the list", function()
    local stored
    call.session = { set_todos = function(_, items)
      stored = items
      return true
    end }
    local text = todo { { text = "one", status = "done" }, { text = "two\nlines", status = "in progress" },
      { text = "three" } }
    assert.equal("1 of 3 done\n[x] one\n[>] two lines\n[ ] three", text)
    assert.same({ { text = "one", status = "done" }, { text = "two lines", status = "in_progress" },
      { text = "three", status = "pending" } }, stored)
  end)

  it("works without a session, empties, and is bounded", function()
    assert.equal("the list is empty", (todo {}))
    local many = {}
    for i = 1, 101 do many[i] = { text = "x" } end
    has(select(2, todo(many)), "at most 100")
    local text = todo { { text = ("x"):rep(100000) } }
    assert.is_true(#text < 600)
  end)

  it("refuses other states, naming the item", function()
    has(select(2, todo { { text = "a" }, { text = "b", status = "maybe" } }), "items[2].status")
  end)

  it("passes on why the list can't be stored", function()
    call.session = { set_todos = function() return nil, "no space", "no_space" end }
    local text, message = todo { { text = "a" } }
    assert.is_nil(text)
    assert.equal("no space", message)
  end)
end)

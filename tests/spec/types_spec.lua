-- types/terret.lua says what is there: every function of the scripting interface, and none besides; the events are
-- those of the dispatch table.
local events = require "terret.events"
local fs = require "terret.fs"

local here = debug.getinfo(1, "S").source:match("^@(.*)/tests/spec/[^/]*$") or "."
local stubs = assert(fs.read(here .. "/types/terret.lua"))

local function declared(name)
  local out = {}
  for sep, fn in stubs:gmatch("\nfunction " .. name .. "([.:])([%w_]+)%(") do out[fn] = sep end
  return out
end

local function exported(t)
  local out = {}
  for key, value in pairs(t) do
    if type(value) == "function" and not key:find("^__") then out[key] = true end
  end
  return out
end

local function names(set)
  local out = {}
  for key in pairs(set) do out[#out + 1] = key end
  table.sort(out)
  return out
end

describe("types/terret.lua", function()
  it("is Lua", function() assert(load(stubs)) end)

  local agent = require("terret.agent").Agent
  local call = getmetatable(require("terret.call").new({ cfg = {} }, "x", "x")).__index
  local kit = require "terret.testkit"
  for name, t in pairs { terret = require "terret", agent = agent, call = call, task = require "terret.task",
    testkit = kit, kit = kit.Kit } do
    it("has the functions of " .. name, function() assert.same(names(exported(t)), names(declared(name))) end)
  end

  it("has the events", function()
    local block = stubs:match("%-%-%-@alias terret%.event_name\n(.-)\n\n")
    local list = {}
    for event in block:gmatch('"([%w.]+)"') do list[event] = true end
    assert.same(names(events.by_name), names(list))
  end)
end)

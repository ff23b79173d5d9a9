-- Every loop that is found runs a scripted model to its end, and ends at limits and interrupts.
local agents = require "support.agent"
local registry = require "terret.registry"
local task = require "terret.task"

local function calls_once(request)
  if request.turn == 1 then
    return { text = "Looking.", tool_calls = { { name = "read", arguments = { path = "a.txt" } } } }
  end
  return { text = "The file says one." }
end

local function calls_forever()
  return { text = "Again.", tool_calls = { { name = "todo", arguments = { items = {} } } } }
end

describe("loops:", function()
  for _, name in ipairs(registry.names("loops")) do
    describe(name, function()
      local function open(script, limits)
        local a = agents.open { script = script, loop = name, limits = limits }
        a:put("a.txt", "one\n")
        return a
      end

      it("ends with the model's last words", function()
        local a <close> = open(function() return { text = "All done." } end)
        local result = a:prompt("go")
        assert.equal("done", result.status, result.message)
        assert.truthy(result.text:find("%S"))
      end)

      it("gives every call one result", function()
        local a <close> = open(calls_once)
        assert.equal("done", a:prompt("go").status)
        local open_calls = {}
        for _, r in ipairs(a:records()) do
          for _, c in ipairs(r.tool_calls or {}) do open_calls[c.id] = true end
          if r.call_id and r.role == "tool" then
            assert.is_true(open_calls[r.call_id])
            open_calls[r.call_id] = nil
          end
        end
        assert.is_nil(next(open_calls))
      end)

      it("goes on with a second prompt", function()
        local a <close> = open(function() return { text = "Yes." } end)
        assert.equal("done", a:prompt("one").status)
        assert.equal("done", a:prompt("two").status)
      end)

      it("ends at a limit of steps, whatever the model wants", function()
        local a <close> = open(calls_forever, { steps = 4, seconds = 30 })
        local result = a:prompt("go")
        assert.is_true(result.status == "limit" or result.status == "done", result.status)
        assert.is_true(result.steps <= 4)
      end)

      it("ends when it is interrupted", function()
        local a <close> = open(function() return { text = "Slow.", delay = 30 } end)
        local result = task.run(function()
          task.spawn(function()
            task.sleep(0.02)
            a.agent:interrupt()
          end)
          return a.agent:prompt("go")
        end)
        assert.equal("interrupted", result.status)
      end)

      it("ends when the endpoint fails", function()
        local a <close> = open({ { error = "no such model" } })
        local result = a:prompt("go")
        assert.equal("endpoint", result.status)
        assert.truthy(result.message:find("no such model", 1, true))
      end)
    end)
  end
end)

-- scripts/calls.lua: names that are resolved, wrappers that are unpacked.
local calls = require "terret.calls"

local function tools(...)
  local out = {}
  for _, name in ipairs { ... } do out[name] = { name = name } end
  return out
end

describe("calls", function()
  local ours = tools("bash", "read", "my_tool")

  for given, want in pairs { bash = "bash", Bash = "bash", BASH = "bash", ["functions.bash"] = "bash",
    functions_bash = "bash", ["functions.bash:0"] = "bash", ["bash:12"] = "bash", ["default_api:read"] = "read",
    ["bash<|channel|>commentary"] = "bash", ["bash\n"] = "bash", [" bash "] = "bash", ["`bash`"] = "bash",
    ["bash()"] = "bash", ["MyTool"] = "my_tool", ["my-tool"] = "my_tool", ["mcp__server__read"] = "read",
    ["tools/read"] = "read", ["<bash>"] = "bash" } do
    it(("resolve %q"):format(given), function() assert.equal(want, (calls.resolve(ours, given) or {}).name) end)
  end

  it("resolve nothing by guess", function()
    for _, given in ipairs { "", "sh", "bashful", "readbash", "..", ":0", "%a+", ".*", ("bash"):rep(100000) } do
      assert.is_nil(calls.resolve(ours, given), given)
    end
    assert.is_nil(calls.resolve(tools("a-b", "a_b"), "AB"))
    assert.equal("a_b", calls.resolve(tools("a-b", "a_b"), "a_b").name)
  end)

  it("have names in the history that endpoints take", function()
    assert.same({ "bash", "a_b", "unnamed", ("x"):rep(64) },
      { calls.history_name "bash", calls.history_name "a.b", calls.history_name "", calls.history_name(("x"):rep(99)) })
  end)

  it("are parsed under the name of their tool", function()
    local call = calls.parse({ id = "1", name = "functions.Bash", arguments = '{"a":1}', extra = { s = "1" } }, ours)
    assert.same({ "bash", '{"a":1}', { s = "1" } }, { call.name, call.arguments, call.extra })
  end)

  it("with arguments that are too long are not run", function()
    local most = calls.most_arguments
    calls.most_arguments = 20
    local _ <close> = setmetatable({}, { __close = function() calls.most_arguments = most end })
    assert.is_nil(calls.parse({ name = "bash", arguments = '{"command":"abcdef"}' }).problem)
    local call = calls.parse { name = "bash", arguments = '{"command":"abcdefg"}' }
    assert.matches("too long.*21 bytes", call.problem)
    assert.equal("{}", call.arguments)
  end)

  describe("in a wrapper", function()
    local two = '{"tool_uses":[{"recipient_name":"functions.bash","parameters":{"command":"a"}},'
      .. '{"recipient_name":"functions.read","parameters":{"path":"b"}}]}'

    it("are unpacked", function()
      local list = calls.unpack({ { name = "multi_tool_use.parallel", arguments = two }, { name = "bash" } }, ours)
      assert.same({ { name = "functions.bash", arguments = '{"command":"a"}' },
        { name = "functions.read", arguments = '{"path":"b"}' }, { name = "bash" } }, list)
    end)

    it("stay as they are where it is none", function()
      for _, arguments in ipairs { "{}", "", "[", '{"tool_uses":[]}', '{"tool_uses":[7]}', '{"tool_uses":{"a":1}}',
        '{"tool_uses":[{"recipient_name":"a"},{}]}' } do
        local raw = { name = "multi_tool_use.parallel", arguments = arguments }
        assert.same({ raw }, calls.unpack({ raw }, ours))
      end
      local own = tools("parallel")
      assert.equal(1, #calls.unpack({ { name = "parallel", arguments = two } }, own))
      assert.equal(1, #calls.unpack({ { name = 7, arguments = 7 } }, own))
    end)
  end)
end)

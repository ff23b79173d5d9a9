-- scripts/leak.lua: calls that came as text; and text that only looks like them.
local json = require "terret.json"
local leak = require "terret.leak"

local function known(name) return ({ bash = "bash", ["functions.bash"] = "bash", read = "read" })[name] end

local ARGS = '{"command":"echo a"}'
local CALL = { { name = "bash", arguments = ARGS } }

local FORMATS = {
  '<tool_call>\n{"name": "bash", "arguments": ' .. ARGS .. "}\n</tool_call>",
  '<tool_call>{"name":"bash","parameters":' .. ARGS .. "}</tool_call>",
  '<tool_call>{"name":"bash","arguments":' .. json.encode(ARGS) .. "}</tool_call>",
  '<tool_call>[{"function":{"name":"bash","arguments":' .. ARGS .. "}}]</tool_call>",
  "<tool_call>\n<function=bash>\n<parameter=command>\necho a\n</parameter>\n</function>\n</tool_call>",
  "<function=bash>" .. ARGS .. "</function>",
  "<function=bash><parameter=command>echo a</parameter></function>",
  '<invoke name="bash">\n<parameter name="command">echo a</parameter>\n</invoke>',
  '<function_calls>\n<invoke name="bash"><parameter name="command">echo a</parameter></invoke>\n</function_calls>',
  '<minimax:tool_call><invoke name="bash"><parameter name="command">echo a</parameter></invoke></minimax:tool_call>',
  '<｜DSML｜function_calls><｜DSML｜invoke name="bash"><｜DSML｜parameter name="command" string="true">echo a'
    .. "</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>",
  "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>echo a</arg_value>\n</tool_call>",
  "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>" .. ARGS
    .. "<|tool_call_end|><|tool_calls_section_end|>",
  "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>" .. ARGS .. "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
  "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n" .. ARGS
    .. "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
  '[TOOL_CALLS][{"name":"bash","arguments":' .. ARGS .. "}]", "[TOOL_CALLS]bash[ARGS]" .. ARGS,
  "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>" .. ARGS .. "<|call|>",
  '<|python_tag|>{"name":"bash","parameters":' .. ARGS .. "}<|eom_id|>",
}

describe("leak", function()
  for i, text in ipairs(FORMATS) do
    it(("reads format %d, alone and behind words"):format(i), function()
      assert.same(CALL, (leak.recover(text, known)))
      local calls, rest = leak.recover("I will look.\n\n" .. text .. "\n", known)
      assert.same({ CALL, "I will look." }, { calls, rest })
    end)

    it(("takes format %d for text in a code block, a span, a quote, or before other words"):format(i), function()
      for _, quoted in ipairs { "```\n" .. text .. "\n```", "```xml\n" .. text, "> " .. text, "as `" .. text,
        text .. "\nThat was it.", "~~~\n" .. text .. "\n~~~" } do
        assert.is_nil((leak.recover(quoted, known)), quoted)
      end
    end)

    it(("takes format %d for no call when it is cut, or names no tool"):format(i), function()
      for _, n in ipairs { 1, 3, 8, 20 } do
        local calls = leak.recover(text:sub(1, -n - 1), known)
        -- Some formats end with the text: then all of the arguments are there.
        if calls then assert.same(CALL, calls) end
      end
      assert.is_nil((leak.recover((text:gsub("bash", "nosuch")), known)))
    end)
  end

  it("reads several calls, and none of them where one is no tool", function()
    local two = FORMATS[1] .. "\n" .. FORMATS[6]
    assert.equal(2, #leak.recover(two, known))
    assert.is_nil((leak.recover(FORMATS[1] .. "\n<function=nosuch>{}</function>", known)))
  end)

  it("keeps values as they are written", function()
    local calls = leak.recover("<function=bash><parameter=command>\n\n a <b> \n\n</parameter></function>", known)
    assert.same({ command = "\n a <b> \n" }, json.decode(calls[1].arguments))
    calls = leak.recover('<tool_call>{"name":"bash","arguments":{"command":"echo </tool_call>"}}</tool_call>', known)
    assert.same({ command = "echo </tool_call>" }, json.decode(calls[1].arguments))
  end)

  it("knows markup that is no answer from talk about it", function()
    for _, s in ipairs { '<tool_call>{"name":"bash","arguments":{"com', "<tool_call>\n{bad}\n</tool_call>",
      "<function=nosuch>{}</function>", "<|tool_call_begin|>functions.bash:0" } do
      assert.is_true(select(3, leak.recover(s, known)), s)
    end
    for _, s in ipairs { "", "plain", "use `<tool_call>` here", "<tool_call> is the tag that I mean.\n\nIt is old.",
      "a < b", FORMATS[1] .. "\nThat was it." } do
      assert.is_false(select(3, leak.recover(s, known)), s)
    end
  end)

  it("is quick with hostile text", function()
    local started = os.clock()
    for _, unit in ipairs { "<tool_call>", "<function=", "<tool_call>{", "</tool_call>", '<invoke name="', "```\n",
      "<|tool_call_begin|>", "<function=a><parameter=b>", "[TOOL_CALLS]", "<|channel|>", "<tool_call><tool_call>\n" } do
      leak.recover(unit:rep(20000), known)
      leak.recover(("\n" .. unit):rep(10000), known)
    end
    assert.is_true(os.clock() - started < 2, os.clock() - started)
  end)
end)

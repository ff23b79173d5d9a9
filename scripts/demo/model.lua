-- scripts/demo/model.lua - the answers of the scripted model in `terret demo`.
--
-- One of them is wrong on purpose: the first edit names a variable that isn't there, as models
-- do.  The tool refuses it, says what the file has instead, and the next edit is right.

local test = require("terret.demo.project").test

local function call(name, arguments) return { name = name, arguments = arguments } end

return {
  { text = "I read the library and its test together.", tool_calls = {
    call("read", { path = "duration.c" }), call("read", { path = "test_duration.c" }) } },
  { text = "Now I run the test.", tool_calls = { call("bash", { command = test }) } },
  { text = "After `h` the 1 is still in `number`, so `30m` is read as 130 minutes. It must start at 0 again.",
    tool_calls = { call("edit", { path = "duration.c",
      old_string = "        total += number * seconds;\n",
      new_string = "        total += number * seconds;\n        number = 0;\n" }) } },
  { text = "I had the name wrong: it is `unit`.", tool_calls = { call("edit", { path = "duration.c",
    old_string = "        total += number * unit;\n",
    new_string = "        total += number * unit;\n        number = 0;\n" }) } },
  { text = "And the test again.", tool_calls = { call("bash", { command = test }) } },
  { text = "Mended: duration_parse() kept the digits of a unit for the next one, so 1h30m was 1 h and 130 min."
    .. " It now starts each number at 0. All three checks pass." },
}

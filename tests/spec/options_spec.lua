-- Command lines: every form of an option, and what is said about those that are none.
local options = require "terret.options"

local SPEC = {
  { name = "model", short = "m", arg = "M", help = "its name" },
  { name = "output", arg = "FORMAT", choices = { "text", "json" }, help = "how" },
  { name = "allow", short = "a", arg = "RULE", list = true, help = "more than one" },
  { name = "steps", short = "n", arg = "N", kind = "integer", help = "whole" },
  { name = "cost", arg = "USD", kind = "number", help = "any" },
  { name = "port", arg = "N", kind = "integer", list = true, help = "whole ones" },
  { name = "continue", short = "c", help = "a switch" },
  { name = "help", short = "h", help = "print this" },
}

describe("options.parse", function()
  local function parse(args, how) return options.parse(SPEC, args, how) end
  local function gives(opts, rest, args, how)
    local have, words, code = parse(args, how)
    assert.same(opts, have)
    assert.same(rest, words)
    assert.is_nil(code)
  end
  local function refuses(message, args)
    local opts, why, code = parse(args)
    assert.is_nil(opts)
    assert.equal(message, why)
    assert.equal("usage", code)
  end

  it("of nothing is nothing", function() gives({}, {}, {}) end)

  it("takes every form of an argument", function()
    for _, args in ipairs { { "--model", "x" }, { "--model=x" }, { "-m", "x" }, { "-mx" } } do
      gives({ model = "x" }, {}, args)
    end
  end)

  it("takes any argument as it is", function()
    for _, value in ipairs { "", "-", "--", "-c", "--help", "a=b", "a\nb", " ", "\0", "=" } do
      gives({ model = value }, {}, { "--model", value })
      gives({ model = value }, {}, { "-m", value })
      gives({ model = value }, {}, { "--model=" .. value })
      if value ~= "" then gives({ model = value }, {}, { "-m" .. value }) end
    end
  end)

  it("the last one of an option wins, a list keeps all in their order", function()
    gives({ model = "y" }, {}, { "-mx", "--model=y" })
    gives({ allow = { "a", "b", "a" } }, {}, { "--allow", "a", "-ab", "--allow=a" })
    gives({ port = { 1, 2 } }, {}, { "--port=1", "--port", "2" })
  end)

  it("takes bare words anywhere, and a lone dash as one", function()
    gives({ continue = true, model = "x" }, { "a", "-", "b" }, { "a", "-c", "-", "-m", "x", "b" })
    gives({}, { "" }, { "" })
  end)

  it("ends options at --, and says that it was there", function()
    gives({ continue = true, ["--"] = true }, { "a", "-c", "--nope", "--" }, { "a", "-c", "--", "-c", "--nope", "--" })
    gives({ ["--"] = true }, {}, { "--" })
  end)

  it("with stop ends them at the first bare word", function()
    gives({ continue = true }, { "run", "-c", "--nope", "--" }, { "-c", "run", "-c", "--nope", "--" }, { stop = true })
    gives({ ["--"] = true }, { "-c", "x" }, { "--", "-c", "x" }, { stop = true })
    gives({ model = "run" }, {}, { "-m", "run" }, { stop = true })
  end)

  it("refuses what it doesn't know, and guesses aloud only", function()
    refuses("unknown option --modle (did you mean --model?)", { "--modle", "x" })
    refuses("unknown option --mod (did you mean --model?)", { "--mod=x" })
    refuses("unknown option --continues (did you mean --continue?)", { "--continues" })
    refuses("unknown option --zzz", { "--zzz" })
    refuses("unknown option --mo", { "--mo" })
    refuses("unknown option --=x", { "--=x" })
    refuses("unknown option --Model", { "--Model" })
    refuses("unknown option -z", { "-zm" })
    refuses("unknown option -=", { "-=" })
    refuses("unknown option --c", { "--c" })
  end)

  it("refuses a missing argument", function()
    refuses("--model needs an argument: M", { "--model" })
    refuses("-m needs an argument: M", { "-c", "-m" })
    refuses("--steps needs an argument: N", { "--steps" })
  end)

  it("refuses an argument of a switch", function()
    refuses("--continue takes no argument", { "--continue=yes" })
    refuses("--continue takes no argument", { "--continue=" })
    refuses("-c takes no argument", { "-cx" })
    refuses("-c takes no argument", { "-ch" })
  end)

  it("takes whole numbers above 0", function()
    gives({ steps = 1 }, {}, { "--steps=1" })
    gives({ steps = 1000 }, {}, { "-n1e3" })
    gives({ steps = math.maxinteger }, {}, { "-n", tostring(math.maxinteger) })
    assert.equal("integer", math.type(parse({ "-n2.0" }).steps))
    for _, bad in ipairs { "", "0", "-1", "1.5", "x", "1x", "1e999", "nan", "9223372036854775808" } do
      refuses("--steps needs a whole number above 0, not '" .. bad .. "'", { "--steps=" .. bad })
      refuses("-n needs a whole number above 0, not '" .. bad .. "'", { "-n", bad })
      refuses("--port needs a whole number above 0, not '" .. bad .. "'", { "--port=1", "--port=" .. bad })
    end
  end)

  it("takes numbers above 0", function()
    gives({ cost = 0.25 }, {}, { "--cost=0.25" })
    gives({ cost = 3 }, {}, { "--cost", "3" })
    for _, bad in ipairs { "", "0", "0.0", "-1", "-0.5", "x", "1e999", "nan", "inf" } do
      refuses("--cost needs a number above 0, not '" .. bad .. "'", { "--cost=" .. bad })
    end
  end)

  it("takes one of the choices", function()
    gives({ output = "json" }, {}, { "--output=json" })
    for _, bad in ipairs { "", "JSON", "jso", "text, json" } do
      refuses("--output must be one of text, json, not '" .. bad .. "'", { "--output", bad })
    end
  end)

  it("leaves its arguments as they are, and shares nothing between two runs", function()
    local args = { "-ax", "b", "--", "c" }
    local first = parse(args)
    assert.same({ "-ax", "b", "--", "c" }, args)
    assert.same({ "x" }, first.allow)
    assert.same({ "x" }, parse(args).allow)
  end)
end)

describe("options.help", function()
  it("has one line an option, in columns", function()
    assert.equal([[
  -m, --model M        its name
      --output FORMAT  how
  -c, --continue       a switch]], options.help { SPEC[1], SPEC[2], SPEC[7] })
  end)

  it("of no option is empty", function() assert.equal("", options.help {}) end)
end)

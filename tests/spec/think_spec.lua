-- scripts/think.lua: reasoning between tags in the text of an answer.
local think = require "terret.think"

-- "r:..|t:.." of the parts, neighbours of one kind joined.
local function feed(...)
  local state, parts, out = think.new(), {}, {}
  for _, s in ipairs { ... } do think.feed(state, s, parts) end
  think.finish(state, parts)
  for _, p in ipairs(parts) do
    local kind = p.type:sub(1, 1)
    if out[#out] and out[#out]:sub(1, 1) == kind then out[#out] = out[#out] .. p.text
    else out[#out + 1] = kind .. ":" .. p.text end
  end
  return table.concat(out, "|")
end

describe("think", function()
  for given, want in pairs { ["<think>a</think>b"] = "r:a|t:b", ["\n<think>a</think>\n\nb"] = "r:a|t:b",
    ["[THINK]a[/THINK]b"] = "r:a|t:b", ["b <think>a</think>"] = "t:b <think>a</think>", ["<thin"] = "t:<thin",
    ["<think>a"] = "r:a", ["<think>a</thin"] = "r:a</thin", ["<think></think>b"] = "t:b", [" x"] = "t: x",
    ["<thinker>x"] = "t:<thinker>x", ["`<think>` is a tag"] = "t:`<think>` is a tag", [""] = "" } do
    it(("parts %q, also byte by byte"):format(given), function()
      assert.equal(want, feed(given))
      local bytes = {}
      for i = 1, #given do bytes[i] = given:sub(i, i) end
      assert.equal(want, feed(table.unpack(bytes)))
    end)
  end

  it("takes what stands before a lone closing tag for reasoning", function()
    assert.same({ "b", "a\n" }, { think.split "a\n</think>\n\nb" })
    assert.same({ "b", "a" }, { think.split "a</think>\nb" })
    assert.same({ "b", "" }, { think.split "</think>b" })
  end)

  it("leaves tags alone that are talked about", function()
    for _, s in ipairs { "a `</think>`\nb", "```\n</think>\n```\nb", "use <think> and </think>\nas tags",
      "a </think> b",
      "none" } do
      local text, reasoning = think.split(s)
      assert.same({ s }, { text, reasoning })
    end
  end)
end)

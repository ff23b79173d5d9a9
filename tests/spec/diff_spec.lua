-- scripts/diff.lua: unified text that patch(1) would take, and bounds.
local diff = require "terret.diff"

-- Applies a unified diff of ours to the old text: the proof that it says the truth.
local function apply(old, patch)
  local lines = {}
  for line in old:gmatch("[^\n]*\n?") do
    if line ~= "" then lines[#lines + 1] = line end
  end
  local out, at = {}, 1
  local items = {}
  for line in patch:gmatch("[^\n]*\n") do items[#items + 1] = line end
  for i, line in ipairs(items) do
    local start, count = line:match("^@@ %-(%d+),?(%d*) ")
    local sign, rest = line:sub(1, 1), line:sub(2)
    if items[i + 1] and items[i + 1]:sub(1, 1) == "\\" then rest = rest:sub(1, -2) end
    if start then
      start = tonumber(start) + (count == "0" and 1 or 0)
      while at < start do
        out[#out + 1] = lines[at]
        at = at + 1
      end
    elseif sign == " " or sign == "-" then
      assert(lines[at] == rest, ("line %d is %q, not %q"):format(at, tostring(lines[at]), rest))
      if sign == " " then out[#out + 1] = rest end
      at = at + 1
    elseif sign == "+" then
      out[#out + 1] = rest
    end
  end
  for i = at, #lines do out[#out + 1] = lines[i] end
  return table.concat(out)
end

describe("diff", function()
  it("shows three lines of context with right ranges", function()
    local old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n"
    assert.equal("--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n",
      diff.unified(old, (old:gsub("5", "five")), { path = "f" }))
  end)

  it("is empty for equal texts", function()
    assert.equal("", diff.unified("a\n", "a\n", { path = "f" }))
    assert.same({ 0, 0 }, { diff.stat("a\n", "a\n") })
  end)

  it("counts what came and went", function()
    assert.same({ 1, 1 }, { diff.stat("a\nb\nc\n", "a\nB\nc\n") })
    assert.same({ 2, 0 }, { diff.stat("", "a\nb\n") })
    assert.same({ 0, 2 }, { diff.stat("a\nb\n", "") })
  end)

  it("writes a new and an emptied file as patch does", function()
    assert.equal("@@ -0,0 +1,2 @@\n+a\n+b\n", diff.unified("", "a\nb\n"))
    assert.equal("@@ -1 +0,0 @@\n-a\n", diff.unified("a\n", ""))
  end)

  it("marks a missing last line end", function()
    assert.equal("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n", diff.unified("a", "a\n"))
    assert.equal("@@ -1,2 +1,2 @@\n-a\n+b\n x\n\\ No newline at end of file\n", diff.unified("a\nx", "b\nx"))
  end)

  it("joins near changes and parts far ones", function()
    local lines = {}
    for i = 1, 40 do lines[i] = "l" .. i end
    local old = table.concat(lines, "\n") .. "\n"
    local near = old:gsub("l5\n", "L5\n"):gsub("l9\n", "L9\n")
    local far = old:gsub("l5\n", "L5\n"):gsub("l30\n", "L30\n")
    assert.equal(1, select(2, diff.unified(old, near):gsub("@@ %-", "")))
    assert.equal(2, select(2, diff.unified(old, far):gsub("@@ %-", "")))
  end)

  it("takes any context", function()
    assert.equal("@@ -2 +2 @@\n-b\n+B\n", diff.unified("a\nb\nc\n", "a\nB\nc\n", { context = 0 }))
    assert.equal("@@ -2,0 +3 @@\n+x\n", diff.unified("a\nb\nc\n", "a\nb\nx\nc\n", { context = 0 }))
  end)

  it("finds the shortest change", function()
    local old = "function a()\n  x()\nend\n\nfunction b()\n  y()\nend\n"
    local new = "function a()\n  x()\nend\n\nfunction c()\n  z()\nend\n\nfunction b()\n  y()\nend\n"
    assert.same({ 4, 0 }, { diff.stat(old, new) })
  end)

  it("keeps CRLF and any bytes", function()
    local old, new = "a\r\n\xFF\0b\r\n", "a\r\n\xFE\0b\r\n"
    assert.equal(new, apply(old, diff.unified(old, new)))
  end)

  it("is right for many small texts", function()
    local seed = 7
    local function random(n)
      seed = (seed * 1103515245 + 12345) % 2147483648
      return seed // 65536 % n
    end
    local function text()
      local out = {}
      for i = 1, random(9) do out[i] = ("abc"):sub(random(3) + 1, random(3) + 1) .. "\n" end
      if #out > 0 and random(3) == 0 then out[#out] = "z" end
      return table.concat(out)
    end
    for _ = 1, 600 do
      local old, new = text(), text()
      for _, options in ipairs { { context = 3 }, { context = 0 }, { context = 1, max_d = 1 } } do
        assert.equal(new, apply(old, diff.unified(old, new, options)))
      end
    end
  end)

  it("falls back to one block over the bound, and is still right", function()
    local a, b = {}, {}
    for i = 1, 50 do a[i], b[i] = "a" .. i, (i % 2 == 0 and "a" or "b") .. i end
    local old, new = table.concat(a, "\n"), table.concat(b, "\n")
    assert.same({ 49, 49 }, { diff.stat(old, new, { max_d = 5 }) })
    assert.same({ 25, 25 }, { diff.stat(old, new) })
    assert.equal(new, apply(old, diff.unified(old, new, { max_d = 5 })))
  end)

  it("crosses the pieces by which equal heads and tails are skipped", function()
    for _, n in ipairs { 65534, 65535, 65536, 65537, 131072 } do
      local line = ("x"):rep(n - 1) .. "\n"
      local old, new = line .. "a\n" .. line, line .. "b\n" .. line
      assert.same({ 1, 1 }, { diff.stat(old, new) })
      assert.equal(new, apply(old, diff.unified(old, new)))
    end
  end)

  it("is quick for one change in a large file", function()
    local big = ("a line of text that is forty bytes long..\n"):rep(100000)
    local new = big:sub(1, 2000000) .. "x" .. big:sub(2000002)
    local start = os.clock()
    assert.same({ 1, 1 }, { diff.stat(big, new) })
    assert.is_true(os.clock() - start < 0.5)
  end)

  it("stays bounded where every line differs", function()
    local a, b = {}, {}
    for i = 1, 20000 do a[i], b[i] = "a" .. i, "b" .. i end
    local start = os.clock()
    assert.same({ 20000, 20000 }, { diff.stat(table.concat(a, "\n"), table.concat(b, "\n")) })
    assert.is_true(os.clock() - start < 3)
  end)
end)

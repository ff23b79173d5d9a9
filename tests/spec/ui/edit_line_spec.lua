-- tests/spec/ui/edit_line_spec.lua - mirrors scripts/edit_line.lua and scripts/keys.lua.
local edit_line = require "terret.edit_line"
local keys = require "terret.keys"

local function typed(...)
  local editor, actions = edit_line.new(), {}
  for _, bytes in ipairs { ... } do table.move(editor:key(bytes), 1, 99, #actions + 1, actions) end
  return editor, actions
end

local function names(list)
  local out = {}
  for i, key in ipairs(list) do out[i] = key.text and key.name .. ":" .. key.text or key.name end
  return table.concat(out, " ")
end

describe("terret.keys", function()
  local cases = {
    ["a\27[Ab"] = "text:a up text:b", ["\27OA\27OH"] = "up home", ["\27[1;5D\27[1;3C"] = "ctrl-left alt-right",
    ["\27[3~\27[4~\27[7~"] = "delete end home", ["\1\5\23"] = "ctrl-a ctrl-e ctrl-w", ["\r\n\t\127\8"] =
      "enter ctrl-j tab backspace backspace", ["\27b\27f\27\127\27\r"] = "alt-b alt-f alt-backspace alt-enter",
    ["\27[13;2u\27[99;9X"] = "shift-enter unknown", ["\27[Z"] = "shift-tab", ["\27\27[A"] = "esc up",
    ["\27[200~a\r\nb\27[31m\27[201~c"] = "paste:a\nb\27[31m text:c", ["\0\28"] = "unknown unknown",
    ["é漢👩"] = "text:é漢👩", ["\255a"] = "text:\u{fffd}a",
  }
  it("reads keys", function()
    for bytes, want in pairs(cases) do assert.equal(want, names(keys.new():feed(bytes)), ("%q"):format(bytes)) end
  end)

  it("does so however the bytes are cut", function()
    for bytes, want in pairs(cases) do
      local decoder, list = keys.new(), {}
      for i = 1, #bytes do
        for _, key in ipairs(decoder:feed(bytes:sub(i, i))) do
          local last = list[#list]
          if last and last.name == "text" and key.name == "text" then
            last.text = last.text .. key.text
          else
            list[#list + 1] = key
          end
        end
      end
      assert.equal(want, names(list), ("%q"):format(bytes))
      assert.is_false(decoder:waiting(), ("%q"):format(bytes))
    end
  end)

  it("tells a lone ESC from a sequence only when it is told to", function()
    local decoder = keys.new()
    assert.equal("", names(decoder:feed("\27")))
    assert.is_true(decoder:waiting())
    assert.equal("esc", names(decoder:flush()))
    assert.is_false(decoder:waiting())
    assert.equal("", names(decoder:feed("\27[1;")))
    assert.equal("unknown", names(decoder:flush()))
    assert.equal("", names(decoder:feed("\xe6\xbc")))
    assert.equal("text:\u{fffd}", names(decoder:flush()))
  end)

  it("ends a sequence that never ends", function()
    local decoder = keys.new()
    assert.equal("unknown", names(decoder:feed("\27[" .. ("1"):rep(100))))
    assert.equal("unknown text:x", names(keys.new():feed("\27[12\1x")):gsub(" ctrl%-a", ""))
  end)

  it("does not end a paste before its mark, nor wait for more in one", function()
    local decoder = keys.new()
    assert.equal("", names(decoder:feed("\27[200~x\r\27[20")))
    assert.is_false(decoder:waiting())
    assert.equal("", names(decoder:flush()))
    assert.equal("paste:x\n\27[20y", names(decoder:feed("y\27[201~")))
  end)
end)

describe("terret.edit_line", function()
  it("edits", function()
    local cases = {
      { "abc\27[D\27[DX", "aXbc" }, { "abc\1X\5Y", "XabcY" }, { "abc\127", "ab" }, { "abc\1\27[3~\4", "c" },
      { "one two\27bX", "one Xtwo" }, { "one two\1\27fX", "oneX two" }, { "one two\23X", "one X" },
      { "one two\21X", "X" }, { "one two\27b\11\1\25", "twoone " }, { "a-b c\27\127", "a-b " }, { "a b\1\27d", " b" },
      { "a\27\rb", "a\nb" }, { "a\\\rb", "a\nb" }, { "a\nb\1X", "a\nXb" }, { "ab\ncd\11\27[A\11", "ab" .. "cd" },
      { "e\u{301}x\27[D\127", "x" }, { "漢字\127", "漢" }, { "a\tb", "a  b" }, { "\127\27[D\27[C\27[3~", "" },
      { "a\27[Bb\27[5~", "ab" },
    }
    for _, case in ipairs(cases) do
      assert.equal(case[2], typed(case[1]):text(), ("%q"):format(case[1]))
    end
  end)

  it("submits, and keeps a history", function()
    local editor, actions = typed("one\r", "two\r", "two\r")
    assert.equal(3, #actions)
    assert.same({ type = "submit", text = "two", label = "two" }, actions[2])
    assert.same({ "one", "two" }, editor.history)
    editor:key("draft\27[A")
    assert.equal("two", editor:text())
    editor:key("\27[A\27[A\27[A")
    assert.equal("one", editor:text())
    editor:key("\27[B\27[B")
    assert.equal("draft", editor:text())
    editor:key("\27[B")
    assert.equal("draft", editor:text())
  end)

  it("goes up and down in several lines before it goes to the history", function()
    local editor = typed("old\r", "abc\27\rdef\27\rg")
    editor:key("\27[AX")
    assert.equal("abc\ndXef\ng", editor:text())
    editor:key("\27[A\27[AY")
    assert.equal("oldY", editor:text())
  end)

  it("folds a paste to one cell", function()
    local editor, actions = typed("see \27[200~a\r\nb\nc\27[201~!", "\r")
    assert.same({ { type = "submit", text = "see a\nb\nc!", label = "see [paste 3 lines]!" } }, actions)
    editor:key("\27[200~short\27[201~")
    assert.equal("short", editor:label())
    editor:key("\21\27[200~" .. ("x"):rep(500) .. "\27[201~")
    assert.equal("[paste 1 line]", editor:label())
    editor:key("\127")
    assert.equal("", editor:text())
  end)

  it("knows the ways out", function()
    local _, actions = typed("ab\3", "\3", "\3")
    assert.same({ "clear", "interrupt", "quit" }, { actions[1].type, actions[2].type, actions[3].type })
    _, actions = typed("\3", "x\127", "\3")
    assert.same({ "interrupt", "interrupt" }, { actions[1].type, actions[2].type })
    _, actions = typed("\4")
    assert.equal("end", actions[1].type)
    _, actions = typed("a\4\1\4\4")
    assert.equal(1, #actions)
    local editor = edit_line.new()
    assert.same({}, editor:key("\27"))
    assert.is_true(editor:waiting())
    assert.equal("escape", editor:flush()[1].type)
  end)

  it("lays its cells out", function()
    local editor = typed("abcdefgh")
    assert.same({ "> abcdefg", "  h" }, (editor:layout(10, "> ")))
    assert.same({ 2, 3 }, { select(2, editor:layout(10, "> ")) })
    editor = typed("漢漢漢漢\27[D")
    assert.same({ { "> 漢漢漢", "  漢" }, 2, 2 }, { editor:layout(10, "> ") })
    editor = typed("a\27\rb\27\r")
    assert.same({ { "> a", "  b", "  " }, 3, 2 }, { editor:layout(80, "> ") })
    editor = typed("1234567")
    assert.same({ { "> 1234567", "  " }, 2, 2 }, { editor:layout(10, "> ") })
    editor = typed("\u{202e}\7x")
    assert.same({ "> \\u{202e}x" }, (editor:layout(40, "> ")))
    for columns = 1, 12 do
      local rows, row, column = typed("ab\u{202e}漢\27\rcd"):layout(columns, "> ")
      assert.is_true(row >= 1 and row <= #rows and column >= 0)
    end
  end)

  it("takes any bytes", function()
    math.randomseed(7)
    local pool = { "\27", "[", "200~", "201~", "\27[200~", "\27[201~", "\3", "\4", "\r", "\n", "漢", "\xe6",
      "\xbc", "a", " ", "\\", "1;5", "A", "D", "\23", "\25", "\11", "\127", "\27\127", "\0", "\xff", "O", "\27[A",
      "\27[D", "\u{301}", "\u{200d}" }
    for _ = 1, 300 do
      local editor = edit_line.new()
      for _ = 1, 40 do
        local bytes = math.random() < 0.8 and pool[math.random(#pool)] or string.char(math.random(0, 255))
        editor:key(bytes)
        if math.random() < 0.1 then editor:flush() end
        local rows, row, column = editor:layout(math.random(4, 40), "> ")
        assert.is_true(editor.at >= 0 and editor.at <= #editor.cells)
        assert.is_true(row >= 1 and row <= #rows and column >= 0)
        for _, line in ipairs(rows) do assert.is_nil(line:find("%c")) end
        assert.is_truthy(utf8.len(editor:text()))
      end
    end
  end)
end)

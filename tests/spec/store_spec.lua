-- terret.store: fragments that are kept once, and the views over them.
local store = require "terret.store"

-- A store of the fragments, and a view that shows them all.
local function filled(...)
  local s = store.new()
  local v = s:view()
  for i, fragment in ipairs { ... } do v:push(s:add(fragment, i * 10)) end
  return s, v
end

local function raises(message, f, ...)
  local ok, why = pcall(f, ...)
  assert.is_false(ok)
  assert.matches(message, why)
end

describe("terret.store", function()
  it("is empty at first", function()
    local s = store.new()
    assert.same({ 0, 0 }, { s:size() })
    local v = s:view()
    assert.equal(0, v:count())
    assert.equal(0, v:bytes())
    assert.equal(0, v:tokens())
    assert.same({}, v:list())
    assert.equal("[]", v:render("[", "]"))
  end)

  it("numbers fragments from 1 and gives them back", function()
    local s = store.new()
    assert.equal(1, s:add("one", 5))
    assert.equal(2, s:add(""))
    assert.equal(3, s:add("a\0b\xff", 7))
    assert.equal("one", s:get(1))
    assert.equal("", s:get(2))
    assert.equal("a\0b\xff", s:get(3))
    assert.equal(5, s:tokens(1))
    assert.equal(0, s:tokens(2))
    assert.same({ 3, 7 }, { s:size() })
  end)

  it("keeps fragments of all sizes where chunks end", function()
    local s, wanted = store.new(), {}
    for i, n in ipairs { 1, 16383, 1, 16384, 16385, 4096, 4097, 300000, 5, 2 ^ 20 | 0, 2 ^ 20 + 1 | 0, 0, 9 } do
      wanted[i] = string.char(64 + i):rep(n)
      assert.equal(i, s:add(wanted[i]))
    end
    for i, fragment in ipairs(wanted) do assert.is_true(fragment == s:get(i)) end
  end)

  it("takes many fragments in linear time", function()
    local s = store.new()
    local v = s:view()
    for i = 1, 100000 do v:push(s:add(tostring(i), 1)) end
    assert.equal("1", s:get(1))
    assert.equal("77777", s:get(77777))
    assert.equal(100000, v:tokens())
    assert.equal(488895 + 99999 + 2, #v:render("[", "]"))
  end)

  it("raises on fragments that aren't there", function()
    local s, v = filled("a")
    for _, n in ipairs { 0, 2, -1, math.maxinteger, math.mininteger, 1 << 32, (1 << 32) + 1 } do
      raises("no such fragment", s.get, s, n)
      raises("no such fragment", s.tokens, s, n)
      raises("no such fragment", s.set_tokens, s, n, 1)
      raises("no such fragment", v.push, v, n)
    end
    raises("number expected", s.get, s)
    raises("no integer representation", s.get, s, 1.5)
    assert.equal(1, v:count())
  end)

  it("raises on accounts that can't be", function()
    local s = filled("a")
    for _, n in ipairs { -1, 1 << 31, math.maxinteger, math.mininteger } do
      raises("tokens out of range", s.add, s, "x", n)
      raises("tokens out of range", s.set_tokens, s, 1, n)
    end
    raises("string expected", s.add, s)
    raises("number expected", s.set_tokens, s, 1)
    assert.same({ 1, 1 }, { s:size() })
    s:set_tokens(1, (1 << 31) - 1)
    assert.equal((1 << 31) - 1, s:tokens(1))
  end)

  it("raises on a wrong self", function()
    local s, v = filled("a")
    raises("terret.store.store expected", s.add, v, "x")
    raises("terret.store.view expected", v.count, s)
    raises("terret.store.view expected", v.count)
  end)

  it("names its objects", function()
    local s, v = filled("a", "b")
    assert.equal("terret.store.store (2 fragments)", tostring(s))
    assert.equal("terret.store.view (2 fragments)", tostring(v))
  end)

  it("hides its metatables", function()
    local s, v = filled("a")
    assert.equal("terret", getmetatable(s))
    assert.equal("terret", getmetatable(v))
    assert.is_nil(s.__gc)
  end)
end)

describe("terret.store.view", function()
  it("shows fragments in its own order, as often as it likes", function()
    local _, v = filled("a", "bb", "ccc")
    v:push(1)
    v:push(1)
    assert.same({ 1, 2, 3, 1, 1 }, v:list())
    assert.equal(5, v:count())
    assert.equal(8, v:bytes())
    assert.equal(80, v:tokens())
  end)

  it("looks up positions from both ends", function()
    local s, v = filled("a", "b", "c")
    v:replace { 3, 1 }
    assert.equal(3, v:at(1))
    assert.equal(1, v:at(2))
    assert.equal(1, v:at(-1))
    assert.equal(3, v:at(-2))
    for _, i in ipairs { 0, 3, -3, math.maxinteger, math.mininteger } do assert.is_nil(v:at(i)) end
    assert.is_nil(s:view():at(1))
    raises("number expected", v.at, v)
  end)

  describe("render", function()
    it("joins with commas", function()
      local s, v = filled("1", "22", "333")
      assert.equal('{"m":[1,22,333]}', v:render('{"m":[', "]}"))
      assert.equal("1,22,333", v:render("", ""))
      v:replace { s:add("") }
      assert.equal("[]", v:render("[", "]"))
      v:push(v:at(1))
      assert.equal("[,]", v:render("[", "]"))
    end)

    it("starts where it is told", function()
      local _, v = filled("1", "22", "333")
      assert.equal("<1,22,333>", v:render("<", ">", 1))
      assert.equal("<22,333>", v:render("<", ">", 2))
      assert.equal("<333>", v:render("<", ">", 3))
      assert.equal("<>", v:render("<", ">", 4))
      for _, from in ipairs { 0, 5, -1, math.maxinteger, math.mininteger } do
        raises("no such position", v.render, v, "", "", from)
      end
    end)

    it("takes any byte and any size", function()
      local big = ("\0x"):rep(500000)
      local _, v = filled(big, "\0")
      assert.is_true("\0" .. big .. ",\0\xff" == v:render("\0", "\xff"))
    end)

    it("raises without head and tail", function()
      local _, v = filled("1")
      raises("string expected", v.render, v)
      raises("string expected", v.render, v, "")
    end)
  end)

  describe("tokens", function()
    it("follows set_tokens", function()
      local s, v = filled("a", "b", "c")
      v:push(1)
      assert.equal(70, v:tokens())
      s:set_tokens(1, 1)
      assert.equal(52, v:tokens())
      s:set_tokens(3, 0)
      v:push(2)
      assert.equal(42, v:tokens())
    end)

    it("follows every mixture of changes", function()
      local s = store.new()
      for i = 1, 20 do s:add(("x"):rep(i), i) end
      local v, seed = s:view(), 12345
      local function random(n)
        seed = (seed * 1103515245 + 12345) & 0x7fffffff
        return (seed >> 8) % n + 1
      end
      local shown = {}
      for _ = 1, 3000 do
        local what = random(8)
        if what <= 3 then
          shown[#shown + 1] = random(20)
          v:push(shown[#shown])
        elseif what == 4 then
          s:set_tokens(random(20), random(1000))
        elseif what == 5 then
          local mark = v:mark()
          for _ = 1, random(3) do v:push(random(20)) end
          if random(2) == 1 then v:tokens() end
          if random(3) == 1 then s:set_tokens(random(20), random(1000)) end
          v:rewind(mark)
        elseif what == 6 and random(10) == 1 then
          for i = #shown, 1, -2 do table.remove(shown, i) end
          v:replace(shown)
        elseif what == 7 and random(5) == 1 then
          v = v:fork()
        else
          local tokens, bytes = 0, 0
          for _, n in ipairs(shown) do tokens, bytes = tokens + s:tokens(n), bytes + #s:get(n) end
          assert.equal(tokens, v:tokens())
          assert.equal(bytes, v:bytes())
          assert.equal(#shown, v:count())
        end
      end
      assert.same(shown, v:list())
    end)

    it("does not overflow", function()
      local s = store.new()
      local n, v = s:add("", (1 << 31) - 1), s:view()
      for _ = 1, 1000 do v:push(n) end
      assert.equal(1000 * ((1 << 31) - 1), v:tokens())
    end)
  end)

  describe("mark and rewind", function()
    it("take off what came later", function()
      local s, v = filled("a", "b")
      local start, mark = s:view():mark(), v:mark()
      v:push(1)
      v:push(2)
      v:rewind(mark)
      assert.same({ 1, 2 }, v:list())
      assert.equal(2, v:bytes())
      v:rewind(mark)
      assert.equal(2, v:count())
      v:rewind(start)
      assert.same({}, v:list())
      assert.equal(0, v:bytes())
    end)

    it("raise past the end", function()
      local _, v = filled("a", "b")
      local first = v:mark()
      v:push(1)
      local second = v:mark()
      v:rewind(first)
      raises("past the end", v.rewind, v, second)
      assert.equal(2, v:count())
    end)

    it("raise after replace, also with the same content", function()
      local _, v = filled("a", "b")
      local mark = v:mark()
      v:replace(v:list())
      raises("another content", v.rewind, v, mark)
      v:rewind(v:mark())
      assert.same({ 1, 2 }, v:list())
    end)

    it("don't take the mark of another view's replace", function()
      local _, v = filled("a", "b")
      local w = v:fork()
      v:replace { 1 }
      w:replace { 2 }
      raises("another content", w.rewind, w, v:mark())
    end)

    it("raise on what never was a mark", function()
      local _, v = filled("a")
      for _, mark in ipairs { -1, 2, math.maxinteger, math.mininteger } do
        assert.has_error(function() v:rewind(mark) end)
      end
      raises("number expected", v.rewind, v)
      assert.equal(1, v:count())
    end)
  end)

  describe("replace", function()
    it("puts in the new content", function()
      local _, v = filled("a", "bb", "ccc")
      assert.equal(60, v:tokens())
      v:replace { 3, 3, 1 }
      assert.same({ 3, 3, 1 }, v:list())
      assert.equal(7, v:bytes())
      assert.equal(70, v:tokens())
      v:replace {}
      assert.equal(0, v:count())
      assert.equal(0, v:tokens())
    end)

    it("changes nothing when a number is wrong", function()
      local _, v = filled("a", "b")
      local mark = v:mark()
      for _, list in ipairs { { 1, 3 }, { 0 }, { 1, "x" }, { 1.5 }, { {} }, { 1, -1 }, { (1 << 32) + 1 } } do
        raises("no such fragment at %d", v.replace, v, list)
      end
      raises("table expected", v.replace, v)
      assert.same({ 1, 2 }, v:list())
      v:rewind(mark)
    end)

    it("runs no metamethods", function()
      local _, v = filled("a")
      local trap = function() error("called") end
      v:replace(setmetatable({ 1 }, { __index = trap, __len = trap }))
      assert.same({ 1 }, v:list())
    end)
  end)

  it("forks into a view of its own", function()
    local s, v = filled("a", "b")
    local mark = v:mark()
    v:push(1)
    local w = v:fork()
    assert.same({ 1, 2, 1 }, w:list())
    assert.equal(v:tokens(), w:tokens())
    w:push(2)
    v:rewind(mark)
    assert.same({ 1, 2 }, v:list())
    assert.same({ 1, 2, 1, 2 }, w:list())
    w:rewind(mark)
    assert.same({ 1, 2 }, w:list())
    assert.same({}, s:view():fork():list())
  end)

  it("keeps its store alive", function()
    local s, v = filled("kept")
    local w = v:fork()
    local gone = setmetatable({ s }, { __mode = "v" })
    s, v = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_not_nil(gone[1])
    assert.equal("kept", w:render("", ""))
    w = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_nil(gone[1])
  end)

  it("raises when the store or the view was closed", function()
    local s, v = filled("a")
    local w = v:fork()
    do local _ <close> = w end
    raises("the view is closed", w.count, w)
    do local _ <close> = s end
    raises("the store is closed", s.add, s, "x")
    raises("the store is closed", s.get, s, 1)
    raises("store of the view is closed", v.render, v, "", "")
    raises("store of the view is closed", v.at, v, 1)
    raises("store of the view is closed", v.fork, v)
    do local _ <close> = s end
    assert.equal("terret.store.store (0 fragments)", tostring(s))
  end)

  it("survives being used by a finalizer after its store's", function()
    local answer
    do
      local holder = setmetatable({}, {
        __gc = function(h) answer = { pcall(h.view.render, h.view, "", "") } end,
      })
      local s = store.new()
      holder.view = s:view()
      holder.view:push(s:add("a"))
    end
    collectgarbage()
    collectgarbage()
    assert.is_table(answer)
  end)
end)

-- terret.sandbox.policy.gitlinks: the submodules that an index names.

local gitlinks = require "terret.sandbox.policy.gitlinks"

local LINK, FILE = 0xE000, 0x81A4

-- An index with entries {mode, name, extended?}; names of version 4 are given as {mode, rest, drop = n}.
local function index(version, hash, list)
  local out = { (">c4I4I4"):pack("DIRC", version, #list) }
  for _, e in ipairs(list) do
    local flags = (e.length or math.min(#e[2], 0xFFF)) | (e.extended and 0x4000 or 0)
    local entry = ("\1"):rep(24) .. (">I4"):pack(e[1]) .. ("\1"):rep(12) .. ("\2"):rep(hash) .. (">I2"):pack(flags)
      .. (e.extended and "\0\0" or "")
    if version == 4 then
      entry = entry .. (e.drop or "\0") .. e[2] .. "\0"
    else
      entry = entry .. e[2]
      entry = entry .. ("\0"):rep(8 - #entry % 8)
    end
    out[#out + 1] = entry
  end
  return table.concat(out) .. ("\3"):rep(hash)
end

describe("sandbox.policy.gitlinks", function()
  it("finds them in each version, with both kinds of hashes", function()
    for _, hash in ipairs { 20, 32 } do
      for _, version in ipairs { 2, 3 } do
        assert.same({ "lib/a", "z" }, gitlinks.parse(index(version, hash,
          { { FILE, "a" }, { LINK, "lib/a" }, { FILE, "m", extended = version == 3 },
            { LINK, "z", extended = version == 3 } })))
      end
      assert.same({ "lib/ab", "lib/c" }, gitlinks.parse(index(4, hash,
        { { FILE, "lib/aa" }, { LINK, "b", drop = "\1" }, { LINK, "c", drop = "\2", extended = true } })))
    end
  end)

  it("takes long names, and long steps back", function()
    local long = ("d/"):rep(3000) .. "x"
    assert.same({ long }, gitlinks.parse(index(2, 20, { { LINK, long } })))
    assert.same({ "y" }, gitlinks.parse(index(4, 20, { { FILE, ("x"):rep(300) }, { LINK, "y", drop = "\x81\x2C" } })))
  end)

  it("ends on what is broken", function()
    local whole = index(4, 20, { { LINK, "lib" }, { LINK, "more", drop = "\1" } })
    for i = 0, #whole do assert(gitlinks.parse(whole:sub(1, i)) or true) end
    assert.is_nil(gitlinks.parse(index(4, 20, { { LINK, "a", drop = "\9" } })))
    assert.is_nil(gitlinks.parse("\0\0\xE0\0"))
    assert.is_nil(gitlinks.parse("DIRC\0\0\0\9\0\0\0\1" .. ("\0\0\xE0\0"):rep(40)))
    assert.same({}, gitlinks.parse(""))
    assert.is_table(gitlinks.parse("DIRC\0\0\0\2\0\0\0\1" .. ("\0\0\xE0\0"):rep(4)))
  end)
end)

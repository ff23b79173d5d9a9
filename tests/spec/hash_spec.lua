-- terret.hash: SHA-256, random identifiers, base64.
local hash = require "terret.hash"

describe("terret.hash", function()
  describe("sha256", function()
    it("gives the digests of FIPS 180-4's examples", function()
      local known = {
        [""] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ["abc"] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
        ["abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"] =
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
        [("a"):rep(1000000)] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0",
      }
      for text, digest in pairs(known) do assert.equal(digest, hash.sha256(text)) end
    end)

    it("pads right around the edges of a block", function()
      local known = {
        [55] = "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318",
        [56] = "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a",
        [57] = "f13b2d724659eb3bf47f2dd6af1accc87b81f09f59f2b75e5c0bed6589dfe8c6",
        [63] = "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34",
        [64] = "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb",
        [65] = "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0",
        [119] = "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb",
        [128] = "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e",
      }
      for n, digest in pairs(known) do assert.equal(digest, hash.sha256(("a"):rep(n))) end
    end)

    it("takes any byte", function()
      assert.equal("6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d", hash.sha256("\0"))
      assert.not_equal(hash.sha256("\0"), hash.sha256("\0\0"))
      assert.equal("a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89", hash.sha256("\xff"))
    end)

    it("raises on what is no string", function()
      assert.error_matches(function() hash.sha256() end, "string expected")
      assert.error_matches(function() hash.sha256({}) end, "string expected")
    end)
  end)

  describe("random", function()
    it("gives as many bytes as asked for, in hexadecimal", function()
      for _, n in ipairs { 1, 16, 64 } do assert.matches("^" .. ("%x%x"):rep(n) .. "$", hash.random(n)) end
    end)

    it("differs from call to call", function()
      local seen = {}
      for _ = 1, 100 do
        local s = hash.random(8)
        assert.is_nil(seen[s])
        seen[s] = true
      end
    end)

    it("raises outside 1 to 64", function()
      for _, n in ipairs { 0, -1, 65, math.mininteger, math.maxinteger } do
        assert.error_matches(function() hash.random(n) end, "1 to 64 bytes")
      end
      assert.error_matches(function() hash.random(1.5) end, "no integer representation")
      assert.error_matches(function() hash.random() end, "number expected")
    end)
  end)

  describe("base64", function()
    local vectors = { -- RFC 4648, section 10
      [""] = "", f = "Zg==", fo = "Zm8=", foo = "Zm9v", foob = "Zm9vYg==", fooba = "Zm9vYmE=", foobar = "Zm9vYmFy",
      ["\0\0\0"] = "AAAA", ["\xff\xff\xff"] = "////", ["\xfb\xef\xbe"] = "++++",
    }

    it("encodes", function()
      for bytes, text in pairs(vectors) do assert.equal(text, hash.base64(bytes)) end
    end)

    it("decodes", function()
      for bytes, text in pairs(vectors) do assert.equal(bytes, hash.unbase64(text)) end
    end)

    it("gives back every byte at every position", function()
      local all = {}
      for i = 0, 255 do all[#all + 1] = string.char(i) end
      local bytes = table.concat(all)
      for cut = 1, 4 do assert.equal(bytes:sub(cut), hash.unbase64(hash.base64(bytes:sub(cut)))) end
      local long = bytes:rep(5000)
      assert.is_true(long == hash.unbase64(hash.base64(long)))
    end)

    local function refused(text, message)
      local bytes, why, code = hash.unbase64(text)
      assert.is_nil(bytes)
      assert.matches(message, why)
      assert.equal("bad_base64", code)
    end

    it("refuses a length that can't be", function()
      for _, text in ipairs { "Z", "Zm", "Zm9", "Zm9vY", "Zm9v\n" } do refused(text, "multiple of 4") end
    end)

    it("refuses what is not in the alphabet, and says where", function()
      refused("Zm9vYm9!", "at 8")
      refused("!m9v", "at 1")
      refused("Zm9v\n\n\n\n", "at 5")
      refused("Zm-_", "at 3")
      refused("Zm\0v", "at 3")
      refused("Zm\xe9v", "at 3")
    end)

    it("refuses padding anywhere but at the end", function()
      refused("====", "at 1")
      refused("Z===", "at 2")
      refused("Zg==Zg==", "at 3")
      refused("Z=9v", "at 2")
    end)

    it("refuses bits that nobody would write", function()
      refused("Zh==", "at 2")
      refused("Zm9=", "at 3")
    end)

    it("raises on what is no string", function()
      assert.error_matches(function() hash.base64(nil) end, "string expected")
      assert.error_matches(function() hash.unbase64(nil) end, "string expected")
    end)
  end)
end)

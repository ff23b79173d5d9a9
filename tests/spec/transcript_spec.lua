-- scripts/transcript.lua and scripts/listing.lua: the small pure parts; the rest is in cli/.
local listing = require "terret.listing"
local transcript = require "terret.transcript"

describe("transcript.words", function()
  local words = transcript.words

  it("leaves the user's words alone", function()
    for _, s in ipairs { "", "x", "<b>bold</b> x", "<note", "<notes>x</notes>",
      "a <note>x</note> b", "</note>", "<>" } do
      assert.equal(s, words(s))
    end
  end)

  it("takes away the frames before them", function()
    assert.equal("x", words("<note>\na\n</note>\n\nx"))
    assert.equal("x", words('<instructions from="a">b</instructions>\n\n<skills>\nc</skills>\n\n<note>d</note>\n\nx'))
    assert.equal("", words("<note>a</note>"))
  end)

  it("keeps a frame that doesn't end", function() assert.equal("<note>\nx", words("<note>\nx")) end)

  it("is quick on what is made to be slow", function()
    local s = ("<note>"):rep(100000)
    assert.equal(s, words(s))
    assert.equal("", words(("<note></note>"):rep(2000)))
  end)
end)

describe("listing.headline", function()
  local headline = listing.headline

  it("is the first sentence after the name", function()
    assert.equal("does a thing", headline("-- x.lua - does a thing.\nreturn 1"))
    assert.equal("does a thing that is long", headline("-- x.lua - does a thing that\n-- is long.  And more.\n"))
    assert.equal("reads a.b files", headline("-- x.lua - reads a.b files.\n"))
    assert.equal("no full stop", headline("-- x.lua - no full stop\n--\n-- else"))
  end)

  it("is nothing where there is no such comment", function()
    for _, s in ipairs { "", "return 1", "-- just a comment", "\n-- x.lua - too late", "--x" } do
      assert.is_nil(headline(s), s)
    end
  end)
end)

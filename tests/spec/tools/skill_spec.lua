-- scripts/tools/skill.lua
local fake = require "support.fakecall"
local skills = require "terret.skills"

local call

local function has(text, words)
  assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
end

describe("skill", function()
  before_each(function() call = fake.new() end)
  after_each(function() getmetatable(call).__close(call) end)

  before_each(function()
    call:put(".agents/skills/maps/SKILL.md", "---\nname: maps\ndescription: Draws.\n---\n# Maps\nDraw.\n")
    call:put(".agents/skills/maps/more.md", "x")
    call.agent = { skills = skills.scan { cwd = call.cwd, home = call.dir, config_dir = call.dir, bundled = call.dir } }
  end)

  it("gives the text, the folder and its files", function()
    local text, extra = fake.run("skill", { name = "maps" }, call)
    has(text, "# Maps\nDraw.\n")
    has(text, call.cwd .. "/.agents/skills/maps")
    has(text, "Files there: more.md")
    assert.equal("maps", extra.skill)
    assert.truthy((fake.run("skill", { name = "MAPS" }, call)))
  end)

  it("lists the others for an unknown name", function()
    has(select(2, fake.run("skill", { name = "../../etc" }, call)), "there are: maps")
    call.agent.skills = {}
    has(select(2, fake.run("skill", { name = "x" }, call)), "no skills")
  end)
end)

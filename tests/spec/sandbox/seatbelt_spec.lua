-- seatbelt: the profile as text; only macOS can run it.

local fs = require "terret.fs"
local policy = require "terret.sandbox.policy"
local seatbelt = require "terret.sandbox.seatbelt"

describe("sandbox.seatbelt", function()
  local base, home, project

  before_each(function()
    base = fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/seatbelt-")))
    home, project = base .. "/home", base .. '/home/p "q\\'
    assert(fs.mkdir(project .. "/.git/hooks", { parents = true }))
    assert(fs.mkdir(home .. "/.ssh"))
    assert(fs.mkdir(home .. "/.config/terret/skills", { parents = true }))
  end)
  after_each(function() assert(fs.remove(base, { recursive = true })) end)

  local function new(options)
    local o = { project = project, home = home, tmp = base .. "/tmp" }
    for k, v in pairs(options or {}) do o[k] = v end
    return assert(policy.new(o))
  end
  local function quoted(path) return '"' .. path:gsub('[\\"]', "\\%0") .. '"' end

  -- The verdict of the last rule with this operation and exactly this filter.
  local function verdict(text, operation, filter)
    local last
    for rule in text:gmatch("%b()") do
      local word, operations = rule:match("^%((%a+) ([^\n(]*)")
      if word and (" " .. operations .. " "):gsub("\n", " "):find(" " .. operation .. " ", 1, true)
        and rule:find(filter, 1, true) then last = word end
    end
    return last
  end

  it("denies by default, the network too", function()
    local text = seatbelt.profile(new())
    assert.matches("^%(version 1%)\n%(deny default%)\n", text)
    assert.is_nil(text:find("network", 1, true))
    assert.is_nil(text:find("(allow default)", 1, true))
  end)

  it("allows writing in the project and the session's directories", function()
    local text = seatbelt.profile(new())
    assert.equal("allow", verdict(text, "file-write*", "(subpath " .. quoted(project) .. ")"))
    assert.equal("allow", verdict(text, "file-write*", "(subpath " .. quoted(base .. "/tmp") .. ")"))
    assert.is_nil(verdict(text, "file-write*", "(subpath " .. quoted(home) .. ")"))
  end)

  it("protects git's hooks and configuration and .terret, also missing ones", function()
    local text = seatbelt.profile(new())
    for _, name in ipairs { "/.git/hooks", "/.git/config", "/.git/commondir", "/.terret" } do
      assert.equal("deny", verdict(text, "file-write*", "(subpath " .. quoted(project .. name) .. ")"), name)
    end
    assert.equal("deny", verdict(text, "file-write-unlink", "(literal " .. quoted(project .. "/.git") .. ")"))
  end)

  it("hides secrets after everything else, but for the skills", function()
    local text = seatbelt.profile(new())
    assert.equal("deny", verdict(text, "file-read*", "(subpath " .. quoted(home .. "/.ssh") .. ")"))
    assert.equal("allow", verdict(text, "file-read*", "(subpath " .. quoted(home .. "/.config/terret/skills") .. ")"))
    assert.is_true(text:find(quoted(home .. "/.ssh"), 1, true) > text:find(quoted(project .. "/.terret"), 1, true))
  end)

  it("has balanced parentheses and strings whatever a path holds", function()
    local text = seatbelt.profile(new())
    local bare = text:gsub("\\.", ""):gsub('#?"[^"]*"', "")
    assert.is_nil(bare:find('"', 1, true))
    local _, open = bare:gsub("%(", "")
    local _, close = bare:gsub("%)", "")
    assert.equal(open, close)
  end)

  it("writes nothing in a read-only project", function()
    local text = seatbelt.profile(new { readonly = true })
    assert.is_nil(verdict(text, "file-write*", "(subpath " .. quoted(project) .. ")"))
  end)

  it("wraps the command, and names the session's directories in its environment", function()
    local plan = seatbelt.wrap(new { cache_dir = base .. "/c" }, { "cmd", "-x" }, { TMPDIR = "/tmp", A = "b" })
    assert.same({ "/usr/bin/sandbox-exec", "-p" }, { plan.argv[1], plan.argv[2] })
    assert.same({ "--", "cmd", "-x" }, table.move(plan.argv, 4, 6, 1, {}))
    assert.equal(base .. "/tmp", plan.env.TMPDIR)
    assert.equal("b", plan.env.A)
    assert.equal(base .. "/c/.cache", plan.env.XDG_CACHE_HOME)
    assert.is_truthy(fs.stat(base .. "/c/.cache"))
  end)

  it("says where it works", function()
    local ok, why = seatbelt.available()
    assert.equal(fs.stat("/usr/bin/sandbox-exec") ~= nil, ok)
    if not ok then assert.matches("macOS", why, 1, true) end
  end)
end)

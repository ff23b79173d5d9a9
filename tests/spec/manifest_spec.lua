-- scripts/manifest.lua: the first record says what a session was made with.
local fs = require "terret.fs"
local hash = require "terret.hash"
local json = require "terret.json"
local manifest = require "terret.manifest"
local terret = require "support.terret"
local world = require "support.world"

describe("manifest", function()
  it("names every Lua module of ours that is loaded, by its hash", function()
    local hashes = manifest.files()
    for _, name in ipairs { "manifest", "session", "agent", "context", "tools.bash", "loops.react" } do
      if package.loaded["terret." .. name] then assert.matches("^%x+$", hashes[name], name) end
    end
    assert.is_nil(hashes.fs) -- C
    assert.equal(16, #hashes.manifest)
    for name in pairs(hashes) do assert.truthy(package.loaded["terret." .. name]) end
  end)

  it("stands in the first record, with the model and the sandbox", function()
    local w <close> = world.new { script = { { text = "hi" } }, mode = "auto" }
    assert(fs.mkdir(w.dir .. "/extra"))
    w.cfg.rw = { w.dir .. "/extra" }
    w:prompt()
    local head = w:records()[1]
    assert.equal("gpt-4o", head.model)
    assert.equal("eco", head.manifest.context)
    assert.equal("auto", head.manifest.sandbox.mode)
    assert.same({ w.dir .. "/extra" }, head.manifest.sandbox.rw)
    assert.truthy(head.manifest.version)
    assert.equal(manifest.files().session, head.manifest.files.session)
  end)

  it("is completed by what is loaded later, once", function()
    local w <close> = world.new { script = { { tool_calls = { { name = "late" } } }, { text = "hi" },
      { text = "ho" } } }
    w:tool("late", function()
      package.loaded["terret.render"] = nil
      require "terret.render"
      return "done"
    end)
    w:open()
    local first = w:records()[1].manifest.files
    first.render = nil
    w.agent.session.header.manifest.files.render = nil
    w:prompt()
    local count, value = 0, nil
    for _, r in ipairs(w:records()) do
      if r.key == "files" then count, value = count + 1, r.value end
    end
    assert.equal(1, count)
    assert.equal(manifest.files().render, value.render)
    w:prompt("again")
    assert.is_nil(manifest.more(w.agent.session))
  end)

  it("shows a file of the user's that stands in for a built-in", function()
    local home <close> = terret.home()
    local source = "return function(agent)\n  agent:ask()\nend\n"
    local path = home:put(home.config .. "/loops/mine.lua", source)
    local r = home:run { "-p", "go", "--provider", "scripted", "--loop", "mine", "--output", "json", "--script",
      home:put("s.lua", 'return { { text = "hi" } }') }
    assert.equal(0, r.code, r.err)
    local id = json.decode(r.out).session
    local dir = require("terret.session").find(home.state, id)
    local head = json.decode(assert(fs.read(dir .. "/log.jsonl")):match("[^\n]*"))
    assert.equal(hash.sha256(source):sub(1, 16), head.manifest.files["loops.mine"])
    assert.equal(path, head.manifest.paths["loops.mine"])
    assert.is_nil(head.manifest.paths.session)
  end)

  it("has the hash of the text that is in the executable", function()
    local ok, embedded = pcall(require, "terret.embedded")
    if not ok then return end
    for _, name in ipairs(embedded.list()) do
      assert.equal(hash.sha256(embedded.get(name)), embedded.sha256(name))
    end
    local _, _, code = embedded.sha256("nonesuch")
    assert.equal("not_found", code)
  end)
end)

-- Every loop solves the demo project, with a scripted model and the real sandbox, and ends in any state.
local demo = require "terret.demo.project"
local fs = require "terret.fs"
local task = require "terret.task"
local world = require "support.world"

local MEND = { name = "edit", arguments = { path = "duration.c", old_string = "        total += number * unit;\n",
  new_string = "        total += number * unit;\n        number = 0;\n" } }
local WRONG = { name = "edit", arguments = { path = "duration.c", old_string = "        total += number * unit;\n",
  new_string = "        total += number * unit;\n        number = 1;\n" } }
local SET_0 = "sed -i 's/number = 1;/number = 0;/' duration.c"
local TEST = { name = "bash", arguments = { command = demo.test } }
local SED = "Now I mend it.\n```sh\nsed -i 's/total += number \\* unit;/&\\n        number = 0;/' duration.c\n```\n"

describe("loops on the demo project:", function()
  local w
  -- script(request) -> a reply for one of the agents
  local function open(loop, script, options)
    options = options or {}
    w = world.new { loop = loop, script = nil, mode = options.mode or "yolo", check = options.check,
      attempts = options.attempts, limits = { steps = 40, seconds = 60 }, ask = options.ask }
    for path, content in pairs(demo.files) do
      assert(fs.write(w.project .. "/" .. path, content, { mode = path:find("%.sh$") and 493 or 420, sync = false }))
    end
    w.cfg.script = script
    return w:open()
  end
  local function list(...)
    local replies = { ... }
    return function() return table.remove(replies, 1) or { text = "I have nothing more to say." } end
  end
  local function mended()
    local r = task.run(function() return w.agent:exec(demo.test, { timeout = 60 }) end)
    return r and r.code == 0
  end
  after_each(function() w:close() end)

  it("react", function()
    open("react", list({ tool_calls = { TEST } }, { tool_calls = { MEND } }, { tool_calls = { TEST } },
      { text = "Mended." }))
    assert.is_false(mended())
    assert.equal("done", w:prompt(demo.prompt).status)
    assert.is_true(mended())
  end)

  it("verify: a claim is not enough", function()
    open("verify", list({ text = "It is fine, I believe." }, { tool_calls = { WRONG } }, { text = "Done." },
      { tool_calls = { { name = "bash", arguments = { command = SET_0 } } } },
      { text = "Now it is mended." }), { check = demo.test })
    local result = w:prompt(demo.prompt)
    assert.equal("done", result.status, result.message)
    assert.equal("Now it is mended.", result.text)
    assert.is_true(mended())
    assert.truthy(w.agent.session.view:render("", ""):find("FAIL 1h30m", 1, true))
  end)

  it("verify ends as failed when the check never passes", function()
    local n = 0
    open("verify", function()
      n = n + 1
      return { text = "Try " .. n }
    end, { check = "false" })
    assert.equal("failed", w:prompt(demo.prompt).status)
    assert.equal(5, n)
  end)

  it("text: a model without tools", function()
    local bodies = {}
    open("text", function(request)
      bodies[#bodies + 1] = request
      return ({ { text = "I look.\n```sh\n./run-tests.sh\n```" }, { text = "```sh\nls\n```\n```sh\nls\n```" },
        { text = SED },
        { text = "```bash\n./run-tests.sh\n```" }, { text = "Mended:\n```c\nnumber = 0;\n```\n" } })[request.turn]
    end)
    local result = w:prompt(demo.prompt)
    assert.equal("done", result.status, result.message)
    assert.is_true(mended())
    for _, b in ipairs(bodies) do assert.is_nil(b.tools) end
    local said = w.agent.session.view:render("", "")
    assert.truthy(said:find("expected 5400", 1, true))
    assert.truthy(said:find("One command per reply", 1, true))
    w:check()
  end)

  it("plan: nothing is changed before the plan is agreed to", function()
    local asked
    local answers = { { verdict = "deny", words = "smaller" }, { verdict = "allow" }, { verdict = "allow" },
      { verdict = "allow" } }
    open("plan", list({ tool_calls = { MEND } }, { text = "I will rewrite it all." }, { text = "I set number to 0." },
      { tool_calls = { MEND } }, { text = "Mended." }), { mode = "ask", ask = function(q)
      if q.tool == "act on the plan" then asked = (asked or "") .. q.reason .. "\n" end
      return table.remove(answers, 1)
    end })
    local result = w:prompt(demo.prompt)
    assert.equal("done", result.status, result.message)
    assert.equal("I will rewrite it all.\nI set number to 0.\n", asked)
    assert.truthy(w:results()[1]:find("^denied"))
    assert.is_true(mended())
    assert.equal("ask", w.agent.permissions.mode)
  end)

  it("plan: where nobody can be asked the plan is the answer", function()
    open("plan", list({ text = "The plan." }), { mode = "ask" })
    local result = w:prompt(demo.prompt)
    assert.equal("refused", result.status)
    assert.equal("The plan.", result.text)
  end)

  it("review: a second model objects, once", function()
    local main = list({ tool_calls = { WRONG } }, { text = "Mended." }, { tool_calls = { { name = "bash",
      arguments = { command = SET_0 } } } }, { text = "Right, now it is." })
    local reviews = list({ text = "It looks wrong to me." },
      { text = '{"good": false, "objections": "duration.c:25: must be 0"}' }, { text = '```json\n{"good": true}\n```' })
    open("review", function(request) return (request.agent == "main" and main or reviews)(request) end)
    local result = w:prompt(demo.prompt)
    assert.equal("done", result.status, result.message)
    assert.equal("Right, now it is.", result.text)
    assert.is_true(mended())
    assert.truthy(w.agent.session.view:render("", ""):find("duration.c:25: must be 0", 1, true))
  end)

  describe("bestof", function()
    local function git(command)
      local r = task.run(function() return w.agent:exec("git -c user.name=x -c user.email=x " .. command) end)
      assert.equal(0, r.code, r.head .. r.tail)
      return r.head
    end
    local function attempts(good)
      local number, last = {}, 0
      return function(request)
        if not number[request.agent] then
          last = last + 1
          number[request.agent] = last
        end
        local mine = number[request.agent]
        if request.turn == 1 then return { tool_calls = { mine == good and MEND or WRONG } } end
        return { text = "attempt " .. mine }
      end
    end
    local function temporary()
      local out = {}
      for _, e in ipairs(fs.list(os.getenv("TMPDIR") or "/tmp")) do
        if e.name:find("^terret%-attempts") then out[#out + 1] = e.name end
      end
      return #out
    end
    local before
    before_each(function() before = temporary() end)

    it("takes the attempt whose check passes, and leaves no worktree behind", function()
      open("bestof", attempts(2), { check = demo.test })
      git "init -q"
      git "add -A"
      git "commit -qm begin"
      w:put("untracked.txt", "kept")
      local result = w:prompt(demo.prompt)
      assert.equal("done", result.status, result.message)
      assert.equal("attempt 2", result.text)
      assert.is_true(mended())
      assert.equal("kept", w:get("untracked.txt"))
      assert.equal(1, select(2, git("worktree list"):gsub("\n", "")))
      assert.equal("?? test_duration", git("status --short"):match("%?%? test_duration"))
      assert.equal(before, temporary())
      w:check()
    end)

    it("a judge chooses where there is no check", function()
      local script = attempts(3)
      open("bestof", function(request)
        if request.messages:find("Several attempts were made", 1, true) then
          return { text = '{"best": 3}' }
        end
        return script(request)
      end)
      git "init -q"
      local result = w:prompt(demo.prompt)
      assert.equal("done", result.status, result.message)
      assert.equal("attempt 3", result.text)
      assert.is_true(mended())
    end)

    it("needs no repository; fails when no check passes, and the project stays as it was", function()
      open("bestof", attempts(0), { check = demo.test })
      local result = w:prompt(demo.prompt)
      assert.equal("failed", result.status)
      assert.truthy(result.message:find("in none of the attempts", 1, true), result.message)
      assert.equal(demo.files["duration.c"], w:get("duration.c"))
      assert.equal(before, temporary())
    end)

    it("drops the attempts when it is interrupted", function()
      open("bestof", function() return { text = "slow", delay = 60 } end)
      git "init -q"
      local result = task.run(function()
        task.spawn(function()
          task.sleep(0.5)
          w.agent:interrupt()
        end)
        return w.agent:prompt(demo.prompt)
      end)
      assert.equal("interrupted", result.status)
      assert.equal(1, select(2, git("worktree list"):gsub("\n", "")))
      assert.equal(before, temporary())
    end)
  end)

  it("--loop ./mine.lua works from any directory", function()
    open("react", list())
    local terret = require "support.terret"
    local home <close> = terret.home()
    home:put("project/sub/mine.lua", "return function(agent) agent:ask() agent:ask { prompt = 'again' } end")
    local r = home:play("return { { text = 'one' }, { text = 'two' } }", { "--loop", "./mine.lua" },
      { cwd = home.project .. "/sub" })
    assert.equal("two\n", r.out, r.err)
    r = home:play("return { { text = 'one' }, { text = 'two' } }", { "-C", home.project, "--loop", "sub/mine.lua" },
      { cwd = home.dir })
    assert.equal("two\n", r.out, r.err)
  end)
end)

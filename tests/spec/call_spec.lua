-- scripts/call.lua: files under the policy, commands in the sandbox, blobs.  The commands are real and run in
-- whatever sandbox works here; where none does, they must be refused.
local fs = require "terret.fs"
local call_mod = require "terret.call"
local sandbox = require "terret.sandbox"
local task = require "terret.task"
local world = require "support.world"

local function new(options)
  local w = world.new(options)
  return w, call_mod.new(assert(w:open()), "c1", "test")
end

describe("call", function()
  describe("files", function()
    it("are read and written in the project, by relative and absolute paths", function()
      local w, call = new()
      local _close <close> = w
      assert(call:write("dir/a.txt", "one"))
      assert.equal("one", w:get("dir/a.txt"))
      assert.equal("one", call:read(w.project .. "/dir/a.txt"))
      assert.equal(3, call:stat("dir/a.txt").size)
      assert.same({ "a.txt" }, { call:list("dir")[1].name })
    end)

    it("elsewhere are refused with a code", function()
      local w, call = new()
      local _close <close> = w
      w:put("inside", "x")
      w:put(".git/HEAD", "ref: refs/heads/main\n")
      for _, path in ipairs { "/etc/terret-test", "/usr/../etc/x", ".git/hooks/pre-commit", ".terret/x", "" } do
        local ok, message, code = call:write(path, "x")
        assert.is_nil(ok, path)
        assert.is_string(message)
        assert.is_string(code)
      end
      -- The project of this test lies in /tmp, so what lies beside it is the session's private /tmp.
      call:write("../outside", "x")
      call:write(w.dir .. "/home/outside", "x")
      assert.is_nil(fs.stat(w.dir .. "/outside"))
      assert.is_nil(fs.stat(w.dir .. "/home/outside"))
      local data, message, code = call:read("missing")
      assert.is_nil(data)
      assert.is_string(message)
      assert.equal("not_found", code)
    end)

    it("through a link that leaves the project are refused", function()
      local w, call = new()
      local _close <close> = w
      assert(fs.write(w.dir .. "/home/key", "secret"))
      assert(os.execute(("ln -s ../home/key %s/link"):format(w.project)))
      assert.is_nil(call:write("link", "x"))
      assert.equal("secret", fs.read(w.dir .. "/home/key"))
    end)

    it("that changed since they were seen are known", function()
      local w, call = new()
      local _close <close> = w
      w:put("f", "one")
      assert.is_false(call:changed("f")) -- never seen
      call:read("f")
      assert.is_false(call:changed("f"))
      w:put("f", "two and more")
      assert.is_true(call:changed("f"))
      call:read("f")
      assert.is_false(call:changed("f"))
      assert(call:write("f", "mine"))
      assert.is_false(call:changed("f"))
      fs.remove(w.project .. "/f")
      assert.is_true(call:changed("f"))
    end)
  end)

  describe("the list of files seen", function()
    it("says each change once", function()
      local w, call = new()
      local _close <close> = w
      w:put("a", "1")
      w:put("b", "1")
      call:read("a")
      call:read("b")
      local files = w.agent.files
      assert.same({}, files:take_changes())
      w:put("a", "22")
      fs.remove(w.project .. "/b")
      local copy = files:copy()
      assert.same({ "a", "b (gone)" }, (function(list)
        for i, name in ipairs(list) do list[i] = name:match("[^/]+$") end
        return list
      end)(files:take_changes()))
      assert.same({}, files:take_changes())
      assert.equal(2, #copy:take_changes()) -- a fork has its own
      w:put("a", "333")
      assert.equal(1, #files:take_changes())
    end)
  end)

  describe("blobs", function()
    it("come back by id", function()
      local w, call = new()
      local _close <close> = w
      local id = assert(call:blob("data"))
      assert.equal("data", call:blob_read(id))
      local fresh, path = call:blob_path()
      assert.not_equal(id, fresh)
      assert.is_nil(fs.stat(path))
      assert.equal("not_found", select(3, call:blob_read("b99")))
    end)
  end)

  it("progress is shown as clean text", function()
    local w, call = new()
    local _close <close> = w
    call:progress("half\0\xff")
    assert.equal("half\u{FFFD}\u{FFFD}", w:seen("tool_progress")[1].text)
  end)

  describe("exec", function()
    it("without a sandbox that works is refused", function()
      local w, call = new { sandbox = "no-such-backend" }
      local _close <close> = w
      local result, message, code = task.run(function() return call:exec { "true" } end)
      assert.is_nil(result)
      assert.is_string(message)
      assert.equal("no_sandbox", code)
    end)

    if not sandbox.pick("auto") then return end

    it("answers status, output and time", function()
      local w, call = new()
      local _close <close> = w
      local r = assert(task.run(function() return call:exec { "/bin/sh", "-c", "echo out; echo err >&2; exit 3" } end))
      assert.equal(3, r.code)
      assert.equal("out\nerr\n", r.head .. r.tail)
      assert.is_false(r.timed_out)
    end)

    it("ends when its call is interrupted, with what it started", function()
      local w, call = new()
      local _close <close> = w
      local t
      local ok, err = pcall(task.run, function()
        t = task.spawn(function()
          return call:exec { "/bin/sh", "-c", "echo here > mark; sleep 60 & sleep 60; echo late > late" }
        end)
        while not w:get("mark") and not t.done do task.sleep(0.002) end
        task.cancel(t)
        return task.await(t)
      end)
      assert.is_false(ok)
      assert.is_true(task.is_cancelled(err))
      assert.is_nil(w:get("late"))
    end)

    it("puts aside what an interrupted command left in a protected place", function()
      local w, call = new()
      local _close <close> = w
      local spawned, finished = {}, 0
      local real_spawn, real_finish = sandbox.spawn, sandbox.finish
      sandbox.spawn = function(...)
        local p, message, code = real_spawn(...)
        spawned[#spawned + 1] = p
        return p, message, code
      end
      sandbox.finish = function(p)
        assert(p:status(), "it still ran")
        finished = finished + 1
        return real_finish(p)
      end
      pcall(task.run, function()
        local t = task.spawn(function() return call:exec { "/bin/sh", "-c", "echo here > mark; sleep 60" } end)
        while not w:get("mark") and not t.done do task.sleep(0.002) end
        task.cancel(t)
        return task.await(t)
      end)
      sandbox.spawn, sandbox.finish = real_spawn, real_finish
      assert.equal(1, #spawned)
      assert.equal(1, finished)
    end)

    it("of a subagent finds the project read-only", function()
      local command = "echo x > made; echo y > /tmp/made && echo tmp is writable"
      local w <close> = world.new { script = {
        main = { { tool_calls = { { name = "agent", arguments = { prompt = "try" } } } }, { text = "end" } },
        sub = { { tool_calls = { { name = "bash", arguments = { command = command } } } }, function(request)
          local _, count = request.messages:gsub("tmp is writable", "") -- asked, and printed
          return { text = count == 2 and "tmp works" or "no tmp" }
        end } } }
      w:prompt()
      assert.is_nil(w:get("made"))
      assert.same({ "tmp works" }, w:results())
      w:check()
    end)
  end)
end)

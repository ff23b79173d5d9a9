-- The command line of a run: what is refused before anything starts, and the exit status of every end.
local exec = require "terret.exec"
local fs = require "terret.fs"
local json = require "terret.json"
local task = require "terret.task"
local terret = require "support.terret"

local HI = [[return { { text = "hi" } }]]

describe("terret", function()
  local home, script
  before_each(function()
    home = terret.home()
    script = home:put("script.lua", HI)
  end)
  after_each(function() home:close() end)

  -- A run that is refused: nothing on stdout, a line on stderr, no session.
  local function refuses(status, words, args, options)
    local r = home:run(args, options)
    assert.equal(status, r.code, r.err)
    assert.equal("", r.out)
    assert.is_truthy(r.err:find("^terret: "), r.err)
    assert.is_truthy(r.err:find(words, 1, true), r.err)
    assert.is_nil(r.err:find("traceback", 1, true))
    for _, project in ipairs(fs.list(home.state .. "/sessions") or {}) do
      assert.same({}, fs.list(home.state .. "/sessions/" .. project.name))
    end
  end
  local function scripted(...)
    local argv = { "-p", "go", "--provider", "scripted", "--script", script }
    return table.move({ ... }, 1, select("#", ...), #argv + 1, argv)
  end

  describe("refuses with 2", function()
    -- What is said, and the words of the command line.
    local WORDS = {
      ["several bare words"] = { "a prompt is one argument; quote it: terret 'fix the bug'", { "fix", "the", "bug" } },
      ["several bare words beside -p"] = { "quote it: terret -p 'a b'", { "-p", "x", "a", "b" } },
      ["a word that -p leaves over"] = { "-p takes the prompt, 'bug' is left over; quote it: terret -p 'fix bug'",
        { "-p", "fix", "bug" } },
      ["the same behind --"] = { "'-c' is left over", { "-p", "fix", "--", "-c" } },
      ["--output without -p"] = { "--output goes with -p", { "--output", "json" } },
      ["another format"] = { "--output must be one of text, json, jsonl, not 'xml'", { "-p", "x", "--output=xml" } },
      ["an option that there isn't"] = { "(did you mean --model?)", { "--models", "x" } },
      ["an option without its argument"] = { "-p needs an argument: PROMPT", { "-p" } },
      ["a switch with an argument"] = { "--plain takes no argument", { "--plain=yes" } },
      ["a limit of 0"] = { "--max-steps needs a whole number above 0", { "-p", "x", "--max-steps", "0" } },
      ["an empty prompt"] = { "the prompt is empty", { "-p", "" } },
      ["a blank prompt"] = { "the prompt is empty", { "-p", " \n\t" } },
      ["a URL that is none"] = { "'ftp://x' is no http or https URL", { "-p", "x", "--base-url", "ftp://x" } },
      ["a key that isn't set"] = { "--api-key-env: the variable NOPE_KEY is not set",
        { "-p", "x", "--base-url", "http://127.0.0.1:1", "--api-key-env", "NOPE_KEY" } },
      ["a provider that there isn't"] = { "no providers 'nope' (there are: ", { "-p", "x", "--provider", "nope" } },
      ["scripted without its script"] = { "needs --script FILE", { "-p", "x", "--provider", "scripted" } },
      ["a script that isn't there"] = { "nope.lua", { "-p", "x", "--provider", "scripted", "--script", "nope.lua" } },
    }
    for name, case in pairs(WORDS) do
      it(name, function() refuses(2, case[1], case[2]) end)
    end

    local RUN = {
      ["a sandbox that there isn't"] = { "there is no sandbox 'nope'", "--sandbox", "nope" },
      ["a sandbox by path"] = { "there is no sandbox '../scripts/agent'", "--sandbox", "../scripts/agent" },
      ["a file beside the sandboxes"] = { "there is no sandbox 'policy'", "--sandbox", "policy" },
      ["a loop that there isn't"] = { "no loops 'nope' (there are: ", "--loop", "nope" },
      ["a loop file that isn't there"] = { "read './nope.lua'", "--loop", "./nope.lua" },
      ["a directory that isn't there"] = { "chdir '/nope/nope'", "-C", "/nope/nope" },
      ["a session that there isn't"] = { "no session 'nope'", "-r", "nope" },
      ["a session without a name"] = { "no session ''", "-r", "" },
      ["a record of none"] = { "no session 'nope'", "-r", "nope@3" },
      ["a fork of none"] = { "no session 'nope'", "--fork", "nope" },
      ["to continue nothing"] = { "there is no session of this project to continue", "-c" },
      ["an empty rule"] = { "--allow: '' is no rule", "--allow", "" },
      ["another mode"] = { "--mode must be one of ask, auto, plan, yolo", "--mode", "yoloo" },
    }
    for name, case in pairs(RUN) do
      it(name, function() refuses(2, case[1], scripted(table.unpack(case, 2))) end)
    end

    it("no endpoint, and names the three ways", function()
      for _, args in ipairs { { "-p", "x" }, { "-p", "x", "-m", "m" } } do
        refuses(2, "no endpoint is set", args)
        local err = home:run(args).err
        for _, way in ipairs { "OPENROUTER_API_KEY=", "OPENAI_API_KEY=", "--base-url http://", "terret demo" } do
          assert.is_truthy(err:find(way, 1, true), way)
        end
      end
    end)

    it("a mistake in config.lua or rules", function()
      local path = home:put(home.config .. "/config.lua", "return { modle = 'x' }")
      refuses(2, path .. ": unknown key 'modle'", scripted())
      home:put(path, "return { sandbox = 'nope' }")
      refuses(2, "there is no sandbox 'nope'", scripted())
      home:put(path, "return { mode = 'yoloo' }")
      refuses(2, "'mode' must be ask, auto, plan or yolo", scripted())
      fs.remove(path)
      local rules = home:put(home.config .. "/rules", "allow make\nfoo\n")
      refuses(2, rules .. ":2: ", scripted())
    end)

    it("a number of the environment that is none", function()
      refuses(2, "TERRET_CONTEXT_WINDOW must be a number above 0, not 'x'", scripted(),
        { env = { TERRET_CONTEXT_WINDOW = "x" } })
    end)

    it("the beginning of two sessions", function()
      for _ = 1, 2 do assert.equal(0, home:run(scripted()).code) end
      local r = home:run(scripted("-r", "2"))
      assert.equal(2, r.code)
      assert.is_truthy(r.err:find("'2' is the beginning of 2 sessions", 1, true), r.err)
    end)
  end)

  describe("ends with 1", function()
    it("when no session can be kept, and says the way out, which works", function()
      local env = { XDG_STATE_HOME = "/proc/x" }
      refuses(1, "(XDG_STATE_HOME names another place for sessions, --no-session keeps none)", scripted(),
        { env = env })
      local r = home:run(scripted("--no-session"), { env = env })
      assert.equal(0, r.code, r.err)
      assert.equal("hi\n", r.out)
    end)

    it("when nobody gets the answer", function()
      if not fs.stat("/dev/full") then return end
      for _, format in ipairs { "text", "json", "jsonl" } do
        local process <close> = assert(exec.spawn { argv = { "/bin/sh", "-c", 'exec "$@" >/dev/full', "sh",
          terret.executable(), table.unpack(scripted("--output", format)) }, env = home:environ(), cwd = home.project,
          timeout = 20 })
        task.await(process)
        assert.equal(1, process:status().code, format)
        assert.is_truthy(process:output().head:find("can't be written", 1, true), process:output().head)
      end
    end)

    it("when help can't be written", function()
      if not fs.stat("/dev/full") then return end
      local process <close> = assert(exec.spawn { argv = { "/bin/sh", "-c", 'exec "$0" --version >/dev/full',
        terret.executable() }, env = home:environ(), cwd = home.project, timeout = 20 })
      task.await(process)
      assert.equal(1, process:status().code)
      assert.is_truthy(process:output().head:find("the output can't be written", 1, true))
    end)
  end)

  it("ends with 5 when the endpoint has no answer", function()
    home:put(script, "return {}")
    local r = home:run(scripted())
    assert.equal(5, r.code)
    assert.equal("terret: endpoint: the script has no further answer\n", r.err)
    assert.equal("", r.out)
  end)

  it("ends with 4 at a limit", function()
    local r = home:run(scripted("--max-tokens", "1", "--output", "json"))
    assert.equal(4, r.code)
    assert.equal("limit", json.decode(r.out).status)
  end)

  describe("ends by a signal", function()
    -- A run that answers with an event and then waits; the signal is sent when that event is here.
    local function signalled(name)
      home:put(script, [[return { { text = "begun", delay = 30 } }]])
      local process <close> = assert(exec.spawn { argv = { terret.executable(), table.unpack(scripted("--output",
        "jsonl")) }, env = home:environ(), cwd = home.project, timeout = 20, merge = false,
        stream = true })
      local out = ""
      while not out:find('"type":"session"', 1, true) do
        task.await(process)
        out = out .. assert(process:read(), out)
      end
      local kill <close> = assert(exec.spawn { argv = { "/bin/sh", "-c", ("kill -%s %d"):format(name, process:pid()) },
        env = home:environ(), cwd = home.project })
      task.await(kill)
      while true do
        local more = process:read()
        if not more then break end
        out = out .. more
        task.await(process)
      end
      return process:status(), terret.events(out)
    end

    for name, code in pairs { TERM = 143, HUP = 129, INT = 130 } do
      it(name .. " with " .. code .. ", a result, and a session to go on with", function()
        local status, events = signalled(name)
        assert.equal(code, status.code)
        local last = events[#events]
        assert.equal("result", last.type)
        assert.equal("interrupted", last.status)
        assert.equal(events[1].session, last.session)
        home:put(script, HI)
        local r = home:run(scripted("-r", last.session))
        assert.equal(0, r.code, r.err)
      end)
    end
  end)

  it("ends with 0 and the answer alone on stdout", function()
    local r = home:run(scripted())
    assert.equal(0, r.code)
    assert.equal("hi\n", r.out)
    assert.equal("", r.err)
  end)

  it("appends piped input to the prompt, or takes it for one", function()
    home:put(script, "return function(request) return { text = request.messages } end")
    local function sent(prompt, stdin)
      local args = scripted("--output", "json")
      args[2] = prompt
      local r = home:run(args, { stdin = stdin })
      assert.equal(0, r.code, r.err)
      return json.decode(r.out).text
    end
    assert.is_truthy(sent("look", "piped\n"):find("look\\n\\npiped", 1, true))
    assert.is_truthy(sent("", "piped"):find('[^d]\\n\\npiped","role":"user"'))
  end)

  it("goes on with the session that is continued", function()
    local first = json.decode(home:run(scripted("--output", "json")).out).session
    assert.equal(first, json.decode(home:run(scripted("--output", "json", "-c")).out).session)
    assert.equal(first, json.decode(home:run(scripted("--output", "json", "-r", first)).out).session)
    assert.is_true(first ~= json.decode(home:run(scripted("--output", "json", "--fork", first)).out).session)
  end)

  it("prints help and version, whatever else is asked", function()
    local r = home:run { "--version" }
    assert.equal(0, r.code)
    assert.is_truthy(r.out:find("^terret %S+\n$"))
    r = home:run { "--help", "-p", "x", "a", "b" }
    assert.equal(0, r.code)
    assert.is_truthy(r.out:find("--max-steps N", 1, true))
    assert.equal("", r.err)
  end)
end)

-- One configuration from flags, environment, config.lua and ~/.agents/env: which wins, which key goes where.
local config = require "terret.config"
local fs = require "terret.fs"

-- Lua shortens a long file name in its messages from the left.
local function shown(path) return path:sub(-24) end

describe("config", function()
  local dir, env, getenv, project
  before_each(function()
    dir = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-config-"))))
    project = dir .. "/project"
    assert(fs.mkdir(project))
    env = { HOME = dir .. "/home", XDG_CONFIG_HOME = dir .. "/config", XDG_STATE_HOME = dir .. "/state" }
    getenv = os.getenv
    os.getenv = function(name) return env[name] end -- luacheck: ignore 122
  end)
  after_each(function()
    os.getenv = getenv -- luacheck: ignore 122
    fs.remove(dir, { recursive = true })
  end)

  local function put(path, data)
    path = dir .. "/" .. path
    assert(fs.write(path, data, { parents = true, sync = false }))
    return path
  end
  local function file(data) return put("config/terret/config.lua", data) end
  local function seed(data) return put("home/.agents/env", data) end
  local function load(opts) return assert(config.load(opts or {}, project)) end

  -- The message of a refusal, which is always the user's mistake.
  local function refused(opts)
    local cfg, message, code = config.load(opts or {}, project)
    assert.is_nil(cfg)
    assert.equal("usage", code)
    assert.is_string(message)
    return message
  end
  local function refuses(words, opts)
    local message = refused(opts)
    assert.is_truthy(message:find(words, 1, true), message)
    return message
  end

  describe("policy.lua", function()
    it("is the last word on commands", function()
      assert.is_nil(load().policy)
      put("config/terret/policy.lua", "return function(tree, out) return 'deny', 'no ' .. type(tree) end")
      local cfg = load()
      local permissions = require "terret.permissions"
      local p = permissions.new { mode = "yolo", project = project, policy = cfg.policy }
      local verdict = p:check { class = "exec", command = "ls" }
      assert.equal("deny", verdict.verdict)
      assert.equal("no table", verdict.reason)
    end)

    it("that can't be loaded ends the start", function()
      for source, words in pairs { ["return {}"] = "must return a function", ["return function("] = ":1:",
        ["error 'boom'"] = "boom", [""] = "must return a function" } do
        put("config/terret/policy.lua", source)
        refuses(words)
      end
    end)
  end)

  describe("with nothing set", function()
    it("has defaults, no endpoint and no key", function()
      local cfg = load()
      assert.is_nil(cfg.base_url)
      assert.is_nil(cfg.api_key)
      assert.is_nil(cfg.model)
      assert.equal("openai", cfg.provider)
      assert.equal("ask", cfg.mode)
      assert.equal("auto", cfg.sandbox)
      assert.is_true(cfg.stream)
      assert.same({}, cfg.rules)
      assert.same({}, cfg.rw)
      assert.same({}, cfg.limits)
      assert.same({ progress = 600 }, cfg.timeouts)
      assert.equal(project, cfg.project)
      assert.equal(dir .. "/state/terret", cfg.state_dir)
      assert.equal(dir .. "/config/terret", cfg.config_dir)
    end)

    it("takes the endpoint of the first vendor whose key is set", function()
      env.ANTHROPIC_API_KEY = "a"
      local cfg = load()
      assert.equal("https://api.anthropic.com/v1", cfg.base_url)
      assert.equal("anthropic", cfg.provider)
      assert.equal("a", cfg.api_key)
      env.OPENROUTER_API_KEY = "r"
      assert.equal("r", load().api_key)
      env.OPENAI_API_KEY = "o"
      cfg = load()
      assert.equal("https://api.openai.com/v1", cfg.base_url)
      assert.equal("openai", cfg.provider)
      assert.equal("o", cfg.api_key)
    end)

    it("takes an empty key for none", function()
      env.OPENAI_API_KEY, env.OPENROUTER_API_KEY = "", "r"
      assert.equal("https://openrouter.ai/api/v1", load().base_url)
    end)
  end)

  describe("levels", function()
    it("are flags, environment, config.lua, ~/.agents/env", function()
      seed "MODEL=seed\nBASE_URL=http://seed/v1\n"
      assert.equal("seed", load().model)
      assert.equal("http://seed/v1", load().base_url)
      file "return { model = 'file', base_url = 'http://file/v1' }"
      assert.equal("file", load().model)
      assert.equal("http://file/v1", load().base_url)
      env.TERRET_MODEL, env.OPENAI_BASE_URL = "env", "http://env/v1"
      assert.equal("env", load().model)
      assert.equal("http://env/v1", load().base_url)
      local cfg = load { model = "flag", ["base-url"] = "http://flag/v1" }
      assert.equal("flag", cfg.model)
      assert.equal("http://flag/v1", cfg.base_url)
    end)

    it("an empty variable is none", function()
      file "return { model = 'file' }"
      env.TERRET_MODEL = ""
      assert.equal("file", load().model)
    end)

    it("hold for what has no variable", function()
      file [[return { loop = "f", mode = "plan", sandbox = "none", provider = "responses", check = "make",
        limits = { steps = 3, tokens = 4, cost = 0.5, seconds = 6 }, stream = false, attempts = 2.0 }]]
      local cfg = load()
      assert.equal("f", cfg.loop)
      assert.equal("plan", cfg.mode)
      assert.equal("none", cfg.sandbox)
      assert.equal("responses", cfg.provider)
      assert.equal("make", cfg.check)
      assert.equal(2, cfg.attempts)
      assert.is_false(cfg.stream)
      assert.same({ steps = 3, tokens = 4, cost = 0.5, seconds = 6 }, cfg.limits)
      cfg = load { loop = "g", mode = "yolo", sandbox = "auto", provider = "openai", check = "true", ["max-steps"] = 9,
        ["max-tokens"] = 8, ["max-cost"] = 7, timeout = 5 }
      assert.equal("g", cfg.loop)
      assert.equal("yolo", cfg.mode)
      assert.equal("auto", cfg.sandbox)
      assert.equal("openai", cfg.provider)
      assert.equal("true", cfg.check)
      assert.same({ steps = 9, tokens = 8, cost = 7, seconds = 5 }, cfg.limits)
    end)

    it("--no-stream is stronger than config.lua", function()
      file "return { stream = true }"
      assert.is_true(load().stream)
      assert.is_false(load { ["no-stream"] = true }.stream)
    end)

    it("directories to write to add up, and are below where terret runs", function()
      file "return { rw = { '/a', 'b' } }"
      assert.same({ "/a", project .. "/b", "/c", project .. "/d" }, load { rw = { "/c", "d" } }.rw)
    end)

    it("the provider is that of the endpoint's dialect, or of the user's row", function()
      assert.equal("anthropic", load { ["base-url"] = "https://api.anthropic.com/v1" }.provider)
      file "return { profiles = { mine = { hosts = { 'my.host' }, provider = 'responses' } } }"
      assert.equal("responses", load { ["base-url"] = "https://my.host/v1" }.provider)
      env.TERRET_PROFILE = "anthropic"
      assert.equal("anthropic", load { ["base-url"] = "https://my.host/v1" }.provider)
      assert.equal("openai", load { ["base-url"] = "https://my.host/v1", provider = "openai" }.provider)
    end)
  end)

  describe("numbers", function()
    local NUMBERS = { TERRET_CONTEXT_WINDOW = "window", TERRET_MAX_OUTPUT = "max_output", TERRET_TOOL_TIMEOUT = "tool",
      TERRET_FIRST_BYTE_TIMEOUT = "first_byte", TERRET_IDLE_TIMEOUT = "idle", TERRET_PROGRESS_TIMEOUT = "progress" }

    it("come from variables", function()
      for name in pairs(NUMBERS) do env[name] = "12" end
      local cfg = load()
      for name, field in pairs(NUMBERS) do assert.equal(12, cfg[field] or cfg.timeouts[field], name) end
      env.TERRET_MAX_OUTPUT, env.TERRET_IDLE_TIMEOUT = "99.9", "0.5"
      assert.equal(99, load().max_output)
      assert.equal(0.5, load().timeouts.idle)
    end)

    it("that are none name the variable", function()
      for name in pairs(NUMBERS) do
        for _, bad in ipairs { "x", "0", "-1", "1e999", "nan", "1 2" } do
          env[name] = bad
          assert.equal(name .. " must be a number above 0, not '" .. bad .. "'", refused())
        end
        env[name] = nil
      end
    end)

    it("of config.lua are above 0, too", function()
      file "return { context_window = 1000, tool_timeout = 3 }"
      assert.equal(1000, load().window)
      assert.equal(3, load().timeouts.tool)
      env.TERRET_CONTEXT_WINDOW = "2000"
      assert.equal(2000, load().window)
      for _, bad in ipairs { "0", "-1", "1/0", "0/0" } do
        local path = file("return { idle_timeout = " .. bad .. " }")
        refuses(path .. ": 'idle_timeout' must be above 0")
      end
    end)
  end)

  describe("config.lua", function()
    -- What is wrong, and the words for it.
    local BAD = {
      ["an unknown key"] = { "return { modle = 'x' }", "unknown key 'modle'" },
      ["a list"] = { "return { 'x' }", "unknown key '1'" },
      ["a wrong type"] = { "return { model = 5 }", "'model' must be a string, is a number" },
      ["a string for a number"] = { "return { attempts = '2' }", "'attempts' must be a number, is a string" },
      ["a string for a switch"] = { "return { stream = 'no' }", "'stream' must be a boolean, is a string" },
      ["a string for a list"] = { "return { rw = '/x' }", "'rw' must be a table, is a string" },
      ["another mode"] = { "return { mode = 'yoloo' }", "'mode' must be ask, auto, plan or yolo, not 'yoloo'" },
      ["a list of numbers"] = { "return { rw = { 5 } }", "rw is a list of strings" },
      ["a set for a list"] = { "return { net = { x = 'a' } }", "net is a list of strings" },
      ["an unknown limit"] = { "return { limits = { step = 1 } }", "limits takes numbers above 0" },
      ["a limit that is none"] = { "return { limits = { steps = 'x' } }", "not 'steps'" },
      ["a limit of 0"] = { "return { limits = { cost = 0 } }", "not 'cost'" },
      ["no table"] = { "return 'x'", "must return a table" },
      ["nothing"] = { "", "must return a table" },
      ["a syntax error"] = { "return {\n model = }", ":2: unexpected symbol" },
      ["an error"] = { "\nlocal x = nil + 1", ":2: attempt to perform arithmetic on a nil value" },
      ["a call of os"] = { "return { model = os.getenv('HOME') }", "global 'os'" },
      ["a loop over a function that it lacks"] = { "for _ in pairs {} do end return {}", "global 'pairs'" },
      ["require"] = { "return require 'terret.exec'", "global 'require'" },
      ["bytecode"] = { string.dump(function() return {} end), "binary chunk" },
    }
    for name, case in pairs(BAD) do
      it("with " .. name .. " is refused, and named", function()
        local path = file(case[1])
        local message = refuses(case[2])
        assert.is_truthy(message:find(case[1]:sub(1, 1) == "\27" and "binary" or shown(path), 1, true), message)
        assert.is_nil(message:find("traceback", 1, true))
      end)
    end

    it("that never ends is ended", function()
      local path = file "\nwhile true do end"
      local message = refuses(shown(path))
      assert.is_truthy(message:find(":2", 1, true), message)
    end)

    it("doesn't reach this program's globals", function()
      file "model = 'leaked' return { model = model }"
      assert.equal("leaked", load().model)
      assert.is_nil(rawget(_G, "model"))
    end)

    it("that can't be read is said", function()
      assert(fs.mkdir(dir .. "/config/terret/config.lua", { parents = true }))
      refuses(dir .. "/config/terret/config.lua")
    end)

    it("limits the sandbox by whole numbers that it knows", function()
      file "return { sandbox_limits = { nproc = 64, memory = 1048576, fsize = 1, nofile = 16 } }"
      assert.same({ nproc = 64, memory = 1048576, fsize = 1, nofile = 16 }, load().sandbox_limits)
      for _, bad in ipairs { "core = 1", "nproc = 0", "nproc = 1.5", "nproc = '64'", "memory = -1", "5" } do
        local path = file("return { sandbox_limits = { " .. bad .. " } }")
        local key = bad:match("^%a+") or "1"
        assert.equal(path .. ": sandbox_limits takes whole numbers for nproc, memory, fsize, nofile; not '" .. key
          .. "'", refused())
      end
    end)
  end)

  describe("a key", function()
    it("of a vendor goes to the vendor's host only", function()
      env.OPENROUTER_API_KEY, env.DEEPSEEK_API_KEY = "router", "deep"
      local function key(url) return load { ["base-url"] = url }.api_key end
      assert.equal("router", key "https://openrouter.ai/api/v1")
      assert.equal("deep", key "https://api.deepseek.com/v1")
      for _, url in ipairs { "http://openrouter.ai/api/v1", "https://evil.test/v1", "https://evil-openrouter.ai/v1",
        "https://openrouter.ai.evil.test/v1", "https://openrouter.ai@evil.test/v1", "https://evil.test/@openrouter.ai",
        "https://evil.test?@openrouter.ai", "https://evil.test#@openrouter.ai", "https://openrouter.ai:443@evil.test/",
        "http://127.0.0.1:8080/v1" } do
        assert.is_nil(key(url), url)
      end
    end)

    it("OPENAI_API_KEY goes to OPENAI_BASE_URL and to no other URL", function()
      env.OPENAI_API_KEY, env.OPENAI_BASE_URL = "o", "http://127.0.0.1:1/v1"
      assert.equal("o", load().api_key)
      assert.is_nil(load { ["base-url"] = "http://127.0.0.1:2/v1" }.api_key)
      env.OPENAI_BASE_URL = nil
      file "return { base_url = 'http://127.0.0.1:3/v1' }"
      assert.is_nil(load().api_key)
    end)

    it("that config.lua names goes to a host of config.lua or above, not to that of ~/.agents/env", function()
      env.MY_KEY = "mine"
      file "return { api_key_env = 'MY_KEY' }"
      seed "BASE_URL=https://seed.test/v1\n"
      assert.is_nil(load().api_key)
      assert.equal("mine", load { ["base-url"] = "https://a.test/v1" }.api_key)
      file "return { api_key_env = 'MY_KEY', base_url = 'https://file.test/v1' }"
      assert.equal("mine", load().api_key)
      env.MY_KEY = nil
      assert.is_nil(load().api_key)
    end)

    it("that --api-key-env names goes wherever the user says", function()
      env.MY_KEY, env.OPENAI_API_KEY = "mine", "o"
      assert.equal("mine", load { ["base-url"] = "https://api.openai.com/v1", ["api-key-env"] = "MY_KEY" }.api_key)
      assert.equal("mine", load { ["base-url"] = "http://a.test/v1", ["api-key-env"] = "MY_KEY" }.api_key)
      for _, unset in ipairs { false, "" } do
        env.NOT_SET = unset or nil
        refuses("--api-key-env: the variable NOT_SET is not set",
          { ["base-url"] = "http://a.test/v1", ["api-key-env"] = "NOT_SET" })
      end
    end)

    it("of ~/.agents/env goes to its own URL only, and is a secret everywhere", function()
      seed "# a comment\nexport API_KEY='s3'\nBASE_URL=\"https://seed.test/v1\"\nMODEL=m\n"
      local cfg = load()
      assert.equal("https://seed.test/v1", cfg.base_url)
      assert.equal("s3", cfg.api_key)
      cfg = load { ["base-url"] = "https://other.test/v1" }
      assert.is_nil(cfg.api_key)
      assert.equal("m", cfg.model)
      local secrets = {}
      for _, value in pairs(cfg.secrets) do secrets[value] = true end
      assert.is_true(secrets.s3)
    end)
  end)

  it("takes http and https URLs only", function()
    for _, url in ipairs { "", "api.openai.com/v1", "file:///etc/passwd", "ftp://a/", "http://", "https:///v1", "x" } do
      assert.equal("'" .. url .. "' is no http or https URL", refused { ["base-url"] = url })
    end
  end)

  describe("rules", function()
    it("are those of the command line and then of the user's file, each with its source", function()
      local path = put("config/terret/rules", "# mine\n\nask git push *\r\ndeny read(/x/**)\n")
      assert.same({
        { verdict = "allow", rule = "git log *", source = "--allow" },
        { verdict = "allow", rule = "make", source = "--allow" },
        { verdict = "deny", rule = "rm *", source = "--deny" },
        { verdict = "ask", rule = "git push *", source = path .. ":3" },
        { verdict = "deny", rule = "read(/x/**)", source = path .. ":4" },
      }, load { allow = { "git log *", "make" }, deny = { "rm *" } }.rules)
    end)

    it("of the file that are wrong are named by file and line", function()
      local path = put("config/terret/rules", "allow make\nalow git\n")
      assert.equal(path .. ":2: 'allow RULE', 'ask RULE' or 'deny RULE' expected", refused())
      put("config/terret/rules", "\n\nallow Raed(x)\n")
      assert.equal(path .. ":3: unknown kind of rule 'Raed(x)'", refused())
      put("config/terret/rules", "deny\n")
      refuses(path .. ":1: ")
    end)

    it("of the command line that are none name the flag", function()
      for _, flag in ipairs { "allow", "deny" } do
        for _, bad in ipairs { "", "   ", "Raed(x)", "a\nallow b", "a\r" } do
          refuses("--" .. flag .. ": '" .. bad .. "' is no rule", { [flag] = { bad } })
        end
      end
    end)

    it("in a file that can't be read are no permission to go on", function()
      assert(fs.mkdir(dir .. "/config/terret/rules", { parents = true }))
      refuses(dir .. "/config/terret/rules")
    end)
  end)

  it("knows loopback by the host, not by the look of the URL", function()
    for _, url in ipairs { "http://localhost:8080/v1", "http://127.0.0.1/v1", "http://127.9.8.7:1",
      "http://[::1]:80/v1", "http://LOCALHOST/" } do
      assert.is_true(config.is_loopback(url), url)
    end
    for _, url in ipairs { "http://127.evil.test/", "http://127.0.0.1@evil.test/", "http://localhost.evil.test/",
      "https://evil.test/127.0.0.1", "http://[::2]/", "http://evil.test/http://[::1]/", "x", "" } do
      assert.is_false(config.is_loopback(url), url)
    end
  end)
end)

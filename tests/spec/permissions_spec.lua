-- The verdicts: the cases under tests/permissions, rules, modes, and the API.
local permissions = require "terret.permissions"
local json = require "terret.json"

local here = (arg and arg[0] or ""):match("^(.*)/tests/") or "."
local source = debug.getinfo(1, "S").source:match("^@(.*)/spec/[^/]*$")
local dir = (source or here .. "/tests") .. "/permissions/"

local function slurp(path)
  local f = assert(io.open(path, "rb"))
  local text = f:read("a")
  f:close()
  return text
end

local function rules_of(profile)
  local list = {}
  for _, verdict in ipairs { "allow", "ask", "deny" } do
    for _, rule in ipairs(profile[verdict]) do
      list[#list + 1] = { verdict = verdict, rule = rule, source = verdict }
    end
  end
  return list
end

local function exec(p, command) return p:check { class = "exec", command = command } end

describe("permissions: cases", function()
  local profiles = assert(json.decode(slurp(dir .. "profiles.json")))
  local judges = {}
  for name, profile in pairs(profiles) do
    judges[name] = permissions.new { rules = rules_of(profile), builtin = false, project = "/home/u/proj" }
  end

  it("cases.jsonl: every verdict is an accepted one", function()
    local n = 0
    for line in slurp(dir .. "cases.jsonl"):gmatch("[^\n]+") do
      local case = assert(json.decode(line))
      local command = case.command
      if type(command) == "table" then
        for i, piece in ipairs(command) do
          command[i] = type(piece) == "table" and piece["repeat"]:rep(piece.times) or piece
        end
        command = table.concat(command)
      end
      local r = exec(judges[case.profile], command)
      local accepted = false
      for _, verdict in ipairs(case.accept) do accepted = accepted or verdict == r.verdict end
      assert(accepted, ("%s: %s, expected %s: %s (%s)"):format(case.id, r.verdict, case.expect, command, r.reason))
      n = n + 1
    end
    assert.is_true(n > 250)
  end)

  it("lines.txt: every verdict is exactly the one given", function()
    local names = { A = "allow", K = "ask", D = "deny" }
    local n = 0
    local rules, p = rules_of(profiles.usual), judges.usual
    for line in slurp(dir .. "lines.txt"):gmatch("[^\n]+") do
      local letter, command = line:match("^(%u)|(.*)$")
      local verdict, rule = line:match("^@(%a+) (.*)$")
      if verdict then
        rules[#rules + 1] = { verdict = verdict, rule = rule, source = "lines.txt" }
        p = permissions.new { rules = rules, builtin = false, project = "/home/u/proj" }
      elseif letter then
        command = command:gsub("\\([\\n])", function(c) return c == "n" and "\n" or nil end):gsub("\\\\n", "\\n")
        local r = exec(p, command)
        assert(r.verdict == names[letter], ("%s, expected %s: %s (%s)"):format(r.verdict, names[letter], command,
          r.reason))
        n = n + 1
      end
    end
    assert.is_true(n > 500)
  end)

  it("does not depend on length or position", function()
    local p = judges.usual
    for _, n in ipairs { 1, 50, 300, 3000 } do
      assert.equal("deny", exec(p, ("echo 1; "):rep(n) .. "rm x").verdict)
      assert.equal("deny", exec(p, "rm x" .. ("; echo 1"):rep(n)).verdict)
      assert.equal("allow", exec(p, ("echo 1; "):rep(n) .. "ls").verdict)
    end
    assert.equal("deny", exec(p, "echo " .. ("x"):rep(100000) .. "; rm y").verdict)
    assert.equal("deny", exec(p, ("env "):rep(200) .. "rm y").verdict)
  end)
end)

describe("permissions: rules", function()
  local function with(...)
    local list = {}
    for _, line in ipairs { ... } do
      for _, r in ipairs(assert(permissions.parse_rules(line, "t"))) do list[#list + 1] = r end
    end
    return permissions.new { rules = list, builtin = false, project = "/p" }
  end

  it("parses a file and names the line of a mistake", function()
    local list = assert(permissions.parse_rules("# c\n\n allow ls *\nask git push *\r\ndeny read(/etc/**)", "f"))
    assert.same({ { verdict = "allow", rule = "ls *", source = "f:3" }, { verdict = "ask", rule = "git push *",
      source = "f:4" },
      { verdict = "deny", rule = "read(/etc/**)", source = "f:5" } }, list)
    for _, bad in ipairs { "permit ls", "allow", "allow ", "deny write()", "allow foo(x)", "ls" } do
      local none, message, code = permissions.parse_rules("allow ls\n" .. bad, "f")
      assert.is_nil(none)
      assert.truthy(message:find("f:2:", 1, true))
      assert.equal("bad_rule", code)
    end
    assert.same({}, permissions.parse_rules("", "f"))
  end)

  it("formats what it parses", function()
    local line = permissions.format_rule("deny", "git push *")
    assert.equal("git push *", permissions.parse_rules(line, "x")[1].rule)
    assert.has_error(function() permissions.format_rule("maybe", "x") end)
    assert.has_error(function() permissions.format_rule("allow", "x\ndeny y") end)
  end)

  it("refuses options and rules that it doesn't know", function()
    assert.has_error(function() permissions.new { mod = "ask" } end)
    assert.has_error(function() permissions.new { mode = "bold" } end)
    assert.has_error(function() permissions.new { mode = 1 } end)
    assert.has_error(function() permissions.new { rules = { { verdict = "allow" } } } end)
    assert.has_error(function() permissions.new { rules = { { verdict = "yes", rule = "x" } } } end)
    assert.has_error(function() permissions.new():check("ls") end)
    assert.has_error(function() permissions.new():check { class = "exec" } end)
    assert.has_error(function() permissions.new():set_mode("x") end)
  end)

  it("deny is stricter than ask, ask than allow, in any order", function()
    local p = with("allow git *", "ask git push *", "deny git push -f*")
    assert.equal("allow", exec(p, "git fetch").verdict)
    assert.equal("ask", exec(p, "git push x").verdict)
    assert.equal("deny", exec(p, "git push -f").verdict)
    local r = exec(p, "git push -f")
    assert.equal("git push -f*", r.rule)
    assert.equal("t:1", r.source)
  end)

  it("a glob is text and stars, nothing else", function()
    local p = with("allow a.c*d", "allow p[x]?%w", "deny z")
    assert.equal("allow", exec(p, "a.cxyzd").verdict)
    assert.equal("ask", exec(p, "abcd").verdict)
    assert.equal("allow", exec(p, "'p[x]?%w'").verdict)
    assert.equal("ask", exec(p, "px").verdict)
    local q = with("allow a *b*c")
    assert.equal("allow", exec(q, "a b c").verdict)
    assert.equal("allow", exec(q, "a xbyyc").verdict)
    assert.equal("ask", exec(q, "a cb").verdict)
    assert.equal("ask", exec(q, "a bc d").verdict)
  end)

  it("what is not literal matches no literal text of an allow rule, but may match a deny rule", function()
    local p = with("allow git *", "allow git push origin", "deny git push --force*", "allow cat *")
    assert.equal("ask", exec(p, "git push $x").verdict)
    assert.equal("allow", exec(p, "git fetch a").verdict)
    assert.equal("allow", exec(p, "cat $x").verdict)
    local q = with("allow cat a b")
    assert.equal("ask", exec(q, "cat $x b").verdict)
  end)

  it("is quick on hostile globs", function()
    local p = with("deny " .. ("*a"):rep(200) .. "*b", "allow *")
    local before = os.clock()
    exec(p, "echo " .. ("a"):rep(20000))
    assert.is_true(os.clock() - before < 1)
  end)

  it("paths: * stays within a name, ** does not", function()
    local p = with("deny read(/etc/*)", "allow read(/usr/**)", "deny write(secret/**)", "allow write(out/*)",
      "allow read(*.md)")
    local function path(class, name) return p:check({ class = class, path = name }).verdict end
    assert.equal("deny", path("read", "/etc/passwd"))
    assert.equal("ask", path("read", "/etc/a/b"))
    assert.equal("allow", path("read", "/usr/a/b"))
    assert.equal("deny", path("write", "/p/secret/a/b"))
    assert.equal("deny", path("write", "/p/x/../secret/a"))
    assert.equal("allow", path("write", "/p/out/a"))
    assert.equal("ask", path("write", "/p/out/a/b"))
  end)

  it("a single star at the start stays in the project, two are anywhere", function()
    local p = with("deny read(*.key)", "deny read(./x/./y)", "deny read(**/*.pem)")
    assert.equal("deny", p:check({ class = "read", path = "/p/a.key" }).verdict)
    assert.is_true(p:readable("/p/a/a.key"))
    assert.equal("deny", p:check({ class = "read", path = "x/y" }).verdict)
    assert.equal("deny", p:check({ class = "read", path = "/q/a.pem" }).verdict)
    assert.same({ "/p/*.key", "/p/x/y", "**/*.pem" }, p:denied_reads())
  end)

  it("what may not be read is not written by tools, under no name", function()
    local p = with("deny read(secret)", "allow write(**)", "ask read(b)", "deny read(/p/link)")
    assert.equal("deny", p:check({ class = "write", path = "/p/secret" }).verdict)
    assert.equal("ask", p:check({ class = "write", path = "/p/b" }).verdict)
    assert.equal("allow", p:check({ class = "write", path = "/p/a" }).verdict)
    assert.equal("deny", p:check({ class = "read", path = "/p/target", named = "x/../link" }).verdict)
    assert.equal("deny", p:check({ class = "write", path = "/p/target", named = "link" }).verdict)
  end)

  it("readable and hides_below say what a search leaves out", function()
    local p = with("deny read(keys/**)", "ask read(**/.env)", "allow read(**)")
    assert.is_false(p:readable("keys/a"))
    assert.is_false(p:readable("/p/src/.env"))
    assert.is_true(p:readable("/p/src/a"))
    assert.is_true(p:hides_below("/p"))
    assert.is_false(with("deny read(keys/**)"):hides_below("/p/src"))
    assert.is_false(with("allow read(**)"):hides_below("/p"))
    p:set_mode("yolo")
    assert.is_true(p:readable("/p/src/.env"))
    assert.is_false(p:readable("/p/keys/a"))
  end)

  it("a deny rule about reading holds for commands in every mode", function()
    for _, mode in ipairs { "ask", "auto", "plan", "yolo" } do
      local p = permissions.new { mode = mode, project = "/p", isolated = function() return true end,
        rules = { { verdict = "deny", rule = "read(**/*.pem)" } } }
      assert.equal("deny", exec(p, "cat key.pem").verdict, mode)
      assert.equal("deny", exec(p, "sh -c 'cat <key.pem'").verdict, mode)
      assert.equal("allow", exec(p, "cat a.c").verdict, mode)
      for _, c in ipairs { "cat *", "grep -r . .", "cat $x", "sudo cat *" } do
        local r = exec(p, c)
        assert.not_equal("allow", r.verdict, mode .. ": " .. c)
        assert.is_nil(r.propose)
      end
    end
    local p = permissions.new { mode = "yolo", project = "/p",
      rules = { { verdict = "deny", rule = "read(**/*.pem)" } } }
    assert.equal("deny", exec(p, "cat *").verdict) -- nobody is asked
    assert.equal("allow", exec(p, "make").verdict)
  end)

  it("follows links that are there, and searches no plain file", function()
    local fs = require "terret.fs"
    local project = assert(fs.realpath(assert(fs.mkdtemp((os.getenv("TMPDIR") or "/tmp") .. "/terret-perm-"))))
    local _done <close> = setmetatable({}, { __close = function() fs.remove(project, { recursive = true }) end })
    assert(fs.write(project .. "/key.pem", "x"))
    assert(fs.write(project .. "/a", "x"))
    assert(os.execute(("ln -s key.pem '%s/link' && ln -s /etc '%s/dir'"):format(project, project)))
    local p = permissions.new { project = project, rules = { { verdict = "deny", rule = "read(**/*.pem)" },
      { verdict = "deny", rule = "read(/etc/host*)" } } }
    assert.equal("deny", exec(p, "cat link").verdict)
    assert.equal("deny", exec(p, "cat dir/hostname").verdict)
    assert.equal("ask", exec(p, "grep -r x dir").verdict)
    assert.equal("allow", exec(p, "rg x a").verdict)
    assert.equal("allow", exec(p, "diff a a").verdict)
    assert.equal("ask", exec(p, "rg x b").verdict)
  end)

  it("is quick on hostile paths", function()
    local p = with("deny read(/a/**/b*/c*.pem)", "allow cat *")
    for _, c in ipairs { "cat " .. ("/a/b/b/b/x.pem "):rep(20000),
      "cat " .. ("/a/" .. ("b/"):rep(1000) .. "x.pem "):rep(100),
      "cat " .. ("${a}{b,c}"):rep(9), ("for i in 1; do cd a; "):rep(40) .. "ls" .. ("; done"):rep(40) } do
      local before = os.clock()
      exec(p, c)
      assert.is_true(os.clock() - before < 3)
    end
  end)

  it("net and tool", function()
    local p = with("allow net(*.example.org)", "deny net(evil.*)", "deny tool(bash)", "allow tool(mine)")
    assert.equal("allow", p:check({ class = "net", host = "a.example.org" }).verdict)
    assert.equal("allow", p:check({ class = "net", host = "A.EXAMPLE.ORG" }).verdict)
    assert.equal("ask", p:check({ class = "net", host = "example.org" }).verdict)
    assert.equal("deny", p:check({ class = "net", host = "evil.com" }).verdict)
    assert.equal("deny", p:check({ class = "exec", tool = "bash", command = "ls" }).verdict)
    assert.equal("allow", p:check({ class = "custom", tool = "mine" }).verdict)
    assert.equal("ask", p:check({ class = "custom", tool = "other" }).verdict)
    assert.equal("allow", p:check({ class = "none", tool = "todo" }).verdict)
  end)
end)

describe("permissions: modes and built-in rules", function()
  local function new(mode, more)
    local o = { mode = mode, project = "/p", isolated = function() return true end }
    for k, v in pairs(more or {}) do o[k] = v end
    return permissions.new(o)
  end

  it("ask: reads and harmless commands run, writes ask once a session, the rest asks", function()
    local p = new("ask")
    for _, c in ipairs { "ls -la", "cat a | grep b", "git status", "rg x src", "echo hi > out.txt",
      "find . -name x" } do
      assert.equal("allow", exec(p, c).verdict, c)
    end
    for _, c in ipairs { "make", "cat ~/.ssh/id_rsa", "cat /etc/shadow", "cat ../x", "find . -delete", "git push",
      "sed -i s/a/b/ f",
      "echo hi > ~/x", "git -c core.pager=id log" } do
      assert.equal("ask", exec(p, c).verdict, c)
    end
    assert.equal("allow", p:check({ class = "read", path = "/p/a" }).verdict)
    assert.equal("ask", p:check({ class = "read", path = "/p/../etc/a" }).verdict)
    local r = p:check { class = "write", path = "/p/a" }
    assert.equal("ask", r.verdict)
    assert.is_true(r.once_per_session)
    p:add { verdict = "allow", rule = r.propose, scope = "session" }
    assert.equal("allow", p:check({ class = "write", path = "/p/deep/b" }).verdict)
    assert.equal("ask", p:check({ class = "write", path = "/q/b" }).verdict)
  end)

  it("never offers a standing answer for the project's git and terret files", function()
    local r = new("ask"):check { class = "write", path = "/p/.git/hooks/x" }
    assert.equal("ask", r.verdict)
    assert.is_nil(r.once_per_session)
  end)

  it("auto: what the sandbox holds runs, rules still speak", function()
    local rules = { { verdict = "deny", rule = "rm *" }, { verdict = "ask", rule = "git push*" } }
    local p = new("auto", { rules = rules })
    assert.equal("allow", exec(p, "make && ./x").verdict)
    assert.equal("deny", exec(p, "make; rm x").verdict)
    assert.equal("ask", exec(p, "git push").verdict)
    assert.equal("ask", exec(p, "$X y").verdict) -- it may be what is denied
    assert.equal("allow", exec(new("auto"), "$X y").verdict)
    assert.equal("allow", p:check({ class = "write", path = "/p/a" }).verdict)
    assert.equal("ask", p:check({ class = "write", path = "/q/a" }).verdict)
    local bare = new("auto", { isolated = function() return false end })
    assert.equal("ask", exec(bare, "make").verdict)
    assert.equal("ask", bare:check({ class = "write", path = "/p/a" }).verdict)
  end)

  it("plan: read-only, and says so", function()
    local p = new("plan", { rules = { { verdict = "allow", rule = "make *" } } })
    assert.equal("allow", exec(p, "ls | wc -l").verdict)
    for _, c in ipairs { "make", "rm x", "echo a > b", "$X", "sed -i s/a/b/ f", "sort -o a b", "bash x.sh",
      "ls; touch y" } do
      local r = exec(p, c)
      assert.equal("deny", r.verdict, c)
      assert.truthy(r.reason:find("read-only", 1, true), c)
    end
    local r = p:check { class = "write", path = "/p/a" }
    assert.equal("deny", r.verdict)
    assert.truthy(r.reason:find("read-only", 1, true))
    p:set_mode("ask")
    assert.equal("allow", exec(p, "make").verdict)
  end)

  it("yolo: never asks, deny rules hold", function()
    local p = new("yolo", { rules = { { verdict = "deny", rule = "rm *" }, { verdict = "ask", rule = "git push" } } })
    for _, c in ipairs { "make", "$X", "echo 'a", "git push", "curl x | sh" } do assert.equal("allow", exec(p,
      c).verdict, c) end
    assert.equal("deny", exec(p, "ls; rm x").verdict)
    assert.equal("allow", p:check({ class = "net", host = "x" }).verdict)
    assert.equal("allow", p:check({ class = "write", path = "/etc/x" }).verdict)
  end)

  it("the policy has the last word; its errors deny", function()
    local p = new("ask", { policy = function(tree, r)
      if r.verdict == "ask" and tree and #tree.items == 1 then return "allow", "mine" end
    end })
    assert.equal("allow", exec(p, "make").verdict)
    assert.equal("mine", exec(p, "make").reason)
    assert.equal("ask", exec(p, "make; make").verdict)
    assert.equal("deny", exec(new("yolo", { policy = function() error("x") end }), "ls").verdict)
    assert.equal("deny", exec(new("ask", { policy = function() return "perhaps" end }), "ls").verdict)
  end)

  it("proposes a rule that lifts the question", function()
    for _, c in ipairs { "make -j4", "cargo build --release", "npm test", "foo", "./configure --prefix=x" } do
      local p = new("ask")
      local r = exec(p, c)
      assert.equal("ask", r.verdict, c)
      assert.truthy(r.propose, c)
      p:add { verdict = "allow", rule = r.propose, scope = "session" }
      assert.equal("allow", exec(p, c).verdict, c)
    end
    assert.equal("cargo build *", exec(new("ask"), "cargo build --release").propose)
    for _, c in ipairs { "make; foo", "$X", "find . -delete", "make > ~/x", "foo $x", "foo '*'" } do
      assert.is_nil(exec(new("ask"), c).propose, c)
    end
    assert.equal("python3 x.py", exec(new("ask"), "python3 x.py").propose)
  end)

  it("names the commands that would run", function()
    assert.same({ "ls -l", "rm x", "wc" }, exec(new("ask"), "ls -l | wc $(rm x)").commands and
      (function(t) table.sort(t) return t end)(exec(new("ask"), "ls -l; env rm x; wc").commands))
  end)

  it("takes a user's tables", function()
    local tables = require "terret.permissions.tables"
    tables.wrappers.mywrap = "n: --num= +1"
    finally(function() tables.wrappers.mywrap = nil end)
    local p = new("ask", { rules = { { verdict = "deny", rule = "rm *" } } })
    assert.equal("deny", exec(p, "mywrap -n 3 op rm x").verdict)
    assert.equal("allow", exec(p, "mywrap --num=3 op ls").verdict)
    assert.equal("ask", exec(p, "mywrap --other op ls").verdict)
  end)

  it("the working directory decides where relative paths lead", function()
    local p = permissions.new { project = "/p", cwd = "/q" }
    assert.equal("ask", exec(p, "echo x > y").verdict)
    assert.equal("allow", exec(permissions.new { project = "/p", cwd = "/p/sub" }, "echo x > y").verdict)
    assert.equal("allow", exec(p, "echo x > /p/y").verdict)
  end)
end)

describe("terret permit", function()
  local permit = require "terret.cli.permit"

  -- Runs it with the given standard input; returns the exit status and what it printed.
  local function run(opts, args, input)
    local name = os.tmpname()
    local out, old_in, old_out = assert(io.open(name, "w+")), io.input(), io.output()
    io.output(out)
    if input then
      local source_file = assert(io.open(name .. ".in", "w+"))
      source_file:write(input)
      source_file:seek("set")
      io.input(source_file)
    end
    local ok, status = pcall(permit.run, opts, args, { config = function() return { project = "/p", cwd = "/p" } end })
    io.output(old_out)
    if input then
      io.input():close()
      io.input(old_in)
      os.remove(name .. ".in")
    end
    out:close()
    local text = slurp(name)
    os.remove(name)
    assert(ok, status)
    return status, text
  end

  it("exits 0, 3, 1 and shows what was found without raw bytes", function()
    assert.equal(0, (run({}, { "ls" })))
    local status, text = run({}, { "ls | make 'a\27[2J'" })
    assert.equal(3, status)
    assert.truthy(text:find("make", 1, true))
    assert.is_nil(text:find("\27", 1, true))
    local name = os.tmpname()
    local f = assert(io.open(name, "w"))
    f:write("deny rm *\n")
    f:close()
    status, text = run({ rules = name, json = true }, { "ls; rm x" })
    os.remove(name)
    assert.equal(1, status)
    local r = assert(json.decode(text))
    assert.equal("deny", r.verdict)
    assert.equal("rm *", r.rule)
    assert.equal(name .. ":1", r.source)
    assert.same({ "ls", "rm x" }, { r.commands[1], r.commands[2] })
  end)

  it("answers a batch line by line; what is no request is asked about", function()
    local status, text = run({ batch = true }, {}, table.concat({
      '{"id":"1","command":"ls","allow":["ls"],"ask":[],"deny":[]}',
      '{"id":"2","command":"ls; rm x","allow":["*"],"ask":[],"deny":["rm *"]}',
      '{"id":"3","command":"ls","allow":[],"ask":[],"deny":[]}', "nonsense", '{"id":"4"}',
        '{"id":"5","command":"ls","allow":[1]}',
      '{"id":"6","command":"ls\\u0000","allow":["*"]}' }, "\n"))
    assert.equal(0, status)
    local verdicts = {}
    for line in text:gmatch("[^\n]+") do
      local r = assert(json.decode(line))
      verdicts[#verdicts + 1] = r.verdict
      assert.is_true(json.is_array(r.commands))
    end
    assert.same({ "allow", "deny", "ask", "ask", "ask", "ask", "ask" }, verdicts)
  end)
end)

-- scripts/tools/bash.lua
local fake = require "support.fakecall"

local call

local function bash(command, more)
  local args = { command = command }
  for k, v in pairs(more or {}) do args[k] = v end
  return fake.run("bash", args, call)
end

local function has(text, words)
  assert.truthy(text and text:find(words, 1, true), ("%q lacks %q"):format(tostring(text), words))
end

describe("bash", function()
  before_each(function() call = fake.new { limits = { bash_bytes = 400 } } end)
  after_each(function() getmetatable(call).__close(call) end)

  it("returns both streams, without the last line end", function()
    local text, extra = bash("echo out; echo err >&2")
    assert.equal("out\nerr", text)
    assert.equal(0, extra.code)
  end)

  it("runs in the project, by bash where there is one, the command as one argument", function()
    call:put("f", "x")
    assert.equal("f", (bash("ls")))
    local argv = call.argvs[1]
    assert.same({ "-c", "ls", 3 }, { argv[2], argv[3], #argv })
  end)

  it("says when there is no output", function()
    assert.equal("(no output)", (bash("true")))
    assert.equal("(no output)\n[exit status 1]", (bash("false")))
  end)

  it("names status and signal", function()
    assert.equal("x\n[exit status 7]", (bash("echo x; exit 7")))
    local text, extra = bash("kill -KILL $$")
    has(text, "[killed by ")
    has(text, "KILL")
    assert.is_nil(extra.code)
  end)

  it("says when the time was over", function()
    local text, extra = bash("echo begun; sleep 30", { timeout = 0.2 })
    assert.equal("begun\n[timed out after 0.2 s; killed]", text)
    assert.is_true(extra.timed_out)
  end)

  it("keeps the timeout within bounds", function()
    has((bash("true", { timeout = 1e9 })), "[timeout set to 3600 s]")
    has((bash("true", { timeout = -5 })), "[timeout set to 120 s]")
    assert.equal("(no output)", (bash("true", { timeout = "5" })))
  end)

  it("cuts the middle by whole lines, counts it, and keeps the whole in a blob", function()
    local text = bash("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done")
    local head, lines, bytes,
      tail = text:match("^(.*)\n%[(%d+) lines, (%d+) bytes elided; whole output: recall{id=\"b1\"}%]\n(.*)$")
    assert.truthy(head, text)
    assert.truthy(head:find("^line 0\n"))
    assert.truthy(tail:find("line 199$"))
    assert.is_true(#head < #tail and #head + #tail <= 400)
    local whole = call:blob_read("b1")
    assert.equal(200, select(2, (head .. "\n" .. tail .. "\n"):gsub("\n", "")) + tonumber(lines))
    assert.equal(#whole, #head + 1 + #tail + 1 + tonumber(bytes))
    for line in (head .. "\n" .. tail):gmatch("[^\n]+") do assert.truthy(line:find("^line %d+$")) end
  end)

  it("cuts one long line, too", function()
    local text = bash("head -c 100000 /dev/zero | tr '\\0' x")
    has(text, "bytes elided")
    assert.is_true(#text < 600)
  end)

  it("makes its output valid UTF-8", function()
    assert.equal("a\u{FFFD}b", (bash("printf 'a\\377b'")))
  end)

  it("refuses what is no command, and jobs where there are none", function()
    has(select(2, bash(" \n ")), "empty")
    has(select(2, bash("a\0b")), "NUL")
    has(select(2, bash("sleep 5", { background = true })), "not available")
    assert.equal(0, #call.argvs)
  end)

  it("hands a background command to the jobs", function()
    local got
    call.jobs = { start = function(_, options)
      got = options
      return "job j1 started"
    end }
    assert.equal("job j1 started", (bash("make", { background = "true" })))
    assert.equal("make", got.command)
  end)

  it("passes on why nothing runs", function()
    call.exec = function() return nil, "no sandbox backend works here", "no_sandbox" end
    local text, message, code = bash("true")
    assert.is_nil(text)
    assert.equal("no sandbox backend works here", message)
    assert.equal("no_sandbox", code)
  end)
end)

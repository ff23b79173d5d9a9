-- The recorded faults of endpoints, each played by a server on loopback to a whole agent.  The waiting
-- between attempts is shortened; what would be waited is judged by retry_spec.lua.
local faults = require "support.faults"
local json = require "terret.json"
local mock = require "support.mock"
local retry = require "terret.retry"
local world = require "support.world"

local ONLY = os.getenv("WIRE_CASE")

-- A shell that knows what the cases run: tokens, and a long text.
local function bash(ran)
  return function(args)
    local out = {}
    for token, behind in args.command:gmatch("echo (tok%-%w+) ([|>]+)") do
      ran[#ran + 1] = token
      if behind == "|" then out[#out + 1] = token end
    end
    local rows = tonumber(args.command:match("seq .- 1 (%d+)")) or 0
    for i = 1, rows do out[#out + 1] = ("row %05d of the long ledger"):format(i) end
    return #out > 0 and table.concat(out, "\n") or "(no output)"
  end
end

local function same_list(got, want) return table.concat(got, " ") == table.concat(want, " ") end

-- One of several lists, or the list itself.
local function check_ran(got, want)
  if type(want[1]) == "table" or #want == 0 and type(want[1]) ~= "string" then
    for _, one in ipairs(want) do
      if same_list(got, one) then return end
    end
    if #want == 0 then assert.same({}, got) end
    if #want > 0 then error("ran " .. table.concat(got, " ")) end
    return
  end
  assert.same(want, got)
end

-- The account of the last request.
local function check_usage(want, records)
  local got = records[#records]
  for key, value in pairs(want) do
    if key == "output_estimated" then
      assert.is_true(got.estimated and got.output > 0)
    else
      assert.equal(value, got[key], key)
    end
  end
end

local judge

local function play(case, m)
  local ran = {}
  local stream = case.mode ~= "json"
  local w <close> = world.new { provider = "openai", base_url = ("%s/%s/v1"):format(m.url, case.id), model = "m",
    window = case.context_window or 128000, max_output = case.max_output or 8000, profile = case.profile,
    stream = stream, timeouts = { first_byte = 5, idle = 0.25, progress = 5 } }
  w:tool("bash", bash(ran), { parameters = { command = { "string", "command" }, timeout = { "number?", "seconds" } } })
  w:open()
  judge(case, w:prompt("Please run the errand and tell me how it went."), ran, w)
end

-- All words that reach the user.
local function told(result, w)
  local words = { result.text, result.message or "" }
  for _, e in ipairs(w.events) do
    if e.type == "warning" or e.type == "retry" or e.type == "error" then words[#words + 1] = e.text end
  end
  return table.concat(words, "\n"):lower()
end

function judge(case, result, ran, w)
  local want = case.expect
  if want.ok == true then assert.equal("done", result.status, result.message) end
  for _, words in ipairs(want.final or {}) do assert.truthy(result.text:find(words, 1, true), result.text) end
  for _, words in ipairs(want.final_lacks or {}) do assert.is_nil(result.text:find(words, 1, true)) end
  if want.ran then check_ran(ran, want.ran) end
  if want.error then
    local said, found = told(result, w), false
    for _, words in ipairs(want.error) do found = found or said:find(words:lower(), 1, true) ~= nil end
    assert.is_true(found, said)
  end
  if case.usage_expect then check_usage(case.usage_expect, w:logged "usage") end
  if case.id ~= "rq-system-role" and case.profile ~= "openrouter-anthropic" then w:check() end
end

describe("a fault of an endpoint", function()
  local cases, m, wait = faults.load(), nil, retry.wait

  setup(function()
    local answers = {}
    for _, case in ipairs(cases) do
      for _, step in ipairs(case.steps) do answers[#answers + 1] = faults.answer(step, "/" .. case.id .. "/", mock) end
    end
    m = mock.start { answers = answers }
    retry.wait = function(...)
      local seconds = wait(...)
      return seconds and math.min(seconds, 0.001)
    end
  end)

  teardown(function()
    retry.wait = wait
    m:stop()
  end)

  for _, case in ipairs(cases) do
    if not ONLY or ONLY == case.id then
      it(("%s: %s"):format(case.id, case.title), function() play(case, m) end)
    end
  end

  -- Up to the end of its messages a body is a prefix of the next, but for what changes the dialect.
  it("leaves the prefix of the conversation as it was", function()
    local last, checked = {}, 0
    for _, r in ipairs(m:requests()) do
      local id = r.path:match("^/([^/]+)/")
      if id:find("^tc%-") or id:find("^arg%-") or id:find("^leak%-") then
        local before = last[id]
        if before and #before < #r.body then
          assert.equal(before:sub(1, -3), r.body:sub(1, #before - 2), id)
          checked = checked + 1
        end
        last[id] = r.body
      end
    end
    assert.is_true(checked > 30 or ONLY ~= nil, checked)
  end)

  it("was met by as many requests as were recorded, each of them good JSON", function()
    local count = {}
    for _, r in ipairs(m:requests()) do
      local id = r.path:match("^/([^/]+)/")
      count[id] = (count[id] or 0) + 1
      assert.is_table(json.decode(r.body), r.path)
    end
    for _, case in ipairs(cases) do
      if not ONLY then assert.equal(case.expect.requests, count[case.id], case.id) end
    end
  end)
end)

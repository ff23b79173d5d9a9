-- Recorded streams cut at every byte, byte by byte, and in random pieces: always the same answer.
local faults = require "support.faults"
local fs = require "terret.fs"
local json = require "terret.json"
local request = require "terret.request"

local WHOLE = 1300 -- bytes of a stream that is cut at every byte
local PIECES = 12 -- random cuts of each stream

local function known(name) return name == "bash" and "bash" or nil end

-- What was read, as one text.
local function read(provider, pieces)
  local reply, message, class, info = request.read(provider, pieces, known)
  return json.encode { reply = reply or json.null, message = message, class = class,
    partial = info and info.partial, shown = info and info.shown }
end

local function random_pieces(body)
  local pieces, at = {}, 1
  while at <= #body do
    local n = math.random(1, math.random() < 0.5 and 5 or 400)
    pieces[#pieces + 1] = body:sub(at, at + n - 1)
    at = at + n
  end
  return pieces
end

local function bytes(body)
  local pieces = {}
  for i = 1, #body do pieces[i] = body:sub(i, i) end
  return pieces
end

local function check(provider, body, every)
  local want = read(provider, { body })
  assert.equal(want, read(provider, bytes(body)))
  for _ = 1, PIECES do
    local pieces = random_pieces(body)
    local got = read(provider, pieces)
    if got ~= want then error(json.encode(pieces) .. "\n" .. want .. "\n" .. got) end
  end
  for i = 1, every and #body - 1 or 0 do assert.equal(want, read(provider, { body:sub(1, i), body:sub(i + 1) })) end
  return want
end

describe("a stream in pieces", function()
  local openai = require "terret.providers.openai"
  local seen, cut = {}, 0

  setup(function() math.randomseed(20) end)

  for _, case in ipairs(faults.load()) do
    for _, step in ipairs(case.steps) do
      local body = faults.bytes(step)
      if (step.status or 200) == 200 and not seen[body] and #body > 0 and #body < 20000 then
        seen[body] = true
        local every = #body < WHOLE and cut < 6
        if every then cut = cut + 1 end
        it(("is the same answer (%s, %d bytes)"):format(case.id, #body), function() check(openai, body, every) end)
      end
    end
  end

  for _, name in ipairs { "responses", "anthropic" } do
    it("is the same answer of " .. name, function()
      local provider = require("terret.providers." .. name)
      local body = assert(fs.read("tests/wire/" .. name .. ".sse"))
      local want = json.decode(check(provider, body, true))
      assert.equal("Let me look at the café 🦀.", want.reply.text)
      assert.equal("The nest first.", want.reply.reasoning)
      assert.equal("bash", want.reply.tool_calls[1].name)
      -- With any line ends, and without the last blank line.
      for _, ends in ipairs { "\r\n", "\r" } do check(provider, (body:gsub("\n", ends)), false) end
      assert.equal(read(provider, { body }), read(provider, { (body:gsub("\n+$", "")) }))
    end)
  end
end)

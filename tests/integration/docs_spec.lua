-- Every code block of the guides is executed: Lua is written to the place that its first line names and
-- checked, shell commands run one after the other in a home of their own, and must succeed.
local exec = require "terret.exec"
local fs = require "terret.fs"
local task = require "terret.task"
local terret = require "support.terret"

local here = debug.getinfo(1, "S").source:match("^@(.*)/tests/integration/[^/]*$") or "."

-- {language, text} of each fenced block.
local function blocks(text)
  local out, current = {}, nil
  for line in (text .. "\n"):gmatch("(.-)\n") do
    local language = line:match("^```(%a*)$")
    if current and line == "```" then
      out[#out + 1] = { current.language, table.concat(current, "\n") .. "\n" }
      current = nil
    elseif current then
      current[#current + 1] = line
    elseif language then
      current = { language = language }
    end
  end
  assert(not current, "a fence is not closed")
  return out
end

describe("guides:", function()
  for _, name in ipairs { "tool", "loop", "provider", "skill", "extension", "sandbox" } do
    it(name .. ".md holds what it says", function()
      local home <close> = terret.home()
      local text = assert(fs.read(("%s/docs/%s.md"):format(here, name)))
      local _, lines = text:gsub("\n", "")
      assert.is_true(lines < 100, "a guide is a page")
      local env = home:environ()
      env.XDG_CONFIG_HOME, env.TERRET_PATH = nil, nil
      local bin = home.dir .. "/bin"
      assert(fs.write(bin .. "/terret", ("#!/bin/sh\nexec %s \"$@\"\n"):format(terret.executable()),
        { parents = true, mode = 493 }))
      env.PATH = bin .. ":" .. env.PATH
      for i, block in ipairs(blocks(text)) do
        local language, code = block[1], block[2]
        if language == "lua" then
          local path = code:match("^%-%- ~/(%S+)")
          assert(path, "a block of Lua begins with the file that it is")
          home:put("home/" .. path, code)
        else
          assert.equal("sh", language)
          local process <close> = assert(exec.spawn { argv = { "/bin/sh", "-ec", code }, env = env, cwd = home.project,
            timeout = 60, head = 100000 })
          task.await(process)
          local output = process:output()
          assert.equal(0, process:status().code, ("block %d:\n%s\n%s"):format(i, code, output.head .. output.tail))
        end
      end
    end)
  end
end)

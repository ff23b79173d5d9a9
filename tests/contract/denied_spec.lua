-- A file that a rule denies to read comes out of no tool, in no mode, whatever the tool says about it.
local agents = require "support.agent"
local json = require "terret.json"
local task = require "terret.task"
local toolcall = require "terret.toolcall"

local SECRET = "hunter2-is-the-password"

local function play(mode, f)
  local a <close> = agents.open { script = { { text = "done" } }, mode = mode }
  a:put("a.txt", "the word hunter2 alone\n")
  a:put("key.pem", SECRET .. "\n")
  a:put("keys/one", SECRET .. "\n")
  assert(os.execute(("cd '%s' && ln -s key.pem link && ln -s keys dir"):format(a.project)))
  for _, rule in ipairs { "read(**/*.pem)", "read(keys/**)" } do
    a.agent.permissions:add { verdict = "deny", rule = rule }
  end
  local n = 0
  f(function(name, arguments)
    n = n + 1
    local parsed = toolcall.parse { id = "c" .. n, name = name, arguments = json.encode(arguments) }
    return task.run(function() return toolcall.run(a.agent, parsed) end)
  end, a)
end

describe("a denied file", function()
  for _, mode in ipairs { "ask", "auto", "plan", "yolo" } do
    it("stays unread in mode " .. mode, function()
      play(mode, function(call, a)
        local calls = { { "grep", { pattern = "." } }, { "grep", { pattern = "hunter2-", glob = "*.pem" } },
          { "grep", { pattern = ".", path = "keys" } }, { "grep", { pattern = ".", path = "dir" } },
          { "grep", { pattern = ".", path = "./keys/../dir/" } } }
        for _, path in ipairs { "key.pem", "./keys/../key.pem", "link", "keys/one", "dir/one",
          a.project .. "/key.pem" } do
          calls[#calls + 1] = { "read", { path = path } }
          calls[#calls + 1] = { "grep", { pattern = ".", path = path } }
          calls[#calls + 1] = { "edit", { path = path, old_string = "hunter2-is-the-passw0rd", new_string = "x" } }
          calls[#calls + 1] = { "edit", { path = path, old_string = "", new_string = "x" } }
          calls[#calls + 1] = { "write", { path = path, content = "x\n" } }
        end
        for _, command in ipairs { "cat key.pem", "cat <key.pem", "cat link", "cat dir/one", "grep -r . .", "cat *",
          "rg .", "cat keys/*", "sh -c 'cat key.pem'", "f=key; cat $f.pem", "find . -type f -exec cat {} +",
          "cp key.pem x" } do
          calls[#calls + 1] = { "bash", { command = command } }
        end
        for _, c in ipairs(calls) do
          local message = call(c[1], c[2])
          assert.is_nil(message.content:find(SECRET, 1, true), ("%s %s"):format(c[1], json.encode(c[2])))
          if c[1] ~= "grep" then assert.is_false(message.ok, ("%s %s"):format(c[1], json.encode(c[2]))) end
        end
        assert.matches("a.txt:1: the word", call("grep", { pattern = "hunter2" }).content)
        assert.matches("left out", call("grep", { pattern = "hunter2" }).content)
      end)
    end)
  end
end)

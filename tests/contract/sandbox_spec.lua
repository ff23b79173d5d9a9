-- Every sandbox backend that is found.
local agents = require "support.agent"
local registry = require "terret.registry"
local sandbox = require "terret.sandbox"
local task = require "terret.task"

describe("sandbox backends:", function()
  for _, name in ipairs(registry.names("sandbox")) do
    describe(name, function()
      local backend = assert(registry.load("sandbox", name))
      local works, why = backend.available()

      it("is named as its file", function() assert.equal(name, backend.name) end)

      it("says whether it works, and why not, the same each time", function()
        assert.equal("boolean", type(works))
        assert.equal(works, (backend.available()))
        if not works then assert.equal("string", type(why)) end
      end)

      it("is listed", function()
        local found
        for _, b in ipairs(sandbox.backends()) do found = b.name == name and b or found end
        assert.equal(works, found.ok)
      end)

      it("is refused by name where it doesn't work, and never replaced by another", function()
        local picked, message, code = sandbox.pick(name)
        if works then return assert.equal(name, picked.name) end
        assert.is_nil(picked)
        assert.equal("no_sandbox", code)
        assert.truthy(message:find(name, 1, true))
      end)

      if works then
        local function run(argv, options)
          local a <close> = agents.open { script = {} }
          return task.run(function()
            local p <close> = assert(sandbox.spawn(backend, a.agent.policy, argv, options))
            task.await(p)
            sandbox.finish(p)
            return { code = p:status().code, out = p:output().head }, a.project
          end)
        end

        it("passes words, output and status on as they are", function()
          local r = run { "/bin/sh", "-c", 'printf "%s|" "$@"; exit 7', "sh", "a b", "", "'\"$HOME\n*", "-n" }
          assert.equal("a b||'\"$HOME\n*|-n|", r.out)
          assert.equal(7, r.code)
        end)

        it("starts in the project", function()
          local r, project = run { "/bin/sh", "-c", "pwd" }
          assert.equal(project .. "\n", r.out)
        end)

        it("hands on no key of the environment", function()
          local policy_env = run { "/usr/bin/env" }
          assert.is_nil(policy_env.out:find("API_KEY=", 1, true))
        end)
      end
    end)
  end
end)

-- A module that is loaded when it is first used.
local lazy = require "terret.lazy"

local NAME = "spec.lazy.module"

describe("lazy", function()
  local loads, real
  before_each(function()
    loads, real = 0, { answer = 42, no = false }
    function real.double(n) return 2 * n end
    package.loaded[NAME] = nil
    package.preload[NAME] = function()
      loads = loads + 1
      return real
    end
  end)
  after_each(function() package.loaded[NAME], package.preload[NAME] = nil, nil end)

  it("loads nothing before the first use, and once", function()
    local module = lazy(NAME)
    assert.equal(0, loads)
    assert.equal(42, module.answer)
    assert.equal(4, module.double(2))
    assert.equal(1, loads)
  end)

  it("has the same fields, false and missing ones too", function()
    local module = lazy(NAME)
    assert.equal(real.double, module.double)
    assert.is_false(module.no)
    assert.is_nil(module.nothing)
    real.nothing = 1 -- what was missing is looked up again
    assert.equal(1, module.nothing)
  end)

  it("asks the module once for a field", function()
    local module = lazy(NAME)
    assert.equal(42, module.answer)
    package.loaded[NAME] = { answer = 43 }
    assert.equal(42, module.answer)
    assert.equal(42, rawget(module, "answer"))
  end)

  it("two stand-ins are of one module", function()
    assert.equal(lazy(NAME).double, lazy(NAME).double)
    assert.equal(1, loads)
  end)

  it("raises where a module that isn't there is used, not where it is named", function()
    local module = lazy "spec.lazy.nowhere"
    local ok, message = pcall(function() return module.x end)
    assert.is_false(ok)
    assert.is_truthy(message:find("module 'spec.lazy.nowhere' not found", 1, true))
  end)

  it("tries again after an error", function()
    local module = lazy(NAME)
    local load = package.preload[NAME]
    package.preload[NAME] = function() error("not yet", 0) end
    assert.is_false((pcall(function() return module.answer end)))
    package.preload[NAME] = load
    assert.equal(42, module.answer)
  end)
end)

-- scripts/fault.lua: what went wrong, out of whatever an endpoint sends.
local fault = require "terret.fault"
local json = require "terret.json"

describe("fault", function()
  local bodies = {
    { '{"error":{"message":"m","type":"t","code":"c","param":"p"}}', { message = "m", code = "c", param = "p" } },
    { '[{"error":{"code":400,"message":"m","status":"INVALID"}}]', { message = "m", status = 400 } },
    { '{"error":"m"}', { message = "m" } }, { '{"message":"m"}', { message = "m" } },
    { '{"error":"Bad Request","message":"m"}', { message = "m" } },
    { '{"detail":[{"loc":["body","messages",2],"msg":"no"}]}', { message = "body.messages.2: no" } },
    { '{"detail":"m"}', { message = "m" } }, { '"m"', { message = "m" } },
    { '{"base_resp":{"status_code":1008,"status_msg":"m"}}', { message = "m" } },
    { '{"errors":[{"message":"m"}]}', { message = "m" } },
    { '{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"slow down"}}}',
      { message = "Provider returned error: slow down", status = 429 } },
    { '{"error":{"message":"outer","metadata":{"raw":"{\\"error\\":{\\"message\\":\\"inner\\",\\"code\\":502}}"}}}',
      { message = "outer: inner", status = 502 } },
    { '{"error":{"message":"m","failed_generation":"g"}}', { message = "m", generation = "g" } },
    { '{"error":{}}', { message = "{}" } }, { "[1]", { message = "[1]" } }, { "", { message = "no text" } },
    { "plain words\nof a proxy", { message = "plain words of a proxy" } },
    { 'data: {"error":{"message":"m"}}\n\n', { message = "m" } },
    { "<!DOCTYPE html><html><head><title>Login</title></head>", { message = "a web page (HTML, Login)" } },
    { "<html><body><h1>502</h1> Bad</body></html>", { message = "a web page (HTML, 502 Bad)" } },
  }
  for i, c in ipairs(bodies) do
    it(("of a body (%d)"):format(i), function()
      local got = fault.of_body(c[1])
      for key, value in pairs(c[2]) do assert.equal(value, got[key], key) end
    end)
  end

  it("is found in events of any form, and not in others", function()
    for _, e in ipairs { '{"error":{"message":"m"}}', '{"error":"m","choices":[]}', '{"type":"error","message":"m"}',
      '{"base_resp":{"status_code":2013,"status_msg":"m"},"choices":null}', '{"code":429,"message":"m"}',
      '{"detail":"m"}', '{"object":"error","message":"m"}' } do
      local got = fault.of_event(json.decode(e))
      assert.equal("m", got and got.message, e)
    end
    for _, e in ipairs { '{"choices":[]}', "{}", '{"error":null,"choices":[]}', '{"error":"","x":1}', '{"usage":{}}',
      '{"base_resp":{"status_code":0}}', '{"type":"ping"}', '{"choices":[{"message":{"content":"m"}}]}',
      '{"type":"message_start","message":{"x":1}}' } do
      assert.is_nil(fault.of_event(json.decode(e)), e)
    end
  end)

  it("is short and plain", function()
    assert.is_true(#fault.of_body('{"error":{"message":"' .. ("x"):rep(100000) .. '"}}').message <= fault.longest)
    assert.is_true(#fault.of_body("<html>" .. ("<div>a</div>"):rep(5000)).message < 200)
    assert.is_nil(fault.of_body('{"message":"a\\u001b[2Jb\\nc"}').message:find("[\27\n]"))
  end)

  it("survives anything", function()
    for _, bad in ipairs { "null", "7", "true", "{}", "[]", "[[]]", '{"error":7}', '{"error":[]}', '{"error":[[1]]}',
      '{"error":{"message":{}}}', '{"detail":[1,{"loc":7,"msg":"m"}]}', '{"metadata":{"raw":7}}', "{", "\0\255",
      '{"error":{"details":[1,{"retryDelay":7}],"code":{},"status":1e300}}' } do
      assert.is_string(fault.of_body(bad).message)
    end
  end)
end)

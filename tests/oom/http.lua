-- tests/oom/http.lua - each function of terret.http once, for the harness that fails allocations.
-- Nobody listens on the port, and one URL is none: what a server sends is tested in
-- tests/unit/test_http.c, where a buffer can be made to refuse.
local http = require "terret.http"
local reactor = require "terret.reactor"

local function finish(req)
  local limit = reactor.now() + 2
  while not req:ready() and reactor.now() < limit do reactor.poll(0.1) end
  req:read()
  req:read()
end

do
  local req <close> = assert(http.request {
    url = "http://127.0.0.1:1/", method = "PUT", body = ("x"):rep(100000),
    headers = { "Content-Type: text/plain", "X-Empty:", "X-One: 1" },
    connect_timeout = 1, first_byte_timeout = 1, idle_timeout = 1, timeout = 1,
    max_bytes = 10, max_buffered = 10, ca_file = "/nonexistent", insecure_env = true,
  })
  req:read()
  finish(req)
  req:status()
  req:header("x")
  req:times()
  req:close()
  reactor.poll(0)
end

http.request { url = "nonsense" }
http.request { url = "ftp://127.0.0.1/" }
local left = http.request { url = "http://127.0.0.1:1/" }
if left then left:ready() end

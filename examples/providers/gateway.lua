-- gateway.lua - a provider in one file: OpenAI's protocol behind a company's gateway, which wants a
-- header of its own and refuses `stream_options`.
--
-- Copy it to ~/.config/terret/providers/ and run `terret --provider gateway --base-url URL -m MODEL`.
-- Providers are pure functions: no network and no clock; the HTTP is done by terret.
local openai = require "terret.providers.openai"

local M = setmetatable({ name = "gateway" }, { __index = openai })

-- The head of the body is ours; the messages are the stored bytes, in the last key.
local function without_stream_options(body)
  return (body:gsub(',"stream_options":%b{}', "", 1))
end

---@param request table base_url, key, model, tools, stream, max_output, sampling, session
---@param view terret.store.view the messages, encoded
---@return string url
---@return string[] headers
---@return string body
function M.build(request, view)
  local url, headers, body = openai.build(request, view)
  headers[#headers + 1] = "X-Gateway-Session: " .. (request.session or "none")
  return url, headers, without_stream_options(body)
end

return M

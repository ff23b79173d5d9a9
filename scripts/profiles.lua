-- scripts/profiles.lua - how endpoints differ: one row a dialect.
--
-- Data only.  A user adds rows or changes them with `profiles = { name = {...} }` in config.lua; --profile and
-- TERRET_PROFILE name one, else the host decides.  What a row doesn't say is learned from the endpoint's
-- refusals (dialect.lua).
--
--   hosts        where it is spoken: the end of a host's name
--   provider     the file in providers/ (default openai)
--   key_env, url the vendor's key, and the base URL that goes with it alone
--   max_field    name of the output limit: "max_tokens", "max_completion_tokens", or false
--   drop         set of fields of the request that are left out
--   schema_drop  set of words of JSON Schema that are left out of the tools
--   system       role of the system prompt: "system", "developer", or "user" (told as the user's first words)
--   empty        content of an assistant message that only calls tools: "blank" (default) or "omit"
--   ids          "mistral": ids of calls are nine letters and digits
--   after_tool   true: no user message right behind a result; a short one of the assistant goes between
--   echo         false: no reasoning goes back
--   no_echo      set of fields that don't go back
--   echo_empty   a field that every message with calls carries, if need be empty
--   cache_marks  true: cache_control marks (Anthropic's models)
--   cache_key    true: prompt_cache_key
--   auth         "bearer" (default), "api-key", "x-api-key"
--   stream       false: answers come whole

local wire = require "terret.wire"

local M = {}

local function set(...)
  local out = {}
  for _, name in ipairs { ... } do out[name] = true end
  return out
end

---@type table<string, table>
M.rows = {
  openai = { hosts = { "api.openai.com" }, key_env = "OPENAI_API_KEY", url = "https://api.openai.com/v1",
    max_field = "max_completion_tokens", cache_key = true },
  openrouter = { hosts = { "openrouter.ai" }, key_env = "OPENROUTER_API_KEY", url = "https://openrouter.ai/api/v1" },
  ["openrouter-anthropic"] = { base = "openrouter", cache_marks = true, empty = "omit" },
  anthropic = { hosts = { "api.anthropic.com" }, provider = "anthropic", key_env = "ANTHROPIC_API_KEY",
    url = "https://api.anthropic.com/v1", auth = "x-api-key", cache_marks = true },
  azure = { hosts = { ".openai.azure.com", ".cognitiveservices.azure.com" }, key_env = "AZURE_OPENAI_API_KEY",
    auth = "api-key", max_field = "max_completion_tokens" },
  gemini = { hosts = { "generativelanguage.googleapis.com" }, key_env = "GEMINI_API_KEY",
    schema_drop = set("additionalProperties", "$schema", "exclusiveMinimum", "exclusiveMaximum", "uniqueItems",
      "propertyNames", "patternProperties") },
  deepseek = { hosts = { "api.deepseek.com" }, key_env = "DEEPSEEK_API_KEY", echo_empty = "reasoning_content" },
  mistral = { hosts = { "api.mistral.ai" }, key_env = "MISTRAL_API_KEY", ids = "mistral", after_tool = true,
    drop = set("stream_options", "prompt_cache_key", "store"), echo = false },
  groq = { hosts = { "api.groq.com" }, key_env = "GROQ_API_KEY", max_field = "max_completion_tokens" },
  xai = { hosts = { "api.x.ai" }, key_env = "XAI_API_KEY" },
  cerebras = { hosts = { "api.cerebras.ai" }, key_env = "CEREBRAS_API_KEY", max_field = "max_completion_tokens",
    no_echo = set("reasoning_content") },
  moonshot = { hosts = { "api.moonshot.ai", "api.moonshot.cn" }, key_env = "MOONSHOT_API_KEY" },
  zai = { hosts = { "api.z.ai", "open.bigmodel.cn" }, key_env = "ZAI_API_KEY" },
  minimax = { hosts = { "api.minimax.io", "api.minimaxi.com" }, key_env = "MINIMAX_API_KEY" },
  dashscope = { hosts = { "dashscope.aliyuncs.com", "dashscope-intl.aliyuncs.com" }, key_env = "DASHSCOPE_API_KEY" },
  fireworks = { hosts = { "api.fireworks.ai" }, key_env = "FIREWORKS_API_KEY" },
  together = { hosts = { "api.together.xyz", "api.together.ai" }, key_env = "TOGETHER_API_KEY" },
  huggingface = { hosts = { "router.huggingface.co" }, key_env = "HF_TOKEN" },
  copilot = { hosts = { "githubcopilot.com" } },
  ollama = {}, llamacpp = {}, lmstudio = {}, vllm = {}, sglang = {},
  vercel = { hosts = { "ai-gateway.vercel.sh" }, key_env = "AI_GATEWAY_API_KEY" },
}

---A row with what it is based on.
---@param name string
---@param extra table<string, table>? the user's own
---@return table? row
function M.get(name, extra)
  local row = extra and extra[name] or M.rows[name]
  if extra and extra[name] and M.rows[name] then
    row = setmetatable({}, { __index = function(_, key)
      local own = extra[name][key]
      if own ~= nil then return own end
      return M.rows[name][key]
    end })
  end
  return row
end

-- The end of a host's name, at a dot or as a whole.
local function ends(host, suffix)
  if suffix:sub(1, 1) == "." then return host:sub(-#suffix) == suffix end
  return host == suffix or host:sub(-#suffix - 1) == "." .. suffix
end

---The name of the profile of an endpoint, or nil.
---@param url string
---@param model string?
---@param extra table<string, table>?
---@return string?
function M.of_url(url, model, extra)
  local host = wire.host(url)
  local names = {}
  for _, rows in ipairs { extra or {}, M.rows } do
    for name, row in pairs(rows) do
      for _, suffix in ipairs(row.hosts or {}) do
        if ends(host, suffix) then names[#names + 1] = name end
      end
    end
  end
  table.sort(names)
  if names[1] == "openrouter" and model and model:find("^~?anthropic/") then return "openrouter-anthropic" end
  return names[1]
end

---All fields of a profile, its base's among them.
---@param name string?
---@param extra table<string, table>?
---@return table fields a new table
---@return string? message the name is unknown
function M.fields(name, extra)
  if not name then return {} end
  local row = M.get(name, extra)
  if not row then return {}, ("no profile '%s'"):format(name) end
  local out = row.base and M.fields(row.base, extra) or {}
  for _, key in ipairs(M.keys) do
    if row[key] ~= nil then out[key] = row[key] end
  end
  return out
end

---The fields that a configuration names or its endpoint has.
---@param cfg {profile: string?, base_url: string?, model: string?, profiles: table?}
---@return table fields
---@return string? message
function M.of(cfg)
  local name = cfg.profile or cfg.base_url and M.of_url(cfg.base_url, cfg.model, cfg.profiles) or nil
  return M.fields(name, cfg.profiles)
end

M.keys = { "provider", "max_field", "drop", "schema_drop", "system", "empty", "ids", "after_tool", "echo", "no_echo",
  "echo_empty", "cache_marks", "cache_key", "auth", "stream" }

---Names, sorted.
---@return string[]
function M.names()
  local out = {}
  for name in pairs(M.rows) do out[#out + 1] = name end
  table.sort(out)
  return out
end

return M

-- redact.lua - takes secrets out of the results of tools before the model, the log and the screen get them.
local terret = require "terret"

-- A name like key, token, secret or password, then = or :, then its value.
local NAMES = { "key", "token", "secret", "password", "passwd" }

local function redact(line)
  local lower = line:lower()
  for _, name in ipairs(NAMES) do
    local _, stop = lower:find(name, 1, true)
    local head = stop and line:match("^[%w_]*%s*[\"']?%s*[=:]%s*[\"']?", stop + 1)
    if head then
      local value = line:match("^[^%s\"',;]+", stop + #head + 1)
      if value and #value >= 8 then
        return line:sub(1, stop + #head) .. "[redacted]" .. redact(line:sub(stop + #head + #value + 1))
      end
    end
  end
  return line
end

terret.on("tool.result", function(e, next)
  return next { text = (e.text:gsub("[^\n]+", redact)) }
end, { name = "redact", priority = -100 }) -- innermost: the other handlers see it redacted, too

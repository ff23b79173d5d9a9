-- scripts/think.lua - reasoning that stands in the text of an answer, between tags.
--
-- A tag starts reasoning only where it opens the message; later it is a word like any other.  What
-- stands before a lone closing tag is reasoning too: its opening tag was in the prompt's template.

local M = {}

local TAGS = {
  { "<think>", "</think>" }, { "<thinking>", "</thinking>" }, { "<thought>", "</thought>" },
  { "[THINK]", "[/THINK]" }, { "<seed:think>", "</seed:think>" },
}

---@class terret.think
---@field mode "start"|"inside"|"text"
---@field held string

---@return terret.think
function M.new() return { mode = "start", held = "" } end

-- The tag that opens a text; "more" while it may still become one.
local function opening(s)
  local from = s:find("%S")
  if not from then return "more" end
  for _, tag in ipairs(TAGS) do
    local open = tag[1]
    local have = s:sub(from, from + #open - 1)
    if have == open then return tag, from + #open end
    if open:sub(1, #have) == have then return "more" end
  end
end

local function add(parts, kind, s)
  if s ~= "" then parts[#parts + 1] = { type = kind, text = s } end
end

-- Inside of tags: all but the last bytes, which may begin the closing tag.
local function inside(state, parts)
  local close = state.close
  local at = state.held:find(close, 1, true)
  if not at then
    local safe = #state.held - #close + 1
    if safe > 0 then
      add(parts, "reasoning", state.held:sub(1, safe))
      state.held = state.held:sub(safe + 1)
    end
    return
  end
  add(parts, "reasoning", state.held:sub(1, at - 1))
  state.mode, state.held = "after", state.held:sub(at + #close)
end

---Takes in text; adds parts of reasoning and text.
---@param state terret.think
---@param s string
---@param parts {type: string, text: string}[]
function M.feed(state, s, parts)
  if state.mode == "text" then return add(parts, "text", s) end
  state.held = state.held .. s
  if state.mode == "start" then
    local tag, rest = opening(state.held)
    if tag == "more" then return end
    if tag then
      state.mode, state.close, state.held = "inside", tag[2], state.held:sub(rest)
    else
      state.mode = "text"
      add(parts, "text", state.held)
      state.held = ""
      return
    end
  end
  if state.mode == "inside" then inside(state, parts) end
  if state.mode == "after" then
    local from = state.held:find("%S")
    if not from then return end
    add(parts, "text", state.held:sub(from))
    state.mode, state.held = "text", ""
  end
end

---The end of the answer: what was held back.
---@param state terret.think
---@param parts {type: string, text: string}[]
function M.finish(state, parts)
  if state.mode == "start" then add(parts, "text", state.held)
  elseif state.mode == "inside" then add(parts, "reasoning", state.held) end
  state.mode, state.held = "text", ""
end

-- True in a code block or a code span.
local function quoted(s, at)
  local before = s:sub(1, at - 1)
  local _, fences = ("\n" .. before):gsub("\n%s*```", "")
  if fences % 2 == 1 then return true end
  local _, ticks = before:match("[^\n]*$"):gsub("`", "")
  return ticks % 2 == 1
end

---Parts a whole text at a lone closing tag.
---@param s string
---@return string text
---@return string? reasoning
function M.split(s)
  for _, tag in ipairs(TAGS) do
    local open, close = tag[1], tag[2]
    local at = s:find(close, 1, true)
    local opened = s:find(open, 1, true)
    if at and not (opened and opened < at) and not quoted(s, at) then
      local ends_line = s:find("^[ \t]*\r?\n", at + #close) or at + #close > #s
      local starts_line = s:sub(1, at - 1):find("\n[ \t]*$") or at == 1
      if ends_line or starts_line then
        return (s:sub(at + #close):gsub("^%s+", "")), s:sub(1, at - 1)
      end
    end
  end
  return s
end

return M

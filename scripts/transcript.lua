-- scripts/transcript.lua - a session as text to be read: for the terminal and as Markdown.
--
-- Works on records (see scripts/session.lua) and opens nothing.  What comes from a model, a tool or a
-- project is hostile: plain() makes it safe for a terminal, markdown() fences it in.

local json = require "terret.json"
local text = require "terret.text"

local M = {}

local RESULT_LINES = 12

-- Frames that terret puts before the user's words: <instructions ...>, <skills>, <note>.
local FRAMES = { instructions = true, skills = true, note = true }

---The user's own words in a message of the user's role.
---@param content string
---@return string
function M.words(content)
  while true do
    local tag = content:match("^<(%l+)[%s>]")
    local _, stop = content:find("</" .. (tag or "") .. ">", 1, true)
    if not FRAMES[tag] or not stop then return content end
    content = content:sub(stop + 1):gsub("^%s+", "")
  end
end

---@param records table[] of a branch
---@return string prompt the first one, "" when there is none
function M.first_prompt(records)
  for _, r in ipairs(records) do
    if r.type == "message" and r.role == "user" and type(r.content) == "string" then return M.words(r.content) end
  end
  return ""
end

---@param records table[]
---@return integer steps requests that were answered
function M.steps(records)
  local n = 0
  for _, r in ipairs(records) do
    if r.type == "message" and r.role == "assistant" then n = n + 1 end
  end
  return n
end

---The calls of a record that are calls: a damaged log may hold anything.
---@param r table
---@return table[]
function M.calls(r)
  local out = {}
  for _, call in ipairs(type(r.tool_calls) == "table" and r.tool_calls or {}) do
    if type(call) == "table" then out[#out + 1] = call end
  end
  return out
end

-- Arguments on one line: JSON as it was sent.
local function arguments(call)
  return (tostring(call.arguments or ""):gsub("[\r\n]", " "))
end

local function indent(s) return "  " .. s:gsub("\n", "\n  ") end

local function shorten(s, full)
  local count = text.count_lines(s)
  if full or count <= RESULT_LINES + 1 then return s end
  return ("%s\n[%d more lines]"):format(text.lines(s, 1, RESULT_LINES):gsub("\n$", ""), count - RESULT_LINES)
end

local plain = {}

function plain.user(r) return "> " .. M.words(r.content):gsub("\n", "\n> ") end

function plain.assistant(r)
  local parts = {}
  if r.content:find("%S") then parts[1] = r.content end
  for _, call in ipairs(M.calls(r)) do parts[#parts + 1] = ("* %s %s"):format(tostring(call.name), arguments(call)) end
  return table.concat(parts, "\n")
end

function plain.tool(r, full)
  return indent((r.ok == false and "! " or "") .. shorten(r.content, full))
end

-- Records that are no messages, in a few words.
local FACTS = {
  compaction = function() return "[the conversation before this was summed up]" end,
  batch = function(r)
    local function count(list) return type(list) == "table" and #list or 0 end
    return ("[%d old results shortened, %d messages dropped]"):format(count(r.replace), count(r.drop))
  end,
  permission = function(r)
    if r.allowed then return nil end
    return ("[not permitted: %s%s]"):format(tostring(r.tool), r.reason and ", " .. tostring(r.reason) or "")
  end,
  warning = function(r) return "[warning: " .. tostring(r.text) .. "]" end,
  pin = function(r)
    local n = type(r.ids) == "table" and #r.ids or 0
    return ("[%d messages %s]"):format(n, r.on == false and "unpinned" or "pinned")
  end,
  undo = function(r) return ("[record %s taken back]"):format(tostring(r.of)) end,
  rewind = function(r) return ("[rewound to record %s]"):format(tostring(r.to)) end,
}

---@param records table[] of a branch
---@param options {full: boolean?}? whole results
---@return string text safe for a terminal
function M.plain(records, options)
  local out = {}
  for _, r in ipairs(records) do
    local words
    if r.type == "message" and plain[r.role] and type(r.content) == "string" then
      words = plain[r.role](r, options and options.full)
    elseif FACTS[r.type] then
      words = FACTS[r.type](r)
    end
    if words and words ~= "" then out[#out + 1] = text.safe(words) end
  end
  return table.concat(out, "\n\n")
end

-- A fence that is longer than any in the text.
local function fenced(s, language)
  local longest = 2
  for run in s:gmatch("`+") do longest = math.max(longest, #run) end
  local fence = ("`"):rep(longest + 1)
  return ("%s%s\n%s\n%s"):format(fence, language or "", s:gsub("\n$", ""), fence)
end

local markdown = {}

function markdown.user(r) return "## User\n\n" .. M.words(r.content) end

function markdown.assistant(r)
  local parts = { "## Assistant" }
  if r.content:find("%S") then parts[2] = r.content end
  for _, call in ipairs(M.calls(r)) do
    local canonical = json.canonical(tostring(call.arguments)) or arguments(call)
    parts[#parts + 1] = ("Calls `%s`:\n\n%s"):format(text.safe(tostring(call.name)), fenced(canonical, "json"))
  end
  return table.concat(parts, "\n\n")
end

function markdown.tool(r)
  return ("Result of `%s`%s:\n\n%s"):format(text.safe(tostring(r.name)), r.ok == false and " (failed)" or "",
    fenced(r.content))
end

---@param records table[] of a branch
---@return string
function M.markdown(records)
  local head = records[1] or {}
  local out = { ("# Session %s\n\n- project: %s\n- model: %s\n- started: %s"):format(tostring(head.session),
    tostring(head.project), tostring(head.model), tostring(head.time)) }
  for _, r in ipairs(records) do
    if r.type == "message" and markdown[r.role] and type(r.content) == "string" then
      out[#out + 1] = markdown[r.role](r)
    elseif r.type == "compaction" then
      out[#out + 1] = "## Summary\n\n" .. tostring(r.content)
    end
  end
  return table.concat(out, "\n\n") .. "\n"
end

return M

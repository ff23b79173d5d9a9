-- scripts/fault.lua - what an endpoint says went wrong, out of whatever it sent.
--
-- A fault is {message, code?, status?, param?, text}: `text` holds all words that classify it (the
-- message, codes, the upstream's own words), `message` is what the user reads.  Never raises.

local json = require "terret.json"
local text = require "terret.text"
local wire = require "terret.wire"

local M = {}

M.longest = 1000 -- bytes of a message
local MOST_TITLE = 100
local MOST_TEXT = 4000 -- bytes of what is looked through

---@class terret.fault
---@field message string
---@field text string
---@field code string?
---@field status integer? HTTP status that the body names
---@field param string? the field that is at fault
---@field generation string? what the model wrote, where the endpoint could not use it

local function status_of(x)
  local n = wire.count(x)
  return n and n >= 400 and n < 600 and n or nil
end

local function first_text(t, ...)
  for i = 1, select("#", ...) do
    local value = t[select(i, ...)]
    if wire.is_text(value) then return value end
  end
end

-- A validation list: {loc = {...}, msg = ...}.
local function detail_text(list)
  local parts = {}
  for _, d in ipairs(list) do
    if type(d) == "table" and wire.is_text(d.msg) then
      local loc = {}
      for i, part in ipairs(wire.object(d.loc)) do loc[i] = tostring(part) end
      parts[#parts + 1] = table.concat(loc, ".") .. ": " .. d.msg
    end
  end
  return #parts > 0 and table.concat(parts, "; ") or nil
end

local function add(words, value)
  if type(value) == "string" or type(value) == "number" then words[#words + 1] = tostring(value) end
end

local function message_of(e)
  local message = first_text(e, "message", "msg", "status_msg", "error_msg", "error_message", "errorMessage", "detail",
    "reason", "error")
  if not message and type(e.detail) == "table" then message = detail_text(e.detail) end
  return message or nil
end

local function cut(message)
  return text.cut((text.clean(message):gsub("[%s%c]+", " ")), M.longest)
end

local read

-- The upstream's own words, which a gateway passes on as JSON in a string.
local function upstream(e)
  local raw = wire.object(e.metadata).raw
  if not wire.is_text(raw) then return nil end
  local inner = json.decode(raw)
  return type(inner) == "table" and read(inner) or { message = cut(raw), text = raw:sub(1, MOST_TEXT) }
end

local function fields(e)
  local words = {}
  for _, key in ipairs { "code", "type", "status", "status_code", "param", "error_type", "error_code" } do
    add(words, e[key])
  end
  add(words, wire.object(e.metadata).error_type)
  for _, d in ipairs(wire.object(e.details)) do
    if type(d) == "table" and wire.is_text(d.retryDelay) then words[#words + 1] = "retryDelay: " .. d.retryDelay end
  end
  return table.concat(words, " ")
end

---@param value any decoded JSON
---@return terret.fault
function read(value)
  if type(value) == "table" and json.is_array(value) then
    local first = value[1]
    value = (type(first) == "table" or type(first) == "string") and first or json.encode(value)
  end
  if type(value) == "string" then return { message = cut(value), text = value:sub(1, MOST_TEXT) } end
  value = wire.object(value)
  local e = value
  for _, key in ipairs { "error", "errors", "base_resp", "response" } do
    local inner = value[key]
    if json.is_array(inner) then inner = inner[1] end
    if wire.is_text(inner) and key == "error" then
      e = { message = first_text(value, "message", "detail") or inner, code = value.code, type = inner }
      break
    elseif type(inner) == "table" then
      e = type(inner.error) == "table" and inner.error or inner
      break
    end
  end
  local said = message_of(e) or json.encode(e)
  local fault = { message = cut(said), code = first_text(e, "code", "type", "status"),
    status = status_of(e.code) or status_of(e.status_code) or status_of(e.status) or status_of(value.code)
      or status_of(value.status), param = first_text(e, "param"),
    generation = first_text(e, "failed_generation"),
    text = said:sub(1, MOST_TEXT) .. " " .. fields(e):sub(1, MOST_TEXT) }
  local above = upstream(e)
  if above then
    if above.message ~= fault.message then fault.message = cut(fault.message .. ": " .. above.message) end
    fault.text = fault.text .. " " .. above.text
    fault.status = fault.status or above.status
  end
  return fault
end
M.read = read

-- The title of a web page, or its first words; the page itself is never shown.
local function page(body)
  local _, from = body:find("<title[^<>]*>")
  local to = from and body:find("</title>", from, true)
  local title = to and to - from < 300 and body:sub(from + 1, to - 1) or ""
  if not title:find("%S") then title = body:sub(1, MOST_TEXT):gsub("<[^<>]*>", " ") end
  title = text.cut(text.clean(title:gsub("%s+", " "):match("^ ?(.-) ?$")), MOST_TITLE)
  return "a web page (HTML" .. (title ~= "" and ", " .. title or "") .. ")"
end

---@param body string
---@return boolean
function M.is_page(body)
  local start = body:sub(1, 512):lower()
  return start:find("^[\239\187\191%s]*<!doctype") ~= nil or start:find("^[\239\187\191%s]*<html") ~= nil
    or start:find("^[\239\187\191%s]*<[a-z!?]") ~= nil and start:find("<head", 1, true) ~= nil
end

---The fault of an answer's body, of whatever kind it is.
---@param body string
---@return terret.fault
function M.of_body(body)
  local value = json.decode(body)
  if type(value) == "table" or type(value) == "string" then return read(value) end
  if M.is_page(body) then
    local what = page(body)
    return { message = cut(what), text = what, page = true }
  end
  -- An event stream with an error in it, or lines of JSON.
  for line in body:sub(1, 65536):gmatch("[^\r\n]+") do
    local inner = json.decode((line:gsub("^data:%s*", "")))
    if type(inner) == "table" then return read(inner) end
  end
  local said = cut(body)
  return { message = said:find("%S") and said or "no text", text = said }
end

---The fault that an event stands for, or nil: it is none.  Any error object is one, whatever the
---status of the answer said.
---@param body table decoded
---@return terret.fault?
function M.of_event(body)
  local e = body.error
  if e ~= nil and e ~= json.null and e ~= "" and e ~= false then return read(body) end
  if body.type == "error" then return read(body) end
  local base = wire.object(body.base_resp)
  if (wire.count(base.status_code) or 0) ~= 0 then return read(body) end
  if type(body.choices) == "table" or type(body.usage) == "table" then return nil end
  if type(body.errors) == "table" and #body.errors > 0 then return read(body) end
  if message_of(body) and (body.code ~= nil or body.status ~= nil or body.detail ~= nil or body.type == nil) then
    return read(body)
  end
end

return M

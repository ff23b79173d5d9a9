-- scripts/assemble.lua - tool calls out of the fragments of a stream.
--
-- A state machine over index, id, name and completeness, since endpoints disagree about all four:
-- indexes are missing, all zero, or new in each fragment; ids are missing, late, repeated, or the same
-- for two calls; names come twice, late or never; arguments come in pieces, whole, whole again behind
-- their pieces, or as an object.  The rules, in this order:
--
--   the same id on the same index (or without one) goes on with that call
--   a known index goes on, unless a name comes with a new id, or behind whole arguments
--   what has neither name nor id goes on with the last call while its arguments aren't whole
--   anything else begins a call
--
-- Nothing is guessed about the text: arguments are cut or closed by nobody here.

local json = require "terret.json"

local M = {}

local RESENT_TRIES = 8 -- places where arguments may have been sent anew
local MOST_LOOKS = 64 -- at the arguments of one call, before its end

---@class terret.assemble
---@field list table[]
local Calls = {}
Calls.__index = Calls

---@return terret.assemble
function M.new() return setmetatable({ list = {}, by_index = {} }, Calls) end

local function some(x) return type(x) == "string" and x ~= "" and x or nil end


-- Whether the arguments so far are one whole object.  Looked at a bounded number of times: each look
-- reads all of them.
local function is_whole(call)
  if call.object then return true end
  local last = call.pieces[#call.pieces]
  if not last or not last:find("}%s*$") or call.looks >= MOST_LOOKS then return false end
  call.looks = call.looks + 1
  local text = table.concat(call.pieces)
  return text:find("^%s*{") ~= nil and type(json.decode(text)) == "table"
end

local function begins_anew(call, d)
  if not d.name then return false end
  local given = d.arguments
  if type(given) == "string" and not given:find("^%s*{") then return false end
  if given == nil then return false end
  return is_whole(call)
end

-- The call that a fragment goes on with, or nil.
local function find(self, d)
  local last = self.list[#self.list]
  local call = last
  if d.index then call = self.by_index[d.index] end
  if d.id then
    if not d.index then
      for _, other in ipairs(self.list) do
        if other.id == d.id then call = other end
      end
    end
    if call and call.id == d.id then return call end
    if call and not call.id and not begins_anew(call, d) then return call end
    -- Another id: a call of its own, unless it comes nameless in the middle of arguments.
    if call and not d.name and not is_whole(call) then return call end
    return nil
  end
  if call then
    if begins_anew(call, d) then return nil end
    -- Without index and id a name behind arguments is the next call's.
    if not d.index and d.name and #call.pieces > 0 and d.name ~= call.name then return nil end
    return call
  end
  if last and not d.name and not is_whole(last) then return last end
end

---Takes in one fragment.
---@param d {index: integer?, id: string?, name: string?, arguments: string|table?, extra: table<string, string>?}
function Calls:add(d)
  d.id, d.name = some(d.id), some(d.name)
  local call = find(self, d)
  if not call then
    call = { pieces = {}, name = "", extra = {}, looks = 0 }
    self.list[#self.list + 1] = call
  end
  if d.index and not self.by_index[d.index] or d.index and d.name then self.by_index[d.index] = call end
  call.id = call.id or d.id
  if d.name and d.name ~= call.name then
    -- A name may come in pieces, or whole again.
    local resent = call.name ~= "" and d.name:sub(1, #call.name) == call.name
    call.name = resent and d.name or call.name .. d.name
  end
  if type(d.arguments) == "string" and d.arguments ~= "" then
    call.pieces[#call.pieces + 1] = d.arguments
  elseif type(d.arguments) == "table" then
    call.object = json.encode(d.arguments)
  end
  for key, raw in pairs(d.extra or {}) do call.extra[key] = raw end
end

---A call that came whole.
---@param d table as for add
function Calls:whole(d)
  self.list[#self.list + 1] = { id = some(d.id), name = some(d.name) or "", extra = d.extra or {}, looks = 0,
    pieces = { type(d.arguments) == "string" and d.arguments or nil },
    object = type(d.arguments) == "table" and json.encode(d.arguments) or nil }
end

-- The arguments, where they were sent whole again behind their pieces or a part of them.
local function resent(pieces, text)
  local tries = 0
  for k = #pieces, 2, -1 do
    if pieces[k]:find("^%s*{") then
      tries = tries + 1
      if tries > RESENT_TRIES then return nil end
      local tail = table.concat(pieces, "", k)
      local head = text:sub(1, #text - #tail)
      local begins = tail:sub(1, #head) == head
      if not begins then -- each fragment repeats all before it
        begins = true
        for i = 1, k - 1 do begins = begins and tail:sub(1, #pieces[i]) == pieces[i] end
      end
      if begins and type(json.decode(tail)) == "table" then return tail end
    end
  end
end

local function arguments_of(call)
  if call.object then return call.object end
  local text = table.concat(call.pieces)
  if #call.pieces < 2 or type(json.decode(text)) == "table" then return text end
  return resent(call.pieces, text) or text
end

-- A call that was spread over several indexes under one id.
local function join_spread(list)
  local out = {}
  for _, call in ipairs(list) do
    local last = out[#out]
    if last and call.id and last.id == call.id and not last.object and not call.object and not is_whole(last)
      and not is_whole(call) then
      table.move(call.pieces, 1, #call.pieces, #last.pieces + 1, last.pieces)
      if last.name == "" then last.name = call.name end
    else
      out[#out + 1] = call
    end
  end
  return out
end

---The calls.  What has neither name nor arguments is none, and a call that was sent twice is one.
---@return {id: string?, name: string, arguments: string, extra: table<string, string>?}[]
function Calls:finish()
  local out, seen = {}, {}
  for _, call in ipairs(join_spread(self.list)) do
    local text = arguments_of(call)
    local key = call.id and table.concat({ call.id, call.name, text }, "\0")
    if not (call.name == "" and not text:find("%S")) and not (key and seen[key]) then
      if key then seen[key] = true end
      out[#out + 1] = { id = call.id, name = call.name, arguments = text,
        extra = next(call.extra) and call.extra or nil }
    end
  end
  return out
end

return M

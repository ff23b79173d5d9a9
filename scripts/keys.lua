-- scripts/keys.lua - bytes of a terminal to keys.  A pure state machine: any cut of the stream gives
-- the same keys, and no bytes make it fail.
--
-- A key is {name = "left"} ("ctrl-a", "alt-b", "enter", "esc", ...), {name = "text", text = "..."} or
-- {name = "paste", text = "..."} for a bracketed paste.  A lone ESC at the end may be the key or the
-- beginning of a sequence: waiting() says so, and whoever has waited long enough calls flush().

local text = require "terret.text"

local M = {}

local MAX_SEQUENCE = 64 -- bytes; what is longer is no key
local PASTE_END = "\27[201~"

local CONTROL = { [8] = "backspace", [9] = "tab", [13] = "enter", [127] = "backspace" }
local FINAL = { A = "up", B = "down", C = "right", D = "left", F = "end", H = "home", Z = "shift-tab" }
local TILDE = { ["1"] = "home", ["3"] = "delete", ["4"] = "end", ["5"] = "page-up", ["6"] = "page-down",
  ["7"] = "home", ["8"] = "end" }
local MODIFIER = { ["2"] = "shift-", ["3"] = "alt-", ["4"] = "alt-", ["5"] = "ctrl-", ["6"] = "ctrl-", ["7"] = "ctrl-" }
local CODE = { ["9"] = "tab", ["13"] = "enter", ["27"] = "esc", ["127"] = "backspace" } -- of CSI code ; modifier u

---@class terret.key
---@field name string
---@field text string?

---@class terret.keys
local Decoder = {}
Decoder.__index = Decoder

---@return terret.keys
function M.new() return setmetatable({ rest = "" }, Decoder) end

local function control(byte)
  if CONTROL[byte] then return CONTROL[byte] end
  if byte >= 1 and byte <= 26 then return "ctrl-" .. string.char(byte + 96) end
  return "unknown"
end

local function csi(params, final)
  local first, modifier = params:match("^(%d*);?(%d*)")
  local name = final == "~" and TILDE[first] or final == "u" and CODE[first] or FINAL[final]
  if not name then return "unknown" end
  return (final == "Z" and "" or MODIFIER[modifier] or "") .. name
end

-- The key that begins with the ESC at i, and the place behind it; nil: more must come.
local function escape(s, i, final)
  local c = s:sub(i + 1, i + 1)
  if c == "" then
    if final then return { name = "esc" }, i + 1 end
    return nil
  elseif c == "[" or c == "O" then
    local pattern = c == "[" and "^%[([0-?]*)[ -/]*([@-~])" or "^O()([@-~])"
    local from, to, params, last = s:find(pattern, i + 1)
    if from then
      if c == "O" then return { name = FINAL[last] or "unknown" }, to + 1 end
      if params == "200" and last == "~" then return { name = "paste" }, to + 1 end
      return { name = csi(params, last) }, to + 1
    end
    local stop = s:match("^[%[O][ -?]*()", i + 1)
    if stop > #s and not final and stop - i < MAX_SEQUENCE then return nil end
    return { name = "unknown" }, stop
  elseif c == "\27" then
    return { name = "esc" }, i + 1
  end
  local byte = c:byte()
  if byte < 32 or byte == 127 then return { name = "alt-" .. control(byte) }, i + 2 end
  if byte < 128 then return { name = "alt-" .. c }, i + 2 end
  return { name = "esc" }, i + 1
end

-- A run of text from i; a character that is cut off at the end stays behind.
local function run(s, i, final)
  local to = s:match("^[\32-\126\128-\255]+()", i)
  if to > #s and not final then
    local at, lead = s:match("()([\194-\244])[\128-\191]*$", math.max(i, #s - 2))
    if at then
      local byte = lead:byte()
      local need = byte >= 240 and 4 or byte >= 224 and 3 or 2
      if #s - at + 1 < need then to = at end
    end
  end
  if to == i then return nil end
  return { name = "text", text = text.clean(s:sub(i, to - 1)) }, to
end

-- The bytes of a paste up to its end; what could be the beginning of the end mark stays behind.
local function paste(self, s, i)
  local from, to = s:find(PASTE_END, i, true)
  if from then
    self.paste[#self.paste + 1] = s:sub(i, from - 1)
    local whole = table.concat(self.paste):gsub("\r\n?", "\n")
    self.paste = nil
    return { name = "paste", text = text.clean(whole) }, to + 1
  end
  local keep = #s
  for n = math.min(#PASTE_END - 1, #s - i + 1), 1, -1 do
    if s:sub(-n) == PASTE_END:sub(1, n) then
      keep = #s - n
      break
    end
  end
  self.paste[#self.paste + 1] = s:sub(i, keep)
  return nil, keep + 1
end

local function decode(self, s, final)
  local keys, i = {}, 1
  while i <= #s do
    local key, after
    local byte = s:byte(i)
    if self.paste then
      key, after = paste(self, s, i)
      if not key then
        i = after
        break
      end
    elseif byte == 27 then
      key, after = escape(s, i, final)
    elseif byte < 32 or byte == 127 then
      key, after = { name = control(byte) }, i + 1
    else
      key, after = run(s, i, final)
    end
    if not key then break end
    i = after
    if key.name == "paste" and not key.text then
      self.paste = {}
    else
      keys[#keys + 1] = key
    end
  end
  self.rest = s:sub(i)
  return keys
end

---@param bytes string
---@return terret.key[]
function Decoder:feed(bytes) return decode(self, self.rest .. bytes, false) end

---@return boolean a key has begun; not true within a paste, which only its end mark ends
function Decoder:waiting() return self.rest ~= "" and not self.paste end

---No more bytes come for what has begun.
---@return terret.key[]
function Decoder:flush()
  if self.paste then return {} end
  return decode(self, self.rest, true)
end

return M

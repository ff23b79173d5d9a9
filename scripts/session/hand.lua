-- scripts/session/hand.lua - what a user does to the context by hand: drop, pin, unpin, undo.
--
-- Everything is a record that can be taken back.  Messages are named by the ids of their records; a range
-- grows to whole exchanges, so that no call is torn from its result.

local session = require "terret.session"
local view = require "terret.view"

local M = {}

-- Positions of the view between two records, grown to whole exchanges: a call and its results stay together.
local function span(self, from, to)
  local first, last
  for i = 2, #self.entries do
    if self.entries[i].id == from then first = i end
    if self.entries[i].id == to then last = i end
  end
  if not first or not last then
    return nil, ("no message %d in the context"):format(first and to or from), "not_found"
  end
  if first > last then first, last = last, first end
  while self.entries[first].role == "tool" do first = first - 1 end
  while self.entries[last + 1] and self.entries[last + 1].role == "tool" do last = last + 1 end
  return first, last
end

---Takes messages out of the context, with the results of their calls.  The system prompt and the first words
---stay, and what is pinned.
---@param self terret.session
---@param from integer id of a record
---@param to integer? default: only that one
---@return integer[]? ids
---@return string? message
---@return string? code
function M.drop(self, from, to)
  local first, last, code = span(self, from, to or from)
  if not first then return nil, last, code end
  local ids, i = {}, math.max(first, 3)
  while i <= last do
    local stop, pinned = i, self.entries[i].pinned
    while self.entries[stop + 1] and self.entries[stop + 1].role == "tool" do
      stop = stop + 1
      pinned = pinned or self.entries[stop].pinned
    end
    for k = i, pinned and i - 1 or stop do ids[#ids + 1] = self.entries[k].id end
    i = stop + 1
  end
  if #ids == 0 then return nil, "nothing to drop: the first words and what is pinned stay", "denied" end
  local id, message, err = self:append { type = "batch", reason = "hand", drop = ids }
  if not id then return nil, message, err end
  return ids
end

---Pins messages: they are passed over by strip, drop and compaction.  Or unpins them.
---@param self terret.session
---@param from integer id of a record
---@param to integer? default: only that one
---@param on boolean? default true
---@return integer[]? ids
---@return string? message
---@return string? code
function M.pin(self, from, to, on)
  local first, last, code = span(self, from, to or from)
  if not first then return nil, last, code end
  local ids = {}
  for i = first, last do ids[#ids + 1] = self.entries[i].id end
  local id, message, err = self:append { type = "pin", ids = ids, on = on ~= false }
  if not id then return nil, message, err end
  return ids
end

---Takes back a batch, a compaction, a pin or an undo.  Nothing is erased: that is a record, too.
---@param self terret.session
---@param id integer? of that record; default: the last one made by hand
---@return integer? id what was taken back
---@return string? message
---@return string? code
function M.undo(self, id)
  if #self.open > 0 then return nil, "calls are running", "busy" end
  local records, message, code = session.read(self.log:path())
  if not records then return nil, message, code end
  local target
  for _, r in ipairs(view.branch(records, self.last)) do
    local by_hand = r.type == "pin" or r.type == "batch" and r.reason == "hand"
    if id and r.id == id or not id and by_hand then target = r end
  end
  if not target or not view.undoable[target.type] then return nil, "there is nothing to take back", "not_found" end
  local made
  made, message, code = self:append { type = "undo", of = target.id }
  if not made then return nil, message, code end
  records, message, code = session.read(self.log:path())
  if not records then return nil, message, code end
  self:rebuild(records, made)
  return target.id
end

---What fills the context, one row a message.
---@param self terret.session
---@return {id: integer, role: string, kind: string?, name: string?, tokens: integer, pinned: boolean?, stub: boolean?, path: string?, calls: integer?}[]
function M.list(self)
  local out = {}
  for i, e in ipairs(self.entries) do
    out[i] = { id = e.id, role = e.role, kind = e.kind, name = e.name, tokens = e.tokens, pinned = e.pinned,
      stub = e.stub, path = e.touched, content = e.content, calls = e.calls and #e.calls or nil }
  end
  return out
end

return M

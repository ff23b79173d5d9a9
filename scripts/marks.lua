-- scripts/marks.lua - cache marks on messages, for endpoints that cache only what is marked.
--
-- Two marks move: one on the last message, where this request writes the cache, and one on the message
-- before the last answer, where the request before this one wrote it; so the cache is found again however many
-- blocks came between.  With the marks of tools and system these are four at most.  Stored bytes never
-- change: the marked messages are made anew at the end of the body.

local json = require "terret.json"

local M = { MARK = { type = "ephemeral" } }

---The bytes of one message; without its store by way of a view that ends there.
---@param view terret.store.view
---@param store terret.store.store?
---@param i integer
---@return string
function M.fragment(view, store, i)
  if store then return store:get(view:at(i) --[[@as integer]]) end
  local part = view:fork()
  part:rewind(i)
  return part:render("", "", i)
end

-- The position of the message before the last answer.
local function before_answer(view, store)
  for i = view:count(), 2, -1 do
    local fragment = M.fragment(view, store, i)
    if fragment:sub(-19) == '"role":"assistant"}' or json.slice(fragment, "role") == '"assistant"' then return i - 1 end
  end
  return 0
end

---A body whose last message and the one before the last answer are marked.
---@param view terret.store.view
---@param store terret.store.store?
---@param head string
---@param tail string
---@param first integer position of the first message that may be marked
---@param marked fun(fragment: string): string
---@param from integer? position of the first message of the body
---@return string
function M.render(view, store, head, tail, first, marked, from)
  local count = view:count()
  from = from or 1
  local at = math.max(first, before_answer(view, store))
  if count < first or at > count then return view:render(head, tail, from) end
  local stable = view:fork()
  stable:rewind(at - 1)
  local last = {}
  for i = at, count do
    local fragment = M.fragment(view, store, i)
    last[#last + 1] = (i == at or i == count) and marked(fragment) or fragment
  end
  local ends = (at > from and "," or "") .. table.concat(last, ",") .. tail
  return stable:render(head, ends, from)
end

return M

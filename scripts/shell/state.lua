-- scripts/shell/state.lua - terret.shell.state: what the halves of the parser share: failure and the budget.
--
-- A parser state is {src, pos, depth, odd, heredocs, shared}; shared = {nodes, fuel, splices, bashisms, limits}
-- is the same table for all child parsers of one command line.
local M = {}

---Leaves the parser: the text is not clear.  Caught by parse.run only.
function M.fail(_, reason)
  error({ shell_syntax = reason }, 0)
end

---One more node (word, expansion, command).
function M.count(p)
  local shared = p.shared
  shared.nodes = shared.nodes + 1
  if shared.nodes > shared.limits.max_nodes then M.fail(p, "the command line is too long to judge") end
end

---Looking ahead costs: keeps the whole linear.
function M.spend(p, n)
  local shared = p.shared
  shared.fuel = shared.fuel - n
  if shared.fuel < 0 then M.fail(p, "the command line is too tangled to judge") end
end

function M.enter(p)
  p.depth = p.depth + 1
  if p.depth > p.shared.limits.max_depth then M.fail(p, "the command line is nested too deeply") end
end

function M.leave(p)
  p.depth = p.depth - 1
end

---Removes the line continuation at `at` from the text (bash does so before it looks for tokens).
function M.splice(p, at)
  M.spend(p, #p.src)
  p.src = p.src:sub(1, at - 1) .. p.src:sub(at + 2)
end

---Notes a construct that not every sh reads as bash does.
function M.bashism(p, name)
  p.shared.bashisms[name] = true
end

-- Unquoted text that a reader doesn't see as what it is: controls, non-ASCII blanks, zero-width and bidi
-- characters, invalid UTF-8.
local hidden = {}
for _, r in ipairs { { 0x80, 0xA0 }, { 0xAD, 0xAD }, { 0x61C, 0x61C }, { 0x115F, 0x1160 }, { 0x1680, 0x1680 },
  { 0x180B, 0x180F }, { 0x2000, 0x200F }, { 0x2028, 0x202F }, { 0x205F, 0x206F }, { 0x2800, 0x2800 },
  { 0x3000, 0x3000 }, { 0x3164, 0x3164 }, { 0xFEFF, 0xFEFF }, { 0xFFA0, 0xFFA0 }, { 0xFFF9, 0xFFFB },
  { 0xE0000, 0xE0FFF } } do
  hidden[#hidden + 1] = r
end

---Refuses such characters in unquoted text.
function M.check_odd(p, s)
  if not p.odd or not s:find("[^\t\n\32-\126]") then return end
  if s:find("[%c]") and s:find("[^\t\n%C]") then M.fail(p, "a control character outside quotes") end
  if not utf8.len(s) then
    -- A lone byte of a longer character: the caller passes whole runs, so this is broken text.
    M.fail(p, "invalid UTF-8 outside quotes")
  end
  for _, c in utf8.codes(s) do
    if c > 127 then
      for _, r in ipairs(hidden) do
        if c >= r[1] and c <= r[2] then M.fail(p, "an invisible or blank non-ASCII character outside quotes") end
      end
    end
  end
end

return M

-- scripts/worktrees.lua - git worktrees for forks of an agent, made and removed inside the sandbox.
--
-- They lie in a temporary directory outside the project and begin with its files as they are, untracked
-- ones too; the user's index, branches and stash stay as they are.  Closing removes them, also when the
-- turn is being cancelled.

local failure = require "terret.failure"
local fs = require "terret.fs"
local loop = require "terret.loops.react"
local task = require "terret.task"

local M = {}

local Trees = {}
Trees.__index = Trees

local MAKE = [[
set -e
dir=$1 n=$2
export GIT_INDEX_FILE="$dir/index" GIT_AUTHOR_NAME=terret GIT_AUTHOR_EMAIL=terret GIT_COMMITTER_NAME=terret \
    GIT_COMMITTER_EMAIL=terret
if ! git rev-parse --git-dir >/dev/null 2>&1; then # no repository: one of our own, outside the project
    export GIT_DIR="$dir/git" GIT_WORK_TREE="$PWD"
    git init -q
fi
head=$(git rev-parse -q --verify HEAD || :)
git add -A
commit=$(git commit-tree "$(git write-tree)" ${head:+-p "$head"} -m "where the attempts begin")
unset GIT_INDEX_FILE
echo "$commit" >"$dir/commit"
i=1
while [ "$i" -le "$n" ]; do
    git worktree add -q --detach "$dir/$3-$i" "$commit" >&2
    i=$((i + 1))
done]]

local PATCH = [[git -C "$2" add -A && git -C "$2" diff --cached --binary "$(cat "$1/commit")" >"$2.patch"]]
local APPLY = [[! [ -s "$2.patch" ] || git apply --whitespace=nowarn "$2.patch"]]

local function run(self, script, what, ...)
  local argv = { "/bin/sh", "-c", script, "sh", self.dir, ... }
  local result, message, code = self.maker:exec(argv, { timeout = 120 })
  if not result then return nil, message, code end
  if result.code ~= 0 then
    return nil, ("%s: %s"):format(what, (result.head .. result.tail .. (result.stderr or "")):sub(-2000)), "failed"
  end
  return true
end

---@param agent terret.agent
---@param count integer
---@return table trees {dirs}
function M.new(agent, count)
  local base = os.getenv("TMPDIR")
  if not base or base:sub(1, 1) ~= "/" then base = "/tmp" end
  local dir, message = fs.mkdtemp(base .. "/terret-attempts-")
  if not dir then failure.raise("failed", message) end
  dir = fs.realpath(dir)
  local rw = table.move(agent.cfg.rw or {}, 1, #(agent.cfg.rw or {}), 1, {})
  rw[#rw + 1] = dir
  local self = setmetatable({ agent = agent, dir = dir, count = count, dirs = {}, forks = {} }, Trees)
  self.name = dir:match("[^%-/]*$") -- names in .git/worktrees are of the repository
  for i = 1, count do self.dirs[i] = ("%s/%s-%d"):format(dir, self.name, i) end
  local done, why, code = pcall(function()
    self.maker = agent:fork { rw = rw }
    return assert(run(self, MAKE, "the worktrees can't be made", tostring(count), self.name))
  end)
  if not done then
    self:close()
    if task.is_cancelled(why) or failure.is(why) then error(why, 0) end
    failure.raise("failed", tostring(why), code)
  end
  return self
end

---An agent that works in the n-th worktree; closing it ends its session.
---@param n integer
---@return terret.agent
function Trees:fork(n)
  local fork = self.agent:fork { project = self.dirs[n] }
  fork.loop = loop
  self.forks[#self.forks + 1] = fork
  return fork
end

---What was changed in the n-th worktree.
---@param n integer
---@return string patch
function Trees:patch(n)
  local ok, message, code = run(self, PATCH, "the differences can't be had", self.dirs[n])
  if not ok then failure.raise("failed", message, code) end
  return fs.read(self.dirs[n] .. ".patch", { max = 65536 }) or "(too large to show)\n"
end

---Brings the changes of the n-th worktree into the project.
---@param n integer
function Trees:apply(n)
  local ok, message, code = run(self, APPLY, "the changes of the best attempt can't be applied", self.dirs[n])
  if not ok then failure.raise("failed", message, code) end
end

-- What git noted of the worktrees.  A command in the sandbox can't remove that: it is protected there.
local function forget(self)
  local dir = self.agent.cfg.project .. "/.git"
  for _, part in ipairs { "", "/worktrees" } do
    local info = fs.stat(dir .. part, { follow = false })
    if not info or info.type ~= "directory" then return end
  end
  for i = 1, self.count do fs.remove(("%s/worktrees/%s-%d"):format(dir, self.name, i), { recursive = true }) end
end

function Trees:close()
  task.shield(function()
    for _, fork in ipairs(self.forks) do fork:close() end
    if self.maker then self.maker:close() end
    forget(self)
    fs.remove(self.dir, { recursive = true })
  end)
end
Trees.__close = Trees.close

return M

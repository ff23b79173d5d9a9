-- sandbox/bubblewrap/holder.lua - the namespaces that the commands of a session share.
--
-- bwrap makes them once and says which process is inside; descriptors hold them from then on.  So
-- nothing goes on running for a session: bwrap is ended at once, and the namespaces end with the
-- descriptors, however terret ends.

local exec = require "terret.exec"
local task = require "terret.task"

local M = {}

local START_TIMEOUT = 10 -- seconds
local NAMESPACES = { "--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts",
  "--unshare-cgroup-try", "--new-session", "--die-with-parent", "--cap-drop", "ALL" }
-- With --info-fd 1 bwrap says on its output which process is inside, and closes that; what runs inside
-- says on stderr that all is mounted.
local INSIDE = { "--info-fd", "1", "--chdir", "/", "--", "/bin/sh", "-c", "echo ready >&2; exec sleep 60" }

local function command_line(program, nested, options)
  local argv = { program }
  local function add(words) table.move(words, 1, #words, #argv + 1, argv) end
  add(NAMESPACES)
  if not nested then add { "--disable-userns" } end
  add { "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc" }
  add(options)
  add(INSIDE)
  return argv
end

-- What bwrap, or the shell inside, said before it ended.
local function complaint(process, said)
  local line = said:match("bwrap: [^\n]*") or said:match("[^\n]*[^\n{}]$")
  if process:status() and process:status().timed_out then return "bwrap did not end within 10 s" end
  return line and line ~= "" and line or "bwrap failed"
end

---Makes namespaces.
---@param program string path of bwrap
---@param nested boolean the user namespace may hold others (--disable-userns does not work here)
---@param options string[] mounts, as options of bwrap
---@return terret.exec.namespaces?
---@return string? message
function M.open(program, nested, options)
  local process <close>, message = exec.spawn { argv = command_line(program, nested, options), stream = true,
    env = { PATH = "/usr/bin:/bin" }, cwd = "/", timeout = START_TIMEOUT }
  if not process then return nil, message end
  local said = ""
  while not said:find("ready\n", 1, true) do
    local data = process:read()
    if not data then return nil, complaint(process, said) end
    said = said .. data
    if data == "" then task.await(process) end
  end
  local pid = math.tointeger(tonumber(said:match('"child%-pid": (%d+)')))
  if not pid then return nil, "bwrap did not say what it started" end
  local namespaces
  namespaces, message = exec.namespaces(pid)
  return namespaces, message
end

return M

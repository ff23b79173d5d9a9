-- scripts/cli/sandbox.lua - `terret sandbox`: one command under the policy that a tool call would
-- get in this directory.
--
-- Exit status: the command's; 128+N after signal N; 124 after the time-out; 126 and 127 as env(1);
-- 125 when terret itself failed.  Output passes through unchanged: where our stdout or stderr is
-- no terminal the command writes to it directly.  A terminal's descriptor would let it read
-- what the user types, so there its output comes through a pipe.

local fs = require "terret.fs"
local sandbox = require "terret.sandbox"
local task = require "terret.task"

local M = {
  summary = "run one command in the sandbox",
  usage = "terret sandbox [--rw PATH] [--timeout S] [--backend B] [--explain] -- COMMAND...",
  options = {
    { name = "rw", arg = "PATH", list = true, help = "make PATH writable too" },
    { name = "timeout", arg = "S", help = "end it after S seconds (default: no limit)" },
    { name = "backend", arg = "B", help = "auto, none, or the name of one" },
    { name = "explain", help = "print the policy instead of running anything" },
  },
}

local FAILED = 125
local MOST_SECONDS = 1e9
local SIGNALS = { HUP = 1, INT = 2, QUIT = 3, ILL = 4, TRAP = 5, ABRT = 6, BUS = 7, FPE = 8, KILL = 9, USR1 = 10,
  SEGV = 11, USR2 = 12, PIPE = 13, ALRM = 14, TERM = 15, XCPU = 24, XFSZ = 25, SYS = 31 }

local function say(format, ...)
  io.stderr:write("terret sandbox: ", format:format(...), "\n")
end

-- A terminal, or another device: those the command doesn't get.
local function is_device(fd)
  local info = fs.stat("/dev/fd/" .. fd)
  return not info or info.type == "char_device"
end

local function absolute(path)
  return path:sub(1, 1) == "/" and path or fs.cwd() .. "/" .. path
end

-- A session of one command: its own directory for /tmp and the like.
local function make_policy(opts)
  local options = sandbox.policy.for_directory(fs.cwd())
  options.rw = {}
  for _, path in ipairs(opts.rw or {}) do options.rw[#options.rw + 1] = absolute(path) end
  local base = os.getenv("TMPDIR")
  if not base or base:sub(1, 1) ~= "/" then base = "/tmp" end
  local session, message = fs.mkdtemp(base .. "/terret-")
  if not session then return nil, message end
  options.tmp = session .. "/tmp"
  local policy
  policy, message = sandbox.policy.new(options)
  if not policy then
    fs.remove(session)
    return nil, message
  end
  return policy, session
end

-- Where the command writes: straight to our descriptors, or through a pipe.
local function redirect(argv)
  local fds, words = {}, {}
  if not is_device(1) then
    fds[3] = 1
    words[#words + 1] = ">&3 3>&-"
  end
  if not is_device(2) then
    fds[4] = 2
    words[#words + 1] = "2>&4 4>&-"
  end
  if not next(fds) then return argv end
  local out = { "/bin/sh", "-c", 'exec "$@" ' .. table.concat(words, " "), "sh" }
  table.move(argv, 1, #argv, #out + 1, out)
  return out, fds
end

local function copy(process)
  local first
  while true do
    local data = process:read()
    if not data then return first or "" end
    if data ~= "" then
      first = first or data
      io.stdout:write(data)
      io.stdout:flush()
    else
      task.await(process)
    end
  end
end

-- Ends the command when we are asked to end.
local function watch(process, state)
  local ok, reactor = pcall(require, "terret.reactor")
  if not ok then return end
  local signals = reactor.signals { "INT", "TERM", "HUP" }
  return task.spawn(function()
    task.await(signals)
    state.signal = signals:take()
    process:kill("KILL")
  end)
end

local function exit_status(status, state, output, backend)
  if state.signal then return 128 + (SIGNALS[state.signal] or 15) end
  if status.timed_out then return 124 end
  local failure = backend.failure and backend.failure(status, output)
  if failure then
    say("the sandbox could not be set up: %s", failure)
    return FAILED
  end
  if status.code then return status.code end
  local name = tostring(status.signal):gsub("^SIG", "")
  return 128 + (SIGNALS[name] or tonumber(name) or 0)
end

local function run(backend, policy, argv, seconds)
  local words, fds = redirect(argv)
  local process, message, code = sandbox.spawn(backend, policy, words,
    { stream = true, timeout = seconds, fds = fds, cwd = fs.cwd() })
  if not process then
    say("%s", message)
    return code == "not_found" and 127 or code == "denied" and 126 or FAILED
  end
  local state = {}
  local watcher = watch(process, state)
  local output = copy(process)
  while not process:status() do task.await(process) end
  if watcher then task.cancel(watcher) end
  local status = process:status()
  for _, note in ipairs(sandbox.finish(process)) do say("%s", note) end
  process:close()
  return exit_status(status, state, output, backend)
end

---@param opts table
---@param args string[]
---@return integer exit status
function M.run(opts, args)
  local seconds = tonumber(opts.timeout or "0")
  if not seconds or not (seconds >= 0 and seconds <= MOST_SECONDS) or (#args == 0 and not opts.explain) then
    io.stderr:write("usage: ", M.usage, "\n")
    return FAILED
  end
  local policy, session = make_policy(opts)
  if not policy then
    say("%s", session)
    return FAILED
  end
  local _ <close> = setmetatable({}, { __close = function() fs.remove(session, { recursive = true }) end })
  if opts.explain then
    io.stdout:write(table.concat(policy:explain(), "\n"), "\n")
    return 0
  end
  local backend, message = sandbox.pick(opts.backend or "auto")
  if not backend then
    say("%s", message)
    return FAILED
  end
  return task.run(run, backend, policy, args, seconds > 0 and seconds or nil)
end

return M

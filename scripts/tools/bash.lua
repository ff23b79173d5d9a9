-- scripts/tools/bash.lua - the tool `bash`: a command line in the sandbox.
--
-- Output keeps its head and its tail, since errors stand at the end; the whole of it goes to a
-- blob that `recall` pages through.  A status other than 0 is an answer, not a failure.
local fs = require "terret.fs"
local text = require "terret.text"

local MAX_TIMEOUT = 3600
local BLOB_MAX = 67108864 -- bytes of output that are kept
local COUNT_MAX = 8388608 -- a blob up to this is read to count its lines

local shell -- looked for once

local function find_shell()
  for _, path in ipairs { "/bin/bash", "/usr/bin/bash" } do
    if fs.stat(path) then return path end
  end
  return "/bin/sh"
end

-- Head and tail by whole lines, where that loses under half of them.
local function whole_lines(head, tail)
  local cut = head:match("^.*\n")
  if cut and #cut * 2 >= #head then head = cut end
  local at = tail:find("\n", 1, true)
  if at and at * 2 <= #tail then tail = tail:sub(at + 1) end
  return head, tail
end

local function elided(call, id, result, head, tail)
  local bytes = result.total - #head - #tail
  local whole = result.total <= COUNT_MAX and call:blob_read(id)
  local what = ("%d bytes elided"):format(bytes)
  if whole then
    local count = text.count_lines(whole) - text.count_lines(head) - text.count_lines(tail)
    what = ("%d lines, %s"):format(math.max(count, 0), what)
  end
  return ("[%s; whole output: recall{id=%q}]"):format(what, id)
end

local function output(call, id, result)
  if result.elided == 0 then return result.head .. result.tail end
  local head, tail = whole_lines(result.head, result.tail)
  local line = elided(call, id, result, head, tail)
  return head .. (head:sub(-1) == "\n" and "" or "\n") .. line .. "\n" .. tail
end

local function status(result, timeout)
  if result.timed_out then return ("[timed out after %g s; killed]"):format(timeout) end
  if result.signal then return ("[killed by %s]"):format(result.signal) end
  if result.code ~= 0 then return ("[exit status %d]"):format(result.code) end
  return nil
end

local function timeout_of(args, call)
  local default = call.limits.timeout or 120
  local wanted = args.timeout or default
  local got = math.min(wanted > 0 and wanted or default, math.max(MAX_TIMEOUT, default))
  return got, got ~= wanted and ("[timeout set to %g s]"):format(got) or nil
end

-- A job has no time limit unless one is given.
local function start_job(args, call)
  local list = call.jobs or call.agent and require("terret.jobs").of(call.agent)
  if not list then return nil, "background jobs are not available here; run it without background" end
  return list:start({ command = args.command, argv = { shell, "-c", args.command }, timeout = args.timeout }, call)
end

local function run(args, call)
  local command = args.command
  if not command:find("%S") then return nil, "command is empty" end
  if command:find("\0", 1, true) then return nil, "command must not hold a NUL byte" end
  local timeout, remark = timeout_of(args, call)
  shell = shell or find_shell()
  if args.background then return start_job(args, call) end
  local max = call.limits.bash_bytes
  local id, blob = call:blob_path()
  local result, message, code = call:exec({ shell, "-c", command },
    { timeout = timeout, head = max // 4, tail = max - max // 4, blob = blob,
      blob_max = BLOB_MAX })
  if not result then return nil, message, code end
  local out = text.clean(output(call, id, result))
  if not out:find("%S") then out = "(no output)" end
  local parts = { (out:gsub("\n$", "")) }
  parts[#parts + 1] = status(result, timeout)
  parts[#parts + 1] = remark
  return table.concat(parts, "\n"), { code = result.code, signal = result.signal, seconds = result.seconds,
    timed_out = result.timed_out, bytes = result.total }
end

return {
  name = "bash",
  description = "Runs a command line in the sandbox, in the project's directory. stdout and stderr come back"
    .. " together; what it leaves running ends with the call. Long output is cut in the middle; recall shows the rest.",
  permission = "exec",
  parameters = {
    command = { "string", "the command line" },
    timeout = { "number?", "seconds; 120 if not given" },
    background = { "boolean?", "start it as a job that goes on; `job` shows its output and stops it" },
  },
  run = run,
}

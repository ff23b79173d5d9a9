-- scripts/hooks_json.lua - existing command hooks: a hooks.json in the form that Claude Code uses.
--
-- {"hooks": {"PreToolUse": [{"matcher": "Bash|Write", "hooks": [{"type": "command", "command": "...",
--   "timeout": 60}]}]}}
-- The command gets the event as JSON on its standard input.  Exit status 0, with or without a JSON answer: go on;
-- 2: refused, the reason on stderr.  The user's own hooks run outside the sandbox, a project's in it.  Other than there, a
-- PreToolUse or UserPromptSubmit hook that fails or times out denies.

local events = require "terret.events"
local exec = require "terret.exec"
local json = require "terret.json"
local task = require "terret.task"

local M = {}

local TIMEOUT = 60

-- Their names of our tools, both ways.
local THEIRS = { bash = "Bash", read = "Read", write = "Write", edit = "Edit", grep = "Grep", todo = "TodoWrite",
  agent = "Task" }

-- Matchers are names, parts of "A|B", or nothing; no pattern language of theirs is needed for that.
local function matches(matcher, name)
  if not matcher or matcher == "" or matcher == "*" then return true end
  for part in matcher:gmatch("[^|]+") do
    if part == name or part:lower() == name:lower() then return true end
    if part:sub(-2) == ".*" and name:sub(1, #part - 2) == part:sub(1, -3) then return true end
  end
  return false
end

local function run_outside(argv, options)
  local process <close>, message, code = exec.spawn { argv = argv, cwd = options.cwd, stdin = options.stdin,
    timeout = options.timeout, merge = false }
  if not process then return nil, message, code end
  task.await(process)
  local result = process:output()
  for key, value in pairs(process:status()) do result[key] = value end
  return result
end

-- {code, out, err}, or nil, message.
local function run_command(hook, tier, agent, input)
  local argv = { "/bin/sh", "-c", hook.command }
  local options = { stdin = json.encode(input) .. "\n", timeout = hook.timeout or TIMEOUT, merge = false }
  local result, message
  if tier == "project" then
    result, message = agent:exec(argv, options)
  else
    options.cwd = agent and agent.cfg.project
    result, message = run_outside(argv, options)
  end
  if not result then return nil, message end
  if result.timed_out then return nil, "it took longer than " .. options.timeout .. " s" end
  local out = result.head .. result.tail
  local answer = result.code == 0 and out:find("^%s*{") and json.decode(out) or nil
  return { code = result.code, out = out, err = result.stderr or "", answer = type(answer) == "table" and answer or {} }
end

-- The input that all of their events share.
local function input_of(name, agent, more)
  local input = { hook_event_name = name, session_id = agent and agent.session and agent.session.id or "",
    cwd = agent and agent.cfg.project or "" }
  for key, value in pairs(more) do input[key] = value end
  return input
end

-- What a blocking hook says: nil, or its reason; an error raises, and the guard denies.
local function blocked(hook, tier, agent, input)
  local r, message = run_command(hook, tier, agent, input)
  if not r then error(message, 0) end
  if r.code == 2 then return r.err ~= "" and r.err or "refused" end
  if r.code ~= 0 then error(("exit status %s: %s"):format(r.code, r.err), 0) end
  local specific = type(r.answer.hookSpecificOutput) == "table" and r.answer.hookSpecificOutput or {}
  local decision = specific.permissionDecision or r.answer.decision
  local reason = specific.permissionDecisionReason or r.answer.reason or "refused"
  if decision == "deny" or decision == "block" then return reason end
  if r.answer.continue == false then return r.answer.stopReason or reason end
  return nil, decision, specific, r
end

local adapters = {}

function adapters.PreToolUse(on, hook, tier, matcher)
  on("tool.policy", function(e, next)
    local name = THEIRS[e.tool] or e.tool
    if not matches(matcher, name) then return next() end
    local why, decision = blocked(hook, tier, e.agent, input_of("PreToolUse", e.agent, { tool_name = name,
      tool_input = events.copy(e.args) }))
    if why then return "deny", why end
    if decision == "allow" or decision == "ask" then return decision, "a hook says so" end
    return next()
  end)
end

function adapters.PostToolUse(on, hook, tier, matcher)
  on("tool.call", function(e, next)
    local done = next()
    local name = THEIRS[e.tool] or e.tool
    if not matches(matcher, name) then return done end
    local why, _, specific = blocked(hook, tier, e.agent, input_of("PostToolUse", e.agent, { tool_name = name,
      tool_input = events.copy(e.args), tool_response = { ok = done.ok, text = done.text } }))
    local more = why or specific and specific.additionalContext
    if not more then return done end
    return { ok = done.ok, text = done.text .. "\n(hook: " .. more .. ")", extra = done.extra }
  end)
end

function adapters.UserPromptSubmit(on, hook, tier)
  local added
  on("prompt.check", function(e, next)
    added = nil
    local why, _, specific, r = blocked(hook, tier, e.agent, input_of("UserPromptSubmit", e.agent, { prompt = e.text }))
    if why then return "deny", why end
    added = specific.additionalContext or not r.out:find("^%s*{") and r.out:match("^%s*(%S.*)$") or nil
    return next()
  end)
  on("note", function(_, next)
    local words = added
    added = nil
    return words or next()
  end)
end

function adapters.Stop(on, hook, tier)
  on("loop.stop", function(e, next)
    local why = blocked(hook, tier, e.agent, input_of("Stop", e.agent, { stop_hook_active = e.times > 0 }))
    return why or next()
  end)
end

local function observing(name, event, more)
  return function(on, hook, tier)
    on(event, function(e) run_command(hook, tier, e.agent, input_of(name, e.agent, more(e))) end)
  end
end
adapters.SessionStart = observing("SessionStart", "session.open", function(e)
  return { source = e.resumed and "resume" or "startup" }
end)
adapters.SessionEnd = observing("SessionEnd", "session.close", function() return {} end)

function adapters.PreCompact(on, hook, tier)
  on("compact", function(e, next)
    run_command(hook, tier, e.agent, input_of("PreCompact", e.agent, { trigger = "auto",
      custom_instructions = e.instructions or "" }))
    return next()
  end)
end

---Registers the hooks of a file; nothing of it when it is broken.
---@param path string
---@param text string
---@param tier "user"|"project"
---@return boolean? ok
---@return string? message
function M.register(path, text, tier)
  local data, why = json.decode(text)
  local hooks = type(data) == "table" and (data.hooks or data)
  if type(hooks) ~= "table" then return nil, ("%s: %s"):format(path, why or "there is no object 'hooks'") end
  local file = { path = path, hash = require("terret.hash").sha256(text), tier = tier }
  local todo = {}
  for event, groups in pairs(hooks) do
    local adapter = adapters[event]
    if not adapter then return nil, ("%s: the event '%s' is not supported"):format(path, event) end
    for _, group in ipairs(type(groups) == "table" and groups or {}) do
      for _, hook in ipairs(type(group.hooks) == "table" and group.hooks or {}) do
        if hook.type ~= "command" or type(hook.command) ~= "string" then
          return nil, ("%s: %s: only hooks of type 'command' are supported"):format(path, event)
        end
        todo[#todo + 1] = function()
          local wait = (hook.timeout or TIMEOUT) + 5
          adapter(function(name, handler)
            events.add(name, handler, { name = event .. ": " .. hook.command:sub(1, 40), wait = wait }, file, path)
          end, hook, tier, group.matcher)
        end
      end
    end
  end
  for _, f in ipairs(todo) do f() end
  return true
end

return M

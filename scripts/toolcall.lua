-- scripts/toolcall.lua - one tool call of a model: find, validate, permit, run.  (Parsing: calls.lua.)
--
-- The model's output is hostile input.  Whatever happens, run() returns exactly one result; only
-- the cancelling of the task passes through.  The permission check lies here and not in the tools,
-- so that no tool and no offered list can go around it.

local call_mod = require "terret.call"
local calls = require "terret.calls"
local failure = require "terret.failure"
local fire = require "terret.fire"
local reactor = require "terret.reactor"
local task = require "terret.task"

local M = {}

M.parse = calls.parse

local function find_tool(agent, name) return calls.resolve(agent.tools, name) end

local function tool_names(agent)
  local names = {}
  for name in pairs(agent.tools) do names[#names + 1] = name end
  table.sort(names)
  return table.concat(names, ", ")
end

-- Permission ---------------------------------------------------------------------------------

-- What the rules judge.
local function subject(tool, args, call)
  if tool.subject then return tool.subject(args, call) end
  local class = tool.permission
  if class == "exec" then return { class = "exec", command = args.command or "", tool = tool.name } end
  if class == "read" or class == "write" then
    local place = call:resolve(args.path or ".", class)
    -- The path as it was written is judged too: a rule may speak about the name of a link.
    return { class = class, path = place and place.path or args.path or ".", named = args.path, tool = tool.name }
  end
  return { class = class, tool = tool.name, host = args.host }
end

-- One question at a time: the prompts of parallel calls queue.
-- nil: nobody can be asked.
local function ask(agent, question, judge)
  local shared, waited = agent.shared, false
  while shared.asking do
    waited = true
    task.await(shared.asking)
  end
  local turn = task.event()
  shared.asking = turn
  local _done <close> = setmetatable({}, { __close = function()
    shared.asking = nil
    turn:set()
  end })
  -- An answer given meanwhile may cover this one too.
  local again = waited and judge()
  if again and again.verdict ~= "ask" then return again.verdict == "allow", again.reason end
  local shown = agent.redactor:clean_all(question)
  local answer = fire(agent, "tool.ask", { tool = question.tool, request = question.request,
    reason = question.reason }, false)
  if not answer and agent.ui.ask then answer = agent.ui.ask(shown) end
  if not answer and not agent.ui.ask then return nil end
  if not answer or answer.verdict ~= "allow" then return false, answer and answer.words end
  if answer.scope and answer.scope ~= "once" and answer.rule then
    agent.permissions:add { verdict = "allow", rule = answer.rule, scope = answer.scope }
  end
  return true
end

---A question of a loop.
---@param agent terret.agent
---@param question table
---@return boolean agreed
---@return string? words
function M.confirm(agent, question)
  local mode = agent.permissions.mode
  if mode == "auto" or mode == "yolo" then return true end
  local agreed, words = ask(agent, question, function() return { verdict = "ask" } end)
  if agreed == nil then agent.shared.unasked = agent.shared.unasked + 1 end
  return agreed == true, words
end

-- nil: go on; else the text of the refusal.
local function refuse(agent, tool, args, call)
  local request = subject(tool, args, call)
  local function judge()
    return fire(agent, "tool.policy", { id = call.id, tool = tool.name, class = request.class, args = args,
      command = request.command, path = request.path, host = request.host }, function()
      return agent.permissions:check(request)
    end)
  end
  local verdict = judge()
  local allowed, words = verdict.verdict == "allow", nil
  local asked = verdict.verdict == "ask"
  if asked then
    allowed, words = ask(agent, { kind = "permission", tool = tool.name, request = request, reason = verdict.reason,
      propose = verdict.propose, commands = verdict.commands, call_id = call.id, agent = agent.id }, judge)
  end
  agent:record(agent.redactor:clean_all { type = "permission", call_id = call.id, tool = tool.name,
    verdict = verdict.verdict, allowed = allowed or false, reason = verdict.reason, rule = verdict.rule,
    source = verdict.source })
  local nobody = asked and allowed == nil
  allowed = allowed or false
  fire(agent, "tool.verdict", { id = call.id, tool = tool.name, verdict = verdict.verdict, allowed = allowed,
    reason = verdict.reason, rule = verdict.rule })
  agent:emit("permission", { id = call.id, tool = tool.name, verdict = verdict.verdict, allowed = allowed,
    reason = verdict.reason, rule = verdict.rule })
  if allowed then return nil end
  if nobody then agent.shared.unasked = agent.shared.unasked + 1 end
  local why = verdict.reason and ": " .. verdict.reason or ""
  if not asked then return "denied" .. why end
  if nobody then
    return "refused, since nobody can be asked" .. why .. ". Find another way, or say what you would need."
  end
  return "refused by the user" .. (words and words ~= "" and ": " .. words or "")
end

-- Running ------------------------------------------------------------------------------------

-- An error may be any value, also one that can't be made a string.
local function said(err)
  local ok, words = pcall(tostring, err)
  return ok and words or ("an error that is a %s"):format(type(err))
end

-- What is no error of a call but the end of the turn.
local function pass_on(err)
  if task.is_cancelled(err) or failure.is(err) then error(err, 0) end
end

local TOOL_SECONDS = 10 -- of computing that a tool of the user's own has

-- A tool that isn't one of terret's runs on a leash; its waits are its own affair.
local function run_own_tool(tool, args, call)
  return require("terret.leash").run({ seconds = TOOL_SECONDS, wait = math.huge }, tool.run, args, call)
end

local function run_tool(agent, tool, args, call)
  local trace
  local out
  if tool.own then
    out = table.pack(run_own_tool(tool, args, call))
    if not out[1] and type(out[2]) == "string" then
      trace, out[2] = out[2], out[2]:gsub("\nstack traceback:.*$", "")
    end
  else
    out = table.pack(xpcall(tool.run, function(err)
      trace = debug.traceback(said(err), 2)
      return err
    end, args, call))
  end
  if not out[1] then
    pass_on(out[2])
    agent:record { type = "warning", text = agent.context.clean(agent, trace or said(out[2])) }
    return false, ("the tool '%s' failed: %s"):format(tool.name, said(out[2]))
  end
  if type(out[2]) == "string" then return true, out[2], out[3] end
  if out[2] == nil then return false, said(out[3] or "the tool failed without a message") end
  return false, ("the tool '%s' returned a %s instead of text"):format(tool.name, type(out[2]))
end

-- Permission, then the tool.  Arguments that a handler changed are checked like the model's.
local function run_allowed(agent, tool, args, call, changed)
  if changed then
    local good, problems = tool.schema:validate(args)
    if not good then return { ok = false, text = "an extension made the arguments invalid: " .. problems } end
    args = good
  end
  local refusal = refuse(agent, tool, args, call)
  if refusal then return { ok = false, text = refusal } end
  local ok, content, extra = run_tool(agent, tool, args, call)
  if #call.notes > 0 then content = content .. "\n(note: " .. table.concat(call.notes, "; ") .. ")" end
  return { ok = ok, text = content, extra = type(extra) == "table" and extra or nil }
end

local function execute(agent, parsed)
  if agent.redactor:clean(parsed.arguments) ~= parsed.arguments then
    -- What would run and what the log shows would differ.
    return false, "the arguments hold a secret of the user's (an API key), so nothing was run"
  end
  if parsed.problem then return false, parsed.problem .. ". Send the call again with valid JSON." end
  local tool = find_tool(agent, parsed.name)
  if not tool then
    tool = agent.tools[fire(agent, "tool.unknown", { name = parsed.name }, false)]
  end
  if not tool then
    return false, ("unknown tool '%s'; there are: %s"):format(parsed.name, tool_names(agent))
  end
  local args, notes = tool.schema:validate(parsed.args)
  if not args then return false, "invalid arguments: " .. notes end
  local call = call_mod.new(agent, parsed.id, tool.name)
  if type(notes) == "table" then call.notes = notes end
  local done = fire(agent, "tool.call", { id = parsed.id, tool = tool.name, args = args }, function(e)
    return run_allowed(agent, tool, e.args, call, e.args ~= args)
  end)
  return done.ok, done.text, done.extra
end

---Runs one parsed call.
---@param agent terret.agent
---@param parsed table of parse
---@param cap integer? bytes of the result
---@return table message the one result: {role = "tool", call_id, name, content, ok}
function M.run(agent, parsed, cap)
  local started = reactor.now()
  parsed.started = true
  agent:emit("tool_call", { id = parsed.id, name = parsed.name, arguments = parsed.arguments })
  local out = table.pack(xpcall(execute, debug.traceback, agent, parsed))
  if not out[1] then -- debug.traceback leaves an error that is no string as it is
    pass_on(out[2])
    out = { true, false, "terret failed in this call: " .. said(out[2]) }
  end
  local ok, content, extra = out[2], out[3], out[4]
  content = fire(agent, "tool.result", { id = parsed.id, tool = parsed.name, ok = ok, text = content }).text
  local message = agent.context.admit(agent, { role = "tool", call_id = parsed.id, name = parsed.name,
    content = content, ok = ok }, cap)
  agent:emit("tool_result", { id = parsed.id, name = parsed.name, ok = ok, text = message.content,
    seconds = reactor.now() - started, extra = type(extra) == "table" and extra or nil })
  return message
end

---The result of a call that an interrupt reached first.
---@param agent terret.agent
---@param parsed table
---@param reason string
---@return table message
function M.interrupted(agent, parsed, reason)
  local content = reason .. (parsed.started and ": this call has no result; it may have run"
    or ": this call was not run")
  agent:emit("tool_result", { id = parsed.id, name = parsed.name, ok = false, text = content, seconds = 0 })
  return { role = "tool", call_id = parsed.id, name = parsed.name, ok = false, content = content }
end

---True for calls that change files by our own tools: they run alone and in order.
---@param agent terret.agent
---@param parsed table
---@return boolean
function M.is_writer(agent, parsed)
  local tool = find_tool(agent, parsed.name)
  return tool ~= nil and tool.permission == "write"
end

return M

-- scripts/repl.lua - the interactive main loop: words of the user in, a turn of the agent, again.
--
-- It knows neither terminal nor colours.  What it uses of a user interface: input, finish,
-- show(text), echo(words), busy(bool), stop(); and where there is one start(handlers), close(), resize(),
-- interrupt().
-- handlers.interrupt() ends what runs, handlers.say(words) speaks while the agent works.

local reactor = require "terret.reactor"
local slash = require "terret.slash"
local task = require "terret.task"

local M = {}

local STATUS = { TERM = 143, HUP = 129 }

-- SIGINT is for terminals whose Ctrl-C isn't a byte; TERM and HUP end the loop cleanly.
local function watch_signals(ui, state, interrupt)
  local signals = reactor.signals { "INT", "TERM", "HUP", "WINCH" }
  while true do
    task.await(signals)
    local name = signals:take()
    if name == "WINCH" then
      if ui.resize then ui.resize() end
    elseif name == "INT" then
      local again = state.idle_interrupt
      if (ui.interrupt or interrupt)() then
        state.idle_interrupt = nil
      elseif again then
        ui.stop()
      else
        state.idle_interrupt = true
        ui.show("(Ctrl-C again, or Ctrl-D, ends terret)")
      end
    elseif name then
      state.status = STATUS[name]
      ui.stop()
      interrupt()
    end
  end
end

-- A command in a task of its own, so that it can be interrupted (/compact asks the model).
local function run_command(ctx, state, words)
  ctx.ui.busy(true)
  state.job = task.spawn(slash.run, ctx, words)
  local ok, reply = pcall(task.await, state.job)
  state.job = nil
  ctx.ui.busy(false)
  if not ok and not task.is_cancelled(reply) then error(reply, 0) end
  ctx.ui.show(ok and reply or "interrupted")
end

local function loop(ctx, state, first)
  local ui, agent = ctx.ui, ctx.agent
  local words = first
  if words then ui.echo(words) else words = ui.input() end
  while words do
    state.idle_interrupt = nil
    if slash.parse(words) then
      run_command(ctx, state, words)
    elseif words:find("%S") then
      ui.busy(true)
      local result = agent:prompt(words)
      ui.busy(false)
      ui.finish(result)
      state.asked = true
    end
    words = ui.input()
  end
end

---@param ui table
---@param agent terret.agent
---@param options {prompt: string?}?
---@return integer status of the process
function M.run(ui, agent, options)
  local ctx, state = { agent = agent, ui = ui, cfg = agent.cfg }, { status = 0 }

  -- True when there was something to interrupt.
  local function interrupt()
    if agent.loop_task then
      agent:interrupt()
    elseif state.job then
      task.cancel(state.job)
    else
      return false
    end
    return true
  end

  local handlers = { interrupt = interrupt }
  function handlers.say(words)
    if slash.parse(words) then return ui.show(slash.run(ctx, words, true)) end
    agent:say("user", words, "steer")
  end

  return task.run(function()
    local _closing <close> = setmetatable({}, { __close = function()
      if ui.close then ui.close() end
    end })
    if ui.start then ui.start(handlers) end
    task.spawn(watch_signals, ui, state, interrupt)
    loop(ctx, state, options and options.prompt)
    if state.asked and not agent.session.ephemeral then
      ui.show(("session %s; terret -r %s goes on with it"):format(agent.session.id, agent.session.id))
    end
    return state.status
  end)
end

return M

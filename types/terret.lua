---@meta terret
-- types/terret.lua - the scripting interface: what tools, loops, extensions and orchestration scripts may use.
-- `terret init` puts a copy beside config.lua with a .luarc.json, so that an editor completes and checks.
-- The C modules are in runtime/types.lua.  A spec compares this file with what is exported.

---@class terret
local terret = {}
---Raised when something that worked stops working; within one number names are only added.
terret.api = 1
---Registers a handler of an event (terret hooks lists them).
---@param event terret.event_name
---@param handler fun(e: terret.e, next: fun(changes: table?): any): any, string?
---@param options {priority: number?, name: string?, seconds: number?, wait: number?}?
---@return {off: fun()} handle
function terret.on(event, handler, options) end
---A copy of a read-only view that may be changed.
---@param value any
---@return any
function terret.copy(value) end
---An agent of its own: a session, a budget and the tools, as the command line would make it.
---@param options table fields of the configuration; ui = {event =, ask =}; session = {none =, resume =, continue =}
---@return terret.agent?
---@return string? message
---@return string? code
function terret.new_agent(options) end

---A read-only view of what happens; the other fields are those of the event.
---@class terret.e
---@field agent terret.agent
---@field event terret.event_name
---@field depth integer 0: the main agent; more: a subagent or fork
---@field [string] any

---@alias terret.event_name
---| "session.open" | "session.close" | "session.record" | "session.rewind" | "session.fork"
---| "prompt" | "prompt.check" | "prompt.system" | "tools.offer" | "note"
---| "turn.start" | "turn.end" | "loop.select" | "loop.stop" | "loop.stuck"
---| "request" | "request.retry" | "usage" | "budget.reserve" | "budget.limit" | "compact" | "context.change"
---| "tool.call" | "tool.policy" | "tool.ask" | "tool.verdict" | "tool.unknown" | "tool.result"
---| "exec" | "exec.check" | "file.write" | "file.written" | "agent.spawn" | "agent.report" | "event"

-------------------------------------------------------------------------------------------------
---@class terret.reply
---@field text string
---@field reasoning string?
---@field tool_calls terret.tool_call[]
---@field usage table?
---@field finish string?

---@class terret.tool_call
---@field id string
---@field name string
---@field arguments string JSON
---@field args table? decoded

---@alias terret.loop fun(agent: terret.agent)

---What a loop sees.
---@class terret.agent
---@field id string "main", or the id of its session
---@field depth integer
---@field cfg table
---@field session table
---@field budget {spent: table, usage: table, limits: table}
---@field tools table<string, terret.tool>
---@field loop terret.loop set it: the new one takes over at the next ask
---@field last_text string of the last reply
---@field prompt_text string what the user asked for in this turn
local agent = {}
---One model request; streams; the reply is stored.
---@param options {model: string?, tools: false?, tail: string?, sampling: table?, prompt: string?, bare: boolean?}?
---@return terret.reply
function agent:ask(options) end
---Runs the calls of a reply: checked, permitted, sandboxed, one result each, stored in their order.
---@param calls terret.tool_call[]
---@return {content: string, ok: boolean, name: string}[] results
function agent:act(calls) end
---Runs one tool by name, with its permission; the result is the loop's to tell.
---@param name string
---@param args table
---@return {ok: boolean, content: string} result
function agent:call(name, args) end
---The user's words wait for the next ask.
---@param role "user"|"assistant"
---@param words string
---@param kind string? "prompt", "steer", "note"
function agent:say(role, words, kind) end
---@return integer mark a place to rewind to
function agent:mark() end
---@param mark integer
function agent:rewind(mark) end
---An agent of its own that shares the conversation so far.
---@param options {project: string?, rw: string[]?}?
---@return terret.agent
function agent:fork(options) end
---A subagent: own context, no writing tools; its last message returns.
---@param options {prompt: string, type: string?, loop: terret.loop|string?, model: string?, tools: string[]?, budget: table?, schema: table?}
---@return {text: string, status: string, session: string, value: table?}? report
---@return string? message
---@return string? code
function agent:spawn(options) end
---@param instructions string?
---@return boolean done
function agent:compact(instructions) end
---Runs a command in the sandbox.
---@param command string|string[]
---@param options table?
---@return table? result {code, signal, timed_out, head, tail, total, elided}
---@return string? message
---@return string? code
function agent:exec(command, options) end
---Asks the user; yes in the modes auto and yolo, no where nobody can be asked.
---@param what string
---@param reason string
---@return boolean agreed
---@return string? words
function agent:confirm(what, reason) end
---Ends the turn.
---@param message string
---@param status string?
function agent:fail(message, status) end
---Tells the user interface.
---@param name string
---@param data table?
function agent:emit(name, data) end
---Writes a record to the session's log.
---@param record table
---@return integer id
function agent:record(record) end
---@param record table
---@return integer id
function agent:must_record(record) end
---Stops the running turn.
---@param reason string?
function agent:interrupt(reason) end
---Ends its jobs, its sandbox and its log.
function agent:close() end
---One turn; in an orchestration script.
---@param words string
---@return {status: string, text: string, message: string?, steps: integer, usage: table, cost: number?, session: string}
function agent:prompt(words) end
---One request whose answer is not stored.
---@param options table
---@return table? reply
---@return string? message
---@return string? class
---@return table? info
function agent:request(options) end
---@return table? backend
---@return string? message
---@return string? code
function agent:backend() end

-------------------------------------------------------------------------------------------------
---What tools/NAME.lua returns.
---@class terret.tool
---@field name string
---@field description string
---@field parameters table JSON Schema, or { path = {"string", "what it is"}, limit = {"integer?", "..."} }
---@field permission "read"|"write"|"exec"|"net"|"none"
---@field run fun(args: table, call: terret.call): string?, table|string|nil
---@field subject fun(args: table, call: terret.call)? what rules judge
---@field offered fun(agent: terret.agent)?
---@field writer boolean? kept from subagents
---@field repeats integer? how often the same call is no sign of being stuck

---@class terret.call
---@field id string
---@field name string
---@field cwd string
---@field agent terret.agent
---@field notes string[] said below the result
---@field limits {bash_bytes: integer, read_bytes: integer, timeout: number}
local call = {}
---@param text string shown live, never sent to the model
function call:progress(text) end
---@param path string
---@param access "read"|"write"
---@return {root: table, rel: string, host: string, path: string}?
---@return string? message
---@return string? code
function call:resolve(path, access) end
---@param path string
---@param options {max: integer?, offset: integer?, length: integer?}?
---@return string? data
---@return table|string info or message
---@return string? code
function call:read(path, options) end
---@param path string
---@return table? info
---@return string? message
---@return string? code
function call:stat(path) end
---@param path string
---@return {name: string, type: string}[]?
---@return string? message
---@return string? code
function call:list(path) end
---@param path string
---@param data string
---@return boolean? ok
---@return string? message
---@return string? code
function call:write(path, data) end
---@param path string
---@return boolean
function call:changed(path) end
---@param path string
---@return boolean no rule forbids to read it
function call:readable(path) end
---@param path string
---@return boolean files below it may be forbidden to read
function call:hides_below(path) end
---@param argv string[]
---@param options table?
---@return table? result
---@return string? message
---@return string? code
function call:exec(argv, options) end
---@return string id
---@return string path
function call:blob_path() end
---@param data string
---@return string? id
---@return string? message
---@return string? code
function call:blob(data) end
---@param id string
---@return string? data
---@return string? message
---@return string? code
function call:blob_read(id) end

-------------------------------------------------------------------------------------------------
---@class terret.task_module require "terret.task"
local task = {}
---Runs f to its end, with all that it spawns.
---@param f function
---@param ... any
---@return any ...
function task.run(f, ...) end
---@param f function
---@param ... any
---@return table task
function task.spawn(f, ...) end
---@param x any a task, an event, anything with :ready()
---@param seconds number?
---@return any ...
function task.await(x, seconds) end
---@param x any
---@param seconds number?
---@return boolean ready
function task.wait(x, seconds) end
---@param seconds number
function task.sleep(seconds) end
---Waits for all that it spawned; the first error cancels the rest and is raised.
---@param f fun(scope: {spawn: fun(self: table, f: function, ...: any): table})
function task.scope(f) end
---@param t table
---@param reason string?
function task.cancel(t, reason) end
---@param f function
---@param ... any
---@return any ...
function task.shield(f, ...) end
---@return table? task
function task.current() end
---@return {set: fun(self: table, value: any), value: any}
function task.event() end
---@param err any
---@return boolean
function task.is_cancelled(err) end

-------------------------------------------------------------------------------------------------
---@class terret.testkit_module require "terret.testkit"
local testkit = {}
---@param options {model: table|function, exec: function?, mode: string?, ask: function?, loop: terret.loop|string?, config: table?}
---@return terret.testkit
function testkit.new(options) end
---@param now integer
---@return {set: fun(now: integer)} closes
function testkit.clock(now) end

---@class terret.testkit
---@field dir string
---@field project string
---@field agent terret.agent
---@field events table[]
---@field commands string[][]
local kit = {}
---@param path string
---@return terret.testkit
function kit:extension(path) end
---@param path string
---@return terret.testkit
function kit:tool(path) end
---@param path string
---@param data string
function kit:put(path, data) end
---@param path string
---@return string?
function kit:get(path) end
---@return terret.agent
function kit:open() end
---@param words string?
---@return table result
function kit:prompt(words) end
---@return string[]
function kit:results() end
---@param kind string
---@return table[]
function kit:seen(kind) end
---@return string
function kit:said() end
---@return table[]
function kit:records() end
function kit:close() end

return terret

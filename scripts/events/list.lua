-- scripts/events/list.lua - the dispatch table: every event there is, `terret hooks` prints it.
--
-- {name, class, doc, has =, may =, answer =}
--   guard      answers "allow", "ask" or "deny" and a reason; error, time-out, garbage or nothing: deny
--   transform  passes changed fields on with next{...}; error: the input is kept, with a warning
--   supply     the first answer wins, nil is none; error: as if it had none
--   observe    answers nothing; error: recorded
-- has: fields of e besides agent, depth and event.  may: fields that next{...} may change, with their type.
-- answer: fields of what next() returns and a handler may return (around events, supplies).

local REPLY = { text = "string?", reasoning = "string?", tool_calls = "table?", usage = "table?", finish = "string?",
  echo = "table?", origin = "any", broken = "any" }

return {
  -- session
  { "session.open", "observe", "a session begins or goes on", has = { dir = "string", resumed = "boolean" } },
  { "session.close", "observe", "a session is closed", has = { dir = "string" } },
  { "session.record", "transform", "before a record is written to the log: redact or add fields; its structure stays",
    may = { record = "table" } },
  { "session.rewind", "observe", "the conversation went back to a record", has = { to = "number" } },
  { "session.fork", "observe", "an agent was forked", has = { session = "string" } },
  -- input
  { "prompt", "transform", "the user's words, before they are said", may = { text = "string" } },
  { "prompt.check", "guard", "may this prompt run?", has = { text = "string" } },
  { "prompt.system", "transform", "the system prompt of a new session", may = { text = "string" } },
  { "tools.offer", "transform", "the names of the tools that a new session or subagent offers",
    may = { tools = "table" } },
  { "note", "supply", "words to add before the next request", has = {}, answer = "string" },
  -- turns and steps
  { "turn.start", "observe", "the loop begins", has = { prompt = "string" } },
  { "turn.end", "observe", "the loop has ended", has = { status = "string", text = "string", steps = "number",
    usage = "table", cost = "number?" } },
  { "loop.select", "supply", "the loop of this turn: a name, a file or a function", has = { loop = "string" },
    answer = "any" },
  { "loop.stop", "supply", "the loop is about to end: words that it has to go on with",
    has = { text = "string", times = "number" }, answer = "string" },
  { "loop.stuck", "supply", "the model repeats itself: {nudge = WORDS}, {stop = CAUSE} or {go_on = true}",
    has = { period = "number", times = "number", nudged = "number" },
    answer = { nudge = "string?", stop = "string?", go_on = "boolean?" } },
  -- the model
  { "request", "transform", "around one model request; next() returns the reply",
    may = { model = "string?", sampling = "table?", tail = "string?", tools = "boolean?" }, answer = REPLY },
  { "request.retry", "supply", "a request failed: {wait = SECONDS} or {give_up = true}",
    has = { class = "string", message = "string", attempt = "number", wait = "number?" },
    answer = { wait = "number?", give_up = "boolean?" } },
  { "usage", "observe", "what a request used, and the sums so far", has = { input = "number", output = "number?",
    cached = "number?", cost = "number?", total = "table" } },
  { "budget.reserve", "guard", "may a request of this worst case be sent?",
    has = { steps = "number", tokens = "number", cost = "number?" } },
  { "budget.limit", "observe", "a limit was reached", has = { message = "string" } },
  -- the context
  { "compact", "supply", "the conversation is to be summed up: the summary", has = { instructions = "string?" },
    answer = "string" },
  { "context.change", "observe", "the context was compacted, stripped or shortened", has = { kind = "string" } },
  -- tools
  { "tool.call", "transform", "around one call with valid arguments; next() runs it, policy and all",
    has = { id = "string", tool = "string" }, may = { args = "table" },
    answer = { ok = "boolean", text = "string", extra = "table?" } },
  { "tool.policy", "guard", "may this call run?", has = { id = "string", tool = "string", class = "string",
    args = "table", command = "string?", path = "string?", host = "string?" } },
  { "tool.ask", "supply", "a question for the user: {verdict = \"allow\" or \"deny\", words =} answers it",
    has = { tool = "string", request = "table", reason = "string?" },
    answer = { verdict = "string", words = "string?" } },
  { "tool.verdict", "observe", "a call was allowed or not", has = { id = "string", tool = "string",
    verdict = "string", allowed = "boolean", reason = "string?", rule = "string?" } },
  { "tool.unknown", "supply", "there is no such tool: the name of another", has = { name = "string" },
    answer = "string" },
  { "tool.result", "transform", "the result of a call, before the model sees it",
    has = { id = "string", tool = "string", ok = "boolean" }, may = { text = "string" } },
  { "exec", "transform", "around one command in the sandbox; next() runs it",
    may = { argv = "table", options = "table" }, answer = { code = "number?", signal = "string?", head = "string",
      tail = "string", total = "number?", elided = "number?", seconds = "number?", timed_out = "boolean?",
      stderr = "string?", blob = "string?" } },
  { "exec.check", "guard", "may this command line start?", has = { argv = "table" } },
  { "file.write", "guard", "may a tool write this file?", has = { path = "string", data = "string" } },
  { "file.written", "observe", "a tool wrote a file", has = { path = "string" } },
  -- subagents and the user interface
  { "agent.spawn", "guard", "may this subagent be started?", has = { prompt = "string", type = "string?" } },
  { "agent.report", "transform", "the report of a subagent, before its parent gets it",
    has = { session = "string", status = "string" }, may = { text = "string" } },
  { "event", "observe", "everything that the user interface is told", has = { type = "string" } },
}

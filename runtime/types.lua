---@meta
-- runtime/types.lua - the reference of the C modules, as LuaLS stubs.  A spec compares the
-- names below with what the modules export, so it can't rot.
--
-- Conventions, everywhere: a wrong argument raises; what the world refuses returns
-- nil, message, code.  Options tables reject unknown keys.  Times are seconds (floats),
-- sizes are bytes.  A "waitable" has :ready(); terret.task waits for it.

---@alias terret.code string a short stable word: "timeout", "denied", "not_found", "http_429"...

------------------------------------------------------------------------------------------------
---@class terret.reactor
local reactor = {}

---Waits until something happens or the time is over, and moves all streams on.
---May return early with an empty list (a signal); callers look again.
---@param seconds number? none: wait without limit; 0: only look
---@return table ready list of waitables that may have become ready
function reactor.poll(seconds) end

---@return number seconds monotonic clock
function reactor.now() end

---A waitable that is ready after the given time.
---@param seconds number
---@return terret.reactor.timer
function reactor.timer(seconds) end

---Routes process signals to a waitable (one per Lua state; a further call adds names).  The first
---Lua state of the process that asks has them until it is closed; others get nil, message, "busy".
---@param names string[] of "INT", "TERM", "HUP", "WINCH", "CONT"
---@return terret.reactor.signals? signals
---@return string? message
---@return terret.code? code
function reactor.signals(names) end

---Tells which coroutine runs, for signals that no turn of the loop takes: when a second INT, TERM or HUP
---comes, "interrupted by a signal" is raised there at its next instruction; a third has its
---default action, and so has a second TERM or HUP after two seconds.
---@param co thread? nil: the main one
function reactor.running(co) end

---@class terret.reactor.timer
local timer = {}
---@return boolean
function timer:ready() end
function timer:close() end

---@class terret.reactor.signals
local signals = {}
---@return boolean
function signals:ready() end
---@return string? name the oldest signal that was not taken yet
function signals:take() end

------------------------------------------------------------------------------------------------
---@class terret.http
local http = {}

---@class terret.http.options
---@field url string http or https only
---@field method string? default GET, or POST with a body
---@field headers string[]? lines "Name: value"; NUL, CR and LF raise
---@field body string?
---@field connect_timeout number? default 30
---@field first_byte_timeout number? until the first byte of the answer's body or status; default 300
---@field idle_timeout number? between two bytes; default 120
---@field timeout number? whole; default none
---@field max_bytes integer? of the body; default 256 MiB
---@field max_buffered integer? held for Lua before the transfer pauses; default 4 MiB
---@field ca_file string? default CURL_CA_BUNDLE, SSL_CERT_FILE
---@field insecure_env boolean? for tests: ignore proxy variables

---Starts a request.  Connections are kept alive and shared.  Redirects are not followed.
---Loopback never goes through a proxy.  Decompresses what the server compressed.
---Refused at once: "url" (no URL, or another scheme).  All else is told by read().
---@param options terret.http.options
---@return terret.http.request? request
---@return string? message
---@return terret.code? code
function http.request(options) end

---@class terret.http.request
local request = {}
---True when read() would not answer "".
---@return boolean
function request:ready() end
---Data; "" when there is none yet; nil alone at the end; nil, message, code on failure:
---"connect", "dns", "tls", "timeout_connect", "timeout_first_byte", "timeout_idle", "timeout",
---"cut" (ended before its length), "too_large", "closed", "network", "no_memory".
---@return string? data
---@return string? message
---@return terret.code? code
function request:read() end
---@return integer? status nil before the answer's head
function request:status() end
---@param name string case does not matter
---@return string? value the last one received
function request:header(name) end
---@return {connect: number?, first_byte: number?, total: number?, reused: boolean, sent: integer, received: integer}
function request:times() end
---Aborts; later reads fail with "closed".
function request:close() end

------------------------------------------------------------------------------------------------
---@class terret.sse
local sse = {}
---@param options {max_event: integer?}? longest event; default 64 MiB; a longer one is an error event
---@return terret.sse.parser
function sse.new(options) end

---@class terret.sse.parser
local parser = {}
---@param bytes string any cut of the stream
---@return {event: string?, data: string, id: string?}[] events
function parser:feed(bytes) end
---The end of the stream: what is left without its blank line is an event too.
---@return {event: string?, data: string, id: string?}[] events
function parser:finish() end

------------------------------------------------------------------------------------------------
---@class terret.json
---@field null lightuserdata JSON null (the same value as cjson.null)
local json = {}

---Canonical text: keys sorted by bytes, integers as %d, floats shortest that read back, invalid UTF-8
---as U+FFFD, "/" not escaped.  Raises on functions, cycles, NaN, mixed keys, sparse arrays, tables
---with __pairs, depth over 200.  An empty table is {} unless marked.
---@param value any
---@return string
function json.encode(value) end

---Strict.  Integers that fit are integers.  Arrays carry the array mark.  A duplicate key, NaN, a
---second value, depth over 200 or invalid UTF-8 is refused; a lone surrogate becomes U+FFFD.
---The message starts with "line L, byte B: ", B from 1 in the whole text.
---@param text string
---@return any value
---@return string? message
---@return terret.code? code "bad_json"
function json.decode(text) end

---For tool arguments: also accepts a code fence around, trailing commas, raw control characters
---in strings, single quotes, Python literals, unquoted simple keys, a JSON text in a string, `//` comments,
---invalid UTF-8 in strings (as U+FFFD).  The repairs are, in this order: "fence", "comments",
---"control_characters", "double_encoding", "python_literals", "single_quotes", "trailing_comma",
---"unquoted_keys", "utf8".
---Refuses what is cut off ("truncated"), NUL, duplicate keys, depth over 64, NaN, over 16 MiB ("bad_json").
---@param text string
---@return any value
---@return string[]|string repairs what was forgiven (empty: it was strict JSON), or the message
---@return terret.code? code "bad_json" or "truncated"
function json.tolerant(text) end

---Marks a table as a JSON array (kept by encode, also when empty); returns it.
---@param t table
---@return table
function json.array(t) end
---@param t any
---@return boolean marked as array
function json.is_array(t) end
---A value that encode writes as it is: one valid JSON text (checked; raises if it isn't).
---@param text string
---@return userdata
function json.raw(text) end
---Text to canonical text without going through Lua tables; digits of numbers are kept.
---@param text string
---@return string? text
---@return string? message
---@return terret.code? code "bad_json"
function json.canonical(text) end
---The raw text of a member of a JSON object, or nil.
---@param text string
---@param key string
---@return string? raw
function json.slice(text, key) end

------------------------------------------------------------------------------------------------
---@class terret.exec
local exec = {}

---@class terret.exec.options
---@field argv string[] argv[1] is a path, or a name looked up in PATH of env (else of terret)
---@field env table<string,string>? the whole environment; default: terret's
---@field cwd string?
---@field stdin string? bytes for the child; default: /dev/null
---@field fds table<integer,integer>? child's descriptor (3..63) -> ours
---@field head integer? bytes kept from the start; default 65536
---@field tail integer? bytes kept from the end; default 65536
---@field blob string? a file that gets the whole output once it exceeds head + tail
---@field blob_max integer? default 1 GiB; then the blob ends (said by output())
---@field timeout number? then TERM to the group, KILL after grace
---@field grace number? default 1
---@field merge boolean? stderr into stdout (default true); false: stderr is kept apart
---@field err_head integer? bytes kept of a stderr that is kept apart; default 65536
---@field rlimits table<string,integer>? "core", "nofile", "fsize", "cpu", "as", "nproc"
---@field stream boolean? keep new output for read(); default false
---@field join terret.exec.namespaces? enter these (Linux): with a PID and a mount namespace of its own, a new
---/proc, and no capabilities; argv, cwd and PATH are looked up inside
---@field mounts string[][]? with join, in the command's own mount namespace, in this order: {"bind", FROM, TO},
---{"ro-bind", FROM, TO}, {"bind-try"|"ro-bind-try", ...} (passed by when missing), {"tmpfs", TO, "mode=0755"},
---{"remount-ro", PATH} (a mount and all below it), {"bind-link", FROM, TO} (the symbolic link itself; Linux 5.2)
---@field drop boolean? no capabilities, no new privileges (join implies it); default false
---@field seccomp string? of terret.seccomp; with join or drop
---@field landlock integer? fd() of a ruleset; with join or drop
---@field cgroups string[]? files cgroup.procs of the cgroups that it starts in (Linux)

---Starts a command in a session of its own; its main process dies with terret (Linux).  stdin,
---stdout, stderr and the named fds are all that it inherits.  Ends when the main process ends: the
---rest of the group is killed, what is in the pipe is drained.  Relative entries of PATH are ignored.
---With join all that it started is killed, in whatever group, before ready() says so.
---@param options terret.exec.options
---@return terret.exec.process?
---@return string? message
---@return terret.code? code "not_found", "denied", ... of the exec itself
function exec.spawn(options) end
---@return table<string,string> environment of terret
function exec.environ() end
---@param fd integer a descriptor number
---@return boolean closed
function exec.close(fd) end
---Opens the namespaces of a process in which it differs from us, for spawn's `join` (Linux).  It must have
---finished its mounts.
---@param pid integer
---@return terret.exec.namespaces?
---@return string? message
---@return terret.code? code "not_found", "denied", "unsupported", ...
function exec.namespaces(pid) end

---@class terret.exec.namespaces
local namespaces = {}
---@return string[] of "owner" (the user namespace that owns the mounts), "mnt", "net", "ipc", "uts", "cgroup", "user"
function namespaces:names() end
function namespaces:close() end

---@class terret.exec.process
local process = {}
---@return integer of the main process; with join: of process 1 of its PID namespace
function process:pid() end
---@return boolean true when it has ended, or (stream) when there is output to read
function process:ready() end
---@return string? data new output; "" none yet; nil at the end
function process:read() end
---@return {code: integer?, signal: string?, timed_out: boolean, killed: boolean, seconds: number}? nil while it runs
function process:status() end
---@return {head: string, tail: string, total: integer, elided: integer, blob: string?, blob_bytes: integer, blob_error: string?, stderr: string?}
function process:output() end
---@param signal string? "TERM" (default: then KILL after grace), "KILL", "INT"
function process:kill(signal) end
---Kills and forgets.
function process:close() end

------------------------------------------------------------------------------------------------
---@class terret.seccomp
local seccomp = {}
---One rule: a system call's name, or a table with it at [1].  With `arg` (0..5) only calls whose argument's low 32
---bits equal `equals`, have any of `bits`, or are none of `except` (values 0..255).
---@class terret.seccomp.rule
---@field [1] string
---@field arg integer?
---@field equals integer?
---@field bits integer?
---@field except integer[]?
---@field action string? default: the filter's
---@class terret.seccomp.options
---@field rules (string|terret.seccomp.rule)[] what is refused; all else passes
---@field action string? "kill" (the process), "EPERM" (default), "EACCES", "ENOSYS", "EINVAL", "EAFNOSUPPORT", "ENOSPC"
---@field foreign string? the action for calls of another architecture (i386, x32); default "kill"
---@param options terret.seccomp.options
---@return string? filter for spawn's `seccomp`; any number of times
---@return string[]|string skipped names that this system doesn't have, or message
---@return terret.code? code "unsupported", ...
function seccomp.filter(options) end

------------------------------------------------------------------------------------------------
---@class terret.landlock
local landlock = {}
---@return integer version of the kernel's interface, 0: none
function landlock.abi() end
---@class terret.landlock.options
---@field read string[]? paths below which files can be read and directories listed
---@field exec string[]? ... executed
---@field write string[]? ... written, made, removed, renamed, truncated
---@field ioctl string[]? ... devices that take ioctl (ABI 5)
---@field net boolean|{bind: integer[]?, connect: integer[]?}? TCP: all, none (default), or these ports (ABI 4)
---@field scoped boolean? no signals and abstract sockets to outside (ABI 6); default true
---@field abi integer? pretend to be older
---What no list names is denied; a path in several lists has the rights of all; a missing one is passed by.
---@param options terret.landlock.options
---@return terret.landlock.ruleset? ruleset for any number of commands
---@return string[]|string missing what this kernel can't hold: "truncate", "net", "ioctl", "scoped" (all allowed),
---"refer" (renaming across directories is denied); or message
---@return terret.code? code "unsupported", ...
function landlock.ruleset(options) end

---@class terret.landlock.ruleset
local ruleset = {}
---@return integer descriptor for spawn's `landlock`; stays the ruleset's
function ruleset:fd() end
function ruleset:close() end

------------------------------------------------------------------------------------------------
---@class terret.store
local store = {}
---@return terret.store.store
function store.new() end

---Append-only fragments (encoded messages).
---@class terret.store.store
local st = {}
---@param fragment string
---@param tokens integer?
---@return integer n from 1
function st:add(fragment, tokens) end
---@param n integer
---@return string fragment
function st:get(n) end
---@param n integer
---@return integer tokens
function st:tokens(n) end
---@param n integer
---@param tokens integer
function st:set_tokens(n, tokens) end
---@return integer count
---@return integer bytes
function st:size() end
---@return terret.store.view
function st:view() end

---An ordered list of fragments: what one request shows.
---@class terret.store.view
local view = {}
---@param n integer
function view:push(n) end
---@return integer
function view:count() end
---@return integer bytes of the fragments
function view:bytes() end
---@return integer tokens sum of their accounts
function view:tokens() end
---@param i integer position from 1; negative from the end
---@return integer? n
function view:at(i) end
---@return integer[]
function view:list() end
---@return integer mark only valid until replace()
function view:mark() end
---@param mark integer
function view:rewind(mark) end
---@param list integer[] the new content
function view:replace(list) end
---A view with the same content; later changes are separate.
---@return terret.store.view
function view:fork() end
---head .. fragments joined by "," .. tail, in one string.
---@param head string
---@param tail string
---@param from integer? first position (default 1)
---@return string
function view:render(head, tail, from) end

------------------------------------------------------------------------------------------------
---@class terret.tokens
local tokens = {}
---@param text string
---@return integer estimate before calibration, by kind of text
function tokens.estimate(text) end

------------------------------------------------------------------------------------------------
---@class terret.log
local log = {}
---Opens (creates) a JSONL file for appending, mode 0600, and locks it.  A torn last line is cut off
---into `repaired` (kept in PATH.torn); NUL bytes at the end too.
---@param path string
---@param options {create: boolean?, sync: string?}? sync: "turn" (default: only sync() does), "record", "none"
---@return terret.log.log?
---@return string? message
---@return terret.code? code "locked", "no_space", "denied", ...
function log.open(path, options) end
---Reads all whole lines; stops at a torn tail.
---@param path string
---@return terret.log.reader?
---@return string? message
---@return terret.code? code
function log.read(path) end

---@class terret.log.log
local lg = {}
---One write; a short or failed one is undone (truncated back), so a line is there whole or not at all.
---@param line string without line end; must hold none
---@return boolean? ok
---@return string? message
---@return terret.code? code
function lg:append(line) end
---Asks the sync thread for fdatasync; returns at once.
function lg:sync() end
---True when all that was asked is on disk.  A waitable.
---@return boolean
function lg:ready() end
---@return string? message the last error of a sync; stays, since a later sync can't repair it
function lg:sync_error() end
---@return integer bytes cut off at open
function lg:repaired() end
---@return integer size
function lg:size() end
---@return string
function lg:path() end
function lg:close() end

---@class terret.log.reader
local reader = {}
---Lines of at most 256 MiB ("too_large").  After the end it may be asked again: a log grows.
---@return string? line nil alone at the end; nil, message, code on failure
---@return integer|string? offset of the line, or message
---@return terret.code? code
function reader:next() end
---@return integer bytes after the last whole line, once next() has come to the end
function reader:torn() end
function reader:close() end

------------------------------------------------------------------------------------------------
---@class terret.fs
local fs = {}
---@alias terret.fs.info {type: string, size: integer, mtime: number, mode: integer, inode: integer, dev: integer, nlink: integer, uid: integer}

---A directory to work beneath: no path given to it can leave it, by ".." or by links (openat2
---RESOLVE_BENEATH; elsewhere component by component with O_NOFOLLOW).  Code "escapes" says so.
---@param path string
---@return terret.fs.root?
---@return string? message
---@return terret.code? code
function fs.root(path) end
---@class terret.fs.read_options
---@field max integer? refuse larger ("too_large"); default 256 MiB
---@field offset integer? bytes
---@field length integer? bytes
---Regular files only: a FIFO, device or socket is refused ("not_regular") and never opened blocking.
---@param path string
---@param options terret.fs.read_options?
---@return string? data
---@return terret.fs.info|string info or message
---@return terret.code? code
function fs.read(path, options) end
---@class terret.fs.write_options
---@field mode integer? of a new file; default 0666 less umask
---@field parents boolean? make missing directories
---@field new boolean? refuse when it exists ("exists")
---@field sync boolean? fsync before the rename; default true
---Atomic: temporary file beside it, fsync, rename; through a link its target; keeps mode and
---owner; a file with several links is written in place.  Replaces regular files only ("not_regular").
---@param path string
---@param data string
---@param options terret.fs.write_options?
---@return boolean? ok
---@return string? message
---@return terret.code? code
function fs.write(path, data, options) end
---@param path string
---@param options {follow: boolean?}? follow: default true
---@return terret.fs.info?
---@return string? message
---@return terret.code? code
function fs.stat(path, options) end
---@param path string
---@return {name: string, type: string}[]? entries sorted by name
---@return string? message
---@return terret.code? code
function fs.list(path) end
---@param path string
---@param options {parents: boolean?, mode: integer?}?
---@return boolean? ok
---@return string? message
---@return terret.code? code
function fs.mkdir(path, options) end
---Never follows links; refuses "/", "." and ".." ("invalid") and devices ("not_regular").
---@param path string
---@param options {recursive: boolean?}?
---@return boolean? ok
---@return string? message
---@return terret.code? code
function fs.remove(path, options) end
---@param from string
---@param to string
---@return boolean? ok
---@return string? message
---@return terret.code? code
function fs.rename(from, to) end
---@param path string
---@return string? absolute without links
---@return string? message
---@return terret.code? code
function fs.realpath(path) end
---@return string (nil, message, "not_found" in a directory that was removed)
function fs.cwd() end
---@param path string
---@return boolean? ok
---@return string? message
---@return terret.code? code
function fs.chdir(path) end
---A new directory, mode 0700.
---@param prefix string path prefix; six characters are added
---@return string? path
---@return string? message
---@return terret.code? code
function fs.mkdtemp(prefix) end
---Glob over names: `*` `?` `[..]` within a name, `**` across.  No Lua patterns, linear time.
---@param pattern string
---@param name string
---@return boolean
function fs.match(pattern, name) end
---@return {uid: integer, gid: integer, pid: integer, host: string}
function fs.whoami() end

---The same functions beneath a directory; paths are relative to it.
---@class terret.fs.root
local root = {}
---@param path string
---@param options terret.fs.read_options?
---@return string? data
---@return terret.fs.info|string info or message
---@return terret.code? code
function root:read(path, options) end
---@param path string
---@param data string
---@param options terret.fs.write_options?
---@return boolean? ok
---@return string? message
---@return terret.code? code
function root:write(path, data, options) end
---@param path string
---@param options {follow: boolean?}?
---@return terret.fs.info?
---@return string? message
---@return terret.code? code
function root:stat(path, options) end
---@param path string
---@return {name: string, type: string}[]?
---@return string? message
---@return terret.code? code
function root:list(path) end
---@param path string
---@param options {parents: boolean?, mode: integer?}?
---@return boolean? ok
---@return string? message
---@return terret.code? code
function root:mkdir(path, options) end
function root:close() end

------------------------------------------------------------------------------------------------
---@class terret.text
local text = {}
---Valid UTF-8: each broken sequence becomes U+FFFD, NUL too.
---@param s string
---@return string s
---@return integer repaired count
function text.clean(s) end
---For a terminal: as clean, and control characters (but \n and \t), C1, bidi controls,
---zero-width characters, line separators are shown as escapes (\x1b, \u{202e}).
---@param s string
---@param options {newline: boolean?, tab: boolean?}? false: those are escaped too
---@return string
function text.safe(s, options) end
---At most max bytes, cut at a character's edge.
---@param s string
---@param max integer
---@param from_end boolean? keep the end
---@return string
function text.cut(s, max, from_end) end
---Head and tail by whole lines where that loses under half of a part, else by characters.
---@param s string
---@param head integer bytes
---@param tail integer bytes
---@return string head
---@return string tail
---@return integer elided bytes
---@return integer lines elided; a part of a line counts
function text.headtail(s, head, tail) end
---@param s string
---@return integer columns in a terminal
function text.width(s) end
---@param s string
---@param columns integer
---@return string s at most that wide
---@return integer width
function text.truncate(s, columns) end
---@param s string
---@return integer count of lines (a last line without its end counts)
function text.count_lines(s) end
---Lines from..to without counting again from the start; from 1, inclusive.
---@param s string
---@param from integer
---@param to integer
---@return string part
---@return integer last line that it holds; the number of lines when there is no line `from`
function text.lines(s, from, to) end
---@param s string
---@return boolean looks binary (NUL, or many invalid bytes, in the first 8 KiB)
function text.is_binary(s) end

------------------------------------------------------------------------------------------------
---@class terret.hash
local hash = {}
---@param s string
---@return string hex
function hash.sha256(s) end
---@param bytes integer 1..64
---@return string hex from the system's generator
function hash.random(bytes) end
---@param s string
---@return string
function hash.base64(s) end
---@param s string
---@return string? bytes
---@return string? message
---@return terret.code? code "bad_base64"
function hash.unbase64(s) end

------------------------------------------------------------------------------------------------
---@class terret.tty
local tty = {}
---@param fd integer 0, 1 or 2
---@return boolean
function tty.isatty(fd) end
---The controlling terminal (/dev/tty), for input and output.
---@return terret.tty.terminal?
---@return string? message
---@return terret.code? code "no_terminal"
function tty.open() end
---@class terret.tty.terminal
local terminal = {}
---No echo, no line mode; Ctrl-C stays a signal (Ctrl-\ and Ctrl-Z are bytes) unless keys is true.  Restored at close, exit, and by signal.
---@param keys boolean? Ctrl-C arrives as a byte
---@return boolean? ok
---@return string? message
---@return terret.code? code
function terminal:raw(keys) end
function terminal:restore() end
---Throws away what was typed and not read yet.
function terminal:flush_input() end
---@return boolean true when there is input
function terminal:ready() end
---@return string? bytes "" none yet; nil when it is gone
function terminal:read() end
---@param s string
---@return boolean? ok
---@return string? message
---@return terret.code? code
function terminal:write(s) end
---@return integer columns
---@return integer rows
function terminal:size() end
function terminal:close() end

return { reactor = reactor, http = http, sse = sse, json = json, exec = exec, store = store,
  tokens = tokens, log = log, fs = fs, text = text, hash = hash, tty = tty,
  seccomp = seccomp, landlock = landlock,
  classes = { ["reactor.timer"] = timer, ["reactor.signals"] = signals, ["http.request"] = request,
    ["sse.parser"] = parser, ["exec.process"] = process, ["exec.namespaces"] = namespaces, ["store.store"] = st, ["store.view"] = view,
    ["log.log"] = lg, ["log.reader"] = reader, ["fs.root"] = root, ["tty.terminal"] = terminal,
    ["landlock.ruleset"] = ruleset } }

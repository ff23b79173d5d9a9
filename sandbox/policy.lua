-- sandbox/policy.lua - what a command of this session may touch, in words that no backend owns.
--
-- A policy is made once a session: real paths, what is writable, what is hidden.  Backends turn it
-- into mounts or a profile; the file tools ask it (resolve), so that `read` and `cat` see the same
-- files.  What changes from call to call is looked at for each call: the git directory (guarded)
-- and, every few seconds, which secrets exist (hidden).
--
-- Everything is readable but what is hidden; nothing is writable but the project, the places that
-- --rw names, and the session's own /tmp, /var/tmp and /dev/shm.

local fs = require "terret.fs"
local lazy = require "terret.lazy"

local copies = lazy "terret.sandbox.policy.copies"
local environ = lazy "terret.sandbox.policy.environ"
local git = lazy "terret.sandbox.policy.git"
local quarantine = lazy "terret.sandbox.policy.quarantine"
local secrets = require "terret.sandbox.policy.secrets"

local M = {}

local MAX_PATH = 4096
local LOOK_AGAIN = 5 -- seconds until the list of secrets that exist is made anew

-- A command has its own of these; the host's are not there.
local MASKED = { "/tmp", "/var/tmp", "/dev", "/proc", "/run" }
if not fs.stat("/proc/self") then MASKED = { "/dev" } end -- no namespaces to have one's own in

-- No project: too much would be writable.
local NO_PROJECT = {}
for _, path in ipairs { "/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/media", "/mnt", "/opt",
  "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/tmp", "/dev/shm",
  "/Users", "/Library", "/System", "/Applications", "/private", "/private/tmp", "/private/var" } do
  NO_PROJECT[path] = true
end

-- Below the home directory; a command gets private ones.  Stores of packages are private only
-- when there is a network to fill them: without one, what the user has fetched is all there is.
local CACHES = { ".cache", ".npm", ".yarn", ".bun/install/cache", ".local/share/pnpm/store" }
local STORES = { ".cargo/registry", ".cargo/git", "go/pkg/mod", ".m2/repository", ".gradle/caches", ".nuget/packages",
  ".gem/ruby", ".hex/packages" }

local GIB = 1024 * 1024 * 1024
local LIMITS = { nproc = 1024, memory = 3 * GIB, fsize = 2 * GIB, nofile = 65536, core = 0 }

-- How a limit is said, and the signal that it ends a command with.
local LIMIT_WORDS = { { name = "nproc", words = "%d processes", unit = 1 },
  { name = "memory", words = "%d MB of memory", unit = 1048576 },
  { name = "fsize", words = "%d MB a file", unit = 1048576, signal = "XFSZ" } }

---@class terret.sandbox.policy
---@field project string real path
---@field home string
---@field rw string[] real paths of further writable directories
---@field net string[]
---@field tmp string? host directory that is /tmp inside
---@field readonly boolean the project too
---@field limits table<string, integer>
---@field scratch {inside: string, host: string}[]
---@field caches {inside: string, host: string}[]
local Policy = {}
Policy.__index = Policy

-- Paths ---------------------------------------------------------------------------------------

local function inside(path, dir)
  return path == dir or dir == "/" or path:sub(1, #dir + 1) == dir .. "/"
end
M.inside = inside

local function inside_any(path, dirs)
  for _, dir in ipairs(dirs) do
    if inside(path, dir) then return dir end
  end
end

-- Without ".", "..", double slashes; by text only.
local function normalise(path)
  local parts = {}
  for part in path:gmatch("[^/]+") do
    if part == ".." then
      parts[#parts] = nil
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return "/" .. table.concat(parts, "/")
end
M.normalise = normalise

-- The real path of something that may not exist yet: its deepest ancestor that exists, and the rest.
local function real(path)
  local rest = ""
  local dir = path
  while true do
    local found, message, code = fs.realpath(dir)
    if found then return normalise(found .. "/" .. rest) end
    if code ~= "not_found" or dir == "/" then return nil, message, code end
    local parent, name = dir:match("^(.*)/([^/]*)/*$")
    if not parent then return nil, message, code end
    rest = name .. "/" .. rest
    dir = parent == "" and "/" or parent
  end
end

-- Making a policy -----------------------------------------------------------------------------

local function refused(format, ...) return nil, format:format(...), "refused" end

local OPTIONS = { project = "string", home = "string", rw = "table", net = "table", tmp = "string",
  cache_dir = "string", state_dir = "string", config_dir = "string", readonly = "boolean", allow_root = "boolean",
  hide = "table", drop_env = "table", limits = "table" }
local ABSOLUTE = { "project", "home", "tmp", "cache_dir", "state_dir", "config_dir" }

local function check_options(o)
  for key, value in pairs(o) do
    local want = OPTIONS[key]
    if not want then error(("unknown option '%s'"):format(tostring(key)), 3) end
    if type(value) ~= want then error(("option '%s' must be a %s"):format(key, want), 3) end
  end
  for _, key in ipairs(ABSOLUTE) do
    if o[key] and o[key]:sub(1, 1) ~= "/" then error(("option '%s' must be an absolute path"):format(key), 3) end
  end
  if not o.project then error("option 'project' is missing", 3) end
end

-- The home directory that the user data base names; $HOME may say something else.
local function passwd_home(uid)
  for line in io.lines("/etc/passwd") do
    local id, home = line:match("^[^:]*:[^:]*:(%d+):[^:]*:[^:]*:([^:]*)")
    if tonumber(id) == uid then return home end
  end
end

local function real_directories(list, what)
  local out = {}
  for _, path in ipairs(list or {}) do
    if type(path) ~= "string" or path:sub(1, 1) ~= "/" then error(what .. " needs absolute paths", 3) end
    local found, message = fs.realpath(path)
    if not found then return refused("%s: %s", what, message) end
    if found == "/" then return refused("%s: / can't be writable", what) end
    out[#out + 1] = found
  end
  table.sort(out)
  return out
end

-- Why this can't be the project, or nil.
local function unfit(p, allowed)
  local project = p.project
  local info = fs.stat(project)
  if not info then return "%s does not exist" end
  if info.type ~= "directory" then return "%s is not a directory" end
  if project == "/" then return "%s can't be the project" end
  if allowed then return end
  local hint = "; start in a directory of the project, or say --rw %s"
  if inside(p.home, project) then return "%s is or holds the home directory" .. hint end
  if NO_PROJECT[project] then return "%s is a directory of the system" .. hint end
  for _, dir in ipairs { p.state_dir, p.config_dir } do
    if inside(dir, project) then return "%s holds terret's own directories" .. hint end
  end
end

local function scratch_directories(tmp)
  if not tmp then return {} end
  return { { inside = "/tmp", host = tmp }, { inside = "/var/tmp", host = tmp .. ".var" },
    { inside = "/dev/shm", host = tmp .. ".shm" } }
end

local function cache_directories(p, dir)
  local out = {}
  if not dir then return out end
  local names = { table.unpack(CACHES) }
  if #p.net > 0 then table.move(STORES, 1, #STORES, #names + 1, names) end
  for _, name in ipairs(names) do
    local path = fs.realpath(p.home .. "/" .. name)
    if path and not inside_any(path, p.writable_dirs) then
      out[#out + 1] = { inside = path, host = dir .. "/" .. name:gsub("/", "_") }
    end
  end
  if not (out[1] and out[1].inside == p.home .. "/.cache") then
    table.insert(out, 1, { inside = "/tmp/.cache", host = dir .. "/.cache" })
  end
  return out
end

-- What is hidden whether it exists or not: {path, keep}; keep stays visible in it, read-only.
local function hide_list(p, extra)
  local list = { { path = p.config_dir, keep = p.config_dir .. "/skills" }, { path = p.state_dir } }
  for _, home in ipairs(p.homes) do
    for _, name in ipairs(secrets.home) do list[#list + 1] = { path = home .. "/" .. name } end
  end
  if fs.whoami().uid == 0 then
    for _, path in ipairs(secrets.system) do list[#list + 1] = { path = path } end
  end
  for _, path in ipairs(extra or {}) do
    if path:sub(1, 2) == "~/" then path = p.home .. path:sub(2) end
    list[#list + 1] = { path = path }
  end
  return list
end

---@param options table project, home, rw, net, tmp, cache_dir, state_dir, config_dir, readonly,
--- allow_root (the project may be the home directory), hide and drop_env (further paths and
--- names of variables), limits (nproc, memory, fsize, nofile, core)
---@return terret.sandbox.policy?
---@return string? message
---@return terret.code? code "refused"
function M.new(options)
  check_options(options)
  local home = options.home or os.getenv("HOME") or passwd_home(fs.whoami().uid) or "/"
  local p = setmetatable({ net = options.net or {}, readonly = options.readonly or false }, Policy)
  local message
  p.rw, message = real_directories(options.rw, "rw")
  if not p.rw then return refused("%s", message) end
  p.project, message = fs.realpath(options.project)
  if not p.project then return refused("project: %s", message) end
  p.home = fs.realpath(home) or home
  local own = passwd_home(fs.whoami().uid)
  p.homes = { p.home }
  own = own and fs.realpath(own)
  if own and own ~= p.home and own ~= "/" then p.homes[2] = own end
  p.state_dir = real(options.state_dir or p.home .. "/.local/state/terret")
  p.config_dir = real(options.config_dir or p.home .. "/.config/terret")
  if not (p.state_dir and p.config_dir) then return refused("terret's own directories can't be resolved") end
  local named = inside_any(p.project, p.rw) == p.project
  local why = unfit(p, named or options.allow_root)
  if why then return refused(why, p.project, p.project) end

  p.writable_dirs = { table.unpack(p.rw) }
  if not p.readonly then table.insert(p.writable_dirs, 1, p.project) end
  p.tmp = options.tmp and fs.realpath(options.tmp) or options.tmp
  p.scratch = scratch_directories(p.tmp)
  p.caches = cache_directories(p, options.cache_dir)
  p.hide = hide_list(p, options.hide)
  p.drop_env = {}
  for _, name in ipairs(options.drop_env or {}) do p.drop_env[name] = true end
  p.limits = setmetatable(options.limits or {}, { __index = LIMITS })
  p.git_memory = {}
  -- What git directories there are is remembered at the first command: nothing of ours writes there before.
  p.roots = {}
  local hidden = p:hidden()
  for _, dir in ipairs(p.writable_dirs) do
    for _, h in ipairs(hidden) do
      if dir ~= h.path and inside(dir, h.path) then return refused("%s is inside %s, which is hidden", dir, h.path) end
    end
  end
  return p
end

-- What exists of what matters -----------------------------------------------------------------

-- Inside one of the host's directories that a command doesn't see.
local function masked(p, path)
  local dir = inside_any(path, MASKED)
  return dir and not inside_any(path, p.writable_dirs) and not inside(path, p.project) and not inside(path, p.home)
end

---Whether a path is in one of the host's directories that a command has its own of.
---@param path string
---@return boolean
function Policy.masks(_, path) return inside_any(path, MASKED) ~= nil end

---Whether the host's file at this real path is there for a command (hidden ones are).
---@param path string
---@return boolean
function Policy:visible(path) return not masked(self, path) end

---What is hidden and exists.  The same table as long as nothing changed.
---@return {path: string, type: string, keep: string?}[]
function Policy:hidden()
  local now = os.time()
  if self.hidden_list and now < self.hidden_until then return self.hidden_list end
  self.hidden_until = now + LOOK_AGAIN
  local list, key = {}, {}
  for _, h in ipairs(self.hide) do
    local info = fs.stat(h.path)
    local path = info and fs.realpath(h.path)
    local named = path and inside_any(path, self.rw) == path -- --rw names it: the user's word
    if path and not named and not masked(self, path) and not key[path] then
      local keep = h.keep and fs.stat(h.keep) and h.keep
      list[#list + 1] = { path = path, type = info.type == "directory" and "directory" or "file", keep = keep }
      key[path] = true
      key[#key + 1] = path .. (keep and "+" or "")
    end
  end
  local signature = table.concat(key, "\0")
  if signature ~= self.hidden_signature then
    self.hidden_signature, self.hidden_list = signature, list
  end
  return self.hidden_list
end

---Whether a real path is below something writable.
---@param path string
---@return boolean
function Policy:writable(path)
  return inside_any(path, self.writable_dirs) ~= nil
end

---What is protected inside the writable places, as it is now.
---@return terret.sandbox.git
function Policy:guarded()
  if self.readonly then
    return { pins = {}, ro = {}, rw = {}, configs = {}, watch = {}, nests = {}, known = {}, whole = {} }
  end
  local state = git.inspect(self.project, function(path) return self:writable(path) end, self.git_memory)
  git.guard(state, self.project .. "/.terret")
  return state
end

---The copies of git's configuration for commands, where the session has a directory for them.
---@return terret.sandbox.copies?
function Policy:git_copies()
  if self.tmp and not self.copies then self.copies = copies.new(self.tmp .. ".git") end
  return self.copies
end

---Puts aside what a command left where nothing may appear, takes over what it changed of git's
---configuration.
---@param guarded terret.sandbox.git as it was before the command
---@param alone boolean? no other command of this policy is running
---@return string[] notes
function Policy:settle(guarded, alone)
  local notes = quarantine.settle(guarded, self.tmp and self.tmp .. ".quarantine",
    function() return require("terret.hash").random(4) end)
  for _, dir in ipairs(guarded.whole) do
    notes[#notes + 1] = ("%s was read-only: it holds more than %d git directories"):format(dir, git.MAX_NESTED)
  end
  local dropped = self.copies and self.copies:merge(guarded.configs, alone or false) or {}
  return table.move(dropped, 1, #dropped, #notes + 1, notes)
end

---What is to be said about the limits that a command hit.
---@param status table of the process
---@param hit table<string, boolean> limits that something saw it hit
---@return string[] notes
function Policy:limit_notes(status, hit)
  local notes = {}
  for _, l in ipairs(LIMIT_WORDS) do
    if hit[l.name] or status.signal and status.signal == l.signal then
      notes[#notes + 1] = ("the limit of %s was reached (the limit '%s' of the sandbox)")
        :format(l.words:format(self.limits[l.name] // l.unit), l.name)
    end
  end
  return notes
end

-- The file tools --------------------------------------------------------------------------------

local function root_of(p, dir)
  local root = p.roots[dir]
  if root then return root end
  local message, code
  root, message, code = fs.root(dir)
  if not root then return nil, message, code end
  p.roots[dir] = root
  return root
end

local function answer(p, dir, host, display)
  local root, message, code = root_of(p, dir)
  if not root then return nil, message, code end
  local rel = dir == "/" and host:sub(2) or host:sub(#dir + 2)
  return { root = root, rel = rel == "" and "." or rel, host = host, path = display }
end

local function denied(format, ...) return nil, format:format(...), "denied" end

-- In the session's own /tmp and its like.  Links are not followed by hand: the root refuses
-- what would leave it.
local function resolve_scratch(p, path)
  for _, s in ipairs(p.scratch) do
    if inside(path, s.inside) then
      return answer(p, s.host, s.host .. path:sub(#s.inside + 1), path)
    end
  end
  if inside(path, "/tmp") then return denied("this session has no /tmp of its own") end
  return denied("%s does not exist in the sandbox", path)
end

-- Nothing looks afterwards at what the file tools have made: they write no repository's insides (but for
-- info/exclude and its like).  Case is ignored: on some file systems .GIT is .git.
local function protected(p, host)
  local low, project = host:lower(), p.project:lower()
  if inside(low, project .. "/.terret") then return true end
  if (low .. "/"):find("/.git/", 1, true) and not inside(low, project .. "/.git/info") then return true end
  local g = p:guarded()
  for _, list in ipairs { g.ro, g.watch } do
    for _, path in ipairs(list) do
      if inside(low, (path.path or path):lower()) then return true end
    end
  end
  return false
end

---Where a path that a model named is, if it may be read or written there.
---@param path string relative ones start at cwd; "~/" is the home directory
---@param access "read"|"write"
---@param cwd string? default the project
---@return {root: terret.fs.root, rel: string, host: string, path: string}?
---@return string? message
---@return terret.code? code "denied", "escapes", "not_found", ...
function Policy:resolve(path, access, cwd)
  if access ~= "read" and access ~= "write" then error("access must be 'read' or 'write'", 2) end
  if path == "" or path:find("\0", 1, true) then return denied("not a path") end
  if #path > MAX_PATH then return denied("a path of %d bytes is too long (%d)", #path, MAX_PATH) end
  if path == "~" or path:sub(1, 2) == "~/" then path = self.home .. path:sub(2) end
  if path:sub(1, 1) ~= "/" then path = (cwd or self.project) .. "/" .. path end
  local lexical = normalise(path)
  if masked(self, lexical) then return resolve_scratch(self, lexical) end
  local host, message, code = real(path)
  if not host then return nil, message, code end
  for _, h in ipairs(self:hidden()) do
    if inside(host, h.path) and not (access == "read" and h.keep and inside(host, h.keep)) then
      return denied("%s is hidden from commands and tools", host)
    end
  end
  if masked(self, host) then return denied("%s leads to %s, which does not exist in the sandbox", lexical, host) end
  local dir = inside_any(host, self.writable_dirs)
  if access == "write" then
    if not dir then return denied("%s is outside the project; --rw names further places", host) end
    if protected(self, host) then return denied("%s is protected", host) end
  end
  if not dir and inside(host, self.project) then dir = self.project end
  return answer(self, dir or "/", host, host)
end

-- Environment, explanation, discovery ------------------------------------------------------------

---@param vars table<string, string> terret's environment
---@return table<string, string>
function Policy:env(vars)
  local cache = self.caches[1] and self.caches[1].inside or "/tmp/.cache"
  local fixed = { HOME = self.home, TMPDIR = "/tmp", XDG_CACHE_HOME = cache }
  if not (self.caches[2] and self.caches[2].inside == self.home .. "/.npm") then
    fixed.npm_config_cache = cache .. "/npm"
  end
  return environ.filter(vars, fixed, self.drop_env)
end

---@return string[] lines for people
function Policy:explain()
  local lines = {}
  local function say(format, ...) lines[#lines + 1] = format:format(...) end
  say("project: %s (%s)", self.project, self.readonly and "read-only" or "writable")
  for _, dir in ipairs(self.rw) do say("writable: %s", dir) end
  for _, s in ipairs(self.scratch) do say("private: %s (%s)", s.inside, s.host) end
  for _, c in ipairs(self.caches) do say("private: %s (%s)", c.inside, c.host) end
  local g = self:guarded()
  for _, dir in ipairs(g.rw) do say("writable: %s (git directory of the project)", dir) end
  for _, path in ipairs(g.ro) do say("read-only: %s", path) end
  for _, path in ipairs(g.configs) do say("copied: %s, where a backend can; harmless changes are taken over", path) end
  for _, w in ipairs(g.watch) do say("watched: %s", w.path) end
  for _, h in ipairs(self:hidden()) do
    say("hidden: %s%s", h.path, h.keep and " (but for " .. h.keep .. ")" or "")
  end
  say("network: %s", #self.net == 0 and "none" or table.concat(self.net, ", "))
  local limits = self.limits
  say("limits: %d processes, %d MB of memory, %d MB a file, %d descriptors", limits.nproc, limits.memory // 1048576,
    limits.fsize // 1048576, limits.nofile)
  say("all else is readable and not writable")
  return lines
end

local function xdg(name, default)
  local dir = os.getenv(name)
  if dir and dir:sub(1, 1) == "/" then return dir .. "/terret" end
  return default .. "/terret"
end

---The options of a policy for a directory: the project is the nearest directory upwards with a
---.git, below the home directory; else the directory itself.
---@param cwd string absolute
---@return table options for new(); tmp and what the user asked for are the caller's to add
function M.for_directory(cwd)
  local home = os.getenv("HOME")
  if not home or home:sub(1, 1) ~= "/" then home = passwd_home(fs.whoami().uid) or "/" end
  local start = fs.realpath(cwd) or cwd
  local stop = fs.realpath(home) or home
  local project, dir = start, start
  while dir ~= "/" and not inside(stop, dir) and not NO_PROJECT[dir] do
    if fs.stat(dir .. "/.git", { follow = false }) then
      project = dir
      break
    end
    dir = dir:match("^(.+)/[^/]*$") or "/"
  end
  local state = xdg("XDG_STATE_HOME", home .. "/.local/state")
  local id = require("terret.hash").sha256(project):sub(1, 16)
  return { project = project, home = home, state_dir = state, config_dir = xdg("XDG_CONFIG_HOME", home .. "/.config"),
    cache_dir = state .. "/projects/" .. id .. "/cache" }
end

return M

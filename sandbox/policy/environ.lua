-- sandbox/policy/environ.lua - the environment of a command: terret's own, less what looks like a
-- key, less what changes how programs are loaded, less the ways to the user's other programs.
--
-- A list of good names would break every project that reads a variable; a list of bad ones misses
-- some.  So names are judged by their words and values by their shape, and both err towards
-- dropping.

local M = {}

local function set(list)
  local s = {}
  for _, name in ipairs(list) do s[name] = true end
  return s
end

-- A name that has one of these as a word, or as the end of a word (APIKEY), is a secret's.
local SECRET_ENDS = { "KEY", "KEYS", "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWD", "PASSPHRASE",
  "CREDENTIAL", "CREDENTIALS", "COOKIE", "COOKIES", "DSN", "WEBHOOK", "APIKEY" }
local SECRET_WORDS = set { "PASS", "PWD", "PAT", "AUTH", "PRIVATE", "CREDS", "JWT", "SIGNING", "BEARER" }
local SECRET_PREFIXES = { "AWS_", "AZURE_", "GCP_", "GOOGLE_", "GITHUB_", "GITLAB_", "VAULT_", "CI_JOB_",
  "ACTIONS_", "ARM_CLIENT_" }
local HARMLESS = set { "PWD", "GITHUB_ACTIONS" }

-- How secrets begin.
local SECRET_VALUES = { "sk-", "sk_", "pk_live", "rk_live", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_",
  "glpat-", "xoxb-", "xoxp-", "xoxa-", "xapp-", "AKIA", "ASIA", "AIza", "ya29.", "hf_", "npm_", "pypi-", "eyJ",
  "-----BEGIN", "Bearer ", "Basic ", "dop_v1_", "gsk_", "xai-" }

-- Variables of the dynamic loader, the shells and interpreters that make them run something.
local LOADER = set { "GCONV_PATH", "GLIBC_TUNABLES", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND",
  "PS4", "IFS", "CDPATH", "GLOBIGNORE", "PYTHONSTARTUP", "PERL5OPT", "PERL5DB", "RUBYOPT", "OLDPWD", "PWD", "SHLVL",
  "_", "HOSTALIASES", "RESOLV_HOST_CONF", "LOCALDOMAIN", "MALLOC_TRACE", "NOTIFY_SOCKET", "LISTEN_FDS",
  "LISTEN_PID", "LISTEN_FDNAMES", "MAKEFLAGS", "MFLAGS", "MAKELEVEL" }
local LOADER_PREFIXES = { "LD_", "DYLD_", "BASH_FUNC_" }

-- Ways to programs of the user that a command has no business with.
local REACH = set { "SSH_AUTH_SOCK", "SSH_AGENT_PID", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_ASKPASS",
  "DBUS_SESSION_BUS_ADDRESS", "DBUS_SYSTEM_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY",
  "XDG_RUNTIME_DIR", "GPG_AGENT_INFO", "GPG_TTY", "TMUX", "TMUX_PANE", "STY", "DOCKER_HOST", "PULSE_SERVER",
  "CONTAINER_HOST", "SWAYSOCK", "I3SOCK", "WSL_INTEROP", "SESSION_MANAGER", "KITTY_LISTEN_ON", "NVIM",
  "WINDOWID", "SUDO_ASKPASS", "GIT_ASKPASS", "EMACS_SOCKET_NAME" }
local REACH_PREFIXES = { "VSCODE_", "SUDO_", "KITTY_", "SYSTEMD_" }

-- Of git's own variables a command keeps the names of the author; the others point elsewhere.
local GIT_KEPT = { "GIT_AUTHOR_", "GIT_COMMITTER_", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "GIT_CONFIG_NOSYSTEM",
  "GIT_EDITOR", "GIT_MERGE_AUTOEDIT", "GIT_SEQUENCE_EDITOR" }

local PROXIES = set { "HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY" }

local function starts_with_any(s, prefixes)
  for _, p in ipairs(prefixes) do
    if s:sub(1, #p) == p then return true end
  end
  return false
end

local function secret_name(name)
  if HARMLESS[name] then return false end
  if starts_with_any(name, SECRET_PREFIXES) then return true end
  for word in name:gmatch("[^_%-%.]+") do
    if SECRET_WORDS[word] then return true end
    for _, e in ipairs(SECRET_ENDS) do
      if word:sub(-#e) == e then return true end
    end
  end
  return false
end

local function secret_value(value)
  if #value >= 12 and starts_with_any(value, SECRET_VALUES) then return true end
  return value:find("://[^/%s@]*:[^/%s@]*@") ~= nil
end

---@param name string
---@param value string
---@return boolean keep
function M.keep(name, value)
  local upper = name:upper()
  if LOADER[name] or starts_with_any(name, LOADER_PREFIXES) then return false end
  if REACH[upper] or starts_with_any(upper, REACH_PREFIXES) then return false end
  if PROXIES[upper] then return false end
  if upper:sub(1, 4) == "GIT_" then return starts_with_any(upper, GIT_KEPT) and not secret_value(value) end
  if not name:find("^[%a_][%w_]*$") then return false end
  return not secret_name(upper) and not secret_value(value)
end

-- PATH without relative and empty entries, which would mean the working directory.
local function absolute_path(path)
  local out = {}
  for dir in (path or ""):gmatch("[^:]+") do
    if dir:sub(1, 1) == "/" then out[#out + 1] = dir end
  end
  return #out > 0 and table.concat(out, ":") or "/usr/local/bin:/usr/bin:/bin"
end

---@param environ table<string, string>
---@param fixed table<string, string> set whatever was there
---@param drop table<string, boolean> further names
---@return table<string, string>
function M.filter(environ, fixed, drop)
  local out = {}
  for name, value in pairs(environ) do
    if not drop[name] and M.keep(name, value) then out[name] = value end
  end
  out.PATH = absolute_path(environ.PATH)
  if not (out.LANG or out.LC_ALL) then out.LANG = "C.UTF-8" end
  for name, value in pairs(fixed) do out[name] = value end
  return out
end

return M

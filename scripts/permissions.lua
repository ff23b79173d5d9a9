-- scripts/permissions.lua - terret.permissions: may this be done?  Rules, modes, and the verdict on a request.
--
-- Verdicts are allow, ask and deny; the strictest finding wins, and everything unclear is at least ask.
--   ask    follows the rules; without a rule: reads in the project and harmless commands run, writes in the project
--          ask once a session, everything else asks
--   auto   lets commands run unasked when the sandbox isolates them, and writes in the project
--   plan   is read-only: writes and commands that are not harmless are denied
--   yolo   never asks
-- Deny rules hold in every mode.  How a command line is judged: terret.permissions.judge; which files it names:
-- terret.permissions.files.  Where a command may reach what a rule about a path denies, without naming it, no mode lets
-- it pass unasked; yolo, which never asks, denies it.
local rules = require "terret.permissions.rules"

local M = {}
local P = {}
P.__index = P

---@class terret.permissions.options
---@field mode "ask"|"auto"|"plan"|"yolo"? default "ask"
---@field rules {verdict: string, rule: string, source: string?, scope: string?}[]?
---@field project string? absolute
---@field cwd string? where commands start; default the project
---@field home string?
---@field isolated (fun(): boolean)? whether commands run in namespaces of their own; asked when a verdict
--- depends on it, since finding out starts a sandbox; default: they don't
---@field builtin boolean? the built-in rules (default true); false: only `rules`
---@field policy (fun(tree: table, verdict: table): string?, string?)? the last word; an error denies

local known = { mode = "string", rules = "table", project = "string", cwd = "string", home = "string",
  isolated = "function", builtin = "boolean", policy = "function" }
local modes = { ask = true, auto = true, plan = true, yolo = true }

---@param options terret.permissions.options?
function M.new(options)
  options = options or {}
  for name, value in pairs(options) do
    if not known[name] then error("permissions: unknown option '" .. tostring(name) .. "'", 2) end
    if type(value) ~= known[name] then error("permissions: " .. name .. " must be a " .. known[name], 2) end
  end
  local p = { mode = options.mode or "ask", project = options.project, cwd = options.cwd or options.project,
    home = options.home or os.getenv("HOME"), isolated = options.isolated or function() return false end,
    builtin = options.builtin ~= false, policy = options.policy }
  if not modes[p.mode] then error("permissions: unknown mode '" .. p.mode .. "'", 2) end
  p.rules = rules.new(options.rules or {}, p)
  return setmetatable(p, P)
end

M.parse_rules = rules.parse
M.format_rule = rules.format

---Adds a rule, for instance what the user answered "always" to.
---@param rule {verdict: string, rule: string, scope: string?, source: string?}
function P:add(rule) self.rules:add(rule) end

---The mode may change within a session (after a plan was accepted).
---@param mode string
function P:set_mode(mode)
  if not modes[mode] then error("permissions: unknown mode '" .. tostring(mode) .. "'", 2) end
  self.mode = mode
end

local function beneath(path, root)
  return root ~= nil and (path == root or path:sub(1, #root + 1) == root .. "/")
end

-- ---- commands --------------------------------------------------------------------------------

local harmless -- the built-in rules, compiled once and again when the table was changed
local function harmless_rules()
  local text = require("terret.permissions.tables").harmless
  if not harmless or harmless.text ~= text then
    local list = {}
    for rule in text:gmatch("[^;\n]+") do
      rule = rule:match("^%s*(.-)%s*$")
      if rule ~= "" then list[#list + 1] = { verdict = "allow", rule = rule, source = "built-in" } end
    end
    harmless = { text = text, set = rules.new(list) }
  end
  return harmless.set
end

-- A rule that would lift the question, when exactly one command asks for want of one.
local function proposal(found)
  if found.verdict ~= "ask" or #found.unmatched ~= 1 or (found.kinds.flag or 0) + (found.kinds.opaque or 0)
    + (found.kinds.rule or 0) + (found.kinds.path or 0) > 0 then return nil end
  local tables = require "terret.permissions.tables"
  local judge = require "terret.permissions.judge"
  local u = found.unmatched[1]
  local words, i = u.words, u.from
  for k = i, #words do
    if not words[k].static then return nil end
  end
  local text = judge.J.canonical(words, i)
  if #text > 400 or text:find("[\n\r*]") then return nil end
  local name, second = words[i].text, words[i + 1] and words[i + 1].text
  if judge.set_of(tables.subcommands)[name] and second and second:find("^%a[%w-]*$") then
    return #words > i + 1 and name .. " " .. second .. " *" or name .. " " .. second
  end
  -- Programs that run what their arguments say are allowed one by one.
  if tables.interpreters[name] or tables.opaque[name] or tables.wrappers[name] or name:find("/", 1, true)
    or name == "rm" or #words == i or judge.set_of(tables.writers)[name] then
    return text
  end
  return name .. " *"
end

local function exec_in_mode(self, found)
  local mode = self.mode
  if found.verdict == "ask" then
    local kinds = found.kinds
    -- Nobody is asked whether a deny rule holds.
    if mode == "yolo" and kinds.path then
      return "deny", "yolo mode asks nobody, and " .. found.path_reason .. "; name the files, or use the tool grep"
    end
    if mode == "yolo" then return "allow", "yolo mode" end
    if mode == "plan" and (kinds.flag or kinds.opaque) then
      return "deny", "plan mode is read-only: " .. found.reason
    end
    if mode == "auto" and not kinds.rule and not kinds.path and self.isolated()
      -- What could not be seen may be what a deny rule forbids.
      and not (kinds.opaque and (self.rules:denies_exec() or self.rules:guards("read"))) then
      return "allow", "inside the sandbox"
    end
  end
  return found.verdict, found.reason
end

---@param command string
function P:check_exec(command)
  if type(command) ~= "string" then error("permissions: command must be a string", 3) end
  local shell = require "terret.shell"
  local judge = require "terret.permissions.judge"
  local tree, broken, partial = shell.parse(command)
  local found = judge.run(tree or partial, { rules = self.rules, harmless = (self.builtin or self.mode == "plan")
    and harmless_rules() or nil, builtin = self.builtin, plan = self.mode == "plan", project = self.project,
    cwd = self.cwd, home = self.home,
    foreign = self.project ~= nil and not beneath(self.cwd, self.project) }, broken)
  local out = { verdict = found.verdict, reason = found.reason, rule = found.rule, source = found.source,
    commands = found.commands, propose = proposal(found) }
  out.verdict, out.reason = exec_in_mode(self, found)
  if out.verdict ~= found.verdict then out.rule, out.source, out.propose = nil, nil, nil end
  return out, tree
end

-- ---- files and the rest ----------------------------------------------------------------------

-- "/a/./b/../c" -> "/a/c", by the text alone.
local function normalise(path)
  local out = {}
  for name in path:gmatch("[^/]+") do
    if name == ".." then out[#out] = nil elseif name ~= "." then out[#out + 1] = name end
  end
  return "/" .. table.concat(out, "/")
end

local rank = { allow = 1, ask = 2, deny = 3 }

local function rule_verdict(rule)
  return { verdict = rule.verdict, reason = "rule '" .. rule.rule .. "'", rule = rule.rule, source = rule.source }
end

local function absolute(self, path)
  if path:sub(1, 2) == "~/" and self.home then path = self.home .. path:sub(2) end
  return normalise(path:sub(1, 1) == "/" and path or (self.cwd or "") .. "/" .. path)
end

-- The rule about a path.  Deny and ask rules also hold for the name that led there; and the tools that write show
-- what stood there, so what may not be read isn't written either.
local function path_rule(self, class, path, named)
  local rule = self.rules:find_path(class, path)
  local function stricter(other)
    if other and rank[other.verdict] > rank[rule and rule.verdict or "allow"] then rule = other end
  end
  if class == "write" then stricter(self.rules:find_path("read", path)) end
  if type(named) == "string" then
    named = absolute(self, named)
    stricter(self.rules:find_path(class, named))
    if class == "write" then stricter(self.rules:find_path("read", named)) end
  end
  return rule
end

function P:check_path(class, path, named)
  if type(path) ~= "string" then error("permissions: path must be a string", 3) end
  path = absolute(self, path)
  local rule = path_rule(self, class, path, named)
  if rule and rule.verdict == "deny" then return rule_verdict(rule) end
  local inside = beneath(path, self.project)
  if class == "write" and self.mode == "plan" then
    return { verdict = "deny", reason = "plan mode is read-only: it writes no files" }
  end
  if rule then return rule_verdict(rule) end
  if class == "read" then
    if inside and self.builtin then return { verdict = "allow", reason = "in the project", source = "built-in" } end
    return { verdict = "ask", reason = "outside the project: " .. path, propose = "read(" .. path .. ")" }
  end
  if not inside then return { verdict = "ask", reason = "outside the project: " .. path, propose = "write(" .. path
    .. ")" } end
  local hidden = path:sub(#self.project + 1):find("/.git", 1, true) or path:sub(#self.project + 1):find("/.terret",
    1, true)
  if hidden then return { verdict = "ask", reason = "changes how the project's tools run: " .. path } end
  if self.mode == "auto" and self.isolated() then return { verdict = "allow", reason = "in the project" } end
  return { verdict = "ask", reason = "writes in the project", once_per_session = true,
    propose = "write(" .. self.project .. "/**)" }
end

function P:check_net(host)
  local rule = self.rules:find_net(host)
  if rule then return rule_verdict(rule) end
  return { verdict = "ask", reason = "no rule allows the network: " .. host, propose = "net(" .. host .. ")" }
end

---Whether a search may show a file: no rule denies to read it, or asks about it.
---@param path string relative paths start in cwd
---@return boolean
function P:readable(path)
  local rule = self.rules:find_path("read", absolute(self, path))
  return not rule or rule.verdict == "allow" or (rule.verdict == "ask" and self.mode == "yolo")
end

---Whether a search below a directory may meet files that it may not show.
---@param path string
---@return boolean
function P:hides_below(path)
  local paths = require "terret.permissions.paths"
  path = absolute(self, path)
  local below = (path == "/" and "" or path) .. "/" .. paths.ANY
  for _, e in ipairs(self.rules:guards("read") or {}) do
    if (e.verdict == "deny" or self.mode ~= "yolo") and not paths.apart(e.form, below)
      and paths.meets(e.form, below) then return true end
  end
  return false
end

---What deny rules forbid to read: patterns of absolute paths (`*` within a name, `**` across), for who hides them.
---@return string[]
function P:denied_reads()
  local out = {}
  for _, e in ipairs(self.rules:guards("read") or {}) do
    if e.verdict == "deny" then out[#out + 1] = e.pattern end
  end
  return out
end

---The verdict on a request.
---@param req {class: string, command: string?, path: string?, named: string?, host: string?, tool: string?} named:
--- the path as it was written, before links were followed
---@return {verdict: string, reason: string, rule: string?, source: string?, commands: string[]?, propose: string?,
---once_per_session: boolean?}
function P:check(req)
  if type(req) ~= "table" or type(req.class) ~= "string" then error("permissions: a request with a class expected",
    2) end
  local tool = req.tool and self.rules:find_tool(req.tool)
  local out, tree
  if tool and tool.verdict == "deny" then
    out = rule_verdict(tool)
  elseif req.class == "exec" then
    out, tree = self:check_exec(req.command)
  elseif req.class == "read" or req.class == "write" then
    out = self:check_path(req.class, req.path, req.named)
  elseif req.class == "net" then
    out = self:check_net(tostring(req.host))
  elseif req.class == "none" then
    out = { verdict = "allow", reason = "needs no permission" }
  else
    out = { verdict = "ask", reason = "a tool of its own kind: " .. tostring(req.tool),
      propose = req.tool and "tool(" .. req.tool .. ")" or nil }
  end
  if tool and rank[tool.verdict] > rank[out.verdict] then out = rule_verdict(tool) end
  -- `allow tool(x)` lifts what asks only for want of a rule.
  if tool and tool.verdict == "allow" and out.verdict == "ask" and not out.rule and (out.propose
    or req.class ~= "exec") then
    out = rule_verdict(tool)
  end
  if self.mode == "yolo" and out.verdict == "ask" then
    out = { verdict = "allow", reason = "yolo mode", commands = out.commands }
  end
  if self.policy then
    local ok, verdict, reason = pcall(self.policy, tree, out)
    if not ok then
      out = { verdict = "deny", reason = "the policy failed: " .. tostring(verdict), source = "policy",
        commands = out.commands }
    elseif verdict ~= nil then
      if not rank[verdict] then verdict, reason = "deny", "the policy answered " .. tostring(verdict) end
      out.verdict, out.reason, out.source, out.rule = verdict, reason or "the policy", "policy", nil
    end
  end
  return out
end

return M

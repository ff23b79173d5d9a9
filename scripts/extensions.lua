-- scripts/extensions.lua - loads the extensions: the user's, and those of a project that is trusted.
--
-- An extension is a Lua file that calls terret.on.  It runs once, on a leash, and sets no globals.  What is broken is
-- named with file and line and left out; the guards that its text speaks of deny from then on.  It may
-- return {save = function() -> data, restore = function(data)} to hand its state over at a reload.

local events = require "terret.events"
local fs = require "terret.fs"
local hash = require "terret.hash"
local leash = require "terret.leash"

local M = {}

M.load_seconds = 5

---@type table<string, {path: string, hash: string, keep: table?}> what is loaded, by path
M.loaded = {}

-- What a script sees as globals: Lua's own, to read.
local function environment()
  local quiet = setmetatable({}, { __index = debug })
  quiet.sethook = function() error("debug.sethook is not for scripts", 2) end
  return setmetatable({ coroutine = leash.coroutine(), debug = quiet }, { __index = _G,
    __newindex = function(_, name) error(("sets the global '%s'"):format(tostring(name)), 2) end })
end

-- Guards that a broken file speaks of deny: it can't be told what it would have let through.
local function deny_guards(file, source, message)
  local any = {}
  for _, row in ipairs(events.list) do
    if row.class == "guard" and (source:find('"' .. row.name .. '"', 1, true)
      or source:find("'" .. row.name .. "'", 1, true)) then
      events.deny(row.name, file, ("%s is broken: %s"):format(file.path, message))
      any[#any + 1] = row.name
    end
  end
  return any
end

-- Takes back what a file registered.
local function forget(file)
  for event, list in pairs(events.handlers) do
    local kept = {}
    for _, h in ipairs(list) do
      if h.file ~= file then kept[#kept + 1] = h end
    end
    events.handlers[event] = #kept > 0 and kept or nil
  end
end

---Loads one file.
---@param path string
---@param source string
---@param tier "user"|"project"
---@return table? entry
---@return string? message with file and line
function M.load(path, source, tier)
  local file = { path = path, hash = hash.sha256(source), tier = tier }
  events.files["@" .. path] = file
  local chunk, message = load(source, "@" .. path, "t", environment())
  local ok, value
  if chunk then
    ok, value = leash.run({ seconds = M.load_seconds }, chunk)
    message = tostring(value)
  end
  if ok then
    local entry = { path = path, hash = file.hash, keep = type(value) == "table" and value or nil }
    M.loaded[path] = entry
    return entry
  end
  local first = message:match("^(.-)\nstack traceback:") or message
  local short = debug.getinfo(load("", "@" .. path), "S").short_src -- Lua cuts long names
  if first:sub(1, #short) == short then first = path .. first:sub(#short + 1) end
  if not first:find(path, 1, true) then first = path .. ": " .. first end
  forget(file)
  local denied = deny_guards(file, source, first)
  if #denied > 0 then first = ("%s (its guards deny now: %s)"):format(first, table.concat(denied, ", ")) end
  return nil, first, message
end

-- {path, source, tier} of all that is to be loaded.
local function sources(cfg)
  local list = {}
  local dir = cfg.config_dir and cfg.config_dir .. "/extensions"
  for _, e in ipairs(dir and fs.list(dir) or {}) do
    if e.name:find("%.lua$") then
      local path = dir .. "/" .. e.name
      local source, message = fs.read(path, { max = 4194304 })
      list[#list + 1] = { path = path, source = source, problem = message, tier = "user" }
    end
  end
  for _, file in ipairs(cfg.trusted or {}) do
    if file.kind == "extensions" then
      list[#list + 1] = { path = file.path, source = file.text, tier = "project" }
    end
  end
  table.sort(list, function(a, b) return a.path < b.path end)
  return list
end

-- hooks.json of the user and of a trusted project.
local function load_hooks(cfg)
  local problems = {}
  local function add(path, text, tier)
    local ok, message = require("terret.hooks_json").register(path, text, tier)
    if not ok then problems[#problems + 1] = message end
  end
  local path = (cfg.config_dir or "") .. "/hooks.json"
  local text = cfg.config_dir and fs.read(path, { max = 1048576 })
  if text and not M.loaded[path] then
    M.loaded[path] = { path = path }
    add(path, text, "user")
  end
  for _, file in ipairs(cfg.trusted or {}) do
    if file.kind == "hooks" and not M.loaded[file.path] then
      M.loaded[file.path] = { path = file.path }
      add(file.path, file.text, "project")
    end
  end
  return problems
end

---Loads what is not loaded yet; broken files are named and left out.
---@param cfg table
---@return string[] problems
function M.open(cfg)
  local problems = load_hooks(cfg)
  for _, s in ipairs(sources(cfg)) do
    if not M.loaded[s.path] then
      local entry, message
      if s.source then entry, message = M.load(s.path, s.source, s.tier) else message = s.problem end
      if not entry then problems[#problems + 1] = "extension left out: " .. message end
    end
  end
  return problems
end

---Loads all files anew.  When one is broken or can't take its state back, everything stays as it was.
---@param cfg table
---@return boolean ok
---@return string? traceback
function M.reload(cfg)
  local before, kept, handlers = M.loaded, {}, events.handlers
  return events.anew(function()
    for path, entry in pairs(before) do
      if entry.keep and entry.keep.save then
        local ok, data = leash.run({ seconds = M.load_seconds }, entry.keep.save)
        if not ok then error(data, 0) end
        kept[path] = data
      end
    end
    M.loaded = {}
    local ok, err = pcall(function()
      local problems = load_hooks(cfg)
      if problems[1] then error(problems[1], 0) end
      for _, s in ipairs(sources(cfg)) do
        if not s.source then error(s.problem, 0) end
        local entry, message, trace = M.load(s.path, s.source, s.tier)
        if not entry then error(trace or message, 0) end
        if kept[s.path] ~= nil and entry.keep and entry.keep.restore then
          local good, why = leash.run({ seconds = M.load_seconds }, entry.keep.restore, kept[s.path])
          if not good then error(why, 0) end
        end
      end
    end)
    if not ok then
      M.loaded = before
      error(err, 0)
    end
    -- What tools, loops and scripts registered is theirs.
    for _, list in pairs(handlers) do
      for _, h in ipairs(list) do
        if not before[h.file.path] then events.adopt(h) end
      end
    end
  end)
end

return M

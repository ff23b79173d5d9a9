-- scripts/manifest.lua - what a session was made with: version, every Lua file that was loaded, the sandbox.
--
-- It stands in the first record, so that a result can be traced to the very scripts that gave it.  A file is
-- named by its module and the first 16 digits of its SHA-256; one that is not part of the executable also by
-- its path.  Hashes of embedded scripts were made when it was built, so this costs nothing at start.  What is
-- loaded later is in a record of its own at the end of the turn.

local fs = require "terret.fs"
local hash = require "terret.hash"

local M = {}

local has_embedded, embedded = pcall(require, "terret.embedded")
if not has_embedded then embedded = nil end

local DIGITS = 16

-- Where a module that is loaded came from: "[embedded NAME]", a path, or nil for C.
local function origin(name)
  if embedded then return embedded.loaded[name] end
  if package.searchpath(name, package.cpath) then return nil end
  return package.searchpath(name, package.path)
end

local known = {} -- digests by origin: what is loaded doesn't change any more

local function digest(where)
  local inside = where:match("^%[embedded (.*)%]$")
  if inside then return embedded.sha256(inside) end
  if not known[where] then
    local data = fs.read(where)
    known[where] = data and hash.sha256(data)
  end
  return known[where]
end

---The Lua files that are loaded now.
---@return table<string, string> hashes by module, without "terret."
---@return table<string, string>? paths of those that are not part of the executable
function M.files()
  local hashes, paths = {}, {}
  for name in pairs(package.loaded) do
    local where = name:find("^terret%.") and origin(name)
    local sum = where and digest(where)
    if sum then
      local short = name:sub(8)
      hashes[short] = sum:sub(1, DIGITS)
      if where:sub(1, 1) == "/" then paths[short] = where end
    end
  end
  return hashes, next(paths) and paths or nil
end

---What is loaded beyond what the session knows: modules are loaded when they are first used, and a resume may
---find other ones.
---@param session terret.session
---@return table<string, string>? hashes nil: nothing new
function M.more(session)
  local first = session.header.manifest and session.header.manifest.files or {}
  local out, new = {}, false
  for name, sum in pairs(session.state.files or {}) do out[name] = sum end
  for name, sum in pairs((M.files())) do
    if (out[name] or first[name]) ~= sum then out[name], new = sum, true end
  end
  return new and out or nil
end

---@param cfg table
---@return table manifest
function M.make(cfg)
  local hashes, paths = M.files()
  if cfg.loop and cfg.loop:find("/", 1, true) then
    local data = fs.read(cfg.loop)
    hashes[cfg.loop] = data and hash.sha256(data):sub(1, DIGITS) or "unreadable"
  end
  return { version = embedded and embedded.version or "scm", lua = _VERSION, files = hashes, paths = paths,
    context = cfg.context or "eco", window = cfg.window, sandbox = { backend = cfg.sandbox or "auto",
      mode = cfg.mode or "ask", rw = #(cfg.rw or {}) > 0 and cfg.rw or nil,
      net = #(cfg.net or {}) > 0 and cfg.net or nil } }
end

return M

-- scripts/trust.lua - nothing of a project runs before its user trusts it, and then only what was seen.
--
-- A project's .terret/ may hold tools, loops, agents, commands, extensions and hooks.json.  They are trusted
-- together: by the path of the project and one hash over names and contents.  Any change asks again.  The
-- texts are read once, here, and what is loaded later is these bytes.  The record is
-- STATE/trust.json, which no command in the sandbox can see.

local fs = require "terret.fs"
local hash = require "terret.hash"
local json = require "terret.json"

local M = {}

M.kinds = { "agents", "commands", "extensions", "loops", "tools" }
local FILE_MAX, FILES_MAX = 1048576, 500

---@class terret.trust.file
---@field kind string
---@field name string
---@field rel string below the project
---@field path string
---@field text string
---@field hash string

-- The files of one kind, read beneath the project: a link that leads out is not followed.
local function scan_kind(root, project, kind, files)
  for _, e in ipairs(root:list(".terret/" .. kind) or {}) do
    local name, ending = e.name:match("^([%w_%-]+)%.(%a+)$")
    if name and (ending == "lua" or ending == "md" and kind == "agents") then
      local rel = (".terret/%s/%s"):format(kind, e.name)
      local text, message = root:read(rel, { max = FILE_MAX })
      if not text then return nil, message end
      if #files >= FILES_MAX then return nil, project .. "/.terret holds too many files" end
      files[#files + 1] = { kind = kind, name = name, rel = rel, path = project .. "/" .. rel, text = text,
        hash = hash.sha256(text) }
    end
  end
  return true
end

---What a project would load.
---@param project string
---@return terret.trust.file[]? files sorted; empty when there is nothing
---@return string? message
function M.scan(project)
  local files = {}
  if not fs.stat(project .. "/.terret") then return files end
  local root, message = fs.root(project)
  if not root then return nil, message end
  local _close <close> = setmetatable({}, { __close = function() root:close() end })
  for _, kind in ipairs(M.kinds) do
    local ok, why = scan_kind(root, project, kind, files)
    if not ok then return nil, why end
  end
  local text = root:read(".terret/hooks.json", { max = FILE_MAX })
  if text then
    files[#files + 1] = { kind = "hooks", name = "hooks", rel = ".terret/hooks.json",
      path = project .. "/.terret/hooks.json", text = text, hash = hash.sha256(text) }
  end
  table.sort(files, function(a, b) return a.rel < b.rel end)
  return files
end

---@param files terret.trust.file[]
---@return string
function M.digest(files)
  local parts = {}
  for i, f in ipairs(files) do parts[i] = f.rel .. "\0" .. f.hash end
  return hash.sha256(table.concat(parts, "\n"))
end

local function read_record(state_dir)
  local text = fs.read(state_dir .. "/trust.json", { max = 4194304 })
  local record = text and json.decode(text)
  return type(record) == "table" and record or {}
end

---@param state_dir string
---@param project string
---@param files terret.trust.file[]
---@return "empty"|"trusted"|"new"|"changed"
function M.state(state_dir, project, files)
  if #files == 0 then return "empty" end
  local known = read_record(state_dir)[project]
  if type(known) ~= "table" then return "new" end
  return known.hash == M.digest(files) and "trusted" or "changed"
end

---@param state_dir string
---@param project string
---@param files terret.trust.file[]? nil: no longer trusted
---@return boolean? ok
---@return string? message
function M.remember(state_dir, project, files)
  local record = read_record(state_dir)
  record[project] = files and { hash = M.digest(files), time = os.date("!%Y-%m-%dT%H:%M:%SZ") } or nil
  return fs.write(state_dir .. "/trust.json", json.encode(record) .. "\n", { parents = true, mode = 384 })
end

---What a file would register, as its text says: nothing of it is run for this.
---@param file terret.trust.file
---@return string
function M.describe(file)
  if file.kind == "hooks" then return "commands that run at events, in the sandbox" end
  if file.kind ~= "extensions" then return file.kind:gsub("s$", "") .. " '" .. file.name .. "'" end
  local seen, names = {}, {}
  for name in file.text:gmatch("%.on%s*%(?%s*[\"']([%w%.]+)[\"']") do
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  if #names == 0 then return "an extension" end
  return "an extension that hears " .. table.concat(names, ", ")
end

---What may be loaded from the project of a configuration.
---@param cfg table project, state_dir, trust (for this run, whatever the record says)
---@return terret.trust.file[]? files nil: nothing
---@return string? words why not, for the user
function M.load(cfg)
  local files, message = M.scan(cfg.project)
  if not files then return nil, "the project's .terret is left out: " .. message end
  local state = M.state(cfg.state_dir, cfg.project, files)
  if state == "empty" then return nil end
  if cfg.trust or state == "trusted" then return files end
  return nil, ("%s/.terret %s, so nothing of it is loaded; `terret trust` shows its files"):format(cfg.project,
    state == "changed" and "has changed since it was trusted" or "isn't trusted")
end

return M

-- scripts/skills.lua - terret.skills: folders with a SKILL.md (the Agent Skills format).
--
-- A skill is text for the model, found in the directories below; nothing of it runs here, so no
-- trust is needed.  Roots, the first of a name wins: .agents/skills and .claude/skills of the
-- working directory and of each one above it up to the project, the user's configuration,
-- ~/.agents/skills, ~/.claude/skills, the bundled ones.  What can't be used is listed all the
-- same, with `problems`; its folder lends the name.  Only heads of files are read.
-- A skill of the project stays in the project: a link to the user's keys is no skill.
local fs = require "terret.fs"
local frontmatter = require("terret.lazy") "terret.frontmatter"
local text = require "terret.text"

local M = {}

local HEAD = 16384          -- read first; enough for nearly all
local HEAD_MAX = 262144     -- front matter must end within this
local BODY_MAX = 1048576
local NAME_MAX = 64
local DESCRIPTION_MAX = 1024
local COMPATIBILITY_MAX = 500
local FOLDERS_MAX = 10000   -- entries of one root
local PROBLEMS_MAX = 12     -- of one skill that are listed

---@class terret.skill
---@field name string
---@field description string? nil: it can't be offered
---@field path string of SKILL.md
---@field dir string
---@field problems string[]
---@field root string
---@field within string? the real directory that it must not leave
---@field shadowed boolean? another one of this name comes first
---@field fields table<string, terret.frontmatter.value>?
---@field body integer? where the text behind the front matter begins
---@field text string? the whole file, of a skill inside the executable

local has_embedded, embedded = pcall(require, "terret.embedded")
if not has_embedded then embedded = nil end

-- ---- one file ---------------------------------------------------------------------------------

local function valid_name(name)
  return #name <= NAME_MAX and name:find("^[a-z0-9-]+$") and not name:find("^%-") and not name:find("%-$")
    and not name:find("--", 1, true)
end

local function add(skill, problem, ...)
  if #skill.problems == PROBLEMS_MAX then skill.problems[PROBLEMS_MAX + 1] = "and others" end
  if #skill.problems > PROBLEMS_MAX then return end
  skill.problems[#skill.problems + 1] = text.cut(text.clean(problem:format(...)), 300)
end

local function scalar(fields, key)
  local v = fields[key]
  return v and v.kind == "text" and v.text or nil, v
end

-- Linear, unlike the pattern "%s+$".
local function trim(s)
  return s:match("^%s*(.*%S)") or ""
end

local function set_name(skill, folder, fields)
  local v = fields.name
  local name = v and (v.kind == "text" or v.kind == "null") and trim(v.text) or nil
  skill.name = text.clean(folder)
  if v and not name then return add(skill, "name: is a %s, not a text", v.kind) end
  if not name or name == "" then return add(skill, "name: is missing; the folder lends its own") end
  if not valid_name(name) then
    return add(skill, "name: '%s' is not 1 to %d of a-z, 0-9 and single hyphens; the folder lends its own",
      text.cut(name, 80), NAME_MAX)
  end
  if name ~= folder then add(skill, "name: '%s' differs from the folder '%s'", name, text.cut(folder, 80)) end
  skill.name = name
end

local function length(s)
  return utf8.len(s) or #s
end

local function set_description(skill, fields)
  local description, v = scalar(fields, "description")
  if v and not description and v.kind ~= "null" then
    return add(skill, "description: is a %s, not a text", v.kind)
  end
  description = trim(text.clean(description or ""))
  if description == "" then return add(skill, "description: is missing or empty") end
  local n = length(description)
  if n > DESCRIPTION_MAX then
    add(skill, "description: has %d characters, over %d; cut", n, DESCRIPTION_MAX)
    description = description:sub(1, utf8.offset(description, DESCRIPTION_MAX + 1) - 1)
  end
  skill.description = description
end

-- The front matter of a head of the file; `whole`: nothing is behind it.
local function judge(skill, folder, head, whole)
  local found = frontmatter.parse(head)
  if not found.closed and not whole then
    add(skill, "the front matter does not end within %d KiB", #head // 1024)
  end
  for _, problem in ipairs(found.problems) do add(skill, "%s", problem) end
  set_name(skill, folder, found.fields)
  set_description(skill, found.fields)
  local compatibility = scalar(found.fields, "compatibility")
  if compatibility and length(compatibility) > COMPATIBILITY_MAX then
    add(skill, "compatibility: has over %d characters", COMPATIBILITY_MAX)
  end
  skill.fields, skill.body = found.fields, found.body
end

local function inside(path, dir) return dir == "/" or path == dir or path:sub(1, #dir + 1) == dir .. "/" end

local function read(skill, options)
  if not skill.within then return fs.read(skill.path, options) end
  local real, message, code = fs.realpath(skill.path)
  if not real then return nil, message, code end
  if not inside(real, skill.within) then return nil, skill.path .. " leads outside the project", "escapes" end
  local root <close>, why, why_code = fs.root(skill.within)
  if not root then return nil, why, why_code end
  return root:read((real:sub(#skill.within + 1):gsub("^/", "")), options)
end

local function read_head(skill)
  local max = HEAD
  while true do
    local data, info = read(skill, { length = max })
    if not data then return nil, info end
    local whole = #data < max
    if whole or max >= HEAD_MAX or frontmatter.parse(data).closed then return data, info, whole end
    max = HEAD_MAX
  end
end

local function load(dir, folder, file, root, within)
  local skill = { path = dir .. "/" .. file, dir = dir, root = root, problems = {}, within = within }
  local head, info, whole = read_head(skill)
  if not head then
    skill.name = text.clean(folder)
    add(skill, "%s", tostring(info))
    return skill
  end
  judge(skill, folder, head, whole)
  return skill, ("%d:%d"):format(info.dev, info.inode)
end

-- ---- folders ----------------------------------------------------------------------------------

local SKIPPED = { node_modules = true }

local function skill_file(entries)
  local other
  for _, e in ipairs(entries) do
    if e.name == "SKILL.md" then return e.name end
    if e.name:lower() == "skill.md" then other = e.name end
  end
  return other
end

local function is_folder(dir, entry)
  if entry.name:sub(1, 1) == "." or SKIPPED[entry.name] then return false end
  if entry.type ~= "link" then return entry.type == "directory" end
  local info = fs.stat(dir .. "/" .. entry.name)
  return info ~= nil and info.type == "directory"
end

-- The skills of one root: its folders, and one deeper where a folder is no skill itself.
local function scan_root(root, within, visit)
  local function folder(dir, name, deeper)
    local entries, message = fs.list(dir)
    if not entries then
      local skill = { name = text.clean(name), path = dir .. "/SKILL.md", dir = dir, root = root, problems = {} }
      add(skill, "%s", message)
      return visit(skill)
    end
    local file = skill_file(entries)
    if file then return visit(load(dir, name, file, root, within)) end
    if not deeper then return end
    for n, e in ipairs(entries) do
      if n > FOLDERS_MAX then break end
      if is_folder(dir, e) then folder(dir .. "/" .. e.name, e.name, false) end
    end
  end
  for n, e in ipairs(fs.list(root) or {}) do
    if n > FOLDERS_MAX then break end
    if is_folder(root, e) then folder(root .. "/" .. e.name, e.name, true) end
  end
end

-- Skills inside the executable: "skills/NAME/SKILL.md".
local function scan_embedded(visit)
  for _, file in ipairs(embedded and embedded.list("skills/") or {}) do
    local folder = file:match("^skills/([^/]+)/SKILL%.md$")
    if folder then
      local skill = { path = "[embedded " .. file .. "]", dir = "[embedded skills/" .. folder .. "]",
        root = "[embedded]", problems = {}, text = embedded.get(file) }
      judge(skill, folder, skill.text, true)
      visit(skill)
    end
  end
end

-- ---- roots ------------------------------------------------------------------------------------

local function parent(dir)
  local up = dir:match("^(.*)/[^/]+$")
  if up == nil then return nil end
  return up == "" and "/" or up
end

-- The nearest directory upwards with .git, below the home directory; else the directory itself.
local function find_project(cwd, home)
  local dir = cwd
  while dir and dir ~= "/" and dir ~= home do
    if fs.stat(dir .. "/.git") then return dir end
    dir = parent(dir)
  end
  return cwd
end

-- Each with the real directory that its skills must not leave, for those of the project.
local function roots(options)
  local list = {}
  local function one(path, within) list[#list + 1] = { path = path, within = within } end
  local function both(dir, within)
    dir = dir == "/" and "" or dir
    one(dir .. "/.agents/skills", within)
    one(dir .. "/.claude/skills", within)
  end
  local dir = options.cwd
  local stop = options.project or find_project(dir, options.home)
  local below = inside(dir, stop)
  local within = fs.realpath(below and stop or dir) or dir
  while dir do
    both(dir, within)
    if dir == stop or not below then break end
    dir = parent(dir)
  end
  if options.config_dir then one(options.config_dir .. "/skills") end
  if options.home then both(options.home) end
  if options.bundled then
    one(options.bundled)
  elseif embedded then
    if embedded.path then one(embedded.path .. "/skills") end
    one(embedded.share_dir .. "/skills")
  end
  return list
end

local function defaults(options)
  local out = {}
  for key, value in pairs(options or {}) do out[key] = value end
  out.cwd = out.cwd or fs.cwd()
  out.home = out.home or os.getenv("HOME")
  if not out.config_dir then
    local xdg = os.getenv("XDG_CONFIG_HOME")
    if xdg and xdg:sub(1, 1) == "/" then out.config_dir = xdg .. "/terret"
    elseif out.home then out.config_dir = out.home .. "/.config/terret" end
  end
  return out
end

-- ---- the module -------------------------------------------------------------------------------

---All skills, nearest first; broken and shadowed ones too, with their problems.
---@param options {cwd: string?, project: string?, home: string?, config_dir: string?, bundled: string?}?
---@return terret.skill[]
function M.scan(options)
  options = defaults(options)
  local list, names, files = {}, {}, {}
  local function visit(skill, id)
    if id and files[id] then return end -- one file that two roots lead to
    if id then files[id] = true end
    local first = names[skill.name]
    if not first then
      names[skill.name] = skill
    else
      skill.shadowed = true
      if not (skill.text and first.text) then add(skill, "%s has this name and comes first", first.path) end
    end
    list[#list + 1] = skill
  end
  local seen = {}
  for _, root in ipairs(roots(options)) do
    if not seen[root.path] then
      seen[root.path] = true
      scan_root(root.path, root.within, visit)
    end
  end
  if not options.bundled then scan_embedded(visit) end
  return list
end

---@param list terret.skill[]
---@param name string
---@return terret.skill?
function M.find(list, name)
  for _, skill in ipairs(list) do
    if skill.name == name and not skill.shadowed then return skill end
  end
  return nil
end

---The text behind the front matter.
---@param skill terret.skill
---@return string? text
---@return string? message
---@return string? code
function M.body(skill)
  local data, info, code = skill.text, nil, nil
  if not data then data, info, code = read(skill, { max = BODY_MAX }) end
  if not data then return nil, info, code end
  return text.clean(data:sub(frontmatter.parse(data).body))
end

---The files of a skill's folder, two levels deep; names relative to it.
---@param skill terret.skill
---@param max integer? default 100
---@return string[] names
---@return boolean more there are others
function M.files(skill, max)
  local out = {}
  max = max or 100
  local function walk(dir, prefix, depth)
    for _, e in ipairs(fs.list(dir) or {}) do
      if #out > max then return end
      local name = prefix .. e.name
      if e.type == "directory" and e.name:sub(1, 1) ~= "." then
        if depth < 2 then walk(dir .. "/" .. e.name, name .. "/", depth + 1)
        else out[#out + 1] = name .. "/" end
      elseif e.type == "file" and dir .. "/" .. e.name ~= skill.path then
        out[#out + 1] = name
      end
    end
  end
  if not skill.text then walk(skill.dir, "", 0) end
  local more = #out > max
  if more then out[#out] = nil end
  return out, more
end

---A text in one line, at most max bytes.
---@param s string
---@param max integer
---@return string
function M.one_line(s, max)
  s = text.clean(s):gsub("[%s%c]+", " ")
  return #s <= max and s or text.cut(s, max - 3) .. "..."
end

---What the first user message says about skills; nil when there are none.
---@param list terret.skill[]
---@param budget integer bytes
---@return string?
function M.prompt(list, budget)
  local usable = {}
  for _, skill in ipairs(list) do
    local off = skill.fields and scalar(skill.fields, "disable-model-invocation")
    if skill.description and not skill.shadowed and off ~= "true" then usable[#usable + 1] = skill end
  end
  if #usable == 0 then return nil end
  local head = "<skills>\nSkills are instructions for special tasks. When a task fits one, load it with"
    .. " the tool `skill` before you start.\n"
  local tail = "</skills>"
  -- Shorter descriptions before fewer skills.
  for _, max in ipairs { DESCRIPTION_MAX * 4, 240, 80, 0 } do
    local lines, size, rest = {}, #head + #tail, 0
    for i, skill in ipairs(usable) do
      local line = ("- %s%s\n"):format(M.one_line(skill.name, NAME_MAX * 2),
        max > 0 and ": " .. M.one_line(skill.description, max) or ""):gsub("</", "< /") -- no end of the frame
      if size + #line + 40 > budget then
        rest = #usable - i + 1
        break
      end
      lines[i], size = line, size + #line
    end
    if rest == 0 or max == 0 then
      if rest > 0 then lines[#lines + 1] = ("(and %d more)\n"):format(rest) end
      return head .. table.concat(lines) .. tail
    end
  end
end

return M

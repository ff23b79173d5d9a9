-- scripts/permissions/tree.lua - terret.permissions.tree: the judge's walk over lists, pipelines and compound commands.
--
-- extend(J) adds the methods.  What matters on the way: whether a command surely runs (only then a function
-- it defines counts as defined), and whether the working directory is still inside the project.
local M = {}

local J = {}
local visit = {}

---A list whose changes of directory and functions stay inside.
function J:scoped(list)
  local foreign, depth, files = self.foreign, self.cd_depth, self.files
  local place = files and files:enter()
  self.conditional = self.conditional + 1
  self:list(list)
  self.conditional = self.conditional - 1
  self.foreign, self.cd_depth = foreign, depth
  if files then files:leave(place) end
end

-- A body that may run several times: what it does to the directory holds for its start as well.
function J:body(list, loop)
  if not self.files then return self:body_list(list) end
  return self.files:body(loop, function() self:body_list(list) end)
end

function J:body_list(list)
  self.conditional = self.conditional + 1
  local foreign = self.foreign
  self:list(list)
  if self.foreign and not foreign then self:list(list) end
  self.conditional = self.conditional - 1
end

function J:list(list)
  local ops = list.ops
  for i, item in ipairs(list.items) do
    local chained = i > 1 and ops[i - 1] == "&&"
    if not chained then self.cd_depth = 0 end
    if not chained and i > 1 and self.files then self.files:settle_dirs() end
    local op, before = ops[i], ops[i - 1]
    local maybe = op == "&" or before == "&&" or before == "||"
    if maybe then self.conditional = self.conditional + 1 end
    self:node(item)
    if maybe then self.conditional = self.conditional - 1 end
    -- `! cd x && y`: what follows holds when it failed.  `true || cd x && y`: it holds when it was skipped.
    if self.files and (item.type == "pipeline" or before == "||") then self.files:settle_dirs() end
  end
end

function J:node(node)
  if not node then return end
  visit[node.type](self, node)
end

function visit.list(self, node) self:list(node) end

function visit.pipeline(self, node)
  local many = #node.commands > 1
  for i, c in ipairs(node.commands) do
    if many then
      local foreign, depth, files = self.foreign, self.cd_depth, self.files
      local place = files and files:enter()
      self.conditional = self.conditional + 1
      self.fed = i > 1 and c.type == "simple" -- its input is a pipe
      self:node(c)
      self.fed = false
      self.conditional = self.conditional - 1
      self.foreign, self.cd_depth = foreign, depth
      if files then files:leave(place) end
    else
      self:node(c)
    end
  end
end

function visit.group(self, node)
  self:redirects(node)
  for _, l in ipairs(node.lists) do self:list(l) end
end

function visit.subshell(self, node)
  self:redirects(node)
  for _, l in ipairs(node.lists) do self:scoped(l) end
end

local function bodies(self, node)
  self:redirects(node)
  local loop = node.type ~= "branch" and node.type ~= "case"
  for _, l in ipairs(node.lists or {}) do self:body(l, loop) end
end
visit.loop = bodies
visit.branch = bodies

visit["for"] = function(self, node)
  self:variable(node.name)
  if not node.words then self.values:set(node.name, "taint") end
  for _, w in ipairs(node.words or {}) do
    self:word(w)
    if w.static then self.values:set(node.name, w)
    elseif w.glob and not self.values:may_be_option(w) then self.values:set(node.name, { "./file" }, w)
    else self.values:set(node.name, w) end
  end
  bodies(self, node)
end
visit.select = visit["for"]

function visit.case(self, node)
  self:word(node.word)
  for _, w in ipairs(node.patterns) do self:word(w) end
  bodies(self, node)
end

function visit.arith(self, node)
  for _, a in ipairs(node.arith) do self:arith(a) end
  bodies(self, node)
end

function visit.cond(self, node)
  self:redirects(node)
  for _, w in ipairs(node.words) do self:word(w) end
  for _, w in ipairs(node.arith_words) do self:arith_text(w) end
end

visit["function"] = function(self, node)
  self:variable(node.name)
  if require("terret.permissions.builtins")[node.name] then self:ask("redefines " .. node.name) end
  local foreign = self.foreign
  self.conditional = self.conditional + 1
  if self.files then self.files:elsewhere(function() self:node(node.body) end) else self:node(node.body) end
  self.conditional = self.conditional - 1
  self.foreign = foreign
  if self.conditional == 0 and not self.functions_lost then self.functions[node.name] = true end
end

function visit.coproc(self, node)
  self:variable(node.name or "COPROC")
  local place = self.files and self.files:enter()
  self.conditional = self.conditional + 1
  self:node(node.body)
  self.conditional = self.conditional - 1
  if place then self.files:leave(place) end
end

function visit.simple(self, node)
  local name = node.words[1] and node.words[1].static and node.words[1].text
  local reads = name == "read" or name == "mapfile" or name == "readarray" -- IFS= for these alone is harmless
  for _, a in ipairs(node.assigns) do self:assign(a, reads and a.name == "IFS") end
  for _, w in ipairs(node.words) do self:word(w) end
  self:redirects(node)
  if node.words[1] then
    self.node_redirs = node.redirs
    self:command(node.words, 1)
  elseif node.redirs then
    for _, r in ipairs(node.redirs) do
      if self.writes_to[r.op] and r.target.text ~= "/dev/null" then
        self:ask("a redirection without a command truncates its target", "unmatched")
      end
    end
  end
end

---@param class table the judge
function M.extend(class)
  for name, f in pairs(J) do class[name] = f end
end

return M

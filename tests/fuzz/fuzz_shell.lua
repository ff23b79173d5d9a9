-- tests/fuzz/fuzz_shell.lua [SECONDS [SEED]] - random and hostile command lines: the parser and the judge neither
-- raise nor
-- hang, and what the parser accepts, its parts accept again.
local shell = require "terret.shell"
local permissions = require "terret.permissions"

local seconds = tonumber(arg and arg[1]) or 1
local seed = tonumber(arg and arg[2]) or os.time()
math.randomseed(seed)
local random = math.random

local pieces = { " ", "\n", ";", "&", "&&", "|", "||", "(", ")", "((", "))", "{", "}", "{ ", "; }", "[", "]", "[[ ",
  " ]]", "<", ">", ">>", "<<", "<<-", "<<<",
  "<(", ">(", "&>", ">&", "'", '"', "\\", "\\\n", "`", "$", "$(", "$((", "${", "$'", '$"', "$[", ":-", "#", "##",
    "!", "*", "?", "~", "=", "+=", ",", "..",
  "a", "b", "x", "1", "0", "-", "--", "-c", "if ", "then ", "else ", "elif ", "fi", "for ", "in ", "do ", "done",
    "case ", "esac", "while ", "until ",
  "function ", "select ", "time ", "coproc ", "rm", "echo ", "eval ", "sh -c ", "find . -exec ", "xargs ", "sed ",
    "awk ", "git -c ", "env ", "trap ",
  "E\n", "EOF\n", "\t", "\r", "\0", "\255", "\u{a0}", "\u{202e}", "x=", "x[", "]=", "declare -n ", "read ",
    "printf -v ", "@P}", "@", "$x", "\"$@\"", ";;",
  "s/a/b/", "{print}", "alias ", "make ", "tar ", "export ", "PATH=", "/dev/tcp/", "> f", "%", "^", "é" }

local function line()
  local out = {}
  for i = 1, random(1, 40) do
    out[i] = random() < 0.02 and string.char(random(0, 255)) or pieces[random(#pieces)]
  end
  if random() < 0.01 then
    local unit = pieces[random(#pieces)] .. pieces[random(#pieces)]
    return unit:rep(random(1, 20000))
  end
  return table.concat(out)
end

local p = permissions.new { project = "/p", rules = { { verdict = "deny", rule = "rm *" }, { verdict = "allow",
  rule = "*" } } }
local deadline, n, slowest, slowest_text = os.clock() + seconds, 0, 0, ""
while os.clock() < deadline do
  local text = line()
  local before = os.clock()
  local ok, err = xpcall(function()
    local tree, reason = shell.parse(text)
    assert(tree or type(reason) == "string")
    local r = p:check { class = "exec", command = text }
    assert(r.verdict == "allow" or r.verdict == "ask" or r.verdict == "deny")
    if not tree then assert(r.verdict ~= "allow", "allowed what can't be parsed") end
  end, debug.traceback)
  if not ok then
    print(("fuzz_shell: seed %d: %q\n%s"):format(seed, text:sub(1, 2000), err))
    os.exit(1)
  end
  if os.clock() - before > slowest then slowest, slowest_text = os.clock() - before, text end
  if slowest > 1 then
    print(("fuzz_shell: seed %d: took %.1f s: %q"):format(seed, slowest, text:sub(1, 200)))
    os.exit(1)
  end
  n = n + 1
end
print(("fuzz_shell: seed %d, %d lines, slowest %.0f ms: %q"):format(seed, n, slowest * 1000, slowest_text:sub(1, 60)))

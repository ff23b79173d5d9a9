-- tests/permissions/property.lua [COUNT [SEED]] - no line that is judged "allow" may run a forbidden program.
--
-- Random command lines are judged; bash runs those that are allowed, in a sandbox without network whose PATH holds
-- only chosen programs, the forbidden ones among them as stubs that record the call.  Nothing generated ever runs
-- outside bubblewrap.  Without a working bubblewrap the test says so and passes.
local permissions = require "terret.permissions"

local count = tonumber(arg and arg[1]) or 500
local seed = tonumber(arg and arg[2]) or os.time()
math.randomseed(seed)
local random = math.random

local denied = { "rm", "curl", "wget", "sudo", "dd", "shutdown", "chmod" }
local real = "env timeout nice nohup setsid stdbuf xargs find sh dash bash sed awk sort uniq head tail cat grep tr "
  .. "wc cut tee "
  .. "seq tar expr test true false ls date basename printf"

-- ---- the generator ---------------------------------------------------------------------------

local function pick(list) return list[random(#list)] end
local gen = {}
local depth = 0
local function any(names)
  depth = depth + 1
  local name = depth > 7 and "word" or pick(names)
  local s = gen[name]()
  depth = depth - 1
  return s
end

local calm = false -- lines that mostly only mention what is forbidden
function gen.bad()
  if calm and random() < 0.9 then
    return pick { "echo 'rm x'", 'echo "rm x"', "ls x", "cat f", "echo \\rm x", "grep 'rm x' f",
      "printf '%%s' \"; rm x\"", "echo a # rm x",
      "echo '$(rm x)'", "cat <<'E'\n$(rm x)\nE", "echo \"\\$(rm x)\"", "echo $'rm x'", "echo {rm,x}", "wc -l <f",
        "true", "echo 'a''rm x'" }
  end
  return pick { "rm x", "rm x", "rm -rf y", "curl evil", "sudo ls", "dd of=z", "chmod 7 q", "\\rm x", "r\\m x",
    "'rm' x", '"rm" x',
    "$'rm' x", "$'\\x72m' x", "{rm,x}", "r''m x", "r\\\nm x", "/tmp/stubs/rm x", "command rm x", "exec rm x",
      "\"r\"m x",
    "{,rm} x", "$\"rm\" x", "r\"\"m $x", "$R x", "${R} x", "$(echo rm) x", "`echo rm` x", "${N:-rm} x",
      "builtin command rm x",
    "rm$E x", "$E rm x", "{rm,} x", "./rm x", "*/rm x", "r[m] x", "r?  x", "${R:0:2} x", "$@ x" }
end

function gen.word()
  return pick { "a", "f", "x.c", "'q r'", '"d q"', "$x", '"$x"', "*.c", "*", "-n", "-e", "--", "{a,b}", "~",
    "$((1+2))", "\\;", "''", '""',
    "a\\ b", "#c", "a#b", "'#'", "$'t\\n'", "${x}", '"${x:-y}"', "1", "-", "=", "a=b", "!", "$#", "$?", "[a-z]*",
      "-v", "'a[$(rm x)]'",
    "'$(rm x)'", "\"'\"", "'\"'", "\\$(a)", "\"\\$(rm x)\"", "\"\\`rm x\\`\"", "'rm x'", "\"rm x\"", "'; rm x'",
      "\"; rm x\"", "$N",
    "-delete", "-exec", "rm", "{}", "+", "$D", "@f", "\\\nb", "%d", "'1e rm x'", "'{system(\"rm x\")}'", "1d", "p",
      "''\\''",
    "${x#'}'}", "\"${x%'a'}\"", "\"${x:-'b'}\"", "$[1]", "a$", "\"a$\"", "${#x}", "${!x}", "${x/a/b}", "${x@Q}",
      "${x^}", "${a[0]}" }
end

function gen.wordsub()
  local c = any { "line", "bad", "bad", "simple" }
  return pick { '"$(%s)"', "$(%s)", '"a $(%s) b"', "`%s`", '"`%s`"', "<(%s)", "${x:-$(%s)}", '"${x:-$(%s)}"',
    "$(( $(%s) + 1 ))",
    "${x/$(%s)/}", "${x:$(%s)}", "a$(%s)b", "{a,$(%s)}", "'$(%s)'", '"\\$(%s)"', "\\$(%s)", "$( (%s) )", "$((%s))",
      "$[ $(%s) ]",
    "\"${x:-`%s`}\"", "${a[$(%s)]}", '${a["%s"]}', '$(( "%s" ))', "${a['%s']}", '${a["]}\'"]}; %s #\'', "${x:'%s'}",
      '"${a["$(%s)"]}"',
    "\"$(echo \"$(%s)\")\"", ">(%s)", "$'$(%s)'", "$\"$(%s)\"", "\"${x#$(%s)}\"",
      "${N:=$(%s)}",
    "\"'$(%s)'\"", "'\"$(%s)\"'", "\"${x:-'$(%s)'}\"", "${x:-'$(%s)'}", "\"${x#'$(%s)'}\"", "$(# c\n%s)",
      "$(case a in a) %s;; esac)",
    "$(cat <<E\n$(%s)\nE\n)", "\"`echo \\`%s\\``\"", "$(echo $(%s))" }:gsub("%%s", function() return c end)
end

function gen.arg() return random() < 0.8 and gen.word() or any { "wordsub" } end

local function args(n)
  local out = {}
  for i = 1, random(0, n or 3) do out[i] = gen.arg() end
  return table.concat(out, " ")
end

function gen.simple()
  local name = pick { "echo", "ls", "cat", "grep", "head", "wc", "sort", "uniq", "cut", "tr", "printf", "test",
    "true", ":", "sed", "awk",
    "find", "find .", "find . -name", "cd", "sed -n", "[", "date", "basename", "seq", "tar", "tail", "printf -v",
      "read", "export",
    "set", "unset", "let", "declare", "shift", "wait", "local", "test -v", "mapfile", "sort -k1", "xargs", "awk -v" }
  return name .. " " .. args(4)
end

function gen.wrapped()
  local c = any { "bad", "simple", "bad" }
  return pick { "env ", "env A=1 ", "env -i ", "timeout 2 ", "nice ", "nice -n 1 ", "nohup ", "setsid -w ",
    "stdbuf -oL ", "command ", "time ",
    "! ", "A=1 ", ">/dev/null ", "2>&1 ", "echo x | xargs ", "echo a | xargs -n1 ", "find . -name f -exec ", "exec ",
      "builtin ", "time -p ",
    "timeout -s 9 2 env B=2 nice ", "command -p ", "env -u Q ", "env -- ", "timeout -k 1 2 ", "nice -1 ", "eval ",
      "find f -ok ",
    "echo x | xargs -I{} ", "A=$(true) ", "env A=\"$x\" ", "coproc ", "env $x ", "timeout $x 2 ", "xargs -a f ",
      "nice $N ",
    "command -v ", "trap - INT; ", "exec 3>&1; " } .. c .. pick { "", " \\;", " {} \\;", " {} +", " &", " ;" }
end

function gen.text()
  local c = any { "line", "bad", "simple" }
  local quoted = "'" .. c:gsub("'", "'\\''") .. "'"
  local dq = '"' .. c:gsub('[\\"$`]', "\\%0") .. '"'
  return pick { "sh -c ", "bash -c ", "eval ", "bash -ec ", "env sh -c ", "trap ", "alias z=", "bash <<< ",
    "sh -c -- ", "bash -o pipefail -c ",
    "find . -name f -exec sh -c ", "echo q | xargs sh -c ", "timeout 2 dash -c ", "eval eval ", "echo ",
      "printf %s ", "x=", "cat <<< ",
    "bash -c 'eval \"$1\"' _ ", "sh -c '$0' ", "X=", "echo x | sh -c ", "mapfile -C ", "nice bash -lc ",
    "read q <<< " }
    .. pick { quoted, quoted, dq, "$'" .. c:gsub("[\\']", "\\%0") .. "'" }
    .. pick { "", " EXIT", " a b", " {} \\;", "; eval \"$x\"", "; $X", "; echo $((x))", "; echo ${x@P}",
      "; echo \"$x\"" }
end

function gen.compound()
  local c, d = any { "line", "bad", "simple" }, any { "simple", "bad", "line" }
  return (pick { "if %c; then %d; fi", "if true; then %c; else %d; fi", "for i in 1 2; do %c; done",
    "for i in $(%c); do %d; done",
    "while %c; do %d; break; done", "until %c; do %d; break; done", "case $x in a) %c;; *) %d;; esac",
      "case a in a|b) %c;; esac",
    "{ %c; }", "(%c)", "( %c ; %d )", "f() { %c; }; f", "f() (%c); f", "function g { %c; }; g a", "[[ $(%c) == a ]]",
      "[[ -n $x && a < b ]]; %c",
    "(( $(%c) ))", "((%c))", "a[$(%c)]=1", "x=($(%c))", "x=(a b); %c", "%c <<E\n$(%d)\nE", "cat <<E\n%d\nE",
      "cat <<'E'\n%d\nE\n%c",
    "bash <<E\n%d\nE", "bash <<'E'\n%d\nE", "cat <<-E | sh\n\t%d\n\tE", "coproc %c", "%c # %d", "echo %c\n# %d\n%c",
      "select s in a; do %c; break; done <f",
    "for ((i=0;i<1;i++)); do %c; done", "if [[ a || %c ]]; then %d; fi", "! %c", "!(%c)", "{ %c\n}", "time { %c; }",
      "for i in a b\ndo %c\ndone",
    "case x in (x) %c ;& y) %d ;; esac", "f() { \"$@\"; }; f %c", "g() { find . \"$@\"; }; g -name f -exec %c \\;",
      "x='%c'; eval $x",
    "X=-exec; find f $X %c \\;", "R=rm; %c", "set -- %c; $1 $2", "cat <<E <<F\n%c\nE\n$(%d)\nF",
      "echo $(cat <<E\n%c\nE\n)", "if false; then f() { :; }; fi; f; %c",
    "%c\\\n&& %d", "%c &\n%d", "[[ x =~ (a|%c) ]]", "[ a ] && %c", "echo a | { read v; %c; }",
      "while read -r l; do $l; done <<< 'rm x'",
    "x='a[$(rm x)]'; %c; echo $((x))", "read x <<< 'a[$(rm x)]'; [[ x -eq 1 ]]", "declare -i x='a[$(rm y)]'",
      "printf -v 'a[$(rm x)]' 1; %c",
    "unset 'a[$(rm x)]'", "[[ -v 'a[$(rm x)]' ]]", "sort -S 1k --compress-program=rm f", "sed 's/.*/rm x/e' f",
      "sed -n '1{e rm x\n}' f",
    "awk 'BEGIN{system(\"rm x\")}'", "awk '{print | \"rm x\"}' f",
      "tar cf /dev/null --checkpoint=1 --checkpoint-action=exec='rm x' f",
    "sed '%d' f", "awk '%d' f", "sed -e 1d %c", "ls | xargs sed -n 1p", "sed -n 1p *", "awk '{print > \"q\"}' f; %c",
      "ls | xargs sort" }
    :gsub("%%([cd])", { c = c, d = d }))
end

function gen.line()
  local out = {}
  for i = 1, random(1, 3) do
    out[i] = any { "simple", "simple", "wrapped", "text", "compound", "bad" }
  end
  return table.concat(out, pick { "; ", " && ", " | ", "\n", " || ", " & ", ";", "|", " |& ", " \\\n&& ", ";\\\n",
    " && ! ", " &\n" })
end

-- Commands that print files: s.pem and d/k may not be read, a and d/b may.
local function path()
  if random() < 0.5 then return pick { "a", "d/b", "a*", "d/b*", "b", "$e", "\"$e\"", "$p", "../a", "a d/b" } end
  return pick { "s.pem", "d/k", "a", "d/b", "k", "b", "./s.pem", "d/../s.pem", "../d/k", "d/./k", "*", "d/*",
    "*.pem", "s*",
    "?.pem", "[s]*", "d/[a-k]", "{a,s}.pem", "$p", "\"$p\"", "$q", "${p}", "\"$q\"", "$p$q", "s.p$e", "s$dot",
    "'s.pem'",
    "s\\.pem", "$(echo s.pem)", "\"$(echo d/k)\"", ".", "d", "d/", "/tmp/proj/s.pem", "/tmp/proj/d/k",
    "$PWD/s.pem", "~/d/k",
    "$HOME/s.pem", ".*/k", "*/k", "d*/k", "@(s|a).pem", "$((1))", "s.$'pem'", "-", "a s.pem", "d/../*", "$@" }
end

local function reader()
  local file = path()
  return (pick { "cat %p", "head -n1 %p", "tail -c9 %p a", "grep . %p", "grep -h . a %p", "grep -r . %p",
    "grep -rh .",
    "grep -e . %p", "grep -f %p a", "sed -n p %p", "sed 'r s.pem' a", "sed -n '1{r d/k\np}' a", "sed p a %p",
    "awk 1 %p", "awk -v x=1 1 %p", "awk '{getline l<\"s.pem\"; print l}' a", "awk -f %p a", "sort %p", "sort a %p",
    "uniq %p", "cut -c1- %p", "tr a a <%p", "cat <%p", "cat - <%p", "wc %p", "cat -- %p", "cat -n %p",
    "sort -u -- %p",
    "x=$(<%p); echo $x", "echo $(cat %p)", "echo %p | xargs cat", "xargs cat <<< %p",
    "find %p -type f -exec cat {} +",
    "find . -name k -exec cat {} \\;", "find d -execdir cat k \\;", "while read l; do echo $l; done <%p",
    "for i in %p; do cat $i; done", "for i in %p; do cat \"$i\"; done", "sh -c 'cat %p'", "eval cat %p",
    "bash -c 'cat <%p'",
    "env cat %p", "timeout 2 cat %p", "nice head %p", "exec 4<%p; cat <&4", "f() { cat %p; }; f",
    "f() { cat $1; }; f %p",
    "set -- %p; cat $1", "cat a | grep -h . - %p", "mapfile v <%p; echo $v", "read v <%p; echo $v", "grep -h$r . %p",
    "r=-r; grep $r . %p", "xargs -a %p echo", "tee <%p", "printf %%s \"$(head -1 %p)\"", "tar cf - %p", "cat %p 2>&1",
    "cat a %p | cat", "ls %p", "echo %p", "test -f %p", "cat a", "cat <(cat %p)", "cat <<< $(cat %p)", "seq 1 <%p",
    "expr $(cat %p)", "cat %p >x; cat x", "cat <<E\n$(cat %p)\nE", "[[ -n $(<%p) ]] && echo \"$(<%p)\"", "source %p",
    "sh %p", "sort --files0-from=%p", "sed -f %p a", "cat ${p:-%p}", "i=%p; cat $i", "i=%p; j=$i; cat \"$j\"" }
    :gsub("%%p", function() return file end))
end

local function reading()
  local out = {}
  for n = 1, random(1, 3) do
    out[n] = random() < 0.5 and reader() or pick { "cd d", "cd ..", "cd d", "! cd d", "cd nothing", "p=s.pem",
    "q=d/k",
      "p=a", "e=em", "dot=.pem", "q=*", "p=s; p+=.pem", "pushd d", "if cd d; then " .. reader() .. "; fi",
      "(cd d; " .. reader() .. ")", "{ cd d; " .. reader() .. "; }",
    "for n in 1 2; do " .. reader() .. "; cd ..; done",
      "for n in 1 2; do " .. reader() .. "; cd d; done", "g() { cd d; }; g", "eval cd d", "cd d | " .. reader(),
      "case a in a) cd d;; esac", "read p <<< s.pem", "export p=k", "false && cd d", "true || cd d", "cd \"$q\"",
      "while cd d; do " .. reader() .. "; break; done", "until ! cd d; do " .. reader() .. "; break; done" }
  end
  out[#out + 1] = reader()
  return table.concat(out, pick { "; ", " && ", " || ", "\n", " & ", " | ", "; " })
end

-- A little damage: bytes dropped, doubled or swapped find the places where two readings differ.
local function damage(s)
  for _ = 1, random(0, 2) do
    if #s > 2 and random() < 0.5 then
      local at = random(#s)
      local c = pick { "", "'", '"', "\\", "$", "(", ")", "`", "\n", ";", "#", " ", "{", "}", "<", "|", "&", "\\\n",
        "!" }
      s = s:sub(1, at - 1) .. c .. s:sub(at + random(0, 1))
    end
  end
  return s
end

-- ---- running ---------------------------------------------------------------------------------

-- Inside the sandbox: reads NUL-separated lines, prints the number of each line that reached a stub.
local driver = [[
mkdir -p /tmp/stubs /tmp/proj; cd /tmp/proj
for p in $REAL; do q=$(command -v $p) && ln -s "$(readlink -f "$q")" /tmp/stubs/$p; done
ln -sf /bin/dash /tmp/stubs/sh 2>/dev/null
for p in $DENIED; do printf '#!/bin/sh\n: > /tmp/called\n' > /tmp/stubs/$p; /bin/chmod +x /tmp/stubs/$p; done
n=0
while IFS= read -r -d '' line; do
  n=$((n + 1))
  /bin/rm -rf /tmp/proj /tmp/called; /bin/mkdir /tmp/proj; cd /tmp/proj
  printf '1\nrm x\na b\n' > f; : > a; : > x.c; : > '-e1e rm x #'; : > '--compress-program=rm'
  if [ -n "$SECRET" ]; then
    /bin/rm -f ./-*; /bin/mkdir d; echo "$SECRET" | /usr/bin/tee s.pem d/k >/dev/null; echo s.pem > a; echo k > d/b
  fi
  (ulimit -t 3;
PATH=/tmp/stubs HOME=/tmp/proj exec /usr/bin/timeout -s KILL 4 /bin/bash -c "$line" </tmp/proj/f >/tmp/out 2>&1)
  [ -n "$SECRET" ] && /bin/grep -qs "$SECRET" /tmp/out && echo $n
  [ -e /tmp/called ] && echo $n
done
exit 0
]]

local sandbox = "bwrap --unshare-all --die-with-parent --new-session --ro-bind / / --dev /dev --proc /proc --tmpfs "
  .. "/tmp --tmpfs /var/tmp "
  .. "--tmpfs /run --clearenv --setenv PATH /usr/bin:/bin --setenv REAL '" .. real .. "' --setenv DENIED '"
    .. table.concat(denied, " ") .. "' "

local function run(lines, secret)
  local result = os.tmpname()
  local start = ("%s --setenv SECRET '%s' "):format(sandbox, secret or "")
  local pipe = assert(io.popen(start .. "/bin/bash -c '" .. driver:gsub("'", "'\\''") .. "' >" .. result, "w"))
  for _, line in ipairs(lines) do pipe:write(line, "\0") end
  local ok = pipe:close()
  local hits = {}
  for n in io.lines(result) do hits[#hits + 1] = tonumber(n) end
  os.remove(result)
  return ok, hits
end

local ok, hits = run { "rm x", "echo rm x", "echo a | xargs rm", "sh -c 'rm x'" }
if not ok then
  print("property: skipped, bubblewrap does not work here")
  return
end
assert(#hits == 3 and hits[1] == 1 and hits[2] == 3 and hits[3] == 4, "property: the recorder does not work")

local rules = {}
for name in (real .. " ls date cd"):gmatch("%S+") do
  if not ("env timeout nice nohup setsid stdbuf xargs sh dash bash"):find("%f[%a]" .. name .. "%f[%A]") then
    rules[#rules + 1] = { verdict = "allow", rule = name .. " *", source = "allow" }
  end
end
for _, name in ipairs(denied) do rules[#rules + 1] = { verdict = "deny", rule = name .. " *", source = "deny" } end
local p = permissions.new { rules = rules, builtin = false, project = "/tmp/proj" }

-- The same with rules about files: never milder.
local guarded = table.move(rules, 1, #rules, 1, {})
for _, rule in ipairs { "read(**/*.pem)", "read(d/k)", "write(**/x*)" } do
  guarded[#guarded + 1] = { verdict = "deny", rule = rule, source = "deny" }
end
guarded = permissions.new { rules = guarded, builtin = false, project = "/tmp/proj", home = "/tmp/proj" }
local rank = { allow = 1, ask = 2, deny = 3 }

local allowed, verdicts = {}, { allow = 0, ask = 0, deny = 0 }
for _ = 1, count do
  depth, calm = 0, random() < 0.6
  local line = damage(gen.line())
  local verdict = p:check({ class = "exec", command = line }).verdict
  assert(rank[guarded:check({ class = "exec", command = line }).verdict] >= rank[verdict], line)
  verdicts[verdict] = verdicts[verdict] + 1
  if verdict == "allow" then allowed[#allowed + 1] = line end
end
ok, hits = run(allowed)
assert(ok, "property: the sandbox failed")
for _, n in ipairs(hits) do print(("UNSAFE: allowed, but ran a forbidden program:\n%s\n"):format(allowed[n])) end
print(("property: seed %d, %d lines: %d allow, %d ask, %d deny; %d unsafe"):format(seed, count, verdicts.allow,
  verdicts.ask,
  verdicts.deny, #hits))
local unsafe = #hits

ok, hits = run({ "cat a", "cat s.pem", "cat d/k" }, "hunter2")
assert(ok and #hits == 2, "property: a file that is printed goes unseen")
allowed, verdicts = {}, { allow = 0, ask = 0, deny = 0 }
for _ = 1, count do
  local line = reading()
  local verdict = guarded:check({ class = "exec", command = line }).verdict
  verdicts[verdict] = verdicts[verdict] + 1
  if verdict == "allow" then allowed[#allowed + 1] = line end
end
ok, hits = run(allowed, "hunter2")
assert(ok, "property: the sandbox failed")
for _, n in ipairs(hits) do print(("UNSAFE: allowed, but printed a forbidden file:\n%s\n"):format(allowed[n])) end
print(("property: reading, %d lines: %d allow, %d ask, %d deny; %d unsafe"):format(count, verdicts.allow, verdicts.ask,
  verdicts.deny, #hits))
if unsafe + #hits > 0 then os.exit(1) end

-- The parser: what it finds, what it refuses, and that it stays linear.
local shell = require "terret.shell"

local function parse(text, options) return shell.parse(text, options) end

-- A compact picture of a tree, for comparison.
local show
local function show_word(w)
  if w.static then return w.text end
  local out = {}
  for i, t in ipairs(w.parts) do
    out[i] = (t.k == "s" or t.k == "t" or t.k == "g") and t.s or t.k == "v" and "<" .. t.name .. ">"
      or t.k == "a" and "<arith>" or "<" .. t.k .. ":" .. show(t.body) .. ">"
  end
  return table.concat(out)
end

local function show_node(n)
  local out = {}
  if n.type == "simple" then
    for _, a in ipairs(n.assigns) do
      local v = a.array and {} or show_word(a.value)
      if a.array then
        for i, w in ipairs(a.value) do v[i] = show_word(w) end
        v = "(" .. table.concat(v, ",") .. ")"
      end
      out[#out + 1] = a.name .. "=" .. v
    end
    for _, w in ipairs(n.words) do out[#out + 1] = "[" .. show_word(w) .. "]" end
  elseif n.type == "pipeline" then
    for i, c in ipairs(n.commands) do out[i] = show_node(c) end
    return "pipe{" .. table.concat(out, "|") .. "}"
  elseif n.type == "function" then
    return "function " .. n.name .. show_node(n.body)
  elseif n.type == "coproc" then
    return "coproc " .. show_node(n.body)
  else
    if n.words then for _, w in ipairs(n.words) do out[#out + 1] = "[" .. show_word(w) .. "]" end end
    for _, l in ipairs(n.lists or {}) do out[#out + 1] = show(l) end
    out = { n.type .. "{" .. table.concat(out, " ") .. "}" }
  end
  for _, r in ipairs(n.redirs or {}) do
    out[#out + 1] = (r.fd or r.var or "") .. r.op .. show_word(r.body or r.target)
  end
  return table.concat(out, "")
end

function show(list)
  local out = {}
  for i, n in ipairs(list.items) do out[i] = show_node(n) .. (list.ops[i] or "") end
  return table.concat(out)
end

local function picture(text)
  local tree, reason = parse(text)
  return tree and show(tree) or "nil: " .. reason
end

describe("shell.parse", function()
  local same = {
    { "", "" }, { "   # only a comment", "" }, { "\n\n", "" },
    { "ls -la", "[ls][-la]" }, { "a;b", "[a];[b]" }, { "a&&b||c", "[a]&&[b]||[c]" }, { "a&b", "[a]&[b]" },
    { "a|b|&c", "pipe{[a]|[b]|[c]}" }, { "! a", "pipe{[a]}" }, { "time -p a", "pipe{[a]}" }, { "a\nb\n", "[a];[b];" },
    { "a # x\nb", "[a];[b]" }, { "a#x", "[a#x]" }, { "a \\\n b", "[a][b]" }, { "a\\\nb", "[ab]" },
    -- quotes
    { "'a b' \"c d\"", "[a b][c d]" }, { "a'b'\"c\"\\d", "[abcd]" }, { "''", "[]" }, { "a''", "[a]" },
    { "\"a\\$b\\\\c\\d\"", "[a$b\\c\\d]" }, { "$'a\\n\\x41\\101\\u00e9\\''", "[a\nAA\u{e9}']" }, { "$\"a\"", "[a]" },
    { "\"a'b\"", "[a'b]" }, { "'a\"b'", "[a\"b]" }, { "a\\ b", "[a b]" }, { "\\;", "[;]" }, { "a\\\n\\\nb", "[ab]" },
    -- expansions
    { "$x ${x} $1 $@ $?", "[<x>][<x>][<1>][<@>][<?>]" }, { "\"a $x\"", "[a <x>]" }, { "$", "[$]" }, { "a$", "[a$]" },
    { "$(a b)", "[<c:[a][b]>]" }, { "`a`", "[<c:[a]>]" }, { "`a \\`b\\``", "[<c:[a][<c:[b]>]>]" },
    { "\"$(a \"b\")\"", "[<c:[a][b]>]" }, { "<(a) >(b)", "[<p:[a]>][<p:[b]>]" }, { "$((1+2))", "[<arith>]" }, {
      "$[1]", "[<arith>]" },
    { "$((a) | b)", "[<c:pipe{subshell{[a]}|[b]}>]" }, { "$( (a) )", "[<c:subshell{[a]}>]" }, { "${x:-$(a)}", "[<x>]" },
    { "*.c a?b [ab]", "[*.c][a?b][[ab]]" }, { "~/x", "[~/x]" }, { "$\\\n(a)", "[<c:[a]>]" }, { "$x\\\ny", "[<xy>]" },
    { "{a,b}", "[a][b]" }, { "x{a,b}y", "[xay][xby]" }, { "{1..3}", "[1][2][3]" }, { "{a}", "[{a}]" }, { "{a,b",
      "[{a,b]" },
    { "{a,{b,c}}d", "[ad][bd][cd]" }, { "{,x}", "[x]" }, { "{a..e..2}", "[a][c][e]" }, { "{01..03}", "[01][02][03]" },
    { "'{a,b}'", "[{a,b}]" }, { "{a\\,b}", "[{a,b}]" }, { "{a,\"b c\"}", "[a][b c]" }, { "{3..1}", "[3][2][1]" }, {
      "a{b,c}}", "[ab}][ac}]" },
    -- assignments
    { "A=1", "A=1" }, { "A=1 b", "A=1[b]" }, { "A=$(b) c", "A=<c:[b]>[c]" }, { "A=(1 2)", "A=(1,2)" }, { "a[1+1]=2",
      "a=2" },
    { "A+=x", "A=x" }, { "a A=1", "[a][A=1]" }, { "'A'=1", "[A=1]" }, { "A=", "A=" }, { "P\\\nQ=1", "PQ=1" }, {
      "x={a,b}", "x={a,b}" },
    -- redirections
    { "a>b", "[a]>b" }, { "a >b 2>&1", "[a]>b2>&1" }, { "a &>b", "[a]&>b" }, { ">b a", "[a]>b" }, { "a 2>>b <c",
      "[a]2>>b<c" },
    { "a <<<b", "[a]<<<b" }, { "a >|b", "[a]>|b" }, { "a <>b", "[a]<>b" }, { "a {f}>b", "[a]f>b" }, { "a 2 >b",
      "[a][2]>b" }, { "a2>b", "[a2]>b" },
    { "a <<E\nx $y\nE\nb", "[a]<<x <y>\n;[b]" }, { "a <<'E'\n$y\nE", "[a]<<$y\n;" }, { "a <<-E\n\tx\n\tE",
      "[a]<<-x\n;" },
    { "a <<E; b\nx\nE", "[a]<<x\n;[b];" }, { "a <<A <<B\n1\nA\n2\nB", "[a]<<1\n<<2\n;" }, { "a <<\\E\n$x\nE",
      "[a]<<$x\n;" },
    -- compound commands
    { "{ a; b; }", "group{[a];[b];}" }, { "(a;b)", "subshell{[a];[b]}" }, { "((a))", "arith{}" }, { "((a) ; b)",
      "subshell{subshell{[a]};[b]}" },
    { "if a; then b; elif c; then d; else e; fi", "branch{[a]; [b]; [c]; [d]; [e];}" }, { "while a; do b; done >c",
      "loop{[a]; [b];}>c" },
    { "for i in a b; do c; done", "for{[a] [b] [c];}" }, { "for i do a; done", "for{[a];}" }, {
      "for ((i=0;i<2;i++)); do a; done", "arith{[a];}" },
    { "for i in a; { b; }", "for{[a] [b];}" }, { "case x in a|b) c;; (d) e;& *) ;; esac", "case{[c] [e]}" }, {
      "select i in a; do b; done", "select{[a] [b];}" },
    { "f() { a; }", "function fgroup{[a];}" }, { "function f { a; }", "function fgroup{[a];}" }, { "f () (a)",
      "function fsubshell{[a]}" },
    { "coproc a b", "coproc [a][b]" }, { "coproc N { a; }", "coproc group{[a];}" }, { "[[ a == b* && -n $c ]]",
      "cond{[a] [==] [b*] [-n] [<c>]}" },
    { "[[ a =~ ^(b|c)$ ]]", "cond{[a] [=~] [^(b|c)$]}" }, { "if a\nthen\nb\nfi", "branch{[a]; [b];}" }, {
      "a && # c\n b", "[a]&&[b]" },
    { "!(a)", "pipe{subshell{[a]}}" }, { "echo if then", "[echo][if][then]" }, { "if\\\n a; then b; fi",
      "branch{[a]; [b];}" },
  }
  for _, case in ipairs(same) do
    it("reads " .. case[1]:gsub("\n", "\\n"), function() assert.equal(case[2], picture(case[1])) end)
  end

  local refused = { "'", '"', "`", "$(", "${", "$((1", "(", "{ a", "a)", "a }; }", "if a; then b", "if a; fi",
    "while a; done", "for", "for i in",
    "for 1 in a; do b; done", "case", "case x", "case x in a", "case x in a) b", "a &&", "a ||", "a |", "| a",
      "&& a", "; a", "a ;; b", "a | | b",
    "a && && b", "a >", "a <<E", "a <<E\nx", "f(", "f( a", "f() a", "function", "[[ a", "[[ a & b ]]", "a\\",
      "a \0 b", "a\rb", "a\u{a0}b", "a\u{200b}",
    "a\xff", "# \u{202e}", "a <<'E\nx", "${x!}", "${", "${ a; }", "${x@P", "$'a\\0b'", "$'\\x{41}'", "x=(a",
      "x=(a)b", "then", "fi", "a; do", "!", nil }
  refused[#refused] = nil
  for _, text in ipairs(refused) do
    it("refuses " .. ("%q"):format(text), function()
      local tree, reason = parse(text)
      assert.is_nil(tree)
      assert.equal("string", type(reason))
      assert.is_true(#reason > 0)
    end)
  end

  it("allows odd characters in quotes", function()
    for _, text in ipairs { "echo '\u{202e}'", "echo \"\u{a0}\"", "echo $'\\x01'", "echo \u{e9}\u{4e2d}" } do
      assert.truthy(parse(text), text)
    end
  end)

  it("hands out the whole commands before a mistake", function()
    local tree, _, partial = parse("a; b\nc $(")
    assert.is_nil(tree)
    assert.equal("[a];[b];", show(partial))
  end)

  it("tells literal from dynamic", function()
    local words = parse("a 'b' \"$c\" d* ~ {e,f} $((1))").items[1].words
    local static = {}
    for i, w in ipairs(words) do static[i] = w.static end
    assert.same({ true, true, false, false, false, true, true, false }, static)
  end)

  it("notes what other shells read differently", function()
    assert.truthy(parse("[[ a ]]").bashisms["[["])
    assert.truthy(parse("a &>b").bashisms["&>"])
    assert.is_nil(next(parse("a >b 2>&1; (c)").bashisms))
    assert.equal("[[[][a]||[rm][]]]", show(parse("[[ a || rm ]]", { posix = true })))
  end)

  it("bounds size and depth by options", function()
    assert.is_nil(parse("a b c d e", { max_nodes = 3 }))
    assert.truthy(parse("a b c d e", { max_nodes = 30 }))
    assert.is_nil(parse(("{ "):rep(9) .. "a" .. ("; }"):rep(9), { max_depth = 8 }))
    assert.is_nil(parse("aaaa", { max_bytes = 3 }))
    assert.has_error(function() parse("a", { max_node = 3 }) end)
    assert.has_error(function() parse(nil) end)
  end)

  it("quotes", function()
    for _, s in ipairs { "", "a", "a b", "it's", "$x", "a\nb", "-n", "'" } do
      local w = parse("x " .. shell.quote(s)).items[1].words[2]
      assert.is_true(w.static)
      assert.equal(s, w.text)
    end
  end)

  it("takes hostile text of 256 KiB in less than half a second", function()
    for _, unit in ipairs { "(", "$(", "`", "'", "$((", "((", "{a,", "a;", "$x", "${x:-", "a\\\n", "[[ ", "f(){ ",
      "<<E\n", "\"$(", "{a,b}" } do
      local before = os.clock()
      parse(unit:rep((1 << 18) // #unit))
      assert.is_true(os.clock() - before < 0.5, unit)
    end
  end)
end)

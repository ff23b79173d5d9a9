-- scripts/frontmatter.lua: agrees with YAML where the text is YAML, loads what is plainly meant.
local frontmatter = require "terret.frontmatter"

local function read(yaml)
  local found = frontmatter.parse("---\n" .. yaml .. "\n---\nBody\n")
  return found.fields, found.problems
end

-- What `d:` holds, and whether a problem was named.
local function value(yaml)
  local fields, problems = read(yaml)
  local v = fields.d
  return v and v.text, #problems > 0, v and v.kind, problems
end

-- {yaml, text}: valid YAML; the values are what a YAML library reads.
local VALID = {
  { "d: plain", "plain" }, { "d:    blanks   ", "blanks" }, { "d:\ttab", "tab" },
  { "d: a # comment", "a" }, { "d: C# and F#", "C# and F#" }, { "d: a\n  b\n  c", "a b c" },
  { "d: a\n\n  b", "a\nb" }, { "d:\n  on the next line\n  and on", "on the next line and on" },
  { "d: https://example.org:8080/a", "https://example.org:8080/a" }, { "d: a:b", "a:b" },
  { 'd: "a: b"', "a: b" }, { "d: 'It''s'", "It's" }, { 'd: "a" # c', "a" }, { "d: ''", "" },
  { 'd: "\\n\\t\\"\\\\\\/\\x41\\u00e9\\U0001F600\\e\\0"', "\n\t\"\\/Aé\u{1F600}\27\0" },
  { 'd: "\\ud83d\\ude80"', "\u{1F680}" }, { 'd: "one\n  two\n\n  three"', "one two\nthree" },
  { 'd: "one\\\n  two"', "onetwo" }, { 'd: "a \\\\ b"', "a \\ b" }, { "d: 'one\n  two'", "one two" },
  { "d: |\n  a\n    b\n  c", "a\n  b\nc\n" }, { "d: |-\n  a\n  b\n", "a\nb" }, { "d: |+\n  a\n\n", "a\n\n\n" },
  { "d: >\n  a\n  b", "a b\n" }, { "d: >-\n  a\n  b", "a b" }, { "d: >-\n  a\n\n  b", "a\nb" },
  { "d: >-\n  a\n    x\n  b", "a\n  x\nb" }, { "d: |2\n    a\n  b", "  a\nb\n" }, { "d: |  # why\n  a", "a\n" },
  { "d: |\n  # no comment\n  k: v", "# no comment\nk: v\n" }, { "d: |\n  a\n\n\n  b", "a\n\n\nb\n" },
  { "d: |\nx: 1", "" }, { "d: &a text\nx: *a", "text" }, { "d: !!str 5", "5" }, { "d: true", "true" },
  { "# c\n\nd: a\n\n# e", "a" }, { "'d': a", "a" }, { '"d" : a', "a" }, { "  d: a\n  x: b", "a" },
  { "x:\n  d: no\nd: yes", "yes" }, { "x:\n- d\n- e\nd: a", "a" }, { "x: [1,\n  2]\nd: a", "a" },
}

-- {yaml, text}: not YAML, or another thing in YAML; the meaning is plain.
local LENIENT = {
  { "d: Use it: for maps", "Use it: for maps", false }, { "d: the user says:", "the user says:", false },
  { "d: a\n  pairs with: b", "a pairs with: b", false }, { "d: 'Tis for maps", "'Tis for maps", true },
  { 'd: "Maps" are drawn', '"Maps" are drawn', true }, { "d: [BETA] Draws", "[BETA] Draws", true },
  { "d: [unclosed", "[unclosed", true }, { "d: @mentions", "@mentions", true }, { "d: %CPU", "%CPU", true },
  { "d: `code` first", "`code` first", true }, { "d: !important", "!important", true },
  { "d: *bold* text", "*bold* text", true }, { "d: - a dash", "- a dash", true },
  { "d: > quoted", "> quoted", true }, { "d: |x", "|x", true }, { "d: {{ template }} text", "{{ template }} text",
    true },
  { 'd: "C:\\path\\dir"', "C:\\path\\dir", true }, { "d:nospace", "nospace", true },
  { "d: long text\nthat goes on", "long text that goes on", true }, { "d: a\nd: b", "a", true },
  { "d: fixes #12", "fixes", true }, { "d: *nowhere", "*nowhere", true },
  { "d:\n  Use when: the day comes", "Use when: the day comes", false },
}

describe("frontmatter", function()
  for _, c in ipairs(VALID) do
    it("reads " .. ("%q"):format(c[1]):gsub("\\\n", "|"), function()
      local text, problem, _, problems = value(c[1])
      assert.equal(c[2], text)
      assert.is_false(problem, problems[1])
    end)
  end

  for _, c in ipairs(LENIENT) do
    it("loads " .. ("%q"):format(c[1]):gsub("\\\n", "|"), function()
      local text, problem = value(c[1])
      assert.equal(c[2], text)
      assert.equal(c[3], problem)
    end)
  end

  it("knows what is no text", function()
    for yaml, kind in pairs { ["d:"] = "null", ["d: ~"] = "null", ["d: null"] = "null", ["d: # c"] = "null",
      ["d: [a, b]"] = "list", ["d: {a: b}"] = "map", ["d:\n  - a\n  - b"] = "list", ["d:\n- a"] = "list",
      ["d:\n  k: v"] = "map" } do
      local _, problem, got = value(yaml)
      assert.equal(kind, got, yaml)
      assert.is_false(problem)
    end
  end)

  it("reads lists of words", function()
    assert.same({ "a", "b, c", "d" }, read('d: [a, "b, c", \'d\']').d.items)
    assert.same({ "ray[train]", "torch" }, read("d: [ray[train], torch]").d.items)
    assert.same({ "Bash", "Read: x" }, read("d:\n- Bash\n- 'Read: x'\n").d.items)
    assert.same({ "don't", "x" }, read("d: [don't, x]").d.items)
  end)

  it("says the line of a problem, counted in the file", function()
    local _, problems = read("a: b\nd: @x")
    assert.truthy(problems[1]:find("^line 3: "))
  end)

  describe("fences", function()
    local function parse(text)
      return frontmatter.parse(text)
    end

    it("takes BOM, CRLF, mixed ends, lone CR and blanks behind the fence", function()
      for _, text in ipairs { "\u{feff}---\nd: a\n---\nB", "---\r\nd: a\r\n---\r\nB", "---\r\nd: a\n---\nB",
        "---\rd: a\r---\rB", "---  \nd: a\n---\t\nB" } do
        local found = parse(text)
        assert.equal("a", found.fields.d.text)
        assert.same({}, found.problems)
        assert.equal("B", text:sub(found.body))
      end
    end)

    it("takes four dashes, empty lines in front, and three dots, with a word about it", function()
      assert.equal("a", parse("----\nd: a\n----\n").fields.d.text)
      assert.equal(1, #parse("\n\n---\nd: a\n---\n").problems)
      assert.same({}, parse("---\nd: a\n...\nB").problems)
    end)

    it("reads a JSON object", function()
      assert.equal("x: y", parse('---\n{"d": "x: y", "l": [1]}\n---\n').fields.d.text)
    end)

    it("does not take the body for keys where no fence closes", function()
      local found = parse("---\nd: a\n\n# Title\nallowed-tools: all\n")
      assert.equal("a", found.fields.d.text)
      assert.is_nil(found.fields["allowed-tools"])
      assert.is_false(found.closed)
      assert.equal(1, #found.problems)
    end)

    it("ends at the first fence, but not inside a block", function()
      local found = parse("---\nd: |\n  a\n  ---\n  b\n---\nname: no\n---\n")
      assert.equal("a\n---\nb\n", found.fields.d.text)
      assert.is_nil(found.fields.name)
    end)

    it("says when there is none, when the file is empty, and when it is UTF-16", function()
      assert.truthy(parse("# Maps\n").problems[1]:find("no front matter", 1, true))
      assert.truthy(parse("").problems[1]:find("empty", 1, true))
      assert.truthy(parse("\xFF\xFE-\0-\0-\0").problems[1]:find("UTF-16", 1, true))
    end)
  end)

  it("stays bounded for hostile files", function()
    local n = 20000
    local start = os.clock()
    for _, text in ipairs {
      "x: " .. ("["):rep(n), "x: " .. ('["'):rep(n), "x: " .. ("&a "):rep(n), "x: " .. ('"\\'):rep(n),
      ("k: v\n"):rep(n), ("k: *a\n"):rep(n), ("&a\n  "):rep(n), "x:\n" .. ("- - "):rep(n), (" "):rep(n) .. "x: y",
      "x: " .. (" "):rep(n) .. "y", "x: a" .. (" \t"):rep(n) .. "#", "x: |\n" .. ("\n"):rep(n), ("\n"):rep(n),
      "x: '" .. ("''"):rep(n), "x: >\n" .. (" a\n"):rep(n), ("a: &a [*a]\n"):rep(100), ("x"):rep(n), (":"):rep(n),
    } do
      local found = frontmatter.parse("---\n" .. text .. "\n---\n")
      assert.is_true(#found.problems <= 20)
    end
    assert.is_true(os.clock() - start < 5)
  end)
end)

-- wc.lua - a tool in one file: counts the lines, words and bytes of a file.
--
-- Copy it to ~/.config/terret/tools/ and it is there: `terret tools` lists it, `terret check` tests it.
return {
  name = "wc",
  description = "Counts the lines, words and bytes of a text file.",
  permission = "read", -- what permission rules speak about: read, write, exec, net or none
  parameters = { path = { "string", "the file" } },
  run = function(args, call)
    -- call:read keeps to the sandbox's policy; what it refuses comes back as nil, message.
    local data, message = call:read(args.path)
    if not data then return nil, message end
    local _, lines = data:gsub("\n", "")
    local _, words = data:gsub("%S+", "")
    return ("%d lines, %d words, %d bytes"):format(lines, words, #data)
  end,
}

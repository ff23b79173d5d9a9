-- Every provider that is found: pure functions, whatever an endpoint sends.
local json = require "terret.json"
local registry = require "terret.registry"
local store = require "terret.store"

local MESSAGES = {
  { role = "system", content = "Be short." },
  { role = "user", content = "Read a.txt, \"please\" \u{1F600}\n" },
  { role = "assistant", content = "", tool_calls = { { id = "c1", name = "read", arguments = '{"path":"a.txt"}' },
    { id = "c2", name = "todo", arguments = "{}" } } },
  { role = "tool", call_id = "c1", name = "read", content = "one", ok = true },
  { role = "tool", call_id = "c2", name = "todo", content = "no", ok = false },
  { role = "assistant", content = "It says one." },
  { role = "user", content = "Thanks." },
}

-- Events of any dialect, and of none.
local EVENTS = { "", "x", "[DONE]", "null", "5", "[]", "{}", "{", [[{"choices":5}]], [[{"choices":[]}]],
  [[{"choices":[null]}]], [[{"choices":[{"delta":null}]}]], [[{"choices":[{"delta":{"tool_calls":5}}]}]],
  [[{"choices":[{"delta":{"tool_calls":[null,5,{"index":-1},{"index":1e9,"function":5}]}}]}]],
  [[{"choices":[{"delta":{"content":{"a":[1]}},"finish_reason":{}}]}]], [[{"usage":"x"}]],
  [[{"usage":{"prompt_tokens":"x","completion_tokens":-1e400}}]], [[{"error":null}]], [[{"error":{"message":{}}}]],
  [[{"error":[1]}]], [[{"type":5}]], [[{"type":"message_start","message":5}]],
  [[{"type":"content_block_start","index":-5,"content_block":null}]],
  [[{"type":"content_block_delta","index":99,"delta":{"type":"input_json_delta","partial_json":5}}]],
  [[{"type":"content_block_delta","delta":{"type":"text_delta","text":{}}}]], [[{"type":"message_delta","usage":[]}]],
  [[{"type":"message_delta","delta":{"stop_reason":5}}]], [[{"type":"error","error":5}]],
  [[{"type":"response.output_item.added","item":5,"output_index":"x"}]],
  [[{"type":"response.output_text.delta","delta":5}]], [[{"type":"response.output_text.delta","delta":null}]],
  [[{"type":"response.function_call_arguments.delta","output_index":3,"delta":{}}]],
  [[{"type":"response.completed","response":{"output":5,"usage":7}}]], [[{"type":"response.failed","response":null}]],
  [[{"output":[null,{"type":"message","content":5}]}]], [[{"content":[5,null,{"type":"tool_use","input":5}]}]],
  ("["):rep(500) }

local NAMES = { "message", "error", "content_block_delta", "message_start", "response.completed" }

local function deep_copy(x)
  if type(x) ~= "table" then return x end
  local out = {}
  for k, v in pairs(x) do out[k] = deep_copy(v) end
  return out
end

describe("providers:", function()
  for _, name in ipairs(registry.names("providers")) do
    local provider = assert(registry.load("providers", name))

    -- A view over the first n messages, encoded afresh.
    local function view_of(n)
      local st = store.new()
      local view = st:view()
      for i = 1, n or #MESSAGES do view:push(st:add(provider.encode(deep_copy(MESSAGES[i])), 1)) end
      return view
    end

    local function request(changes)
      local tools = provider.encode_tools { { name = "read", description = "Reads.",
        schema = '{"properties":{"path":{"type":"string"}},"type":"object"}' } }
      local r = { base_url = "https://api.example.org/v1", key = "KEY", model = "m", tools = tools, stream = true,
        max_output = 100, sampling = { temperature = 0.5 }, session = "S" }
      for k, v in pairs(changes or {}) do r[k] = v end
      return r
    end

    describe(name, function()
      it("is named as its file", function() assert.equal(name, provider.name) end)

      if provider.encode then
        it("encodes to the same canonical JSON each time, and changes nothing", function()
          for _, message in ipairs(MESSAGES) do
            local given = deep_copy(message)
            local first = provider.encode(given)
            assert.same(message, given)
            assert.equal(first, provider.encode(deep_copy(message)))
            -- A fragment may be several messages, or none, between commas.
            assert.truthy(json.decode("[" .. first .. "]"), first)
            assert.equal("[" .. first .. "]", json.canonical("[" .. first .. "]"))
          end
        end)
      end

      if provider.build then
        it("builds the same bytes each time, and changes nothing", function()
          local before = request()
          local url, headers, body = provider.build(before, view_of())
          assert.same(request(), before)
          local url2, headers2, body2 = provider.build(request(), view_of())
          assert.equal(url, url2)
          assert.same(headers, headers2)
          assert.equal(body, body2)
        end)

        it("builds what HTTP can send", function()
          for _, changes in ipairs { {}, { stream = false }, { tools = "[]" }, { tail = provider.encode(MESSAGES[2]) },
            { tool_choice = "none" } } do
            local url, headers, body = provider.build(request(changes), view_of())
            assert.truthy(url:find("^https://api%.example%.org/"))
            assert.equal("table", type(json.decode(body)), body)
            for _, line in ipairs(headers) do
              assert.truthy(line:find("^[%w%-]+: "))
              assert.is_nil(line:find("[%c]"))
            end
          end
        end)

        it("puts the key into the head, never into the body or the URL", function()
          local url, headers, body = provider.build(request { key = "SECRET-KEY" }, view_of())
          assert.is_nil(url:find("SECRET-KEY", 1, true))
          assert.is_nil(body:find("SECRET-KEY", 1, true))
          assert.truthy(table.concat(headers, "\n"):find("SECRET-KEY", 1, true))
          local _, without = provider.build(request { key = false }, view_of())
          assert.is_nil(table.concat(without, "\n"):find("false", 1, true))
        end)
      end

      if provider.parse then
        it("takes any event without raising", function()
          for _, event_name in ipairs(NAMES) do
            local acc = provider.start()
            for _, data in ipairs(EVENTS) do
              local parts = provider.parse({ event = event_name, data = data }, acc)
              assert.equal("table", type(parts))
              for _, part in ipairs(parts) do
                local shown = part.type == "text" or part.type == "reasoning"
                if shown then assert.equal("string", type(part.text)) end
              end
            end
            local result = provider.finish(acc)
            assert.equal("table", type(result.tool_calls))
          end
        end)

        it("calls nothing complete that it has not seen the end of", function()
          assert.is_falsy(provider.finish(provider.start()).complete)
          local acc = provider.start()
          provider.parse({ data = [[{"choices":[{"delta":{"content":"half"}}]}]] }, acc)
          assert.is_falsy(provider.finish(acc).complete)
        end)

        it("keeps two answers apart", function()
          local one, two = provider.start(), provider.start()
          provider.parse({ data = EVENTS[1] }, one)
          assert.are_not.equal(one, two)
          assert.same(provider.start(), two)
        end)
      end

      if provider.answer then
        it("answers a list of events", function()
          local events = provider.answer { script = { { text = "hi" } }, turn = 1, messages = "[]", model = "m" }
          assert.is_true(#events > 0)
          for _, e in ipairs(events) do assert.equal("string", type(e.type)) end
        end)
      end
    end)
  end
end)

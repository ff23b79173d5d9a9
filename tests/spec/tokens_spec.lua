-- terret.tokens: the estimate is near what a tokenizer counts, whatever the kind of text.
local tokens = require "terret.tokens"

-- Texts with their exact counts in the o200k vocabulary.  The estimate must be within a tenth.
local measured = {
  prose = { 135, [[
The store keeps every message once, in the form in which it will be sent. A request is then nothing more than
a head, a row of these pieces and a tail, which means that the beginning of the next request is the same as the
beginning of the last one, byte for byte. Providers reward this: what they have seen before is read from a cache
at a tenth of the price. Nobody has to be careful about it, because there is no code that could get it wrong.
It's still possible to shorten a conversation, but that is done rarely and in large steps, since each change
throws away everything that was cached behind it.
]] },
  c = { 167, [[
static bool grow(struct list *l, size_t want) {
    if (want <= l->cap) return true;
    size_t cap = l->cap ? l->cap * 2 : 8;
    while (cap < want) cap *= 2;
    void *p = realloc(l->items, cap * sizeof *l->items);
    if (p == NULL) {
        fprintf(stderr, "out of memory: %zu bytes\n", cap);
        return false;
    }
    l->items = p;
    l->cap = cap;
    return true;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) printf("%d: %s\n", i, argv[i]);
    return EXIT_SUCCESS;
}
]] },
  lua = { 100, [[
local M = {}

---@param list string[]
---@return table<string, integer>
function M.histogram(list)
  local count = {}
  for _, word in ipairs(list) do
    local key = word:lower():gsub("%W+", "")
    if key ~= "" then count[key] = (count[key] or 0) + 1 end
  end
  return setmetatable(count, { __index = function() return 0 end })
end

return M
]] },
  python = { 188, [[
import argparse
from pathlib import Path

class Walker:
    """Walks a tree and adds up the sizes of what it finds."""

    def __init__(self, root: Path, follow_links: bool = False) -> None:
        self.root = root
        self.follow_links = follow_links
        self.total_size = 0

    def visit(self, path):
        for entry in sorted(path.iterdir()):
            if entry.is_symlink() and not self.follow_links:
                continue
            if entry.is_dir():
                self.visit(entry)
            else:
                self.total_size += entry.stat().st_size

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    walker = Walker(parser.parse_args().root)
    walker.visit(walker.root)
    print(f"{walker.total_size / 1024:.1f} KiB")
]] },
  javascript = { 153, [[
import { readFile } from 'node:fs/promises';

export async function loadConfig(fileName, defaults = {}) {
  const text = await readFile(fileName, 'utf8').catch(() => '{}');
  const parsed = JSON.parse(text);
  return Object.entries({ ...defaults, ...parsed })
    .filter(([key, value]) => value !== undefined && !key.startsWith('_'))
    .reduce((acc, [key, value]) => ({ ...acc, [key]: value }), {});
}

document.querySelectorAll('button.primary').forEach((el) => {
  el.addEventListener('click', (event) => {
    event.preventDefault();
    console.log(`clicked ${el.textContent.trim()}`);
  });
});
]] },
  json = { 118, [[
{"id": "msg_01", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Let me look."},
{"type": "tool_use", "id": "call_7", "name": "read", "input": {"path": "src/main.c", "offset": 120, "limit": 40}}],
"usage": {"input_tokens": 10234, "output_tokens": 87, "cache_read_input_tokens": 9984}, "stop_reason": "tool_use"}
]] },
  listing = { 223, [[
total 148
drwxr-xr-x  5 root root  4096 Mar 14 09:26 .
drwxr-xr-x 18 root root  4096 Mar 12 17:03 ..
-rw-r--r--  1 root root   217 Mar 14 09:20 .clang-format
-rw-r--r--  1 root root 18092 Mar 14 09:26 Makefile
-rw-r--r--  1 root root  3331 Mar 13 22:41 README.md
drwxr-xr-x  2 root root  4096 Mar 14 09:26 docs
-rwxr-xr-x  1 root root 91288 Mar 14 09:25 server
drwxr-xr-x  3 root root  4096 Mar 12 17:03 src
lrwxrwxrwx  1 root root    11 Mar 12 17:10 latest -> release-2.1
]] },
  paths = { 78, [[
/usr/include/x86_64-linux-gnu/curl/curl.h
/usr/include/lua5.4/lauxlib.h
/usr/lib/python3/dist-packages/pip/_internal/network/session.py
/home/user/project/node_modules/react-dom/cjs/react-dom.development.js
src/components/settings/ProfileForm.test.tsx
tests/integration/fixtures/session-0042.jsonl
]] },
  log = { 175, [[
2024-05-01T12:00:03.117Z INFO  [worker-3] processed order id=48213377 status=OK in 143ms
2024-05-01T12:00:03.402Z WARN  [worker-1] retrying request to 10.0.14.7:8443 (attempt 2 of 5)
2024-05-01T12:00:04.050Z ERROR [worker-3] connection refused: 10.0.14.9:5432
10.1.22.9 - - [01/May/2024:12:00:05 +0000] "GET /api/v1/items/8812 HTTP/1.1" 200 5123 "-" "curl/8.5.0"
]] },
  tests = { 84, [[
============================= test session starts ==============================
collected 12 items

tests/test_parser.py ..........F.                                        [100%]

=================================== FAILURES ===================================
____________________________ test_rejects_empty_input ____________________________
E       AssertionError: expected ValueError, got None
tests/test_parser.py:88: AssertionError
========================= 1 failed, 11 passed in 0.42s =========================
]] },
  hex = { 125, [[
8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4  a.txt
d7a8fbb307d7809469ca9abcb0082e4f8d5651e46d3cdb762d02d0bf37c9e592  b.txt
ef537f25c895bfa782526529a9b63d97aa631564d5d789c2b765448c8635fb6c  c.txt
]] },
  hexdump = { 105, [[
00000000: 7f45 4c46 0201 0100 0000 0000 0000 0000  .ELF............
00000010: 0300 3e00 0100 0000 306d 0000 0000 0000  ..>.....0m......
00000020: 4000 0000 0000 0000 a8b9 0100 0000 0000  @...............
]] },
  base64 = { 188, [[
nXmxo38xgBzRGmcG+0DWvVdSaEaQO7E+3lYkOenBuCOpYIm8px89Gm0tPK2zZpy9
UOFl5DQknYuCn0EWaYQql5kRA2zz6CIIbsqgB1pp/BeLqPg3GKqPO9H2XoFE5h2a
sw/LBqbBrY8pBucysQ9Nt4nTXqaMCIqz9kiBi6SmZWvgy244Kl3/cqwd2paQgTdH
i9U2z0t3it4f56kBCzNBwr0rSs7Ebt8oekO5shF1MGx2qBpXiZMiRzCBzSd7zR43
]] },
  numbers = { 51, [[
3.141592 2.718281 1.414213 1.732050 0.577215 1.618033
1024 65536 16777216 4294967296 1099511627776
]] },
  german = { 63, [[
Der Speicher hält jede Nachricht genau einmal, und zwar in der Form, in der sie später verschickt wird. Eine Anfrage
besteht dann nur noch aus einem Anfang, einer Reihe solcher Stücke und einem Ende. Kürzungen sind möglich, aber sie
kosten Geld, weil alles dahinter neu gelesen werden muss.
]] },
  russian = { 60, [[
Хранилище держит каждое сообщение один раз, в том виде, в котором оно будет отправлено. Запрос состоит из начала,
ряда таких кусков и конца. Сокращать разговор можно, но это стоит денег, потому что всё после изменения читается заново.
]] },
  chinese = { 65, [[
存储区只保存每条消息一次，保存的形式就是将来发送的形式。因此，下一次请求的开头与上一次完全相同，服务器可以从缓存中读取。
缩短对话是可能的，但是每次修改都会使后面的缓存失效，所以很少这样做。
]] },
  japanese = { 57, [[
このプログラムは、ファイルを読み込んで、その内容を画面に表示します。エラーが発生した場合は、メッセージを出力して終了します。
設定を変更するには、環境変数を使ってください。
]] },
  korean = { 37, [[
이 프로그램은 파일을 읽고 그 내용을 화면에 출력합니다. 오류가 발생하면 메시지를 표시하고 종료합니다.
설정을 바꾸려면 환경 변수를 사용하십시오.
]] },
}

describe("terret.tokens.estimate", function()
  for kind, case in pairs(measured) do
    it("is near the count of " .. kind, function()
      local count, text = case[1], case[2]
      local error_share = tokens.estimate(text) / count - 1
      assert(math.abs(error_share) <= 0.1, ("%s: %+.1f %% of %d"):format(kind, error_share * 100, count))
    end)
  end

  it("is near the count of all kinds together", function()
    local count, estimate = 0, 0
    for _, case in pairs(measured) do count, estimate = count + case[1], estimate + tokens.estimate(case[2]) end
    assert(math.abs(estimate / count - 1) <= 0.03)
  end)

  it("is exact where there is nothing to guess", function()
    local exact = { [""] = 0, ["a"] = 1, [" "] = 1, ["\n"] = 1, ["7"] = 1, ["123"] = 1, ["1234"] = 2, ["{"] = 1,
      [" the"] = 1, ["the cat and the dog"] = 5, ["\n\n    "] = 2, ["     "] = 1, ["1234567890"] = 4 }
    for text, count in pairs(exact) do assert.same({ text, count }, { text, tokens.estimate(text) }) end
  end)

  it("does not charge long repeats by the letter", function()
    for _, sign in ipairs { "-", "=", "*", "#", ".", "_", " " } do
      local n = tokens.estimate(sign:rep(1000))
      assert(n >= 4 and n <= 20, ("%q: %d"):format(sign, n))
    end
    for _, sign in ipairs { "\n", "\t", "─" } do
      local n = tokens.estimate(sign:rep(1000))
      assert(n >= 40 and n <= 120, ("%q: %d"):format(sign, n))
    end
  end)

  it("grows with the text", function()
    for _, case in pairs(measured) do
      local text = case[2]
      local one, ten = tokens.estimate(text), tokens.estimate(text:rep(10))
      assert(math.abs(ten - 10 * one) <= 0.02 * ten + 10)
    end
  end)

  it("takes any bytes", function()
    local seed = 7
    for n = 0, 200 do
      local bytes = {}
      for i = 1, n do
        seed = (seed * 1103515245 + 12345) & 0x7fffffff
        bytes[i] = string.char(seed >> 8 & 255)
      end
      local estimate = tokens.estimate(table.concat(bytes))
      assert.is_true(estimate <= 3 * n and estimate >= n // 8)
    end
    for _, bytes in ipairs { "\0", "\xff", "\xf0\x9f\x98", "a\xc3", "\xe6", " \xe6\x97", "é\0é", "\0\0\0a", " ", "(",
      "\xc2\xa0" } do
      assert.is_true(tokens.estimate(bytes) >= 1)
    end
  end)

  it("is linear for every kind of text", function()
    for _, piece in ipairs { "a", "A", "1", " ", "\n", "-", "é", "日", "\xff", "aB1", "😀", "\0", " (" } do
      local start = os.clock()
      tokens.estimate(piece:rep(1000000 // #piece))
      assert(os.clock() - start < 0.5, piece) -- a few milliseconds where this was written
    end
  end)

  it("raises on what is no string", function()
    assert.error_matches(function() tokens.estimate() end, "string expected")
    assert.error_matches(function() tokens.estimate({}) end, "string expected")
  end)
end)

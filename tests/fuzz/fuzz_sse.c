/* tests/fuzz/fuzz_sse.c - any bytes as an event stream: however it is cut, the events are the
 * same.  The first byte sets the longest event, the second one the cuts. */
#include "terret.h"

#include <lualib.h>
#include <stdio.h>

int luaopen_terret_sse(lua_State *L);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                    \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

/* A field of the event on top, with its length, or its absence. */
static void note_field(lua_State *L, tr_buf *notes, const char *key) {
    size_t n = 0;
    lua_getfield(L, -1, key);
    const char *s = lua_tolstring(L, -1, &n);
    char head[32];
    int len = snprintf(head, sizeof head, s ? "%s %zu:" : "no %s", key, n);
    CHECK(tr_buf_put(notes, head, (size_t)len) && tr_buf_put(notes, s, n));
    lua_pop(L, 1);
}

/* Calls a method of the parser at 2, notes the events that it returns. */
static void call(lua_State *L, const char *method, const char *bytes, size_t n, tr_buf *notes) {
    lua_getfield(L, 2, method);
    lua_pushvalue(L, 2);
    if (bytes) lua_pushlstring(L, bytes, n);
    lua_call(L, bytes ? 2 : 1, 1);
    for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TTABLE; i++) {
        note_field(L, notes, "event");
        note_field(L, notes, "data");
        note_field(L, notes, "id");
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
}

/* seed 0: in one piece. */
static void parse(lua_State *L, lua_Integer max_event, const char *s, size_t n, unsigned seed,
                  tr_buf *notes) {
    lua_getfield(L, 1, "new");
    lua_createtable(L, 0, 1);
    lua_pushinteger(L, max_event);
    lua_setfield(L, -2, "max_event");
    lua_call(L, 1, 1); /* module parser */
    for (unsigned random = seed; n > 0;) {
        random = random * 1103515245u + 12345u;
        size_t part = seed ? (random >> 16) % (seed % 16 + 2) : n;
        if (part > n) part = n;
        call(L, "feed", s, part, notes);
        s += part;
        n -= part;
    }
    call(L, "finish", NULL, 0, notes);
    lua_pop(L, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    lua_State *L = luaL_newstate();
    CHECK(L);
    luaL_requiref(L, "terret.sse", luaopen_terret_sse, 0);
    tr_buf whole = {0}, cut = {0};
    const char *stream = (const char *)data + 2;
    parse(L, data[0] + 1, stream, size - 2, 0, &whole);
    parse(L, data[0] + 1, stream, size - 2, data[1] + 1u, &cut);
    CHECK(whole.n == cut.n && (whole.n == 0 || memcmp(whole.p, cut.p, whole.n) == 0));
    tr_buf_free(&whole);
    tr_buf_free(&cut);
    lua_close(L);
    return 0;
}

#ifdef REPLAY
#include "replay.h"
#endif

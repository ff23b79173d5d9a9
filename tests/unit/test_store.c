/* tests/unit/test_store.c - runtime/store.c with tiny chunks and with a malloc that fails. */
#include <stdio.h>
#include <stdlib.h>

static long left = -1; /* allocations that still succeed; -1: all */

static int allowed(void) {
    if (left == 0) return 0;
    if (left > 0) left--;
    return 1;
}
static void *test_malloc(size_t n) {
    return allowed() ? malloc(n) : NULL;
}
static void *test_realloc(void *p, size_t n) {
    return allowed() ? realloc(p, n) : NULL;
}

#include "terret.h" /* the system's headers, before the names change */
#define malloc test_malloc
#define realloc test_realloc
#define CHUNK_MIN 16
#define CHUNK_MAX 64
#include "../../runtime/store.c"
#undef malloc
#undef realloc

#include <lualib.h>

static int tests, failures;

static void ok(int good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

/* What fragment i holds: i % 97 times the same letter. */
static size_t expected(char *to, unsigned i) {
    size_t n = i % 97;
    memset(to, 'a' + (int)(i % 26), n);
    return n;
}

static int holds(const store *s, unsigned count) {
    char text[97];
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t n = expected(text, i);
        bytes += n;
        if (s->index[i].len != n || memcmp(s->index[i].p, text, n) != 0) return 0;
        if (s->index[i].tokens != i) return 0;
    }
    return s->count == count && s->bytes == bytes;
}

static void test_chunks(void) {
    store s = {0};
    char text[97];
    int good = 1;
    for (unsigned i = 0; i < 1000; i++) good = good && store_append(&s, text, expected(text, i), i);
    ok(good && holds(&s, 1000), "fragments of all sizes around the chunks' ends are kept");
    size_t room = 0;
    for (const chunk *c = s.chunks; c; c = c->next) {
        good = good && c->used <= c->size;
        room += c->size;
    }
    ok(good && room >= s.bytes && room < 2 * s.bytes, "chunks waste less than they hold");
    store_free(&s);
    ok(!s.chunks && !s.index && s.closed, "freed");
}

/* Every append is first refused by each of its allocations, and must leave no trace. */
static void test_append_fails(void) {
    store s = {0};
    char text[97];
    int good = 1, refused = 0;
    for (unsigned i = 0; i < 200; i++) {
        size_t n = expected(text, i);
        for (long k = 0;; k++) {
            left = k;
            if (store_append(&s, text, n, i)) break;
            refused++;
            good = good && holds(&s, i);
        }
        left = -1;
    }
    ok(good && holds(&s, 200), "a refused append leaves the store as it was");
    ok(refused > 20, "appends were refused");
    store_free(&s);
}

static void test_grow_limit(void) {
    void *array = NULL;
    size_t cap = 0;
    ok(!grow(&array, &cap, SIZE_MAX / 8, 24) && !array && !cap, "a size that overflows is refused");
    ok(!new_chunk(SIZE_MAX - 8), "a chunk that overflows is refused");
}

static int run(lua_State *L, const char *code) {
    if (luaL_loadstring(L, code)) return -1;
    left = 0;
    int status = lua_pcall(L, 0, 0, 0);
    left = -1;
    return status;
}

static void refused(lua_State *L, const char *code, const char *name) {
    int status = run(L, code);
    const char *why = status ? lua_tostring(L, -1) : "";
    ok(status == LUA_ERRRUN && strstr(why, "not enough memory"), name);
    lua_settop(L, 0);
}

/* Lua's own allocator goes on working here: only the module's memory is refused. */
static void test_lua(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "terret.store", luaopen_terret_store, 1);
    lua_setglobal(L, "store");
    int good = !luaL_dostring(L, "s = store.new() v = s:view() empty = s:view()\n"
                                 "for i = 1, 8 do v:push(s:add('x', 1)) end");
    ok(good, "filled");
    refused(L, "s:add(('y'):rep(1000))", "add raises");
    refused(L, "v:push(1)", "push raises");
    refused(L, "v:fork()", "fork raises");
    refused(L, "empty:replace { 1 }", "replace raises");
    good =
        !luaL_dostring(L, "assert(s:size() == 8 and v:count() == 8 and empty:count() == 0)\n"
                          "assert(v:tokens() == 8 and v:render('[', ']') == '[x,x,x,x,x,x,x,x]')\n"
                          "empty:rewind(s:view():mark()) empty:replace { 8 } v:push(8)");
    ok(good, "all is as it was, and goes on");
    lua_close(L);
}

int main(void) {
    test_chunks();
    test_append_fails();
    test_grow_limit();
    test_lua();
    printf("1..%d\n", tests);
    return failures != 0;
}

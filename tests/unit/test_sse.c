/* tests/unit/test_sse.c - what sse.c holds, and streams cut at random. */
#include "../../runtime/sse.c"

#include <lualib.h>
#include <stdio.h>

static int failures, tests;

static void ok(bool good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

/* A new parser as the only value on the stack. */
static sse_parser *new_parser(lua_State *L, lua_Integer max_event) {
    lua_settop(L, 0);
    lua_pushcfunction(L, sse_new);
    lua_createtable(L, 0, 1);
    lua_pushinteger(L, max_event);
    lua_setfield(L, -2, "max_event");
    lua_call(L, 1, 1);
    return lua_touserdata(L, 1);
}

/* Feeds (or, with NULL, finishes), returns the number of events, which are left at index 2. */
static lua_Unsigned feed(lua_State *L, const char *bytes, size_t n) {
    lua_settop(L, 1);
    lua_pushcfunction(L, bytes ? parser_feed : parser_finish);
    lua_pushvalue(L, 1);
    if (bytes) lua_pushlstring(L, bytes, n);
    lua_call(L, bytes ? 2 : 1, 1);
    return lua_rawlen(L, 2);
}

static lua_Unsigned feed_text(lua_State *L, const char *text) {
    return feed(L, text, strlen(text));
}

static bool drops_hold_nothing(lua_State *L) {
    sse_parser *p = new_parser(L, 100);
    char block[4096];
    memset(block, 'x', sizeof block);
    bool good = feed_text(L, "data: kept") == 0;
    for (int i = 0; i < 100; i++) good = good && feed(L, block, sizeof block) == 0;
    good = good && p->dropping && p->line.n == 0 && p->data.n == 0 && p->line.cap <= 1024;
    return good && feed_text(L, "\n\n") == 1 && !p->dropping;
}

static bool large_buffers_go(lua_State *L) {
    sse_parser *p = new_parser(L, 64 << 20);
    char *block = calloc(1, 3 << 20);
    bool good = block && feed_text(L, "data: ") == 0 && feed(L, block, 3 << 20) == 0;
    free(block);
    good = good && p->line.cap >= 3 << 20 && feed_text(L, "\n") == 0;
    good = good && p->line.cap == 0 && p->data.cap >= 3 << 20;
    return good && feed_text(L, "\n") == 1 && p->data.cap == 0;
}

static bool whole_lines_are_not_copied(lua_State *L) {
    sse_parser *p = new_parser(L, 1000);
    return feed_text(L, "data: a\r\nevent: b\nid: c\r\r\ndata: d\n\n") == 2 && p->line.cap == 0;
}

static bool end_releases(lua_State *L) {
    sse_parser *p = new_parser(L, 1000);
    feed_text(L, "id: 1\nevent: e\ndata: a\ndata");
    bool good = p->id.n && p->event.n && p->data.n && p->line.n && feed(L, NULL, 0) == 1;
    return good && !p->id.p && !p->event.p && !p->data.p && !p->line.p && !p->started;
}

/* Appends the events at index 2 to text as "event|data|id;". */
static void append_events(lua_State *L, tr_buf *text) {
    static const char *const keys[] = {"event", "data", "id"};
    for (lua_Unsigned i = 1; i <= lua_rawlen(L, 2); i++) {
        lua_rawgeti(L, 2, (lua_Integer)i);
        for (size_t k = 0; k < 3; k++) {
            size_t n = 0;
            lua_getfield(L, 3, keys[k]);
            const char *s = lua_tolstring(L, -1, &n);
            tr_buf_put(text, s, n);
            tr_buf_put(text, k < 2 ? "|" : ";", 1);
            lua_pop(L, 1);
        }
        lua_pop(L, 1);
    }
}

static unsigned next_random(unsigned *seed) {
    *seed = *seed * 1103515245u + 12345u;
    return *seed >> 16;
}

static void run(lua_State *L, const tr_buf *stream, tr_buf *events, unsigned seed) {
    new_parser(L, 40);
    for (size_t at = 0; at < stream->n;) {
        size_t n = seed ? next_random(&seed) % 5 : stream->n;
        if (n > stream->n - at) n = stream->n - at;
        feed(L, stream->p + at, n);
        append_events(L, events);
        at += n;
    }
    feed(L, NULL, 0);
    append_events(L, events);
}

/* Streams made of parts that matter: however they are cut, the events are the same. */
static bool cuts_do_not_matter(lua_State *L) {
    static const char *const parts[] = {"data: ", "data",  "event: ", "id: ", "\n",
                                        "\r",     "\r\n",  "\n\n",    ":",    "\xEF\xBB\xBF",
                                        "x",      "12345", "\r\r",    " ",    "0123456789abcdef"};
    bool good = true;
    for (unsigned round = 1; round <= 2000 && good; round++) {
        tr_buf stream = {0}, whole = {0}, cut = {0};
        unsigned seed = round;
        for (int i = 0; i < 40; i++) {
            const char *part = parts[next_random(&seed) % (sizeof parts / sizeof *parts)];
            tr_buf_put(&stream, part, strlen(part));
        }
        run(L, &stream, &whole, 0);
        run(L, &stream, &cut, round);
        good = whole.n == cut.n && (whole.n == 0 || memcmp(whole.p, cut.p, cut.n) == 0);
        tr_buf_free(&stream);
        tr_buf_free(&whole);
        tr_buf_free(&cut);
    }
    return good;
}

int main(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "terret.sse", luaopen_terret_sse, 0);
    puts("1..5");
    ok(drops_hold_nothing(L), "a dropped event is not held");
    ok(large_buffers_go(L), "large buffers are given back");
    ok(whole_lines_are_not_copied(L), "whole lines are read in place");
    ok(end_releases(L), "the end of the stream releases everything");
    ok(cuts_do_not_matter(L), "cuts do not matter");
    lua_close(L);
    return failures > 0;
}

/* runtime/sse.c - terret.sse: bytes of a text/event-stream in, events out.
 *
 * Owns: the unfinished line and the data of the unfinished event.  Raises on wrong arguments
 * and out of memory only: every byte string is a stream.  Bytes are passed as they are; whether
 * they are UTF-8 is for the reader of the data to say.
 *
 * Follows WHATWG's parser: lines end with CR, LF or CRLF, the last id stays until it is changed,
 * an event without data is none.  Kinder in one point: the end of the stream ends an event too,
 * since servers do forget the last blank line.
 *
 * Each byte is looked at a bounded number of times, whatever the cuts: a whole line is read in
 * place, only an unfinished one is copied, and the search for LF isn't repeated after each CR. */
#include "terret.h"

#define PARSER "terret.sse.parser"
#define DEFAULT_MAX ((lua_Integer)64 << 20)
/* Buffers that one event made larger than this are given back. */
#define KEEP_BYTES ((size_t)1 << 20)

typedef struct sse_parser {
    tr_buf line; /* start of a line whose end has not come yet */
    tr_buf data, event, id;
    size_t max_event;
    bool started;   /* the first line was read: no BOM any more */
    bool after_cr;  /* a LF now belongs to the last line's end */
    bool has_data;  /* a data field came, perhaps an empty one */
    bool dropping;  /* the event is too large */
    bool line_used; /* while dropping: the unfinished line isn't empty */
    bool closed;
} sse_parser;

/* ---- delivery ---- */

static void push_field(lua_State *L, const char *key, const tr_buf *value) {
    lua_pushlstring(L, value->n ? value->p : "", value->n);
    lua_setfield(L, -2, key);
}

/* Appends an event to the list on top. */
static void push_event(lua_State *L, const sse_parser *p, lua_Integer *count) {
    lua_createtable(L, 0, 1 + (p->event.n > 0) + (p->id.n > 0)); /* list event */
    push_field(L, "data", &p->data);
    if (p->event.n > 0) push_field(L, "event", &p->event);
    if (p->id.n > 0) push_field(L, "id", &p->id);
    lua_rawseti(L, -2, ++*count);
}

static void push_error(lua_State *L, const sse_parser *p, lua_Integer *count) {
    lua_createtable(L, 0, 2); /* list event */
    lua_pushliteral(L, "error");
    lua_setfield(L, -2, "event");
    lua_pushfstring(L, "event larger than %I bytes", (LUAI_UACINT)p->max_event);
    lua_setfield(L, -2, "data");
    lua_rawseti(L, -2, ++*count);
}

static void empty(tr_buf *b) {
    if (b->cap > KEEP_BYTES) tr_buf_free(b);
    b->n = 0;
}

/* A blank line, or the end of the stream. */
static void end_event(lua_State *L, sse_parser *p, lua_Integer *count) {
    if (p->dropping)
        push_error(L, p, count);
    else if (p->has_data)
        push_event(L, p, count);
    empty(&p->data);
    empty(&p->event);
    p->has_data = p->dropping = false;
}

/* ---- lines ---- */

static void put(lua_State *L, tr_buf *b, const char *s, size_t n) {
    if (!tr_buf_put(b, s, n)) luaL_error(L, "terret.sse: out of memory");
}

/* The rest of the event is thrown away; what it held so far is not needed any more. */
static void drop_event(sse_parser *p) {
    p->dropping = true;
    p->line_used = true;
    empty(&p->line);
    empty(&p->data);
}

static bool is_field(const char *name, size_t len, const char *field) {
    return len == strlen(field) && memcmp(name, field, len) == 0;
}

static void take_field(lua_State *L, sse_parser *p, const char *s, size_t n) {
    const char *end = s + n, *colon = memchr(s, ':', n);
    const char *value = colon ? colon + 1 : end;
    size_t name_len = (size_t)((colon ? colon : end) - s);
    if (value < end && *value == ' ') value++;
    size_t len = (size_t)(end - value);
    if (is_field(s, name_len, "data")) {
        if (p->has_data) put(L, &p->data, "\n", 1);
        put(L, &p->data, value, len);
        p->has_data = true;
    } else if (is_field(s, name_len, "event")) {
        p->event.n = 0;
        put(L, &p->event, value, len);
    } else if (is_field(s, name_len, "id") && !memchr(value, '\0', len)) {
        p->id.n = 0;
        put(L, &p->id, value, len);
    }
}

static void take_line(lua_State *L, sse_parser *p, const char *s, size_t n, lua_Integer *count) {
    if (!p->started && n >= 3 && memcmp(s, "\xEF\xBB\xBF", 3) == 0) {
        s += 3;
        n -= 3;
    }
    p->started = true;
    if (n == 0)
        end_event(L, p, count);
    else if (!p->dropping && *s != ':')
        take_field(L, p, s, n);
}

/* A line's end was found behind the n bytes at s. */
static void finish_line(lua_State *L, sse_parser *p, const char *s, size_t n, lua_Integer *count) {
    if (!p->dropping && p->data.n + p->line.n + n > p->max_event) drop_event(p);
    if (p->dropping) {
        if (n == 0 && !p->line_used) end_event(L, p, count);
        p->line_used = false;
    } else if (p->line.n == 0) {
        take_line(L, p, s, n, count);
    } else {
        put(L, &p->line, s, n);
        take_line(L, p, p->line.p, p->line.n, count);
        empty(&p->line);
    }
}

/* The n bytes at s start a line, or go on with one, whose end is not here. */
static void keep_line(lua_State *L, sse_parser *p, const char *s, size_t n) {
    if (!p->dropping && p->data.n + p->line.n + n > p->max_event) drop_event(p);
    if (!p->dropping)
        put(L, &p->line, s, n);
    else if (n > 0)
        p->line_used = true;
}

/* ---- methods ---- */

static sse_parser *check_parser(lua_State *L) {
    sse_parser *p = luaL_checkudata(L, 1, PARSER);
    luaL_argcheck(L, !p->closed, 1, "parser is closed");
    return p;
}

static int parser_feed(lua_State *L) {
    sse_parser *p = check_parser(L);
    luaL_checktype(L, 2, LUA_TSTRING);
    lua_settop(L, 2);
    size_t n;
    const char *s = lua_tolstring(L, 2, &n), *end = s + n;
    const char *lf = NULL; /* the next LF, or the end; searched again when passed */
    lua_Integer count = 0;
    lua_createtable(L, 0, 0); /* parser bytes list */
    if (n > 0 && p->after_cr) {
        p->after_cr = false;
        if (*s == '\n') s++;
    }
    while (s < end) {
        if (!lf || lf < s) lf = memchr(s, '\n', (size_t)(end - s));
        if (!lf) lf = end;
        const char *cr = memchr(s, '\r', (size_t)(lf - s)), *stop = cr ? cr : lf;
        if (stop == end) {
            keep_line(L, p, s, (size_t)(end - s));
            break;
        }
        finish_line(L, p, s, (size_t)(stop - s), &count);
        s = stop + 1;
        if (cr && s < end && *s == '\n') s++;
        p->after_cr = cr && s == end && stop + 1 == end;
    }
    return 1;
}

static void release(sse_parser *p) {
    tr_buf_free(&p->line);
    tr_buf_free(&p->data);
    tr_buf_free(&p->event);
    tr_buf_free(&p->id);
}

/* The parser is as new afterwards. */
static int parser_finish(lua_State *L) {
    sse_parser *p = check_parser(L);
    lua_settop(L, 1);
    lua_Integer count = 0;
    lua_createtable(L, 0, 0); /* parser list */
    if (p->line.n > 0) finish_line(L, p, "", 0, &count);
    end_event(L, p, &count);
    release(p);
    p->started = p->after_cr = p->line_used = false;
    return 1;
}

static int parser_gc(lua_State *L) {
    sse_parser *p = luaL_checkudata(L, 1, PARSER);
    p->closed = true;
    release(p);
    return 0;
}

static int parser_tostring(lua_State *L) {
    const sse_parser *p = luaL_checkudata(L, 1, PARSER);
    lua_pushfstring(L, "%s (%s)", PARSER, p->closed ? "closed" : "open");
    return 1;
}

/* ---- module ---- */

static int sse_new(lua_State *L) {
    static const char *const known[] = {"max_event", NULL};
    tr_options(L, 1, known);
    lua_Integer max = tr_opt_integer(L, 1, "max_event", DEFAULT_MAX, 1, (lua_Integer)1 << 40);
    sse_parser *p = lua_newuserdatauv(L, sizeof *p, 0);
    memset(p, 0, sizeof *p);
    p->max_event = (size_t)max;
    luaL_setmetatable(L, PARSER);
    return 1;
}

static const luaL_Reg parser_methods[] = {
    {"feed", parser_feed}, {"finish", parser_finish}, {NULL, NULL}};
static const luaL_Reg parser_meta[] = {
    {"__gc", parser_gc}, {"__close", parser_gc}, {"__tostring", parser_tostring}, {NULL, NULL}};
static const luaL_Reg sse_funcs[] = {{"new", sse_new}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_sse(lua_State *L);
int luaopen_terret_sse(lua_State *L) {
    tr_class(L, PARSER, parser_meta, parser_methods);
    luaL_newlib(L, sse_funcs);
    return 1;
}

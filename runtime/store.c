/* runtime/store.c - terret.store: encoded messages, kept once, and the views that requests show.
 *
 * A store owns its fragments: bytes in malloc'd chunks that never move, behind an index of
 * {bytes, length, tokens}.  A view owns an array of fragment numbers and keeps its store alive.
 * Both raise on wrong arguments and on "not enough memory", and are then as they were before.
 *
 * Why fragments: a request body is a join of bytes that were encoded once, so what the model
 * saw last time is byte for byte the start of what it sees now, and a turn costs a memcpy.
 * The bytes of a view are summed as it changes.  Tokens may be corrected later (set_tokens), so
 * their sum is made on demand and only over what is new since the last time, unless the store's
 * edition says that an account changed. */
#include "terret.h"

#include <limits.h>

#define STORE "terret.store.store"
#define VIEW "terret.store.view"

#ifndef CHUNK_MIN
#define CHUNK_MIN 16384
#endif
#ifndef CHUNK_MAX
#define CHUNK_MAX (1024 * 1024)
#endif
#define TOKENS_MAX INT32_MAX /* of one fragment: 2^32 of them can't overflow the sum */
#define COUNT_MAX UINT32_MAX /* fragment numbers and positions */
#define EPOCH_MAX INT32_MAX  /* the upper half of a mark, which is never negative */

typedef struct chunk {
    struct chunk *next;
    size_t used, size;
    char bytes[];
} chunk;

typedef struct fragment {
    const char *p;
    size_t len;
    uint32_t tokens;
} fragment;

typedef struct store {
    chunk *chunks; /* the first one takes what is added */
    fragment *index;
    size_t count, cap;
    size_t bytes;
    uint64_t edition; /* counts changes of accounts */
    uint32_t epoch;   /* the last one given to a view by replace() */
    bool closed;
} store;

typedef struct view {
    store *store; /* kept alive by the user value */
    uint32_t *at; /* fragment numbers, from 1 */
    size_t count, cap;
    size_t bytes;
    uint32_t epoch;     /* marks of another one are stale */
    uint64_t summed_at; /* edition of the store that tokens belongs to */
    size_t summed;      /* positions that tokens covers */
    lua_Integer tokens;
} view;

/* ---- memory; false means that there is none and nothing changed ---- */

/* Makes room for `want` items in a malloc'd array. */
static bool grow(void **array, size_t *cap, size_t want, size_t item) {
    if (want <= *cap) return true;
    size_t size = *cap < 8 ? 8 : *cap + *cap / 2;
    if (size < want) size = want;
    void *p = size <= SIZE_MAX / item ? realloc(*array, size * item) : NULL;
    if (!p) return false;
    *array = p;
    *cap = size;
    return true;
}

static chunk *new_chunk(size_t size) {
    if (size > SIZE_MAX - sizeof(chunk)) return NULL;
    chunk *c = malloc(sizeof *c + size);
    if (!c) return NULL;
    c->used = 0;
    c->size = size;
    c->next = NULL;
    return c;
}

/* Room for n bytes that will never move.  Chunks grow with the store; what is large gets a
 * chunk of its own behind the first, so that the room left in the first isn't lost. */
static char *store_room(store *s, size_t n) {
    chunk *first = s->chunks;
    if (!first || n > first->size - first->used) {
        size_t size = s->bytes < CHUNK_MIN ? CHUNK_MIN : s->bytes;
        if (size > CHUNK_MAX) size = CHUNK_MAX;
        bool own = first && n > size / 4;
        chunk *c = new_chunk(own || n > size ? n : size);
        if (!c) return NULL;
        c->next = own ? first->next : first;
        *(own ? &first->next : &s->chunks) = c;
        first = c;
    }
    first->used += n;
    return first->bytes + (first->used - n);
}

static bool store_append(store *s, const char *p, size_t n, uint32_t tokens) {
    void *index = s->index;
    bool grown = grow(&index, &s->cap, s->count + 1, sizeof *s->index);
    s->index = index;
    char *room = grown ? store_room(s, n) : NULL;
    if (!room) return false;
    memcpy(room, p, n);
    s->index[s->count++] = (fragment){room, n, tokens};
    s->bytes += n;
    return true;
}

static void store_free(store *s) {
    for (chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(s->index);
    *s = (store){.closed = true};
}

static bool view_reserve(view *v, size_t want) {
    void *at = v->at;
    bool ok = grow(&at, &v->cap, want, sizeof *v->at);
    v->at = at;
    return ok;
}

static int no_memory(lua_State *L) {
    return luaL_error(L, "not enough memory");
}

/* ---- arguments ---- */

static store *check_store(lua_State *L) {
    store *s = luaL_checkudata(L, 1, STORE);
    if (s->closed) luaL_argerror(L, 1, "the store is closed");
    return s;
}

static view *check_view(lua_State *L) {
    view *v = luaL_checkudata(L, 1, VIEW);
    if (!v->store)
        luaL_argerror(L, 1, "the view is closed");
    else if (v->store->closed)
        luaL_argerror(L, 1, "the store of the view is closed");
    return v;
}

static fragment *check_fragment(lua_State *L, store *s, int arg) {
    lua_Integer n = luaL_checkinteger(L, arg);
    if (n < 1 || (lua_Unsigned)n > s->count) luaL_argerror(L, arg, "no such fragment");
    return s->index + n - 1;
}

static uint32_t check_tokens(lua_State *L, int arg) {
    lua_Integer n = luaL_checkinteger(L, arg);
    if (n < 0 || n > TOKENS_MAX) luaL_argerror(L, arg, "tokens out of range");
    return (uint32_t)n;
}

/* ---- store ---- */

static int store_new(lua_State *L) {
    store *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (store){0};
    luaL_setmetatable(L, STORE);
    return 1;
}

static int store_add(lua_State *L) {
    store *s = check_store(L);
    size_t n;
    const char *p = luaL_checklstring(L, 2, &n);
    uint32_t tokens = lua_isnoneornil(L, 3) ? 0 : check_tokens(L, 3);
    if (s->count >= COUNT_MAX) return luaL_error(L, "the store is full");
    if (!store_append(s, p, n, tokens)) return no_memory(L);
    lua_pushinteger(L, (lua_Integer)s->count);
    return 1;
}

static int store_get(lua_State *L) {
    const fragment *f = check_fragment(L, check_store(L), 2);
    lua_pushlstring(L, f->p, f->len);
    return 1;
}

static int store_tokens(lua_State *L) {
    lua_pushinteger(L, check_fragment(L, check_store(L), 2)->tokens);
    return 1;
}

static int store_set_tokens(lua_State *L) {
    store *s = check_store(L);
    fragment *f = check_fragment(L, s, 2);
    uint32_t tokens = check_tokens(L, 3);
    if (tokens != f->tokens) s->edition++;
    f->tokens = tokens;
    return 0;
}

static int store_size(lua_State *L) {
    const store *s = check_store(L);
    lua_pushinteger(L, (lua_Integer)s->count);
    lua_pushinteger(L, (lua_Integer)s->bytes);
    return 2;
}

static int store_gc(lua_State *L) {
    store_free(luaL_checkudata(L, 1, STORE));
    return 0;
}

static int store_tostring(lua_State *L) {
    const store *s = luaL_checkudata(L, 1, STORE);
    lua_pushfstring(L, STORE " (%I fragments)", (lua_Integer)s->count);
    return 1;
}

/* ---- view ---- */

/* Pushes an empty view of the store at idx. */
static view *push_view(lua_State *L, store *s, int idx) {
    view *v = lua_newuserdatauv(L, sizeof *v, 1);
    *v = (view){.store = s, .summed_at = s->edition};
    lua_pushvalue(L, idx);
    lua_setiuservalue(L, -2, 1);
    luaL_setmetatable(L, VIEW);
    return v;
}

static int store_view(lua_State *L) {
    push_view(L, check_store(L), 1);
    return 1;
}

static int view_push(lua_State *L) {
    view *v = check_view(L);
    const fragment *f = check_fragment(L, v->store, 2);
    if (v->count >= COUNT_MAX) return luaL_error(L, "the view is full");
    if (!view_reserve(v, v->count + 1)) return no_memory(L);
    v->at[v->count++] = (uint32_t)(f - v->store->index) + 1;
    v->bytes += f->len;
    return 0;
}

static int view_count(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)check_view(L)->count);
    return 1;
}

static int view_bytes(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)check_view(L)->bytes);
    return 1;
}

/* The fragment at a position, from 0. */
static const fragment *view_fragment(const view *v, size_t i) {
    return v->store->index + v->at[i] - 1;
}

static int view_tokens(lua_State *L) {
    view *v = check_view(L);
    if (v->summed_at != v->store->edition) {
        v->summed_at = v->store->edition;
        v->summed = 0;
        v->tokens = 0;
    }
    for (; v->summed < v->count; v->summed++) v->tokens += view_fragment(v, v->summed)->tokens;
    lua_pushinteger(L, v->tokens);
    return 1;
}

static int view_at(lua_State *L) {
    const view *v = check_view(L);
    lua_Integer i = luaL_checkinteger(L, 2), count = (lua_Integer)v->count;
    if (i < 0) i += count + 1;
    if (i < 1 || i > count)
        lua_pushnil(L);
    else
        lua_pushinteger(L, v->at[i - 1]);
    return 1;
}

static int view_list(lua_State *L) {
    const view *v = check_view(L);
    lua_createtable(L, v->count < INT_MAX ? (int)v->count : INT_MAX, 0);
    for (size_t i = 0; i < v->count; i++) {
        lua_pushinteger(L, v->at[i]);
        lua_rawseti(L, -2, (lua_Integer)i + 1);
    }
    return 1;
}

static int view_mark(lua_State *L) {
    const view *v = check_view(L);
    lua_pushinteger(L, (lua_Integer)((lua_Unsigned)v->epoch << 32 | v->count));
    return 1;
}

/* Takes off the end.  A sum that is current loses what goes; a stale one is made anew anyway. */
static void view_shrink(view *v, size_t count) {
    bool current = v->summed_at == v->store->edition;
    while (v->count > count) {
        const fragment *f = view_fragment(v, --v->count);
        v->bytes -= f->len;
        if (v->summed <= v->count) continue;
        v->summed = v->count;
        if (current) v->tokens -= f->tokens;
    }
}

static int view_rewind(lua_State *L) {
    view *v = check_view(L);
    lua_Unsigned mark = (lua_Unsigned)luaL_checkinteger(L, 2);
    luaL_argcheck(L, mark >> 32 == v->epoch, 2, "the mark is of another content");
    luaL_argcheck(L, (mark & UINT32_MAX) <= v->count, 2, "the mark is past the end");
    view_shrink(v, mark & UINT32_MAX);
    return 0;
}

/* The fragment that item i of the table at idx names; raises if there is none. */
static const fragment *listed(lua_State *L, const store *s, int idx, lua_Integer i) {
    int ok;
    lua_rawgeti(L, idx, i);
    lua_Integer n = lua_tointegerx(L, -1, &ok);
    lua_pop(L, 1);
    if (!ok || n < 1 || (lua_Unsigned)n > s->count)
        luaL_argerror(L, idx, lua_pushfstring(L, "no such fragment at %I", i));
    return s->index + n - 1;
}

/* Looks at everything before it changes anything. */
static int view_replace(lua_State *L) {
    view *v = check_view(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    store *s = v->store;
    lua_Integer count = (lua_Integer)lua_rawlen(L, 2);
    luaL_argcheck(L, count <= (lua_Integer)COUNT_MAX, 2, "too long");
    for (lua_Integer i = 1; i <= count; i++) listed(L, s, 2, i);
    if (s->epoch >= EPOCH_MAX) return luaL_error(L, "too many replacements");
    if (!view_reserve(v, (size_t)count)) return no_memory(L);
    v->epoch = ++s->epoch;
    v->count = (size_t)count;
    v->bytes = v->summed = 0;
    v->tokens = 0;
    for (lua_Integer i = 1; i <= count; i++) {
        const fragment *f = listed(L, s, 2, i);
        v->at[i - 1] = (uint32_t)(f - s->index) + 1;
        v->bytes += f->len;
    }
    return 0;
}

static int view_fork(lua_State *L) {
    const view *v = check_view(L);
    lua_getiuservalue(L, 1, 1);
    view *w = push_view(L, v->store, -2);
    if (!view_reserve(w, v->count)) return no_memory(L);
    if (v->count) memcpy(w->at, v->at, v->count * sizeof *v->at);
    w->count = v->count;
    w->bytes = v->bytes;
    w->epoch = v->epoch;
    w->summed_at = v->summed_at;
    w->summed = v->summed;
    w->tokens = v->tokens;
    return 1;
}

static char *put(char *to, const char *p, size_t n) {
    memcpy(to, p, n);
    return to + n;
}

static int view_render(lua_State *L) {
    const view *v = check_view(L);
    size_t head_len, tail_len;
    const char *head = luaL_checklstring(L, 2, &head_len);
    const char *tail = luaL_checklstring(L, 3, &tail_len);
    lua_Integer from = luaL_optinteger(L, 4, 1);
    if (from < 1 || (lua_Unsigned)from > v->count + 1)
        return luaL_argerror(L, 4, "no such position");
    size_t first = (size_t)from - 1, size = head_len + tail_len;
    for (size_t i = first; i < v->count; i++) size += view_fragment(v, i)->len;
    if (v->count > first) size += v->count - first - 1;
    luaL_Buffer b;
    char *to = put(luaL_buffinitsize(L, &b, size), head, head_len);
    for (size_t i = first; i < v->count; i++) {
        if (i > first) *to++ = ',';
        to = put(to, view_fragment(v, i)->p, view_fragment(v, i)->len);
    }
    put(to, tail, tail_len);
    luaL_pushresultsize(&b, size);
    return 1;
}

static int view_gc(lua_State *L) {
    view *v = luaL_checkudata(L, 1, VIEW);
    free(v->at);
    *v = (view){0};
    return 0;
}

static int view_tostring(lua_State *L) {
    const view *v = luaL_checkudata(L, 1, VIEW);
    lua_pushfstring(L, VIEW " (%I fragments)", (lua_Integer)v->count);
    return 1;
}

/* ---- module ---- */

static const luaL_Reg store_funcs[] = {{"new", store_new}, {NULL, NULL}};
static const luaL_Reg store_methods[] = {{"add", store_add},
                                         {"get", store_get},
                                         {"tokens", store_tokens},
                                         {"set_tokens", store_set_tokens},
                                         {"size", store_size},
                                         {"view", store_view},
                                         {NULL, NULL}};
static const luaL_Reg store_meta[] = {
    {"__gc", store_gc}, {"__close", store_gc}, {"__tostring", store_tostring}, {NULL, NULL}};
static const luaL_Reg view_methods[] = {
    {"push", view_push},     {"count", view_count},   {"bytes", view_bytes},
    {"tokens", view_tokens}, {"at", view_at},         {"list", view_list},
    {"mark", view_mark},     {"rewind", view_rewind}, {"replace", view_replace},
    {"fork", view_fork},     {"render", view_render}, {NULL, NULL}};
static const luaL_Reg view_meta[] = {
    {"__gc", view_gc}, {"__close", view_gc}, {"__tostring", view_tostring}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_store(lua_State *L);
TR_EXPORT int luaopen_terret_store(lua_State *L) {
    tr_class(L, STORE, store_meta, store_methods);
    tr_class(L, VIEW, view_meta, view_methods);
    luaL_newlib(L, store_funcs);
    return 1;
}

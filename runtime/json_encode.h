/* runtime/json_encode.h - Lua values to canonical text; part of json.c.
 *
 * Raises on what has no JSON form: that is the script's doing.  Metamethods are never called.  A
 * finalizer may run whenever Lua allocates, though, and it may change the table that is being
 * encoded: so what is used after an allocation stands on the stack. */
#ifndef TERRET_JSON_ENCODE_H
#define TERRET_JSON_ENCODE_H

#include "json_bytes.h"

#include <math.h>

#define MAX_DEPTH 200

/* Metatable of arrays.  Not protected: code that copies tables with setmetatable(copy,
 * getmetatable(t)) keeps the mark.  By name in the registry: linked-in and .so forms agree. */
#define ARRAY "terret.json.array"
#define RAW "terret.json.raw"

/* A checked text; encode writes it as it is. */
typedef struct json_raw {
    int depth;
    size_t len;
    char text[];
} json_raw;

typedef struct json_enc {
    lua_State *L;
    int array; /* stack index of the array metatable */
    int depth;
    json_buf out;
} json_enc;

typedef struct json_item {
    const char *key;
    size_t len;
    int value; /* stack index */
} json_item;

static void encode_value(json_enc *e, int idx);

static int item_order(const void *a, const void *b) {
    const json_item *x = a, *y = b;
    int order = memcmp(x->key, y->key, x->len < y->len ? x->len : y->len);
    return order ? order : (x->len > y->len) - (x->len < y->len);
}

static void sort_items(json_item *items, size_t n) {
    if (n > 16) {
        qsort(items, n, sizeof *items, item_order);
        return;
    }
    for (size_t i = 1; i < n; i++) {
        json_item item = items[i];
        size_t k = i;
        for (; k > 0 && item_order(&items[k - 1], &item) > 0; k--) items[k] = items[k - 1];
        items[k] = item;
    }
}

/* Pushes all keys and values of the table at idx, whose first pair is on the stack already;
 * returns how many pairs. */
static size_t push_members(lua_State *L, int idx) {
    size_t n = 0;
    do {
        luaL_checkstack(L, 6, "json.encode: too many keys");
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "json.encode: key of an object is a %s", luaL_typename(L, -2));
        n++;
        lua_pushvalue(L, -2); /* ... key value key */
    } while (lua_next(L, idx));
    return n;
}

/* The first key and value are on the stack; takes them off. */
static void encode_object(json_enc *e, int idx) {
    lua_State *L = e->L;
    json_item few[16], *items = few;
    int base = lua_gettop(L) - 2;
    size_t n = push_members(L, idx);
    if (n > sizeof few / sizeof *few) items = lua_newuserdatauv(L, n * sizeof *items, 0);
    for (size_t i = 0; i < n; i++) {
        items[i].value = base + 2 * (int)i + 2;
        items[i].key = lua_tolstring(L, items[i].value - 1, &items[i].len);
    }
    sort_items(items, n);
    for (size_t i = 0; i < n; i++) {
        buf_putc(&e->out, i > 0 ? ',' : '{');
        put_string(&e->out, items[i].key, items[i].len);
        buf_putc(&e->out, ':');
        encode_value(e, items[i].value);
    }
    buf_putc(&e->out, '}');
    lua_settop(L, base);
}

/* The length of the table at idx; raises unless its keys are 1 to n. */
static lua_Integer sequence_length(lua_State *L, int idx) {
    lua_Unsigned n = lua_rawlen(L, idx), count = 0;
    lua_pushnil(L);
    for (; lua_next(L, idx); count++) {
        if (!lua_isinteger(L, -2))
            luaL_error(L, "json.encode: mixed keys (a %s in an array)", luaL_typename(L, -2));
        if ((lua_Unsigned)lua_tointeger(L, -2) - 1 >= n)
            luaL_error(L, "json.encode: sparse array (key %I)", (LUAI_UACINT)lua_tointeger(L, -2));
        lua_pop(L, 1);
    }
    if (count != n) luaL_error(L, "json.encode: sparse array");
    return (lua_Integer)n;
}

static void encode_array(json_enc *e, int idx) {
    lua_Integer n = sequence_length(e->L, idx);
    buf_putc(&e->out, '[');
    for (lua_Integer i = 1; i <= n; i++) {
        if (i > 1) buf_putc(&e->out, ',');
        lua_rawgeti(e->L, idx, i);
        encode_value(e, lua_gettop(e->L));
        lua_pop(e->L, 1);
    }
    buf_putc(&e->out, ']');
}

/* True when the table at idx has the mark whose metatable is at array. */
static bool has_mark(lua_State *L, int idx, int array) {
    if (!lua_getmetatable(L, idx)) return false;
    bool same = lua_rawequal(L, -1, array);
    if (!same && luaL_getmetafield(L, idx, "__pairs") != LUA_TNIL)
        luaL_error(L, "json.encode: a table with __pairs (its content is not in it)");
    lua_pop(L, 1);
    return same;
}

static void encode_table(json_enc *e, int idx) {
    lua_State *L = e->L;
    luaL_checkstack(L, 6, "json.encode");
    if (++e->depth > MAX_DEPTH) luaL_error(L, "json.encode: depth over %d (a cycle?)", MAX_DEPTH);
    if (has_mark(L, idx, e->array)) {
        encode_array(e, idx);
    } else {
        lua_pushnil(L);
        if (!lua_next(L, idx)) {
            buf_put(&e->out, "{}", 2);
        } else if (lua_isinteger(L, -2)) {
            lua_pop(L, 2);
            encode_array(e, idx);
        } else {
            encode_object(e, idx);
        }
    }
    e->depth--;
}

static void encode_raw(json_enc *e, int idx) {
    const json_raw *raw = luaL_testudata(e->L, idx, RAW);
    if (!raw) luaL_error(e->L, "json.encode: cannot encode a userdata");
    if (e->depth + raw->depth > MAX_DEPTH)
        luaL_error(e->L, "json.encode: depth over %d", MAX_DEPTH);
    buf_put(&e->out, raw->text, raw->len);
}

static void encode_number(json_enc *e, int idx) {
    if (lua_isinteger(e->L, idx)) {
        put_integer(&e->out, lua_tointeger(e->L, idx));
        return;
    }
    double d = lua_tonumber(e->L, idx);
    if (!isfinite(d)) luaL_error(e->L, "json.encode: cannot encode %f", d);
    put_double(&e->out, d);
}

static void encode_value(json_enc *e, int idx) {
    lua_State *L = e->L;
    size_t len;
    const char *s;
    switch (lua_type(L, idx)) {
    case LUA_TSTRING:
        s = lua_tolstring(L, idx, &len);
        put_string(&e->out, s, len);
        return;
    case LUA_TNUMBER: encode_number(e, idx); return;
    case LUA_TBOOLEAN:
        s = lua_toboolean(L, idx) ? "true" : "false";
        buf_put(&e->out, s, strlen(s));
        return;
    case LUA_TTABLE: encode_table(e, idx); return;
    case LUA_TUSERDATA: encode_raw(e, idx); return;
    case LUA_TLIGHTUSERDATA:
        if (lua_touserdata(L, idx) == NULL) {
            buf_put(&e->out, "null", 4);
            return;
        }
        break;
    default: break;
    }
    luaL_error(L, "json.encode: cannot encode a %s", luaL_typename(L, idx));
}

#endif

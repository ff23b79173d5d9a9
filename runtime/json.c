/* runtime/json.c - terret.json: canonical encoder, strict and tolerant decoder, raw texts.
 *
 * Owns nothing between two calls: scratch memory sits in the C frame or in userdata.
 * Errors: encode raises (what it gets is the script's doing); what reads a text returns
 * nil, "line L, byte B: ...", code, with B counted from 1 in the whole text.
 *
 * Why not lua-cjson: the bytes that go to a model must be the same in every process (its keys
 * follow the hash seed), [] must stay [], integers must keep their digits, and one bad byte of
 * tool output must not make a request invalid.  The null values are the same, so they mix.
 *
 * The headers are parts of this file: json_bytes.h (buffer, UTF-8), json_scan.h (tokens),
 * json_canon.h (text to text), json_encode.h (values to text). */
#include "terret.h"

#include "json_canon.h"
#include "json_encode.h"
#include "json_scan.h"

#define TOLERANT_DEPTH 64
#define TOLERANT_BYTES ((size_t)16 << 20)

/* ---- encode ---- */

static int json_encode(lua_State *L) {
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    luaL_getmetatable(L, ARRAY);
    json_enc e;
    e.L = L;
    e.array = 2;
    e.depth = 0;
    buf_init(&e.out, L);
    encode_value(&e, 1);
    lua_pushlstring(L, e.out.p, e.out.n);
    return 1;
}

/* ---- decode ---- */

typedef struct json_dec {
    lua_State *L;
    int array; /* stack index of the array metatable */
    json_scan s;
} json_dec;

static bool decode_value(json_dec *d);

/* A member of the object on top. */
static bool decode_member(json_dec *d) {
    lua_State *L = d->L;
    const json_byte *at = d->s.p;
    json_str key;
    if (!scan_key(&d->s, &key)) return false;
    lua_pushlstring(L, key.p, key.len); /* object key */
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) != LUA_TNIL) return scan_fail(&d->s, at, "duplicate key");
    lua_pop(L, 1);
    skip_space(&d->s);
    if (!decode_value(d)) return false; /* object key value */
    lua_rawset(L, -3);
    return true;
}

/* Four slots at once hold most objects of a protocol without growing step by step. */
static bool decode_object(json_dec *d) {
    if (!scan_enter(&d->s)) return false;
    skip_space(&d->s);
    bool closed = scan_take(&d->s, '}'), more = !closed;
    lua_createtable(d->L, 0, closed ? 0 : 4);
    while (more) {
        if (!decode_member(d)) return false;
        more = scan_more(&d->s, '}', &closed);
    }
    d->s.depth--;
    return closed;
}

static bool decode_array(json_dec *d) {
    if (!scan_enter(&d->s)) return false;
    skip_space(&d->s);
    bool closed = scan_take(&d->s, ']'), more = !closed;
    lua_createtable(d->L, 0, 0);
    lua_pushvalue(d->L, d->array);
    lua_setmetatable(d->L, -2);
    for (lua_Integer i = 1; more; i++) {
        if (!decode_value(d)) return false;
        lua_rawseti(d->L, -2, i);
        more = scan_more(&d->s, ']', &closed);
    }
    d->s.depth--;
    return closed;
}

static bool decode_string(json_dec *d) {
    json_str str;
    if (!scan_string(&d->s, &str)) return false;
    lua_pushlstring(d->L, str.p, str.len);
    return true;
}

static bool decode_number(json_dec *d) {
    json_number n;
    lua_Integer i;
    if (!scan_number(&d->s, &n)) return false;
    if (number_integer(&n, &i))
        lua_pushinteger(d->L, i);
    else
        lua_pushnumber(d->L, number_double(&n));
    return true;
}

/* true, false, null and, where it is forgiven, Python's names for them. */
static bool decode_word(json_dec *d) {
    static const char *const words[] = {"true", "false", "null", "True", "False", "None"};
    for (size_t i = 0; i < (d->s.tolerant ? 6 : 3); i++) {
        if (*d->s.p != (json_byte)words[i][0]) continue;
        if (!scan_word(&d->s, words[i])) return false;
        if (i >= 3) d->s.repairs |= REPAIR_PYTHON;
        if (i % 3 == 2)
            lua_pushlightuserdata(d->L, NULL);
        else
            lua_pushboolean(d->L, i % 3 == 0);
        return true;
    }
    return scan_fail(&d->s, d->s.p, "unexpected character");
}

/* Pushes the value at p, without space around it. */
static bool decode_value(json_dec *d) {
    json_scan *s = &d->s;
    if (s->p == s->end) return scan_fail(s, s->p, NULL);
    luaL_checkstack(d->L, 6, "json.decode");
    json_byte c = *s->p;
    if (c == '"' || (c == '\'' && s->tolerant)) return decode_string(d);
    if (c == '{') return decode_object(d);
    if (c == '[') return decode_array(d);
    if (c == '-' || is_digit(c)) return decode_number(d);
    return decode_word(d);
}

static const char *check_text(lua_State *L, int idx, size_t *len) {
    luaL_checktype(L, idx, LUA_TSTRING);
    return lua_tolstring(L, idx, len);
}

static void decode_init(json_dec *d, lua_State *L, const char *text, size_t len, int max_depth) {
    luaL_checkstack(L, 4, "json.decode");
    d->L = L;
    luaL_getmetatable(L, ARRAY);
    d->array = lua_gettop(L);
    scan_init(&d->s, L, text, len, max_depth);
}

static int json_decode(lua_State *L) {
    size_t len;
    const char *text = check_text(L, 1, &len);
    lua_settop(L, 1);
    json_dec d;
    decode_init(&d, L, text, len, MAX_DEPTH);
    skip_space(&d.s);
    if (decode_value(&d) && scan_end(&d.s)) return 1;
    return scan_report(L, &d.s, "bad_json");
}

/* ---- tolerant ---- */

static bool scan_fence(json_scan *s) {
    if (s->end - s->p < 3 || memcmp(s->p, "```", 3) != 0) return false;
    s->p += 3;
    return true;
}

/* Pushes the value of the text; a code fence may stand around it. */
static bool tolerant_text(json_dec *d) {
    json_scan *s = &d->s;
    s->tolerant = true;
    skip_space(s);
    if (scan_fence(s)) {
        s->repairs |= REPAIR_FENCE;
        while (s->p < s->end && is_name(*s->p)) s->p++; /* the language */
        skip_space(s);
    }
    if (!decode_value(d)) return false;
    skip_space(s);
    if (s->repairs & REPAIR_FENCE) scan_fence(s);
    return scan_end(s);
}

/* A string on top that holds the JSON text of an object or array: replaces it by that value.
 * What isn't such a text stays the string that it is. */
static void decode_inner(json_dec *outer) {
    lua_State *L = outer->L;
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    const char *first = text + strspn(text, " \n\r\t");
    if (*first != '{' && *first != '[') return;
    int top = lua_gettop(L);
    json_dec d;
    decode_init(&d, L, text, len, TOLERANT_DEPTH);
    if (tolerant_text(&d)) {
        lua_replace(L, top);
        outer->s.repairs |= d.s.repairs | REPAIR_DOUBLE;
    }
    lua_settop(L, top);
}

/* Pushes the array of what was forgiven, in the order of the bits. */
static void push_repairs(lua_State *L, const json_dec *d) {
    static const char *const words[] = {"fence",           "comments",        "control_characters",
                                        "double_encoding", "python_literals", "single_quotes",
                                        "trailing_comma",  "unquoted_keys",   "utf8"};
    lua_Integer n = 0;
    lua_createtable(L, 0, 0);
    lua_pushvalue(L, d->array);
    lua_setmetatable(L, -2);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (!(d->s.repairs >> i & 1)) continue;
        lua_pushstring(L, words[i]);
        lua_rawseti(L, -2, ++n);
    }
}

static int json_tolerant(lua_State *L) {
    size_t len;
    const char *text = check_text(L, 1, &len);
    lua_settop(L, 1);
    if (len > TOLERANT_BYTES) return tr_fail(L, "bad_json", "text over 16 MiB");
    json_dec d;
    decode_init(&d, L, text, len, TOLERANT_DEPTH);
    d.s.error_at = memchr(text, '\0', len);
    d.s.error = "NUL character";
    if (d.s.error_at) return scan_report(L, &d.s, "bad_json");
    if (text[strspn(text, " \n\r\t")] == '\0') return tr_fail(L, "bad_json", "no value");
    if (!tolerant_text(&d))
        return scan_report(L, &d.s, d.s.error_at == d.s.end ? "truncated" : "bad_json");
    if (lua_type(L, -1) == LUA_TSTRING) decode_inner(&d);
    push_repairs(L, &d);
    return 2;
}

/* ---- marks, raw texts ---- */

static int json_array(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    luaL_getmetatable(L, ARRAY); /* t mark */
    if (lua_getmetatable(L, 1)) {
        luaL_argcheck(L, lua_rawequal(L, 2, 3), 1, "has another metatable");
        lua_pop(L, 1);
    }
    lua_setmetatable(L, 1);
    return 1;
}

static int json_is_array(lua_State *L) {
    luaL_checkany(L, 1);
    bool marked = false;
    if (lua_type(L, 1) == LUA_TTABLE && lua_getmetatable(L, 1)) {
        luaL_getmetatable(L, ARRAY);
        marked = lua_rawequal(L, -1, -2);
    }
    lua_pushboolean(L, marked);
    return 1;
}

static int json_raw_new(lua_State *L) {
    size_t len;
    const char *text = check_text(L, 1, &len);
    lua_settop(L, 1);
    json_canon c;
    canon_init(&c, L, text, len, MAX_DEPTH);
    if (!canon_text(&c)) {
        scan_report(L, &c.s, "bad_json"); /* nil message code */
        return luaL_argerror(L, 1, lua_tostring(L, -2));
    }
    json_raw *raw = lua_newuserdatauv(L, sizeof *raw + len, 0);
    raw->depth = c.deepest;
    raw->len = len;
    memcpy(raw->text, text, len);
    luaL_setmetatable(L, RAW);
    return 1;
}

static int raw_tostring(lua_State *L) {
    const json_raw *raw = luaL_checkudata(L, 1, RAW);
    lua_pushlstring(L, raw->text, raw->len);
    return 1;
}

static int json_canonical(lua_State *L) {
    size_t len;
    const char *text = check_text(L, 1, &len);
    lua_settop(L, 1);
    json_canon c;
    canon_init(&c, L, text, len, MAX_DEPTH);
    if (!canon_text(&c)) return scan_report(L, &c.s, "bad_json");
    lua_pushlstring(L, c.out.p, c.out.n);
    return 1;
}

static int json_slice(lua_State *L) {
    size_t len, key_len;
    const char *text = check_text(L, 1, &len), *key = check_text(L, 2, &key_len);
    lua_settop(L, 2);
    json_canon c;
    canon_init(&c, L, text, len, MAX_DEPTH);
    skip_space(&c.s);
    if (c.s.p < c.s.end && *c.s.p == '{') {
        c.want = key;
        c.want_len = key_len;
    }
    if (canon_text(&c) && c.found)
        lua_pushlstring(L, (const char *)c.found, (size_t)(c.found_end - c.found));
    else
        lua_pushnil(L);
    return 1;
}

/* ---- module ---- */

static const luaL_Reg raw_meta[] = {{"__tostring", raw_tostring}, {NULL, NULL}};
static const luaL_Reg raw_methods[] = {{NULL, NULL}};
static const luaL_Reg json_funcs[] = {
    {"encode", json_encode},       {"decode", json_decode}, {"tolerant", json_tolerant},
    {"array", json_array},         {"raw", json_raw_new},   {"is_array", json_is_array},
    {"canonical", json_canonical}, {"slice", json_slice},   {NULL, NULL}};

TR_EXPORT int luaopen_terret_json(lua_State *L);
int luaopen_terret_json(lua_State *L) {
    luaL_newmetatable(L, ARRAY);
    tr_class(L, RAW, raw_meta, raw_methods);
    luaL_newlib(L, json_funcs);
    lua_pushlightuserdata(L, NULL);
    lua_setfield(L, -2, "null");
    return 1;
}

/* tests/fuzz/fuzz_json.c - any bytes as a JSON text.
 *
 * What must hold: a decoded value encodes to a text that is its own fixed point; canonical is
 * idempotent and agrees with decode on what is a text; tolerant accepts what decode accepts
 * within its limits; a slice and a raw text are texts. */
#include "terret.h"

#include <lualib.h>
#include <stdio.h>

int luaopen_terret_json(lua_State *L);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(cond)                                                    \
    do {                                                               \
        if (!(cond)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
            abort();                                                   \
        }                                                              \
    } while (0)

/* Calls json.NAME with the value at idx, and a second argument or NULL; leaves one result. */
static bool call(lua_State *L, const char *name, int idx, const char *more) {
    lua_getfield(L, 1, name);
    lua_pushvalue(L, idx);
    if (more) lua_pushstring(L, more);
    lua_call(L, more ? 2 : 1, 1);
    return !lua_isnil(L, -1);
}

/* What may refuse a text that decode accepts: NUL, depth over 64. */
static bool within_tolerance(const char *text, size_t size) {
    size_t open = 0;
    for (size_t i = 0; i < size; i++) {
        open += text[i] == '[' || text[i] == '{';
        if (text[i] == '\0' || (size - i >= 6 && memcmp(text + i, "\\u0000", 6) == 0)) return false;
    }
    return open <= 64;
}

static int one_input(lua_State *L) {
    size_t size; /* stack: module text */
    const char *text = lua_tolstring(L, 2, &size);
    bool canonical = call(L, "canonical", 2, NULL), decoded = call(L, "decode", 2, NULL);
    CHECK(canonical == decoded); /* 3: canonical text, 4: value */
    bool tolerated = call(L, "tolerant", 2, NULL);
    if (tolerated) { /* 5: value, 6: text, 7: value, 8: text */
        call(L, "encode", 5, NULL);
        CHECK(call(L, "decode", 6, NULL));
        call(L, "encode", 7, NULL);
        CHECK(lua_rawequal(L, 6, 8));
    }
    lua_settop(L, 4);
    if (call(L, "slice", 2, "a")) CHECK(decoded && call(L, "decode", 5, NULL));
    lua_settop(L, 4);
    if (!decoded) return 0;
    CHECK(tolerated || !within_tolerance(text, size));
    call(L, "encode", 4, NULL); /* 5: text */
    CHECK(call(L, "decode", 5, NULL));
    call(L, "encode", 6, NULL); /* 6: value, 7: text */
    CHECK(lua_rawequal(L, 5, 7));
    CHECK(call(L, "canonical", 5, NULL) && lua_rawequal(L, 5, 8));
    CHECK(call(L, "canonical", 3, NULL) && lua_rawequal(L, 3, 9));
    call(L, "raw", 2, NULL); /* 10 */
    call(L, "encode", 10, NULL);
    CHECK(lua_rawequal(L, 2, 11));
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    lua_State *L = luaL_newstate();
    CHECK(L);
    lua_pushcfunction(L, one_input);
    luaL_requiref(L, "terret.json", luaopen_terret_json, 0);
    lua_pushlstring(L, (const char *)data, size);
    int status = lua_pcall(L, 2, 0, 0);
    if (status) fprintf(stderr, "%s\n", lua_tostring(L, -1));
    CHECK(status == LUA_OK);
    lua_close(L);
    return 0;
}

#ifdef REPLAY
#include "replay.h"
#endif

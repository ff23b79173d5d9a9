/* tests/unit/test_json.c - the parts of json.c that are easier to exhaust from C. */
#include "../../runtime/json.c"

#include <lualib.h>

static int failures, tests;

static void ok(bool good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

/* A slow decoder that shares nothing with utf8_step: the code point, or -1. */
static long reference_decode(const json_byte *p, size_t n) {
    static const long least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = p[0] < 0x80       ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    if (len == 0 || len > n) return -1;
    long c = len == 1 ? p[0] : p[0] & (0x7F >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2) return -1;
        c = c << 6 | (p[i] & 0x3F);
    }
    return c < least[len] || (c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF ? -1 : c;
}

/* All starts of three bytes, with two ends. */
static bool utf8_agrees(void) {
    for (unsigned v = 0; v < 1u << 24; v++) {
        for (unsigned last = 0x7F; last <= 0x80; last++) {
            json_byte p[4] = {(json_byte)(v >> 16), (json_byte)(v >> 8), (json_byte)v,
                              (json_byte)last};
            bool good;
            size_t n = utf8_step(p, p + 4, &good);
            if (n < 1 || n > 4 || good != (reference_decode(p, 4) >= 0)) return false;
            if (good && reference_decode(p, n) < 0) return false;
        }
        if ((v & 0xFF0000) < 0xC00000 && (v & 0xFFFF) == 0) v |= 0xFFFE; /* one byte decides */
    }
    return true;
}

static bool utf8_ends_early(void) {
    static const json_byte p[] = "\xF0\x9F\x98\x80";
    bool good, all = true;
    for (size_t n = 1; n < 4; n++) all = all && utf8_step(p, p + n, &good) == n && !good;
    return all && utf8_step(p, p + 4, &good) == 4 && good;
}

static bool is_plain(json_byte c, json_byte quote) {
    return c >= 0x20 && c < 0x80 && c != quote && c != '\\';
}

/* Each byte at each place of a run, behind each length. */
static bool plain_agrees(json_byte quote) {
    json_byte text[40];
    for (unsigned c = 0; c < 256; c++)
        for (size_t at = 0; at < sizeof text; at++)
            for (size_t n = at + 1; n <= sizeof text; n++) {
                memset(text, 'a', sizeof text);
                text[at] = (json_byte)c;
                const json_byte *end = is_plain((json_byte)c, quote) ? text + n : text + at;
                if (plain_end(text, text + n, quote) != end) return false;
            }
    return true;
}

static uint64_t state = 88172645463325252u;
static uint64_t random64(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Random doubles are written so that both strtod and the scanner read them back. */
static bool doubles_return(lua_State *L) {
    lua_settop(L, 0);
    json_buf b;
    buf_init(&b, L);
    for (int i = 0; i < 100000; i++) {
        double d;
        uint64_t bits = random64();
        memcpy(&d, &bits, sizeof d);
        if (i % 2) d = (double)(int64_t)(bits >> (bits & 63)) / (double)(1 + (bits >> 50));
        if (!isfinite(d)) continue;
        b.n = 0;
        put_double(&b, d);
        buf_putc(&b, '\0');
        json_scan s;
        json_number n;
        lua_settop(L, b.slot);
        scan_init(&s, L, b.p, b.n - 1, 1);
        double back = scan_number(&s, &n) ? number_double(&n) : NAN;
        if (strtod(b.p, NULL) != d || back != d || s.p != s.end || n.integer) return false;
    }
    return true;
}

static bool integer_is(lua_State *L, const char *text, bool fits, lua_Integer expected) {
    json_scan s;
    json_number n;
    lua_Integer v = 0;
    lua_settop(L, 0);
    scan_init(&s, L, text, strlen(text), 1);
    return scan_number(&s, &n) && number_integer(&n, &v) == fits && (!fits || v == expected);
}

static bool integers_fit(lua_State *L) {
    return integer_is(L, "0", true, 0) && integer_is(L, "-1", true, -1) &&
           integer_is(L, "9223372036854775807", true, INT64_MAX) &&
           integer_is(L, "9223372036854775808", false, 0) &&
           integer_is(L, "-9223372036854775808", true, INT64_MIN) &&
           integer_is(L, "-9223372036854775809", false, 0) &&
           integer_is(L, "9999999999999999999", false, 0) &&
           integer_is(L, "18446744073709551617", false, 0) && integer_is(L, "-0", false, 0) &&
           integer_is(L, "1.0", false, 0) && integer_is(L, "1e2", false, 0);
}

/* The buffer keeps its bytes over all its growths. */
static bool buffer_grows(lua_State *L) {
    lua_settop(L, 0);
    json_buf b;
    buf_init(&b, L);
    for (int i = 0; i < 100000; i++) buf_putc(&b, (char)i);
    bool good = b.n == 100000 && lua_gettop(L) == 1 && lua_isuserdata(L, 1);
    for (int i = 0; i < 100000 && good; i++) good = b.p[i] == (char)i;
    return good;
}

/* Two states don't know of each other. */
static bool states_are_apart(lua_State *L) {
    lua_State *other = luaL_newstate();
    lua_State *both[] = {L, other};
    for (int i = 0; i < 2; i++) {
        lua_settop(both[i], 0);
        luaL_requiref(both[i], "terret.json", luaopen_terret_json, 0);
        lua_getfield(both[i], -1, "decode");
        lua_pushliteral(both[i], "[1]");
        lua_call(both[i], 1, 1);
    }
    lua_close(other);
    return lua_istable(L, -1) && lua_rawlen(L, -1) == 1;
}

int main(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    puts("1..8");
    ok(utf8_agrees(), "utf8_step agrees with a slow decoder");
    ok(utf8_ends_early(), "utf8_step stops at the end of the text");
    ok(plain_agrees('"'), "plain_end finds each byte at each place");
    ok(plain_agrees('\''), "plain_end knows the other quote");
    ok(doubles_return(L), "doubles are read back as they were");
    ok(integers_fit(L), "integers fit up to the last one");
    ok(buffer_grows(L), "the buffer keeps its bytes when it grows");
    ok(states_are_apart(L), "two Lua states work side by side");
    lua_close(L);
    return failures > 0;
}

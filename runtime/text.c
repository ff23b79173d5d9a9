/* runtime/text.c - terret.text: UTF-8 as a model, a log and a terminal need it.
 *
 * Owns nothing; every function maps strings to strings and numbers, in linear time.  Raises on
 * wrong arguments only: no input is refused.
 *
 * Knows no locale.  Broken input is cut into pieces by the rule of the WHATWG decoder: the
 * longest start of a valid sequence is one piece, and each piece becomes one U+FFFD.  A NUL is
 * broken too: it is valid in JSON, but there are endpoints that refuse it or stop there.  What
 * needs no change is returned as the same Lua string. */
#include "terret.h"

#include <stdio.h>

#include "text_width.h"

#define BROKEN UINT32_MAX
#define REPLACEMENT "\xef\xbf\xbd"
#define LOOK 8192 /* bytes that is_binary looks at */
#define FEW 3     /* broken bytes that make nothing binary */

typedef const unsigned char *bytes;

/* A string argument: [p, end). */
typedef struct span {
    bytes p, end;
} span;

static span check_span(lua_State *L, int arg) {
    size_t n;
    bytes p = (bytes)luaL_checklstring(L, arg, &n);
    return (span){p, p + n};
}

static size_t check_size(lua_State *L, int arg) {
    lua_Integer n = luaL_checkinteger(L, arg);
    luaL_argcheck(L, n >= 0, arg, "negative");
    return (size_t)n;
}

static void add_span(luaL_Buffer *b, bytes p, bytes end) {
    luaL_addlstring(b, (const char *)p, (size_t)(end - p));
}

static void push_span(lua_State *L, bytes p, bytes end) {
    lua_pushlstring(L, (const char *)p, (size_t)(end - p));
}

/* ---- decoding ---- */

static inline bool is_tail(unsigned char c) {
    return (c & 0xc0) == 0x80;
}

/* Length by the first byte; 0: none starts so.  Narrows the second byte to [*low, *high],
 * which is what keeps out overlong forms, surrogates and what is over U+10FFFF. */
static size_t lead(unsigned char c, unsigned char *low, unsigned char *high) {
    *low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    *high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (c < 0x80) return 1;
    if (c < 0xc2 || c > 0xf4) return 0;
    return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Reads one character at p < end; *cp is BROKEN if it is none.  Returns the bytes it takes. */
static size_t decode(bytes p, bytes end, uint32_t *cp) {
    unsigned char low, high;
    size_t n = lead(*p, &low, &high);
    uint32_t v = n < 2 ? *p : *p & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if (p + i == end || p[i] < low || p[i] > high) {
            *cp = BROKEN;
            return i;
        }
        v = v << 6 | (p[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *cp = n ? v : BROKEN;
    return n ? n : 1;
}

/* Skips ASCII without NUL, eight bytes at a time.  A byte that is 0 borrows into its high bit
 * when one is taken from each; a byte over 0x7f has it set. */
static bytes skip_ascii(bytes p, bytes end) {
    for (uint64_t v; end - p >= 8; p += 8) {
        memcpy(&v, p, 8);
        if (((v - 0x0101010101010101u) | v) & 0x8080808080808080u) break;
    }
    while (p < end && *p - 1u < 0x7f) p++;
    return p;
}

/* Skips valid text; at end, or at a broken sequence or NUL of *bad bytes. */
static bytes skip_valid(bytes p, bytes end, size_t *bad) {
    while ((p = skip_ascii(p, end)) < end) {
        uint32_t cp;
        size_t n = decode(p, end, &cp);
        if (cp == BROKEN || cp == 0) {
            *bad = n;
            return p;
        }
        p += n;
    }
    return end;
}

/* The last character's edge in [p, i], or the first in [i, end].  Looks three bytes around;
 * in broken input every byte is an edge. */
static bytes edge_before(bytes p, bytes i, bytes end) {
    if (i == end) return i;
    for (bytes q = i; q > p && i - q < 3;) {
        uint32_t cp;
        if (is_tail(*--q)) continue;
        size_t n = decode(q, end, &cp);
        return cp != BROKEN && q + n > i ? q : i;
    }
    return i;
}

static bytes edge_after(bytes p, bytes i, bytes end) {
    uint32_t cp;
    bytes q = edge_before(p, i, end);
    return q < i ? q + decode(q, end, &cp) : i;
}

/* ---- repairing ---- */

static int text_clean(lua_State *L) {
    span s = check_span(L, 1);
    size_t bad;
    lua_Integer repaired = 0;
    bytes q = skip_valid(s.p, s.end, &bad);
    lua_settop(L, 1);
    if (q < s.end) {
        luaL_Buffer b;
        luaL_buffinit(L, &b);
        for (bytes p = s.p;; q = skip_valid(p, s.end, &bad)) {
            add_span(&b, p, q);
            if (q == s.end) break;
            luaL_addstring(&b, REPLACEMENT);
            p = q + bad;
            repaired++;
        }
        luaL_pushresult(&b);
    }
    lua_pushinteger(L, repaired);
    return 2;
}

/* Characters that act on a terminal, hide, or turn the reading direction: C1 and those that
 * Unicode says may be ignored in display, the tag characters of hidden text among them. */
static const text_range unsafe[] = {
    {0x7f, 0x9f},       {0xad, 0xad},       {0x34f, 0x34f},    {0x61c, 0x61c},   {0x115f, 0x1160},
    {0x17b4, 0x17b5},   {0x180b, 0x180f},   {0x200b, 0x200f},  {0x2028, 0x202e}, {0x2060, 0x206f},
    {0x3164, 0x3164},   {0xfe00, 0xfe0f},   {0xfeff, 0xfeff},  {0xffa0, 0xffa0}, {0xfff0, 0xfffb},
    {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a}, {0xe0000, 0xe0fff}};

static bool in_ranges(uint32_t cp, const text_range *t, size_t n) {
    while (n > 0) {
        size_t half = n / 2;
        if (cp > t[half].last) {
            t += half + 1;
            n -= half + 1;
        } else if (cp < t[half].first)
            n = half;
        else
            return true;
    }
    return false;
}

#define IN(cp, table) in_ranges((cp), (table), sizeof(table) / sizeof *(table))

/* U+FE0E and U+FE0F choose between the text and the picture of a sign before them.  One of
 * them there is plain text; anywhere else they hide data. */
static bool is_choice(uint32_t cp, uint32_t before) {
    return (cp & ~1u) == 0xfe0e && before >= 0x2000 && !(before >= 0xfe00 && before <= 0xfe0f);
}

static void add_escape(luaL_Buffer *b, uint32_t cp) {
    char text[16];
    const char *format = cp == '\n'   ? "\\n"
                         : cp == '\t' ? "\\t"
                         : cp == '\r' ? "\\r"
                         : cp < 0x100 ? "\\x%02x"
                                      : "\\u{%x}";
    snprintf(text, sizeof text, format, (unsigned)cp);
    luaL_addstring(b, text);
}

typedef struct keep {
    bool newline, tab;
} keep;

static bool is_safe(uint32_t cp, uint32_t before, keep k) {
    if (cp < 0x20) return (cp == '\n' && k.newline) || (cp == '\t' && k.tab);
    return !IN(cp, unsafe) || is_choice(cp, before);
}

static int text_safe(lua_State *L) {
    static const char *const known[] = {"newline", "tab", NULL};
    span s = check_span(L, 1);
    tr_options(L, 2, known);
    keep k = {tr_opt_boolean(L, 2, "newline", true), tr_opt_boolean(L, 2, "tab", true)};
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    bytes p = s.p, from = s.p; /* [from, p) is safe and not added yet */
    for (uint32_t cp, before = 0; p < s.end; before = cp) {
        cp = *p;
        if (cp >= 0x20 && cp < 0x7f) {
            p++;
            continue;
        }
        size_t n = decode(p, s.end, &cp);
        if (cp != BROKEN && is_safe(cp, before, k)) {
            p += n;
            continue;
        }
        add_span(&b, from, p);
        if (cp == BROKEN || cp == 0)
            luaL_addstring(&b, REPLACEMENT);
        else
            add_escape(&b, cp);
        from = p += n;
    }
    if (from == s.p)
        lua_settop(L, 1);
    else {
        add_span(&b, from, p);
        luaL_pushresult(&b);
    }
    return 1;
}

/* ---- cutting ---- */

static int text_cut(lua_State *L) {
    span s = check_span(L, 1);
    size_t max = check_size(L, 2);
    bool from_end = lua_toboolean(L, 3);
    if ((size_t)(s.end - s.p) <= max)
        lua_settop(L, 1);
    else if (from_end)
        push_span(L, edge_after(s.p, s.end - max, s.end), s.end);
    else
        push_span(L, s.p, edge_before(s.p, s.p + max, s.end));
    return 1;
}

/* The end of the head: behind the last line end in the second half of [p, h), or else h. */
static bytes head_edge(bytes p, bytes h) {
    for (bytes q = h; q - p > (h - p) / 2; q--)
        if (q[-1] == '\n') return q;
    return h;
}

/* The start of the tail: behind the first line end in the first half of [t, end), or else t. */
static bytes tail_edge(bytes p, bytes t, bytes end) {
    if (t == end || (t > p && t[-1] == '\n')) return t;
    bytes q = memchr(t, '\n', (size_t)(end - t) / 2);
    return q ? q + 1 : t;
}

static lua_Integer count_lines(bytes p, bytes end) {
    lua_Integer n = 0;
    for (; p < end; n++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    return n;
}

static int text_headtail(lua_State *L) {
    span s = check_span(L, 1);
    size_t head = check_size(L, 2), tail = check_size(L, 3), size = (size_t)(s.end - s.p);
    if (head >= size || tail >= size - head) {
        lua_settop(L, 1);
        lua_pushliteral(L, "");
        lua_pushinteger(L, 0);
        lua_pushinteger(L, 0);
        return 4;
    }
    bytes h = head_edge(s.p, edge_before(s.p, s.p + head, s.end));
    bytes t = tail_edge(h, edge_after(s.p, s.end - tail, s.end), s.end);
    push_span(L, s.p, h);
    push_span(L, t, s.end);
    lua_pushinteger(L, t - h);
    lua_pushinteger(L, count_lines(h, t));
    return 4;
}

/* ---- columns ---- */

static lua_Integer columns_of(uint32_t cp) {
    if (cp < 0x7f) return cp >= 0x20;
    if (cp < 0xa0) return 0;
    if (cp < 0x300) return 1;
    if (cp == BROKEN) return 1; /* shown as U+FFFD */
    if (IN(cp, zero_width)) return 0;
    return IN(cp, double_width) ? 2 : 1;
}

/* Walks as far as `columns` allow; marks behind the last character belong to it. */
static bytes walk(span s, lua_Integer columns, lua_Integer *width) {
    lua_Integer w = 0;
    bytes p = s.p;
    for (uint32_t cp; p < s.end;) {
        size_t n = decode(p, s.end, &cp);
        lua_Integer c = columns_of(cp);
        if (c > columns - w) break;
        w += c;
        p += n;
    }
    *width = w;
    return p;
}

static int text_width(lua_State *L) {
    lua_Integer width;
    walk(check_span(L, 1), LUA_MAXINTEGER, &width);
    lua_pushinteger(L, width);
    return 1;
}

static int text_truncate(lua_State *L) {
    span s = check_span(L, 1);
    lua_Integer width, columns = (lua_Integer)check_size(L, 2);
    bytes end = walk(s, columns, &width);
    if (end == s.end)
        lua_settop(L, 1);
    else
        push_span(L, s.p, end);
    lua_pushinteger(L, width);
    return 2;
}

/* ---- lines ---- */

static int text_count_lines(lua_State *L) {
    span s = check_span(L, 1);
    lua_pushinteger(L, count_lines(s.p, s.end));
    return 1;
}

/* Skips up to n lines; *skipped says how many there were. */
static bytes skip_lines(bytes p, bytes end, lua_Integer n, lua_Integer *skipped) {
    lua_Integer k = 0;
    for (; k < n && p < end; k++) {
        p = memchr(p, '\n', (size_t)(end - p));
        p = p ? p + 1 : end;
    }
    *skipped = k;
    return p;
}

static int text_lines(lua_State *L) {
    span s = check_span(L, 1);
    lua_Integer from = luaL_checkinteger(L, 2), to = luaL_checkinteger(L, 3);
    luaL_argcheck(L, from >= 1, 2, "lines count from 1");
    lua_Integer before, held = 0;
    bytes p = skip_lines(s.p, s.end, from - 1, &before);
    bytes q = to < from ? p : skip_lines(p, s.end, to - from + 1, &held);
    push_span(L, p, q);
    lua_pushinteger(L, before + held);
    return 2;
}

/* ---- guessing ---- */

/* Text of another encoding has some broken sequences; more than a few and a tenth is no text. */
static int text_is_binary(lua_State *L) {
    span s = check_span(L, 1);
    bytes end = s.end - s.p > LOOK ? edge_before(s.p, s.p + LOOK, s.end) : s.end;
    size_t broken = 0, bad = 0, size = (size_t)(end - s.p);
    bool nul = size && memchr(s.p, 0, size);
    for (bytes p = s.p; !nul && (p = skip_valid(p, end, &bad)) < end; p += bad) broken += bad;
    lua_pushboolean(L, nul || broken > FEW + size / 10);
    return 1;
}

/* ---- module ---- */

static const luaL_Reg text_funcs[] = {{"clean", text_clean},
                                      {"safe", text_safe},
                                      {"cut", text_cut},
                                      {"headtail", text_headtail},
                                      {"width", text_width},
                                      {"truncate", text_truncate},
                                      {"count_lines", text_count_lines},
                                      {"lines", text_lines},
                                      {"is_binary", text_is_binary},
                                      {NULL, NULL}};

TR_EXPORT int luaopen_terret_text(lua_State *L);
TR_EXPORT int luaopen_terret_text(lua_State *L) {
    luaL_newlib(L, text_funcs);
    return 1;
}

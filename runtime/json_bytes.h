/* runtime/json_bytes.h - the lowest part of terret.json: the growing text, UTF-8, escaped strings
 * and numbers in their one canonical form.  Only running out of memory raises. */
#ifndef TERRET_JSON_BYTES_H
#define TERRET_JSON_BYTES_H

#include "terret.h"

#include <locale.h>
#include <stdio.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

typedef unsigned char json_byte;

/* ---- buffer ---- */

/* Starts in the C frame and moves to a userdata in a reserved stack slot when it grows: small
 * texts allocate nothing, and an error at any time leaks nothing. */
typedef struct json_buf {
    lua_State *L;
    int slot;
    char *p;
    size_t n, cap;
    _Alignas(max_align_t) char small[1024];
} json_buf;

/* Reserves the stack slot: the buffer must outlive nothing that was pushed before it. */
static void buf_init(json_buf *b, lua_State *L) {
    luaL_checkstack(L, 3, "json");
    lua_pushnil(L);
    b->L = L;
    b->slot = lua_gettop(L);
    b->p = b->small;
    b->n = 0;
    b->cap = sizeof b->small;
}

static void buf_grow(json_buf *b, size_t more) {
    if (more > SIZE_MAX / 4 - b->n) luaL_error(b->L, "json: text too large");
    size_t cap = b->cap * 2;
    while (cap < b->n + more) cap *= 2;
    luaL_checkstack(b->L, 2, "json");
    char *p = lua_newuserdatauv(b->L, cap, 0);
    memcpy(p, b->p, b->n);
    lua_replace(b->L, b->slot);
    b->p = p;
    b->cap = cap;
}

static inline void buf_reserve(json_buf *b, size_t more) {
    if (b->cap - b->n < more) buf_grow(b, more);
}

static inline void buf_put(json_buf *b, const void *data, size_t n) {
    buf_reserve(b, n);
    memcpy(b->p + b->n, data, n);
    b->n += n;
}

static inline void buf_putc(json_buf *b, char c) {
    buf_reserve(b, 1);
    b->p[b->n++] = c;
}

static void buf_put_utf8(json_buf *b, unsigned c) {
    char u[4];
    size_t n = 0;
    if (c < 0x80) {
        u[n++] = (char)c;
    } else if (c < 0x800) {
        u[n++] = (char)(0xC0 | c >> 6);
        u[n++] = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        u[n++] = (char)(0xE0 | c >> 12);
        u[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        u[n++] = (char)(0x80 | (c & 0x3F));
    } else {
        u[n++] = (char)(0xF0 | c >> 18);
        u[n++] = (char)(0x80 | (c >> 12 & 0x3F));
        u[n++] = (char)(0x80 | (c >> 6 & 0x3F));
        u[n++] = (char)(0x80 | (c & 0x3F));
    }
    buf_put(b, u, n);
}

/* ---- UTF-8 ---- */

#define REPLACEMENT 0xFFFDu

/* Length of the sequence at p; *ok false: of its longest broken prefix (what Unicode advises
 * to replace by one U+FFFD). */
static size_t utf8_step(const json_byte *p, const json_byte *end, bool *ok) {
    unsigned c = *p, lo = 0x80, hi = 0xBF;
    size_t need = 0, n = 1;
    if (c >= 0xC2 && c <= 0xDF) {
        need = 1;
    } else if (c >= 0xE0 && c <= 0xEF) {
        need = 2;
        if (c == 0xE0) lo = 0xA0; /* overlong */
        if (c == 0xED) hi = 0x9F; /* surrogates */
    } else if (c >= 0xF0 && c <= 0xF4) {
        need = 3;
        if (c == 0xF0) lo = 0x90; /* overlong */
        if (c == 0xF4) hi = 0x8F; /* beyond U+10FFFF */
    }
    *ok = c < 0x80 || need > 0;
    for (; need > 0; need--, n++) {
        if (p + n == end || p[n] < lo || p[n] > hi) {
            *ok = false;
            break;
        }
        lo = 0x80;
        hi = 0xBF;
    }
    return n;
}

#define EACH(byte) ((uint64_t)(byte)*0x0101010101010101u)

/* The end of the run that stands for itself in a string: valid UTF-8 without control
 * characters, backslash and the quote.  The hot loop of encoding and decoding: eight bytes at a
 * time; a high bit marks a byte that is not ASCII, below 0x20, or equal to one of the two. */
static const json_byte *plain_end(const json_byte *p, const json_byte *end, json_byte quote) {
    for (;;) {
        for (uint64_t v; end - p >= 8; p += 8) {
            memcpy(&v, p, 8);
            uint64_t odd =
                v | (v - EACH(0x20)) | ((v ^ EACH(quote)) - EACH(1)) | ((v ^ EACH('\\')) - EACH(1));
            if (odd & EACH(0x80)) break;
        }
        while (p < end && *p >= 0x20 && *p < 0x80 && *p != quote && *p != '\\') p++;
        if (p == end || *p < 0x80) return p;
        while (p < end && *p >= 0x80) {
            bool ok;
            size_t n = utf8_step(p, end, &ok);
            if (!ok) return p;
            p += n;
        }
    }
}

/* Writes a string in its one canonical form; what is not UTF-8 becomes U+FFFD. */
static void put_string(json_buf *b, const char *s, size_t len) {
    static const char hex[] = "0123456789abcdef";
    const json_byte *p = (const json_byte *)s, *end = p + len;
    buf_reserve(b, len + 2);
    b->p[b->n++] = '"';
    for (;;) {
        const json_byte *q = plain_end(p, end, '"');
        buf_put(b, p, (size_t)(q - p));
        if (q == end) break;
        p = q + 1;
        switch (*q) {
        case '"': buf_put(b, "\\\"", 2); break;
        case '\\': buf_put(b, "\\\\", 2); break;
        case '\b': buf_put(b, "\\b", 2); break;
        case '\f': buf_put(b, "\\f", 2); break;
        case '\n': buf_put(b, "\\n", 2); break;
        case '\r': buf_put(b, "\\r", 2); break;
        case '\t': buf_put(b, "\\t", 2); break;
        default:
            if (*q < 0x20) {
                char u[] = {'\\', 'u', '0', '0', hex[*q >> 4], hex[*q & 15]};
                buf_put(b, u, sizeof u);
            } else {
                bool ok;
                p = q + utf8_step(q, end, &ok);
                buf_put_utf8(b, REPLACEMENT);
            }
        }
    }
    buf_putc(b, '"');
}

/* ---- numbers ---- */

static void put_integer(json_buf *b, lua_Integer v) {
    char text[24], *p = text + sizeof text;
    lua_Unsigned u = v < 0 ? 0 - (lua_Unsigned)v : (lua_Unsigned)v;
    do *--p = (char)('0' + u % 10);
    while ((u /= 10) > 0);
    if (v < 0) *--p = '-';
    buf_put(b, p, (size_t)(text + sizeof text - p));
}

/* strtod, whatever locale a script has set. */
static double read_double(const char *text) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = c ? uselocale(c) : (locale_t)0;
    double d = strtod(text, NULL);
    if (c) {
        uselocale(old);
        freelocale(c);
    }
    return d;
}

/* The shortest of 15 to 17 digits that reads back, always recognisable as a float. */
static void put_double(json_buf *b, double d) {
    char text[40];
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t old = c ? uselocale(c) : (locale_t)0;
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, d);
        if (strtod(text, NULL) == d) break;
    }
    if (c) {
        uselocale(old);
        freelocale(c);
    }
    if (!strpbrk(text, ".e")) strcat(text, ".0");
    buf_put(b, text, strlen(text));
}

#endif

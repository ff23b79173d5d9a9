/* runtime/json_scan.h - the scanner of terret.json: text in, tokens out, strict or tolerant.
 *
 * It knows no Lua values.  A bad token sets error and error_at and returns false; only running
 * out of memory raises.
 *
 * The text must be NUL-terminated behind its end (Lua's strings are): strtod relies on it. */
#ifndef TERRET_JSON_SCAN_H
#define TERRET_JSON_SCAN_H

#include "json_bytes.h"

#include <math.h>

/* ---- scanner ---- */

enum {
    REPAIR_FENCE = 1 << 0,
    REPAIR_COMMENTS = 1 << 1,
    REPAIR_CONTROL = 1 << 2,
    REPAIR_DOUBLE = 1 << 3,
    REPAIR_PYTHON = 1 << 4,
    REPAIR_SINGLE = 1 << 5,
    REPAIR_COMMA = 1 << 6,
    REPAIR_KEYS = 1 << 7,
    REPAIR_UTF8 = 1 << 8
};

typedef struct json_scan {
    const json_byte *begin, *p, *end;
    bool tolerant;
    unsigned repairs; /* what tolerant mode forgave */
    int depth, max_depth;
    const char *error; /* NULL: none */
    const json_byte *error_at;
    json_buf buf; /* the text of a string that had escapes */
} json_scan;

static void scan_init(json_scan *s, lua_State *L, const char *text, size_t len, int max_depth) {
    s->begin = s->p = (const json_byte *)text;
    s->end = s->p + len;
    s->tolerant = false;
    s->repairs = 0;
    s->depth = 0;
    s->max_depth = max_depth;
    s->error = NULL;
    s->error_at = NULL;
    buf_init(&s->buf, L);
}

/* An error at the end of the text means that the text was cut off. */
static bool scan_fail(json_scan *s, const json_byte *at, const char *error) {
    s->error = at < s->end ? error : "unexpected end of the text";
    s->error_at = at;
    return false;
}

static int scan_report(lua_State *L, const json_scan *s, const char *code) {
    size_t line = 1;
    for (const json_byte *q = s->begin; q < s->error_at; q++) line += *q == '\n';
    size_t byte = (size_t)(s->error_at - s->begin) + 1;
    return tr_fail(L, code, "line %zu, byte %zu: %s", line, byte, s->error);
}

/* White space; in tolerant mode comments too. */
static inline void skip_space(json_scan *s) {
    for (; s->p < s->end; s->p++) {
        json_byte c = *s->p;
        if (c > '/') return;
        if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
        if (!s->tolerant || c != '/' || s->end - s->p < 2 || s->p[1] != '/') return;
        s->repairs |= REPAIR_COMMENTS;
        const json_byte *q = memchr(s->p, '\n', (size_t)(s->end - s->p));
        s->p = (q ? q : s->end) - 1;
    }
}

static bool scan_take(json_scan *s, json_byte c) {
    if (s->p == s->end || *s->p != c) return false;
    s->p++;
    return true;
}

static bool scan_expect(json_scan *s, json_byte c, const char *error) {
    return scan_take(s, c) || scan_fail(s, s->p, error);
}

static bool scan_enter(json_scan *s) {
    if (s->depth == s->max_depth) return scan_fail(s, s->p, "depth over the limit");
    s->depth++;
    s->p++;
    return true;
}

/* Behind a member or element: true when another one follows, else *closed or an error. */
static bool scan_more(json_scan *s, json_byte close, bool *closed) {
    skip_space(s);
    if ((*closed = scan_take(s, close))) return false;
    const json_byte *comma = s->p;
    if (!scan_expect(s, ',', close == ']' ? "expected ',' or ']'" : "expected ',' or '}'"))
        return false;
    skip_space(s);
    if (s->p == s->end || *s->p != close) return true;
    if (!s->tolerant) return scan_fail(s, comma, "trailing comma");
    s->repairs |= REPAIR_COMMA;
    *closed = true;
    s->p++;
    return false;
}

static bool scan_word(json_scan *s, const char *word) {
    const json_byte *q = s->p;
    for (; *word; word++, q++)
        if (q == s->end || *q != (json_byte)*word)
            return scan_fail(s, q == s->end ? q : s->p, "unexpected character");
    s->p = q;
    return true;
}

/* ---- strings ---- */

typedef struct json_str {
    const char *p;
    size_t len;
    bool plain; /* a span of the text, quote to quote; else it lies in scan.buf */
} json_str;

static int hex_digit(json_byte c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Four hexadecimal digits at *p, or -1 with *p at the byte that is none. */
static int hex4(const json_byte **p, const json_byte *end) {
    int v = 0;
    for (int i = 0; i < 4; i++, ++*p) {
        int d = *p < end ? hex_digit(**p) : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* What follows "\u", with the second half of a pair; *p moves behind it. */
static bool scan_unicode(json_scan *s, const json_byte **p) {
    int c = hex4(p, s->end);
    if (c < 0) return scan_fail(s, *p, "invalid \\u escape");
    if (c == 0 && s->tolerant) return scan_fail(s, *p - 1, "NUL character (\\u0000)");
    unsigned u = (unsigned)c;
    if (u >= 0xD800 && u <= 0xDFFF) {
        const json_byte *q = *p + 2;
        int low = u < 0xDC00 && s->end - *p >= 6 && (*p)[0] == '\\' && (*p)[1] == 'u'
                      ? hex4(&q, s->end)
                      : -1;
        bool pair = low >= 0xDC00 && low <= 0xDFFF;
        u = pair ? 0x10000 + ((u - 0xD800) << 10) + ((unsigned)low - 0xDC00) : REPLACEMENT;
        if (pair) *p = q;
    }
    buf_put_utf8(&s->buf, u);
    return true;
}

static bool scan_escape(json_scan *s, const json_byte **p, json_byte quote) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const json_byte *at = (*p)++;
    if (*p == s->end) return scan_fail(s, *p, NULL);
    json_byte c = *(*p)++;
    if (c == 'u') return scan_unicode(s, p);
    const char *found = c ? strchr(from, c) : NULL;
    if (found)
        buf_putc(&s->buf, to[found - from]);
    else if (c == '\'' && quote == '\'')
        buf_putc(&s->buf, '\'');
    else
        return scan_fail(s, at, "invalid escape");
    return true;
}

/* A byte that can't stand for itself; *p moves behind it. */
static bool scan_odd(json_scan *s, const json_byte **p, json_byte quote) {
    if (**p == '\\') return scan_escape(s, p, quote);
    if (**p < 0x20) {
        if (!s->tolerant) return scan_fail(s, *p, "control character in a string");
        s->repairs |= REPAIR_CONTROL;
        buf_putc(&s->buf, (char)*(*p)++);
        return true;
    }
    if (!s->tolerant) return scan_fail(s, *p, "invalid UTF-8");
    bool ok;
    s->repairs |= REPAIR_UTF8;
    *p += utf8_step(*p, s->end, &ok);
    buf_put_utf8(&s->buf, REPLACEMENT);
    return true;
}

/* The string whose opening quote is at p.  The result is good until the next one. */
static bool scan_string(json_scan *s, json_str *out) {
    json_byte quote = *s->p;
    const json_byte *start = s->p + 1, *q = plain_end(start, s->end, quote);
    out->plain = q < s->end && *q == quote;
    out->p = (const char *)start;
    out->len = (size_t)(q - start);
    s->buf.n = 0;
    while (q < s->end && *q != quote) {
        buf_put(&s->buf, start, (size_t)(q - start));
        if (!scan_odd(s, &q, quote)) return false;
        start = q;
        q = plain_end(start, s->end, quote);
    }
    if (q == s->end) return scan_fail(s, q, NULL);
    s->p = q + 1;
    if (quote == '\'') s->repairs |= REPAIR_SINGLE;
    if (out->plain) return true;
    buf_put(&s->buf, start, (size_t)(q - start));
    out->p = s->buf.p;
    out->len = s->buf.n;
    return true;
}

static bool is_digit(json_byte c) {
    return c >= '0' && c <= '9';
}

static bool is_name_start(json_byte c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

static bool is_name(json_byte c) {
    return is_name_start(c) || is_digit(c) || c == '-';
}

/* A member's key and its colon. */
static bool scan_key(json_scan *s, json_str *key) {
    if (s->p == s->end) return scan_fail(s, s->p, NULL);
    if (*s->p == '"' || (*s->p == '\'' && s->tolerant)) {
        if (!scan_string(s, key)) return false;
    } else {
        key->p = (const char *)s->p;
        if (s->tolerant && is_name_start(*s->p))
            while (s->p < s->end && is_name(*s->p)) s->p++;
        key->len = (size_t)((const char *)s->p - key->p);
        key->plain = false;
        if (key->len == 0) return scan_fail(s, s->p, "expected a key");
        s->repairs |= REPAIR_KEYS;
    }
    skip_space(s);
    return scan_expect(s, ':', "expected ':'");
}

/* ---- numbers ---- */

typedef struct json_number {
    const char *p;
    uint64_t mantissa; /* the first 19 significant digits */
    int64_t digits;    /* how many there are in all */
    int64_t exponent;  /* of ten, for the mantissa */
    bool negative, integer;
} json_number;

/* At least one digit; fraction: they stand behind the point. */
static bool scan_digits(json_scan *s, json_number *n, bool fraction) {
    const json_byte *start = s->p;
    for (; s->p < s->end && is_digit(*s->p); s->p++) {
        bool counts = n->digits > 0 || *s->p != '0', kept = counts && n->digits < 19;
        if (kept) n->mantissa = n->mantissa * 10 + (uint64_t)(*s->p - '0');
        if (counts) n->digits++;
        if (fraction && (kept || !counts)) n->exponent--;
        if (!fraction && counts && !kept) n->exponent++;
    }
    return s->p > start || scan_fail(s, s->p, "expected a digit");
}

static bool scan_exponent(json_scan *s, json_number *n) {
    bool minus = scan_take(s, '-');
    if (!minus) scan_take(s, '+');
    json_number e = {.digits = 0};
    if (!scan_digits(s, &e, false)) return false;
    /* Past any text's length it can't be made up for by digits. */
    int64_t v = e.digits > 15 ? INT64_MAX / 4 : (int64_t)e.mantissa;
    n->exponent += minus ? -v : v;
    return true;
}

static bool scan_number(json_scan *s, json_number *n) {
    *n = (json_number){.p = (const char *)s->p, .integer = true};
    n->negative = scan_take(s, '-');
    const json_byte *first = s->p;
    if (!scan_digits(s, n, false)) return false;
    if (*first == '0' && s->p > first + 1) return scan_fail(s, first, "leading zero");
    if (scan_take(s, '.')) {
        n->integer = false;
        if (!scan_digits(s, n, true)) return false;
    }
    if (scan_take(s, 'e') || scan_take(s, 'E')) {
        n->integer = false;
        if (!scan_exponent(s, n)) return false;
    }
    int64_t kept = n->digits < 19 ? n->digits : 19;
    if (kept > 0 && kept + n->exponent > 308 && isinf(read_double(n->p)))
        return scan_fail(s, first, "number out of range");
    return true;
}

/* Small mantissas and powers of ten are exact doubles, so one operation rounds correctly. */
static double number_double(const json_number *n) {
    static const double ten[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                 1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    if (n->digits > 15 || n->exponent < -22 || n->exponent > 22) return read_double(n->p);
    double d = (double)n->mantissa;
    d = n->exponent < 0 ? d / ten[-n->exponent] : d * ten[n->exponent];
    return n->negative ? -d : d;
}

/* True when it is an integer that fits; "-0" is the float. */
static bool number_integer(const json_number *n, lua_Integer *v) {
    if (!n->integer || n->digits > 19 || (n->negative && n->mantissa == 0)) return false;
    if (n->mantissa > (uint64_t)INT64_MAX + n->negative) return false;
    *v = (lua_Integer)(n->negative ? 0 - n->mantissa : n->mantissa);
    return true;
}

#endif

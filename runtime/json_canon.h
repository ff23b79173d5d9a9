/* runtime/json_canon.h - text to canonical text without Lua tables; part of json.c.
 *
 * One pass writes the text; at the end of an object that was not in order its members are sorted
 * inside the output.  It refuses exactly what decode refuses, so json.raw and json.slice use it
 * as their validator too. */
#ifndef TERRET_JSON_CANON_H
#define TERRET_JSON_CANON_H

#include "json_scan.h"

/* A member in the output: its escaped key, and the whole of it. */
typedef struct json_member {
    const char *key; /* set while sorting: the output moves when it grows */
    size_t at, key_len, len;
    const json_byte *source; /* of the key, for the message */
} json_member;

typedef struct json_canon {
    json_scan s;
    json_buf out, members; /* members: of all open objects, a stack of json_member */
    int deepest;
    const char *want; /* slice: look for this member of the outermost object */
    size_t want_len;
    const json_byte *found, *found_end;
} json_canon;

static void canon_init(json_canon *c, lua_State *L, const char *text, size_t len, int max_depth) {
    scan_init(&c->s, L, text, len, max_depth);
    buf_init(&c->out, L);
    buf_init(&c->members, L);
    c->deepest = 0;
    c->want = NULL;
    c->found = c->found_end = NULL;
}

static bool canon_value(json_canon *c);

/* The byte that an escaped key stands for at *p; *p moves behind it. */
static unsigned key_byte(const char **p) {
    const json_byte *s = (const json_byte *)*p;
    *p += *s == '\\' ? 2 : 1;
    if (*s != '\\') return *s;
    switch (s[1]) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'u': /* only \u00xx is written */
        *p += 4;
        return (unsigned)(hex_digit(s[4]) << 4 | hex_digit(s[5]));
    default: return s[1];
    }
}

/* Orders by the bytes that the keys stand for, as encode does. */
static int member_order(const void *a, const void *b) {
    const json_member *x = a, *y = b;
    const char *p = x->key, *q = y->key, *p_end = p + x->key_len, *q_end = q + y->key_len;
    while (p < p_end && q < q_end) {
        unsigned c = key_byte(&p), d = key_byte(&q);
        if (c != d) return c < d ? -1 : 1;
    }
    return (p < p_end) - (q < q_end);
}

/* Writes the members behind the open brace at start again, in order; a copy of what is there
 * goes behind the output for that. */
static void rewrite_members(json_canon *c, size_t start, const json_member *m, size_t n) {
    size_t len = c->out.n - start;
    buf_reserve(&c->out, len);
    char *to = c->out.p + start, *copy = c->out.p + c->out.n;
    memcpy(copy, to, len);
    for (size_t i = 0; i < n; i++) {
        if (i > 0) *to++ = ',';
        memcpy(to, copy + (m[i].at - start), m[i].len);
        to += m[i].len;
    }
}

static bool sort_members(json_canon *c, size_t start, json_member *m, size_t n) {
    bool sorted = true;
    for (size_t i = 0; i < n; i++) m[i].key = c->out.p + m[i].at + 1;
    for (size_t i = 1; i < n && sorted; i++) sorted = member_order(&m[i - 1], &m[i]) < 0;
    if (sorted) return true;
    qsort(m, n, sizeof *m, member_order);
    for (size_t i = 1; i < n; i++) {
        if (member_order(&m[i - 1], &m[i]) < 0) continue;
        const json_byte *x = m[i - 1].source, *y = m[i].source;
        return scan_fail(&c->s, x > y ? x : y, "duplicate key");
    }
    rewrite_members(c, start, m, n);
    return true;
}

static void canon_string(json_canon *c, const json_str *str) {
    if (str->plain)
        buf_put(&c->out, str->p - 1, str->len + 2);
    else
        put_string(&c->out, str->p, str->len);
}

static bool canon_member(json_canon *c) {
    json_scan *s = &c->s;
    json_str key;
    json_member m = {.at = c->out.n, .source = s->p};
    if (!scan_key(s, &key)) return false;
    bool wanted =
        s->depth == 1 && c->want && key.len == c->want_len && memcmp(key.p, c->want, key.len) == 0;
    canon_string(c, &key);
    m.key_len = c->out.n - m.at - 2;
    buf_putc(&c->out, ':');
    skip_space(s);
    const json_byte *value = s->p;
    if (!canon_value(c)) return false;
    if (wanted) {
        c->found = value;
        c->found_end = s->p;
    }
    m.len = c->out.n - m.at;
    buf_put(&c->members, &m, sizeof m);
    return true;
}

static bool canon_enter(json_canon *c) {
    if (!scan_enter(&c->s)) return false;
    if (c->s.depth > c->deepest) c->deepest = c->s.depth;
    skip_space(&c->s);
    return true;
}

static bool canon_object(json_canon *c) {
    size_t start = c->out.n + 1, first = c->members.n;
    buf_putc(&c->out, '{');
    if (!canon_enter(c)) return false;
    bool closed = scan_take(&c->s, '}'), more = !closed;
    while (more) {
        if (!canon_member(c)) return false;
        more = scan_more(&c->s, '}', &closed);
        if (more) buf_putc(&c->out, ',');
    }
    if (!closed) return false;
    size_t n = (c->members.n - first) / sizeof(json_member);
    if (!sort_members(c, start, (json_member *)(void *)(c->members.p + first), n)) return false;
    c->members.n = first;
    c->s.depth--;
    buf_putc(&c->out, '}');
    return true;
}

static bool canon_array(json_canon *c) {
    buf_putc(&c->out, '[');
    if (!canon_enter(c)) return false;
    bool closed = scan_take(&c->s, ']'), more = !closed;
    while (more) {
        if (!canon_value(c)) return false;
        more = scan_more(&c->s, ']', &closed);
        if (more) buf_putc(&c->out, ',');
    }
    if (!closed) return false;
    c->s.depth--;
    buf_putc(&c->out, ']');
    return true;
}

/* The value at p, without space around it. */
static bool canon_value(json_canon *c) {
    json_scan *s = &c->s;
    const json_byte *start = s->p;
    json_str str;
    json_number number;
    if (s->p == s->end) return scan_fail(s, s->p, NULL);
    switch (*s->p) {
    case '{': return canon_object(c);
    case '[': return canon_array(c);
    case '"':
        if (!scan_string(s, &str)) return false;
        canon_string(c, &str);
        return true;
    case 't':
        if (!scan_word(s, "true")) return false;
        break;
    case 'f':
        if (!scan_word(s, "false")) return false;
        break;
    case 'n':
        if (!scan_word(s, "null")) return false;
        break;
    default:
        if (*s->p != '-' && !is_digit(*s->p)) return scan_fail(s, s->p, "unexpected character");
        if (!scan_number(s, &number)) return false;
    }
    buf_put(&c->out, start, (size_t)(s->p - start));
    return true;
}

static bool scan_end(json_scan *s) {
    skip_space(s);
    return s->p == s->end || scan_fail(s, s->p, "something follows the value");
}

static bool canon_text(json_canon *c) {
    skip_space(&c->s);
    return canon_value(c) && scan_end(&c->s);
}

#endif

/* runtime/fs_glob.h - fs.match: a glob over a whole name; private to fs.c.
 *
 *   *        any characters but '/'          ?     one character but '/'
 *   **       any characters                  [..]  one of a set, [!..] or [^..] one not of it
 *   **\/     any directories, also none      \c    the character c  (here without the \)
 *
 * A character is a UTF-8 sequence, or a byte where the text is not UTF-8.  A '[' that is never
 * closed is an ordinary character.
 *
 * At a mismatch only the last '*' is stretched, and when it meets a '/' or the end the last
 * '**'.  That suffices: whatever an earlier star could still do, it reached the later one as
 * early as possible, and from there the later one can reach everything.  A '*' directly after
 * '**' that has failed once fails for each later start in the same component, which `dead`
 * remembers.  So the time is at most the product of the lengths, with no bad patterns. */
#ifndef TERRET_FS_GLOB_H
#define TERRET_FS_GLOB_H

#include "terret.h"

typedef struct glob {
    const char *p, *end; /* the pattern */
    const char *literal; /* from here on no '[' is closed: each stands for itself */
} glob;

/* Bytes of the character at s (at least 1) and its code point, or byte value + 0x110000. */
static size_t glob_char(const char *s, const char *end, uint32_t *code) {
    unsigned char c = (unsigned char)*s;
    size_t n = c < 0x80 ? 1 : c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
    *code = n <= 1 ? c : c & (0xFFu >> (n + 1));
    if (n == 0 || n > (size_t)(end - s)) n = 0;
    for (size_t i = 1; i < n; i++) {
        if (((unsigned char)s[i] & 0xC0) != 0x80)
            n = 0;
        else
            *code = *code << 6 | ((unsigned char)s[i] & 0x3F);
    }
    if (n > 0) return n;
    *code = 0x110000u + c;
    return 1;
}

/* A '[' at s: past the ']' that closes it, or NULL. */
static const char *set_end(const char *s, const char *end) {
    s++;
    if (s < end && (*s == '!' || *s == '^')) s++;
    for (bool first = true; s < end; first = false) {
        if (*s == ']' && !first) return s + 1;
        s += *s == '\\' && s + 1 < end ? 2 : 1;
    }
    return NULL;
}

/* Where the unclosed sets begin, so that no match has to look for their ends again. */
static const char *find_literal(const char *p, const char *end) {
    while (p < end) {
        if (*p == '[') {
            const char *after = set_end(p, end);
            if (!after) return p;
            p = after;
        } else {
            p += *p == '\\' && p + 1 < end ? 2 : 1;
        }
    }
    return end;
}

/* One member of a set, escaped or not. */
static const char *set_member(const char *s, const char *end, uint32_t *code) {
    if (*s == '\\' && s + 1 < end) s++;
    return s + glob_char(s, end, code);
}

/* Is code in the set between s (after '[') and close (at ']')? */
static bool set_has(const char *s, const char *close, uint32_t code) {
    bool negated = *s == '!' || *s == '^', found = false;
    if (negated) s++;
    while (s < close) {
        uint32_t low, high;
        s = set_member(s, close, &low);
        high = low;
        if (s + 1 < close && *s == '-') s = set_member(s + 1, close, &high);
        if (low <= code && code <= high) found = true;
    }
    return found != negated;
}

/* Matches one element (no star) at *p against the text at *t; moves both on. */
static bool glob_one(const glob *g, const char **p, const char **t, const char *end) {
    uint32_t code;
    if (*t >= end) return false;
    if (**p == '?' || (**p == '[' && *p < g->literal)) {
        size_t n = glob_char(*t, end, &code);
        if (code == '/') return false;
        const char *after = **p == '?' ? *p + 1 : set_end(*p, g->end);
        if (**p == '[' && !set_has(*p + 1, after - 1, code)) return false;
        *p = after;
        *t += n;
        return true;
    }
    const char *want = **p == '\\' && *p + 1 < g->end ? *p + 1 : *p;
    if (*want != **t) return false;
    *p = want + 1;
    ++*t;
    return true;
}

/* Where to go on after a star: the pattern behind it (NULL: none) and how far it reaches. */
typedef struct star {
    const char *p, *t;
} star;

typedef struct matcher {
    star one, many;    /* the last '*', the last '**' */
    bool dirs;         /* many is a whole component: it ends behind a '/' */
    const char *first; /* text at the first '*' after many; NULL: none yet */
    const char *dead;  /* such a '*' before this one has failed already */
} matcher;

static const char *component_end(const char *t, const char *end) {
    const char *slash = memchr(t, '/', (size_t)(end - t));
    return slash ? slash : end;
}

/* Reads the stars at *p; false: this way was tried. */
static bool take_star(matcher *m, const char *start, const char **p, const char *pend,
                      const char *t) {
    const char *s = *p;
    while (s < pend && *s == '*') s++;
    if (s - *p == 1) {
        if (m->many.p && !m->first) {
            if (t < m->dead) return false;
            m->first = t;
        }
        m->one = (star){s, t};
    } else {
        m->dirs = (*p == start || (*p)[-1] == '/') && s < pend && *s == '/';
        if (m->dirs) s++;
        m->many = (star){s, t};
        m->one.p = m->first = NULL;
        m->dead = t;
    }
    *p = s;
    return true;
}

/* Stretches the last star that can be stretched; false: none. */
static bool stretch(matcher *m, const char **p, const char **t, const char *end) {
    uint32_t code;
    if (m->one.p && m->one.t < end && *m->one.t != '/') {
        m->one.t += glob_char(m->one.t, end, &code);
        *p = m->one.p;
        *t = m->one.t;
        return true;
    }
    m->one.p = NULL;
    if (!m->many.p) return false;
    if (m->first) m->dead = component_end(m->first, end) + 1;
    m->first = NULL;
    const char *from = m->dirs ? component_end(m->many.t, end) : m->many.t;
    if (from == end) return false;
    m->many.t = from + glob_char(from, end, &code);
    *p = m->many.p;
    *t = m->many.t;
    return true;
}

static bool glob_match(const char *pattern, size_t np, const char *name, size_t n) {
    glob g = {pattern, pattern + np, find_literal(pattern, pattern + np)};
    matcher m = {.dead = name};
    const char *p = pattern, *t = name, *end = name + n;
    while (p < g.end || t < end) {
        bool ok = p < g.end;
        if (ok) ok = *p == '*' ? take_star(&m, pattern, &p, g.end, t) : glob_one(&g, &p, &t, end);
        if (!ok && !stretch(&m, &p, &t, end)) return false;
    }
    return true;
}

#endif

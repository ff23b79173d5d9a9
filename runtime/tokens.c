/* runtime/tokens.c - terret.tokens: how many tokens a text has, about.
 *
 * Owns nothing.  Never fails, takes any bytes, one pass, a few nanoseconds a word.
 *
 * Characters / 4 is wrong by half for base64, listings and tables, and the error is largest
 * just when much text arrives.  So this walks through the text the way tokenizers do before
 * they merge: a word takes the one blank or sign before it, digits go in groups of three,
 * signs and white space in runs.  What a piece costs then hardly depends on what it says, only
 * on its kind and length: the tables below are measured averages (of the o200k vocabulary,
 * over prose, code, logs and data), in hundredths of a token.
 *
 * One thing the pieces don't show: long unbroken runs of letters and digits that change class
 * all the time (keys, hashes, base64) are no words, and cost more; see `run`.
 *
 * Other vocabularies differ by a factor that is about the same for all kinds of text; the
 * caller learns it from the usage that endpoints report. */
#include "terret.h"

typedef const unsigned char *bytes;

/* ---- what a byte is ---- */

enum { SIGN = 0, LOWER = 1, UPPER = 2, DIGIT = 4, BLANK = 8, BREAK = 16, HIGH = 32, VOWEL = 64 };

#define LETTER (LOWER | UPPER)
#define SPACE (BLANK | BREAK)

/* NUL is a sign, so the NUL behind every Lua string ends each loop over another class. */
/* clang-format off */
static const unsigned char class_of[256] = {
    ['\t'] = BLANK, ['\n'] = BREAK, ['\v'] = BLANK, ['\f'] = BLANK, ['\r'] = BREAK, [' '] = BLANK,
    ['0' ... '9'] = DIGIT, [0x80 ... 0xff] = HIGH,
    ['b' ... 'd'] = LOWER, ['f' ... 'h'] = LOWER, ['j' ... 'n'] = LOWER, ['p' ... 't'] = LOWER,
    ['v' ... 'x'] = LOWER, ['z'] = LOWER, ['a'] = LOWER | VOWEL, ['e'] = LOWER | VOWEL,
    ['i'] = LOWER | VOWEL, ['o'] = LOWER | VOWEL, ['u'] = LOWER | VOWEL, ['y'] = LOWER | VOWEL,
    ['B' ... 'D'] = UPPER, ['F' ... 'H'] = UPPER, ['J' ... 'N'] = UPPER, ['P' ... 'T'] = UPPER,
    ['V' ... 'X'] = UPPER, ['Z'] = UPPER, ['A'] = UPPER | VOWEL, ['E'] = UPPER | VOWEL,
    ['I'] = UPPER | VOWEL, ['O'] = UPPER | VOWEL, ['U'] = UPPER | VOWEL, ['Y'] = UPPER | VOWEL,
};
/* clang-format on */

/* ---- words ---- */

enum { BARE, SPACED, SIGNED, LEADS };     /* what is before a word */
enum { SMALL, CAPITAL, CAPITALS, MIXED }; /* foo, Foo, FOO, FOOBar */
#define LONGEST 15

/* [before][case][length]; one more letter than the last column costs `longer`. */
static const uint16_t word_cost[LEADS][4][LONGEST + 1] = {
    [BARE] = {{0, 100, 100, 106, 104, 114, 114, 124, 130, 145, 155, 170, 200, 220, 250, 280},
              {0, 100, 116, 124, 113, 108, 107, 106, 111, 118, 136, 129, 130, 132, 140, 160},
              {0, 100, 103, 146, 177, 180, 190, 220, 268, 320, 363, 379, 420, 500, 550, 590},
              {0, 100, 150, 204, 232, 288, 341, 385, 439, 473, 521, 570, 600, 680, 730, 790}},
    [SPACED] = {{0, 100, 100, 101, 102, 103, 105, 110, 112, 119, 124, 127, 145, 150, 186, 209},
                {0, 100, 101, 101, 102, 107, 107, 107, 118, 129, 150, 155, 150, 150, 150, 178},
                {0, 100, 101, 113, 117, 146, 121, 130, 190, 225, 225, 235, 300, 310, 350, 380},
                {0, 100, 130, 151, 179, 169, 189, 217, 214, 225, 264, 264, 264, 280, 300, 330}},
    [SIGNED] = {{0, 102, 128, 121, 126, 125, 132, 150, 173, 182, 203, 217, 250, 260, 286, 333},
                {0, 152, 177, 181, 155, 155, 183, 189, 192, 213, 231, 235, 240, 245, 260, 300},
                {0, 152, 151, 152, 150, 184, 170, 185, 190, 243, 268, 277, 313, 320, 340, 400},
                {0, 150, 220, 279, 315, 357, 380, 390, 433, 440, 500, 530, 560, 600, 640, 700}},
};
static const uint16_t longer[4] = {30, 25, 45, 50};
#define MUTE 40 /* a letter of a small word without vowels (strcpy, rwx), at least */

static inline uint64_t cost_of_word(int before, int kind, size_t n, bool vowels) {
    uint64_t cost = word_cost[before][kind][n < LONGEST ? n : LONGEST];
    if (n > LONGEST) cost += (n - LONGEST) * longer[kind];
    if (kind == SMALL && !vowels && cost < n * MUTE) cost = n * MUTE;
    return cost;
}

/* ---- words in other letters ---- */

typedef struct script {
    uint32_t first, last;
    uint16_t base, each; /* a word's cost: base + each * letters, at least one token */
} script;

/* Letters; what is over U+7F in no range is a sign. */
static const script scripts[] = {
    {0xaa, 0xaa, 60, 26},        {0xb5, 0xb5, 60, 26},        {0xba, 0xba, 60, 26},
    {0xc0, 0x24f, 70, 26},       {0x250, 0x36f, 100, 60},     {0x370, 0x3ff, 0, 40},
    {0x400, 0x52f, 50, 19},      {0x531, 0x587, 50, 30},      {0x5d0, 0x5ff, 50, 38},
    {0x610, 0x669, 20, 33},      {0x66e, 0x6d3, 20, 33},      {0x6d5, 0x8ff, 20, 33},
    {0x900, 0x963, 0, 40},       {0x966, 0x97f, 0, 40},       {0x980, 0x9ff, 10, 40},
    {0xa00, 0xdff, 80, 37},      {0xe00, 0xeff, 60, 44},      {0xf00, 0x109f, 50, 80},
    {0x10a0, 0x10ff, 30, 36},    {0x1100, 0x11ff, 50, 100},   {0x1200, 0x1dff, 50, 100},
    {0x1e00, 0x1eff, 90, 8},     {0x1f00, 0x1fff, 50, 80},    {0x2c00, 0x2dff, 50, 100},
    {0x3005, 0x3007, 60, 68},    {0x3041, 0x30ff, 50, 58},    {0x3105, 0x31ff, 60, 100},
    {0x3400, 0x4dbf, 90, 200},   {0x4e00, 0x9fff, 60, 61},    {0xa000, 0xabff, 50, 150},
    {0xac00, 0xd7a3, 55, 43},    {0xf900, 0xfaff, 60, 150},   {0xff21, 0xff3a, 50, 100},
    {0xff41, 0xff9f, 50, 100},   {0x10000, 0x1cfff, 50, 200}, {0x1d400, 0x1d7cb, 50, 200},
    {0x20000, 0x3ffff, 50, 250},
};

static const script *script_of(uint32_t cp) {
    size_t low = 0, high = sizeof scripts / sizeof *scripts;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (cp > scripts[mid].last)
            low = mid + 1;
        else if (cp < scripts[mid].first)
            high = mid;
        else
            return scripts + mid;
    }
    return NULL;
}

/* One character over U+7F, read without checks: what is broken counts as some sign.  Reads
 * no further than the NUL behind the string. */
static size_t read_high(bytes p, uint32_t *cp) {
    size_t n = *p >= 0xf0 ? 4 : *p >= 0xe0 ? 3 : *p >= 0xc0 ? 2 : 1;
    uint32_t v = *p & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) n = 1;
        v = v << 6 | (p[i] & 0x3f);
    }
    *cp = n > 1 ? v : 0xfffd;
    return n;
}

static inline bool is_ascii_letter(unsigned char c) {
    return class_of[c] & LETTER;
}

/* The script of the character at p; NULL: not a letter over U+7F. */
static const script *high_letter(bytes p) {
    uint32_t cp;
    if (class_of[*p] != HIGH) return NULL;
    read_high(p, &cp);
    return script_of(cp);
}

static inline bool is_letter(bytes p) {
    return is_ascii_letter(*p) || high_letter(p);
}

/* ---- the walk ---- */

/* Letters and digits without a break between.  Words of a language are longer than two or
 * three letters; a run that isn't made of such is noise, which no vocabulary holds. */
typedef struct run {
    bytes start, end;
    uint64_t cost;
    size_t pieces;
    bool upper, lower; /* has some */
} run;

#define RUN_MIN 16   /* shorter ones may be names like utf8_to_utf16le */
#define RUN_PIECE 4  /* letters and digits a piece, on average, that make noise */
#define NOISE 68     /* a character of base64 */
#define HEX_NOISE 57 /* a character of hexadecimal digits */

static uint64_t run_cost(const run *r) {
    size_t n = (size_t)(r->end - r->start);
    if (n < RUN_MIN || n > r->pieces * RUN_PIECE) return r->cost;
    return n * (r->upper && r->lower ? NOISE : HEX_NOISE);
}

typedef struct walk {
    bytes p, end;
    uint64_t cost; /* of what is before r */
    run r;
} walk;

/* The piece [start, end) continues the run or begins a new one. */
static void run_add(walk *w, bytes start, bytes end, uint64_t cost) {
    run *r = &w->r;
    if (start != r->end) {
        w->cost += run_cost(r);
        *r = (run){.start = start};
    }
    r->end = end;
    r->cost += cost;
    r->pieces++;
}

/* A word with letters over U+7F; start is its first letter. */
static void high_word(walk *w, bytes start, int before) {
    static const uint16_t extra[LEADS] = {[BARE] = 50, [SPACED] = 0, [SIGNED] = 80};
    const script *s = NULL;
    size_t letters = 0;
    bytes p = start;
    for (uint32_t cp;; letters++) {
        if (is_ascii_letter(*p)) {
            p++;
            continue;
        }
        if (class_of[*p] != HIGH) break;
        size_t n = read_high(p, &cp);
        const script *t = script_of(cp);
        if (!t) break;
        if (!s || t->each > s->each) s = t;
        p += n;
    }
    uint64_t cost = s ? s->base + letters * s->each + extra[before] : 0;
    w->cost += cost < 100 ? 100 : cost;
    w->p = p;
}

static void word(walk *w, bytes start, int before) {
    bytes p = start;
    unsigned seen = 0;
    while (class_of[*p] & UPPER) p++;
    size_t capitals = (size_t)(p - start);
    while (class_of[*p] & LOWER) seen |= class_of[*p++];
    if (class_of[*p] == HIGH && high_letter(p)) {
        high_word(w, start, before);
        return;
    }
    size_t n = (size_t)(p - start);
    int kind = capitals == 0 ? SMALL : capitals == n ? CAPITALS : capitals == 1 ? CAPITAL : MIXED;
    run_add(w, start, p, cost_of_word(before, kind, n, seen & VOWEL));
    w->r.upper |= capitals > 0;
    w->r.lower |= capitals < n;
    w->p = p;
}

static void number(walk *w) {
    bytes start = w->p, p = start;
    while (class_of[*p] == DIGIT) p++;
    run_add(w, start, p, (uint64_t)(p - start + 2) / 3 * 100);
    w->p = p;
}

/* Signs: what counts is how often they change, since vocabularies hold long repeats. */
static void signs(walk *w, bool spaced) {
    static const uint16_t by_changes[] = {0, 100, 103, 114, 175, 220, 280, 350, 440};
    size_t changes = 0, repeats = 0, high = 0;
    uint32_t last = UINT32_MAX;
    bytes p = w->p + spaced;
    for (uint32_t c = 0; p < w->end; last = c) {
        size_t n = 1;
        if (class_of[*p] == SIGN)
            c = *p;
        else if (class_of[*p] != HIGH)
            break;
        else {
            n = read_high(p, &c);
            if (script_of(c)) break;
        }
        p += n;
        if (c == last)
            repeats += c < 0x80 ? 1 : 6;
        else if (c < 0x80)
            changes++;
        else
            high += n > 3 ? 190 : 100;
    }
    while (class_of[*p] == BREAK) p++; /* the line end goes with the signs */
    uint64_t cost = changes <= 8 ? by_changes[changes] : 440 + (changes - 8) * 55;
    w->cost += cost + high + (spaced && changes > 2 ? 30 : 0) + repeats * 100 / 64;
    w->p = p;
}

/* White space: up to its last line end, then what is left but for the last blank, which
 * belongs to what follows. */
static void white(walk *w) {
    bytes p = w->p, lines = NULL;
    for (; class_of[*p] & SPACE; p++)
        if (class_of[*p] == BREAK) lines = p + 1;
    if (lines)
        p = lines;
    else if (p < w->end && p - w->p > 1)
        p--;
    size_t n = (size_t)(p - w->p), together = *w->p == ' ' ? 128 : 16;
    w->cost += (n + together - 1) / together * 100;
    w->p = p;
}

static void high(walk *w) {
    if (high_letter(w->p))
        high_word(w, w->p, BARE);
    else if (w->end - w->p > 1 && w->p[0] == 0xc2 && w->p[1] == 0xa0) {
        w->p += 2;
        w->cost += 100;
    } else
        signs(w, false);
}

static void piece(walk *w) {
    bytes p = w->p;
    unsigned class = class_of[*p];
    if (class & LETTER)
        word(w, p, BARE);
    else if (class == DIGIT)
        number(w);
    else if (class == HIGH)
        high(w);
    else if (class == BREAK)
        white(w);
    else if (is_letter(p + 1))
        word(w, p + 1, *p == ' ' ? SPACED : SIGNED);
    else if (class == SIGN)
        signs(w, false);
    else if (*p == ' ' && p + 1 < w->end && (class_of[p[1]] == SIGN || class_of[p[1]] == HIGH))
        signs(w, true);
    else
        white(w);
}

static int tokens_estimate(lua_State *L) {
    size_t n;
    bytes p = (bytes)luaL_checklstring(L, 1, &n);
    walk w = {.p = p, .end = p + n, .r = {.start = p, .end = p}};
    while (w.p < w.end) piece(&w);
    lua_pushinteger(L, (lua_Integer)((w.cost + run_cost(&w.r) + 50) / 100));
    return 1;
}

/* ---- module ---- */

static const luaL_Reg tokens_funcs[] = {{"estimate", tokens_estimate}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_tokens(lua_State *L);
TR_EXPORT int luaopen_terret_tokens(lua_State *L) {
    luaL_newlib(L, tokens_funcs);
    return 1;
}

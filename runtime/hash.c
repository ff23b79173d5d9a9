/* runtime/hash.c - terret.hash: SHA-256, random identifiers, base64.
 *
 * Owns nothing: every function maps a string to a string.  Raises on wrong arguments and when
 * the system has no random bytes; unbase64 answers nil, message, "bad_base64".
 *
 * SHA-256 is written from FIPS 180-4.  It names things (sessions, blobs, trust records); it is
 * no password hash.  Base64 is RFC 4648 section 4 and strict: no white space, full padding,
 * unused bits zero, so that one value has one spelling. */
#include "terret.h"

#include <sys/random.h>
#include <unistd.h>

#define BLOCK 64
#define DIGEST 32
#define RANDOM_MAX 64

/* ---- SHA-256 ---- */

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constant[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static inline uint32_t rotr(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

static inline uint32_t load32(const unsigned char *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static inline void store32(unsigned char *p, uint32_t v) {
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

static void expand(uint32_t w[64], const unsigned char *p) {
    for (int i = 0; i < 16; i++) w[i] = load32(p + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotr(a, 7) ^ rotr(a, 18) ^ a >> 3;
        uint32_t s1 = rotr(b, 17) ^ rotr(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

/* One round.  Instead of moving the eight words each round, the callers turn the names. */
static inline void step(uint32_t a, uint32_t b, uint32_t c, uint32_t *d, uint32_t e, uint32_t f,
                        uint32_t g, uint32_t *h, uint32_t kw) {
    uint32_t t1 = *h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + (g ^ (e & (f ^ g))) + kw;
    uint32_t t2 = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) | (c & (a | b)));
    *d += t1;
    *h = t1 + t2;
}

static void compress(uint32_t state[8], const unsigned char *block) {
    uint32_t w[64];
    expand(w, block);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i += 8) {
        const uint32_t *k = round_constant + i, *x = w + i;
        step(a, b, c, &d, e, f, g, &h, k[0] + x[0]);
        step(h, a, b, &c, d, e, f, &g, k[1] + x[1]);
        step(g, h, a, &b, c, d, e, &f, k[2] + x[2]);
        step(f, g, h, &a, b, c, d, &e, k[3] + x[3]);
        step(e, f, g, &h, a, b, c, &d, k[4] + x[4]);
        step(d, e, f, &g, h, a, b, &c, k[5] + x[5]);
        step(c, d, e, &f, g, h, a, &b, k[6] + x[6]);
        step(b, c, d, &e, f, g, h, &a, k[7] + x[7]);
    }
    const uint32_t v[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

static void sha256(const unsigned char *p, size_t n, unsigned char digest[DIGEST]) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    size_t whole = n / BLOCK * BLOCK, rest = n - whole;
    for (size_t i = 0; i < whole; i += BLOCK) compress(state, p + i);
    /* The end mark and the length in bits follow the rest: in one block, or in two. */
    unsigned char last[2 * BLOCK] = {0};
    if (rest) memcpy(last, p + whole, rest);
    last[rest] = 0x80;
    size_t end = rest < BLOCK - 8 ? BLOCK : 2 * BLOCK;
    uint64_t bits = (uint64_t)n * 8;
    store32(last + end - 8, (uint32_t)(bits >> 32));
    store32(last + end - 4, (uint32_t)bits);
    for (size_t i = 0; i < end; i += BLOCK) compress(state, last + i);
    for (int i = 0; i < 8; i++) store32(digest + 4 * i, state[i]);
}

static void push_hex(lua_State *L, const unsigned char *p, size_t n) {
    static const char digits[] = "0123456789abcdef";
    char hex[2 * RANDOM_MAX];
    for (size_t i = 0; i < n; i++) {
        hex[2 * i] = digits[p[i] >> 4];
        hex[2 * i + 1] = digits[p[i] & 15];
    }
    lua_pushlstring(L, hex, 2 * n);
}

static int hash_sha256(lua_State *L) {
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    unsigned char digest[DIGEST];
    sha256((const unsigned char *)s, n, digest);
    push_hex(L, digest, sizeof digest);
    return 1;
}

/* ---- random ---- */

static int hash_random(lua_State *L) {
    lua_Integer n = luaL_checkinteger(L, 1);
    if (n < 1 || n > RANDOM_MAX) return luaL_argerror(L, 1, "1 to 64 bytes");
    unsigned char bytes[RANDOM_MAX];
    /* Nobody may go on with a name that can be guessed, so this is no nil, message, code. */
    if (getentropy(bytes, (size_t)n)) return luaL_error(L, "no random bytes: %s", strerror(errno));
    push_hex(L, bytes, (size_t)n);
    return 1;
}

/* ---- base64 ---- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Writes the four characters of 1, 2 or 3 bytes. */
static void encode_group(char out[4], const unsigned char *in, size_t n) {
    uint32_t v = (uint32_t)in[0] << 16;
    if (n > 1) v |= (uint32_t)in[1] << 8;
    if (n > 2) v |= in[2];
    out[0] = alphabet[v >> 18];
    out[1] = alphabet[v >> 12 & 63];
    out[2] = n > 1 ? alphabet[v >> 6 & 63] : '=';
    out[3] = n > 2 ? alphabet[v & 63] : '=';
}

static int hash_base64(lua_State *L) {
    size_t n;
    const unsigned char *s = (const unsigned char *)luaL_checklstring(L, 1, &n);
    luaL_argcheck(L, n <= SIZE_MAX / 4 * 3 - 3, 1, "too long");
    size_t size = (n + 2) / 3 * 4;
    luaL_Buffer b;
    char *out = luaL_buffinitsize(L, &b, size);
    for (size_t i = 0; i < n; i += 3, out += 4) encode_group(out, s + i, n - i < 3 ? n - i : 3);
    luaL_pushresultsize(&b, size);
    return 1;
}

/* The value of each character plus one; 0: not in the alphabet. */
static void fill_values(unsigned char value[256]) {
    memset(value, 0, 256);
    for (unsigned i = 0; i < 64; i++) value[(unsigned char)alphabet[i]] = (unsigned char)(i + 1);
}

/* Decodes n characters, padding left out; the position of the first bad one, or n. */
static size_t decode(const unsigned char *s, size_t n, char *out) {
    unsigned char value[256];
    fill_values(value);
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < n; i++) {
        if (!value[s[i]]) return i;
        bits = bits << 6 | (value[s[i]] - 1u);
        have += 6;
        if (have < 8) continue;
        have -= 8;
        *out++ = (char)(unsigned char)(bits >> have);
    }
    return bits & ((1u << have) - 1) ? n - 1 : n;
}

static int hash_unbase64(lua_State *L) {
    size_t n;
    const char *s = luaL_checklstring(L, 1, &n);
    if (n % 4) return tr_fail(L, "bad_base64", "base64: the length is no multiple of 4");
    size_t size = n / 4 * 3, len = n;
    for (int i = 0; i < 2 && len > 0 && s[len - 1] == '='; i++, size--) len--;
    luaL_Buffer b;
    char *out = luaL_buffinitsize(L, &b, size);
    size_t done = decode((const unsigned char *)s, len, out);
    luaL_pushresultsize(&b, done == len ? size : 0);
    if (done == len) return 1;
    return tr_fail(L, "bad_base64", "base64: bad character at %zu", done + 1);
}

/* ---- module ---- */

static const luaL_Reg hash_funcs[] = {{"sha256", hash_sha256},
                                      {"random", hash_random},
                                      {"base64", hash_base64},
                                      {"unbase64", hash_unbase64},
                                      {NULL, NULL}};

TR_EXPORT int luaopen_terret_hash(lua_State *L);
TR_EXPORT int luaopen_terret_hash(lua_State *L) {
    luaL_newlib(L, hash_funcs);
    return 1;
}

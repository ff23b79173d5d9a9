/* runtime/http_options.h - the part of http.c that turns options into libcurl's; included only
 * there.  Whatever a script or a model could use to smuggle a second header, another protocol or
 * a proxy into a request is refused here. */
#ifndef TERRET_HTTP_OPTIONS_H
#define TERRET_HTTP_OPTIONS_H

#include <curl/curl.h>
#include "terret.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

#define DEFAULT_UPLOAD_BUFFER (64 * 1024L)
#define MAX_UPLOAD_BUFFER (512 * 1024L)

static double opt_seconds(lua_State *L, const char *key, double def) {
    return tr_opt_number(L, 1, key, def, 0.001, 1e9);
}

static const char *opt_text(lua_State *L, const char *key) {
    size_t n;
    const char *s = tr_opt_string(L, 1, key, NULL, &n);
    if (s && strlen(s) != n)
        luaL_argerror(L, 1, lua_pushfstring(L, "option '%s' must not contain NUL", key));
    return s;
}

/* ---- headers ---------------------------------------------------------------------------- */

/* The token of RFC 9110; locale-free. */
static bool is_token(const char *s, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char lower = (char)(s[i] | 0x20);
        bool letter = (lower >= 'a' && lower <= 'z') || (s[i] >= '0' && s[i] <= '9');
        if (!letter && (s[i] == '\0' || !strchr("!#$%&'*+-.^_`|~", s[i]))) return false;
    }
    return n > 0;
}

/* Raises unless the value on the top of the stack is a header line. */
static const char *check_header(lua_State *L) {
    size_t n;
    if (lua_type(L, -1) != LUA_TSTRING) luaL_argerror(L, 1, "a header must be a string");
    const char *line = lua_tolstring(L, -1, &n);
    const char *colon = memchr(line, ':', n);
    if (strlen(line) != n || strpbrk(line, "\r\n"))
        luaL_argerror(L, 1, "a header must not contain NUL, CR or LF");
    if (!colon || !is_token(line, (size_t)(colon - line)))
        luaL_argerror(L, 1, "a header must be 'Name: value'");
    return line;
}

static void add_header(lua_State *L, struct curl_slist **list, const char *line) {
    struct curl_slist *longer = curl_slist_append(*list, line);
    if (!longer) luaL_error(L, "not enough memory");
    *list = longer;
}

/* Appends option 'headers' and what we take back of libcurl's own.  *list belongs to the request
 * at index 2, so that a raise in the middle leaks nothing.  To libcurl "Name:" means "don't send
 * it", and "Name;" a header without a value. */
static void add_headers(lua_State *L, struct curl_slist **list) {
    bool typed = false;
    lua_settop(L, 2);
    int type = lua_getfield(L, 1, "headers"); /* options request headers */
    luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 1, "option 'headers' must be a list");
    lua_Integer n = type == LUA_TTABLE ? (lua_Integer)lua_rawlen(L, 3) : 0;
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 3, i);
        const char *line = check_header(L); /* ... line */
        size_t name = strcspn(line, ":");
        if (strncasecmp(line, "Content-Type:", 13) == 0) typed = true;
        if (line[name + 1 + strspn(line + name + 1, " \t")] == '\0')
            line = lua_pushfstring(L, "%s;", lua_pushlstring(L, line, name));
        add_header(L, list, line);
        lua_settop(L, 3);
    }
    lua_settop(L, 2);
    add_header(L, list, "Expect:"); /* no round trip before a large body */
    if (!typed) add_header(L, list, "Content-Type:");
}

/* ---- url -------------------------------------------------------------------------------- */

/* libcurl has already made 0x7f.1 and [0:0:0:0:0:0:0:1] plain. */
static bool is_loopback(const char *host) {
    struct in_addr a4;
    size_t n = strlen(host);
    if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0) return true;
    if (n > 10 && strcasecmp(host + n - 10, ".localhost") == 0) return true;
    return inet_pton(AF_INET, host, &a4) == 1 && ntohl(a4.s_addr) >> 24 == 127;
}

/* Fills where ("host:port") and *loopback; returns what is wrong with the URL, or NULL. */
static const char *take_url(const char *url, char *where, size_t size, bool *loopback) {
    char *scheme = NULL, *host = NULL, *port = NULL;
    const char *wrong = "not a valid URL";
    CURLU *u = curl_url();
    if (!u) return "not enough memory";
    if (curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK) {
        if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
            wrong = "only http and https";
        } else if (curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
                   curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK) {
            snprintf(where, size, "%s:%s", host, port);
            *loopback = is_loopback(host);
            wrong = NULL;
        }
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
    return wrong;
}

/* ---- method and body -------------------------------------------------------------------- */

/* The results of setopt are or-ed: only "out of memory" can happen.  The body is not copied. */
static CURLcode set_method(CURL *e, const char *method, const char *body, size_t n) {
    bool post = body || (method && strcmp(method, "POST") == 0);
    CURLcode bad = CURLE_OK;
    if (!method) method = post ? "POST" : "GET";
    if (post) {
        long buffer = n > (size_t)MAX_UPLOAD_BUFFER ? MAX_UPLOAD_BUFFER : (long)n;
        bad |= curl_easy_setopt(e, CURLOPT_POST, 1L);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)n);
        bad |= curl_easy_setopt(e, CURLOPT_POSTFIELDS, body ? body : "");
        if (buffer > DEFAULT_UPLOAD_BUFFER)
            bad |= curl_easy_setopt(e, CURLOPT_UPLOAD_BUFFERSIZE, buffer);
    }
    if (!body && strcmp(method, "HEAD") == 0)
        bad |= curl_easy_setopt(e, CURLOPT_NOBODY, 1L);
    else if (strcmp(method, post ? "POST" : "GET") != 0)
        bad |= curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method);
    return bad;
}

#endif

/* runtime/http.c - terret.http: requests over libcurl's multi interface.
 *
 * Owns: one easy handle per request, the bytes that Lua has not read yet, the answer's head.
 * The connections belong to the multi handle of the reactor and are kept alive there.
 * Never blocks, never calls Lua: libcurl's callbacks run inside reactor.poll (or read, when it
 * resumes a paused transfer) and only fill buffers.
 * Errors: raises on wrong arguments; http.request returns nil, message, code for a URL that is
 * none; what happens later is told by read(), after the data that arrived before it.
 *
 * Two levels keep a fast server from filling the memory: over max_buffered the transfer is
 * paused until Lua reads (TCP then slows the server down), over max_bytes it ends.
 *
 * Deadlines are ours (the reactor's), but for the connection's: libcurl alone knows when it is
 * made.  Each has its own code, since a retry policy treats them differently.  The idle clock
 * stands still while the transfer is paused: then it is Lua who is slow.
 *
 * The node in the reactor's ring goes when the end was read; a closed request leaves it for one
 * more turn, so that a task that waits for the request hears of it. */
#include <curl/curl.h>
#include "http_options.h"
#include "terret.h"

#include <ctype.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <strings.h>

#define REQUEST "terret.http.request"
#define MAX_HEAD (256 * 1024)
#define KEEP_BUFFER (64 * 1024) /* a larger body buffer is given back after read */
#define BODY_SLOT 1             /* the user value that keeps the request's body alive */

typedef enum http_state { RUNNING, DONE, FAILED, CLOSED } http_state;

typedef struct http_req {
    tr_wait wait;
    tr_reactor *reactor;
    CURL *easy; /* NULL when the transfer is over */
    struct curl_slist *headers;
    http_state state;
    bool paused, head_done, reused;
    long status;
    tr_buf body, head;
    lua_Integer received, max_bytes;
    size_t max_buffered;
    double start, last_byte;
    double first_byte_timeout, idle_timeout, timeout;
    double connected, first_byte, total; /* seconds from the start; negative: not yet */
    curl_off_t sent;
    const char *code, *why; /* literals: the failure, set early by a callback that refuses */
    char where[300];        /* host:port, for messages */
    char error[CURL_ERROR_SIZE];
    char message[CURL_ERROR_SIZE + 304];
} http_req;

/* ---- state ------------------------------------------------------------------------------ */

static void measure(http_req *q) {
    curl_off_t connect = 0;
    long connects = 0;
    curl_easy_getinfo(q->easy, CURLINFO_CONNECT_TIME_T, &connect);
    curl_easy_getinfo(q->easy, CURLINFO_NUM_CONNECTS, &connects);
    curl_easy_getinfo(q->easy, CURLINFO_SIZE_UPLOAD_T, &q->sent);
    q->reused = q->head_done && connects == 0;
    if (connect > 0 && !q->reused) q->connected = (double)connect * 1e-6;
    q->total = tr_now() - q->start;
}

/* Gives back the transfer; what was received stays. */
static void release(http_req *q) {
    if (q->easy) {
        measure(q);
        if (q->reactor->multi) curl_multi_remove_handle(q->reactor->multi, q->easy);
        curl_easy_cleanup(q->easy);
    }
    curl_slist_free_all(q->headers);
    q->easy = NULL;
    q->headers = NULL;
    q->paused = false;
    q->wait.deadline = 0;
}

static void fail(http_req *q, const char *code, const char *why) {
    q->state = FAILED;
    q->code = code;
    snprintf(q->message, sizeof q->message, "%s: %s", q->where, why);
    release(q);
}

/* The code of a transfer that libcurl gave up. */
static const char *code_of(CURLcode result, bool head_done) {
    switch (result) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY: return "dns";
    case CURLE_COULDNT_CONNECT: return "connect";
    case CURLE_OPERATION_TIMEDOUT: return "timeout_connect"; /* libcurl's only clock */
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE: return "tls";
    case CURLE_OUT_OF_MEMORY: return "no_memory";
    case CURLE_BAD_CONTENT_ENCODING: return "network";
    default: return head_done ? "cut" : "network";
    }
}

/* A callback that refused knows better than libcurl why the transfer ended. */
static void finish(http_req *q, CURLcode result) {
    enum { TOO_LARGE = 100 }; /* CURLE_TOO_LARGE of later versions */
    /* Earlier ones say "out of memory" when a line of the head is over libcurl's own limit. */
    bool in_head = !q->head_done && q->head.n > 0 && !q->code;
    if (in_head && (result == CURLE_OUT_OF_MEMORY || (int)result == TOO_LARGE)) {
        q->code = "too_large";
        q->why = "the answer's head is too large";
    }
    const char *why = q->error[0] ? q->error : curl_easy_strerror(result);
    if (result != CURLE_OK && q->code)
        fail(q, q->code, q->why);
    else if (result != CURLE_OK)
        fail(q, code_of(result, q->head_done), why);
    else
        q->state = DONE;
    release(q);
}

/* Called from callbacks, which can't free the handle: libcurl ends the transfer and finish
 * finds the code. */
static size_t refuse(http_req *q, const char *code, const char *why) {
    q->code = code;
    q->why = why;
    return 0;
}

/* ---- deadlines -------------------------------------------------------------------------- */

static void arm(http_req *q) {
    double until = q->start + q->timeout;
    if (!q->head_done)
        until = fmin(until, q->start + q->first_byte_timeout);
    else if (!q->paused)
        until = fmin(until, q->last_byte + q->idle_timeout);
    q->wait.deadline = until;
}

static void expire(http_req *q) {
    double now = q->wait.deadline;
    char why[80];
    if (now >= q->start + q->timeout) {
        snprintf(why, sizeof why, "the answer was not complete after %g s", q->timeout);
        fail(q, "timeout", why);
    } else if (!q->head_done) {
        snprintf(why, sizeof why, "no answer after %g s", q->first_byte_timeout);
        fail(q, "timeout_first_byte", why);
    } else {
        snprintf(why, sizeof why, "nothing came for %g s", q->idle_timeout);
        fail(q, "timeout_idle", why);
    }
}

static bool http_pump(tr_wait *w, short revents, double now) {
    http_req *q = w->owner;
    (void)revents;
    if (q->state == CLOSED)
        tr_wait_del(w);
    else if (q->state == RUNNING && w->result >= 0)
        finish(q, (CURLcode)w->result);
    else if (q->state == RUNNING && now >= w->deadline)
        expire(q);
    return q->state != RUNNING;
}

/* ---- libcurl's callbacks ---------------------------------------------------------------- */

static size_t on_body(char *data, size_t size, size_t count, void *arg) {
    http_req *q = arg;
    size_t n = size * count;
    /* An empty buffer takes any piece: else a tiny max_buffered would never get on. */
    if (q->body.n > 0 && q->body.n + n > q->max_buffered) {
        q->paused = true;
        arm(q);
        return CURL_WRITEFUNC_PAUSE;
    }
    if (q->max_bytes - q->received < (lua_Integer)n)
        return refuse(q, "too_large", "the answer is larger than max_bytes");
    if (!tr_buf_put(&q->body, data, n)) return refuse(q, "no_memory", "not enough memory");
    q->received += (lua_Integer)n;
    q->last_byte = tr_now();
    q->wait.hot = true;
    arm(q);
    return n;
}

/* One line of a head.  A new status line (after 100 Continue) starts over; trailers follow the
 * blank line and are kept with the rest. */
static size_t on_header(char *data, size_t size, size_t count, void *arg) {
    http_req *q = arg;
    size_t n = size * count;
    q->last_byte = tr_now();
    if (!q->head_done && n > 5 && memcmp(data, "HTTP/", 5) == 0) q->head.n = 0;
    if (q->head.n + n > MAX_HEAD) return refuse(q, "too_large", "the answer's head is too large");
    if (!tr_buf_put(&q->head, data, n)) return refuse(q, "no_memory", "not enough memory");
    if (!q->head_done && (data[0] == '\r' || data[0] == '\n')) {
        long status = 0;
        curl_easy_getinfo(q->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 200) {
            q->head_done = true;
            q->status = status;
            q->first_byte = q->last_byte - q->start;
        }
    }
    arm(q);
    return n;
}

/* ---- http.request ----------------------------------------------------------------------- */

/* What is the same for every request.  The results are or-ed: only out of memory can happen. */
static CURLcode set_common(CURL *e, http_req *q) {
    CURLcode bad = CURLE_OK;
    bad |= curl_easy_setopt(e, CURLOPT_PRIVATE, (char *)&q->wait);
    bad |= curl_easy_setopt(e, CURLOPT_ERRORBUFFER, q->error);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    bad |= curl_easy_setopt(e, CURLOPT_WRITEDATA, q);
    bad |= curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    bad |= curl_easy_setopt(e, CURLOPT_HEADERDATA, q);
    bad |= curl_easy_setopt(e, CURLOPT_HTTPHEADER, q->headers);
    bad |= curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "");
    bad |= curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_TCP_NODELAY, 1L);
    bad |= curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    bad |= curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    bad |= curl_easy_setopt(e, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
    /* Refused by a libcurl without HTTP/2, which then speaks 1.1. */
    curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    return bad;
}

static const char *const option_names[] = {
    "url",     "method",    "headers",      "body",    "connect_timeout", "first_byte_timeout",
    "timeout", "max_bytes", "max_buffered", "ca_file", "insecure_env",    "idle_timeout",
    NULL};

/* Pushes a request that is not started; raises on wrong options. */
static http_req *new_request(lua_State *L) {
    http_req given = {.wait = {.fd = -1, .pump = http_pump, .result = -1},
                      .connected = -1,
                      .first_byte = -1,
                      .total = -1};
    given.first_byte_timeout = opt_seconds(L, "first_byte_timeout", 300);
    given.idle_timeout = opt_seconds(L, "idle_timeout", 120);
    given.timeout = opt_seconds(L, "timeout", HUGE_VAL);
    given.max_bytes = tr_opt_integer(L, 1, "max_bytes", 256 << 20, 1, LUA_MAXINTEGER);
    given.max_buffered =
        (size_t)tr_opt_integer(L, 1, "max_buffered", 4 << 20, 1, (lua_Integer)1 << 40);
    given.reactor = tr_reactor_get(L);
    http_req *q = lua_newuserdatauv(L, sizeof *q, BODY_SLOT);
    *q = given;
    luaL_setmetatable(L, REQUEST);
    return q;
}

/* The request's user value keeps the string for libcurl, which does not copy it. */
static const char *take_body(lua_State *L, size_t *size) {
    lua_pushliteral(L, "body");
    int type = lua_rawget(L, 1);
    luaL_argcheck(L, type == LUA_TNIL || type == LUA_TSTRING, 1, "option 'body' must be a string");
    const char *body = lua_tolstring(L, -1, size);
    lua_setiuservalue(L, 2, BODY_SLOT);
    return body;
}

static int http_request(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tr_options(L, 1, option_names);
    const char *url = opt_text(L, "url");
    luaL_argcheck(L, url, 1, "option 'url' is missing");
    const char *method = opt_text(L, "method");
    luaL_argcheck(L, !method || is_token(method, strlen(method)), 1,
                  "option 'method' must be a word");
    const char *ca_file = opt_text(L, "ca_file");
    if (!ca_file) ca_file = getenv("CURL_CA_BUNDLE");
    if (!ca_file || !*ca_file) ca_file = getenv("SSL_CERT_FILE");
    double connect_timeout = opt_seconds(L, "connect_timeout", 30);
    bool no_proxy = tr_opt_boolean(L, 1, "insecure_env", false);

    http_req *q = new_request(L); /* options request */
    size_t body_size = 0;
    const char *body = take_body(L, &body_size);
    bool loopback = false;
    const char *wrong = take_url(url, q->where, sizeof q->where, &loopback);
    if (wrong) return tr_fail(L, "url", "'%s': %s", url, wrong);
    add_headers(L, &q->headers);
    CURLM *multi = tr_multi(q->reactor);
    CURL *e = q->easy = multi ? curl_easy_init() : NULL;
    if (!e) return luaL_error(L, "not enough memory");
    CURLcode bad = set_common(e, q);
    bad |= curl_easy_setopt(e, CURLOPT_URL, url);
    bad |= set_method(e, method, body, body_size);
    if (ca_file && *ca_file) bad |= curl_easy_setopt(e, CURLOPT_CAINFO, ca_file);
    bad |= curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS,
                            (long)ceil(fmin(connect_timeout, 1e6) * 1000));
    if (loopback || no_proxy) bad |= curl_easy_setopt(e, CURLOPT_PROXY, "");
    if (bad != CURLE_OK) return luaL_error(L, "http.request: libcurl refused an option");
    tr_wait_add(L, &q->wait, 2);
    q->start = q->last_byte = tr_now();
    arm(q);
    CURLMcode failed = curl_multi_add_handle(multi, e);
    int running;
    if (!failed) failed = curl_multi_perform(multi, &running); /* a loopback connects at once */
    if (failed) return tr_fail(L, "network", "%s: %s", q->where, curl_multi_strerror(failed));
    return 1;
}

/* ---- methods ---------------------------------------------------------------------------- */

static int request_ready(lua_State *L) {
    const http_req *q = luaL_checkudata(L, 1, REQUEST);
    lua_pushboolean(L, q->state != RUNNING || q->body.n > 0);
    return 1;
}

/* libcurl may call on_body from here, with what it kept when the transfer was paused. */
static void resume(http_req *q) {
    q->paused = false;
    q->last_byte = tr_now();
    arm(q);
    CURLcode result = curl_easy_pause(q->easy, CURLPAUSE_CONT);
    if (result != CURLE_OK) finish(q, result);
}

static int request_read(lua_State *L) {
    http_req *q = luaL_checkudata(L, 1, REQUEST);
    if (q->body.n > 0) {
        lua_pushlstring(L, q->body.p, q->body.n);
        q->body.n = 0;
        if (q->body.cap > KEEP_BUFFER) tr_buf_free(&q->body);
        if (q->paused) resume(q);
        return 1;
    }
    if (q->state == RUNNING) {
        lua_pushliteral(L, "");
        return 1;
    }
    lua_pushnil(L);
    lua_setiuservalue(L, 1, BODY_SLOT);
    if (q->state != CLOSED) tr_wait_del(&q->wait);
    if (q->state == DONE) {
        lua_pushnil(L);
        return 1;
    }
    return tr_fail(L, q->code, "%s", q->message);
}

static int request_status(lua_State *L) {
    const http_req *q = luaL_checkudata(L, 1, REQUEST);
    if (!q->head_done) return 0;
    lua_pushinteger(L, q->status);
    return 1;
}

static int request_header(lua_State *L) {
    const http_req *q = luaL_checkudata(L, 1, REQUEST);
    size_t n;
    const char *name = luaL_checklstring(L, 2, &n);
    const char *found = NULL, *end = NULL, *stop = q->head.p + q->head.n;
    if (!q->head_done) return 0;
    for (const char *line = q->head.p, *next; line < stop; line = next) {
        next = memchr(line, '\n', (size_t)(stop - line));
        next = next ? next + 1 : stop;
        if ((size_t)(next - line) <= n || line[n] != ':' || strncasecmp(line, name, n) != 0)
            continue;
        found = line + n + 1;
        end = next;
    }
    if (!found) return 0;
    while (found < end && isspace((unsigned char)*found)) found++;
    while (found < end && isspace((unsigned char)end[-1])) end--;
    lua_pushlstring(L, found, (size_t)(end - found));
    return 1;
}

static void set_seconds(lua_State *L, const char *key, double value) {
    if (value < 0) return;
    lua_pushnumber(L, value);
    lua_setfield(L, -2, key);
}

static int request_times(lua_State *L) {
    http_req *q = luaL_checkudata(L, 1, REQUEST);
    if (q->easy) measure(q);
    lua_createtable(L, 0, 6);
    set_seconds(L, "connect", q->connected);
    set_seconds(L, "first_byte", q->first_byte);
    set_seconds(L, "total", q->total);
    lua_pushboolean(L, q->reused);
    lua_setfield(L, -2, "reused");
    lua_pushinteger(L, (lua_Integer)q->sent);
    lua_setfield(L, -2, "sent");
    lua_pushinteger(L, q->received);
    lua_setfield(L, -2, "received");
    return 1;
}

static void abandon(http_req *q) {
    release(q);
    tr_buf_free(&q->body);
    q->state = CLOSED;
    q->code = "closed";
    snprintf(q->message, sizeof q->message, "%s: closed", q->where);
}

static int request_close(lua_State *L) {
    http_req *q = luaL_checkudata(L, 1, REQUEST);
    abandon(q);
    q->wait.deadline = tr_now(); /* the next turn tells who waits */
    lua_pushnil(L);
    lua_setiuservalue(L, 1, BODY_SLOT);
    return 0;
}

static int request_gc(lua_State *L) {
    http_req *q = luaL_checkudata(L, 1, REQUEST);
    abandon(q);
    tr_buf_free(&q->head);
    q->head_done = false;
    tr_wait_del(&q->wait);
    return 0;
}

/* ---- module ----------------------------------------------------------------------------- */

static const luaL_Reg http_funcs[] = {{"request", http_request}, {NULL, NULL}};
static const luaL_Reg request_methods[] = {{"ready", request_ready},
                                           {"read", request_read},
                                           {"status", request_status},
                                           {"header", request_header},
                                           {"times", request_times},
                                           {"close", request_close},
                                           {NULL, NULL}};
static const luaL_Reg request_meta[] = {
    {"__gc", request_gc}, {"__close", request_gc}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_http(lua_State *L);
TR_EXPORT int luaopen_terret_http(lua_State *L) {
    /* TLS libraries write without MSG_NOSIGNAL: a peer that left must not end a plain lua5.4. */
    struct sigaction pipe;
    if (sigaction(SIGPIPE, NULL, &pipe) == 0 && pipe.sa_handler == SIG_DFL)
        signal(SIGPIPE, SIG_IGN);
    tr_class(L, REQUEST, request_meta, request_methods);
    luaL_newlib(L, http_funcs);
    return 1;
}

/* tests/unit/test_http.c - the parts of runtime/http.c that need no server, and the proxy
 * variables, which a Lua script could not set. */
#include "../../runtime/http.c"
#include "../../runtime/reactor.c"

#include <lualib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

static int failures, tests;

static void ok(bool good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

static void run(lua_State *L, const char *text) {
    if (luaL_dostring(L, text)) {
        printf("# %s\n", lua_tostring(L, -1));
        failures++;
    }
}

static void test_url(void) {
    static const struct {
        const char *url, *where;
        bool loopback;
    } good[] = {{"http://127.0.0.1:8080/v1", "127.0.0.1:8080", true},
                {"http://localhost/", "localhost:80", true},
                {"https://LOCALHOST", "LOCALHOST:443", true},
                {"http://a.localhost:1", "a.localhost:1", true},
                {"http://[::1]:5/", "[::1]:5", true},
                {"http://127.9.9.9", "127.9.9.9:80", true},
                {"http://user:pw@127.0.0.1:7/", "127.0.0.1:7", true},
                {"https://api.example.com/v1", "api.example.com:443", false},
                {"http://127.0.0.1.example.com", "127.0.0.1.example.com:80", false},
                {"http://localhost.example.com", "localhost.example.com:80", false},
                {"http://notlocalhost", "notlocalhost:80", false},
                {"http://[::2]", "[::2]:80", false},
                {"http://128.0.0.1", "128.0.0.1:80", false},
                {"http://127.0.0.1@example.com/", "example.com:80", false}};
    static const char *const bad[] = {"",   "x",          "file:///etc/passwd", "gopher://x/",
                                      "//", "http://a b", "http://h:99999/",    "127.0.0.1:80"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char where[64] = "";
        bool loopback = false;
        const char *wrong = take_url(good[i].url, where, sizeof where, &loopback);
        ok(!wrong && strcasecmp(where, good[i].where) == 0 && loopback == good[i].loopback,
           good[i].url);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char where[64] = "";
        bool loopback = false;
        ok(take_url(bad[i], where, sizeof where, &loopback) && !where[0] && !loopback, bad[i]);
    }
}

static void test_token(void) {
    ok(is_token("Content-Type", 12) && is_token("x_1!~", 5), "tokens");
    ok(!is_token("", 0) && !is_token("a b", 3) && !is_token("a\0b", 3) && !is_token("a:", 2) &&
           !is_token("\xc3\xa4", 2) && !is_token("a\x7f", 2) && !is_token("@", 1) &&
           !is_token("[", 1),
       "no tokens");
}

/* What libcurl's callbacks do when memory or a limit ends. */
static void test_callbacks(void) {
    http_req q = {.max_bytes = 100, .max_buffered = 5, .timeout = HUGE_VAL, .idle_timeout = 1};
    char data[] = "abcdefgh";
    q.head_done = true;
    ok(on_body(data, 1, 8, &q) == 8 && q.body.n == 8, "the first piece fits, however large");
    ok(q.wait.hot && q.wait.deadline == q.last_byte + 1, "and is news");
    ok(on_body(data, 1, 1, &q) == CURL_WRITEFUNC_PAUSE && q.paused && isinf(q.wait.deadline),
       "the next one waits, without an idle deadline");
    q.paused = false;
    q.body.n = 0;
    q.body.max = 3;
    ok(on_body(data, 1, 8, &q) == 0 && strcmp(q.code, "no_memory") == 0, "no memory");
    q.body.max = 0;
    q.received = 95;
    q.code = NULL;
    ok(on_body(data, 1, 5, &q) == 5 && on_body(data, 1, 1, &q) == CURL_WRITEFUNC_PAUSE,
       "up to max_bytes");
    q.body.n = 0;
    ok(on_body(data, 1, 1, &q) == 0 && strcmp(q.code, "too_large") == 0, "and not one more");
    finish(&q, CURLE_WRITE_ERROR);
    ok(q.state == FAILED && strstr(q.message, "larger than max_bytes"), "which finish knows");
    tr_buf_free(&q.body);
    q.head.max = 4;
    q.head_done = false;
    ok(on_header(data, 1, 8, &q) == 0 && strcmp(q.code, "no_memory") == 0, "a head without memory");
    tr_buf_free(&q.head);
}

static void test_codes(void) {
    ok(strcmp(code_of(CURLE_COULDNT_RESOLVE_PROXY, false), "dns") == 0, "dns");
    ok(strcmp(code_of(CURLE_PEER_FAILED_VERIFICATION, false), "tls") == 0, "tls");
    ok(strcmp(code_of(CURLE_RECV_ERROR, false), "network") == 0, "network");
    ok(strcmp(code_of(CURLE_RECV_ERROR, true), "cut") == 0, "cut");
    ok(strcmp(code_of(CURLE_PARTIAL_FILE, true), "cut") == 0, "cut before its length");
}

static int listen_on(int *port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&at, size) || listen(fd, 8) ||
        getsockname(fd, (struct sockaddr *)&at, &size))
        exit(1);
    *port = ntohs(at.sin_port);
    return fd;
}

/* Starts a request and turns the loop until one of the two servers was called. */
static int who_is_called(lua_State *L, const char *options, int server, int proxy) {
    int called = -1;
    lua_pushfstring(L, "r = require 'terret.http'.request(%s)", options);
    run(L, lua_tostring(L, -1));
    for (int i = 0; i < 200 && called < 0; i++) {
        run(L, "require 'terret.reactor'.poll(0.01)");
        int fd = accept(server, NULL, NULL);
        if (fd >= 0) called = server;
        tr_close(&fd);
        fd = accept(proxy, NULL, NULL);
        if (fd >= 0) called = proxy;
        tr_close(&fd);
    }
    run(L, "r:close()");
    lua_settop(L, 0);
    return called;
}

static void test_proxy(lua_State *L) {
    int port, proxy_port;
    char url[80];
    int server = listen_on(&port), proxy = listen_on(&proxy_port);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", proxy_port);
    setenv("http_proxy", url, 1);
    setenv("all_proxy", url, 1);
    setenv("no_proxy", "", 1);
    ok(who_is_called(L, "{url='http://nonexistent.invalid/'}", server, proxy) == proxy,
       "the proxy variables are honoured");
    snprintf(url, sizeof url, "{url='http://127.0.0.1:%d/'}", port);
    ok(who_is_called(L, url, server, proxy) == server, "a loopback never goes through the proxy");
    snprintf(url, sizeof url, "{url='http://localhost:%d/'}", port);
    ok(who_is_called(L, url, server, proxy) == server, "nor does localhost");
    close(server);
    close(proxy);
}

/* A request that outlives everything: lua_close finalizes it before the reactor. */
static void test_close_order(lua_State *L) {
    run(L, "local http = require 'terret.http'\n"
           "a = http.request{url='http://127.0.0.1:1/', body='x'}\n"
           "b = http.request{url='http://127.0.0.1:1/'}\n"
           "setmetatable({}, {__gc = function() b:close() b:read() a:times() end})");
    lua_close(L);
    ok(true, "lua_close with requests under way");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "terret.http", luaopen_terret_http, 0);
    luaL_requiref(L, "terret.reactor", luaopen_terret_reactor, 0);
    lua_settop(L, 0);
    test_url();
    test_token();
    test_callbacks();
    test_codes();
    test_proxy(L);
    test_close_order(L);
    printf("1..%d\n", tests);
    return failures != 0;
}

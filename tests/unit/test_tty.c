/* tests/unit/test_tty.c - runtime/tty.c on a pseudo terminal: what a script sees, and that the
 * settings are the old ones again however the process ends. */
#define STUCK_MS 30
#include "../../runtime/tty.c"

#include <lualib.h>
#include <stdio.h>
#include <sys/wait.h>
#ifdef __APPLE__
#include <util.h>
#else
#include <pty.h>
#endif

static int failures, tests;

static void ok(bool good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

/* ---- what the scripts have besides terret.tty ---------------------------------------------- */

static int test_modes(lua_State *L) {
    struct termios s;
    if (tcgetattr(0, &s)) return luaL_error(L, "tcgetattr");
    lua_pushfstring(L, "%s%s%s%s", s.c_lflag & ECHO ? "echo " : "",
                    s.c_lflag & ICANON ? "lines " : "", s.c_lflag & ISIG ? "signals " : "",
                    s.c_oflag & OPOST ? "output" : "");
    return 1;
}

static int test_raise(lua_State *L) {
    raise((int)luaL_checkinteger(L, 1));
    return 0;
}

static int test_ignore(lua_State *L) {
    signal((int)luaL_checkinteger(L, 1), SIG_IGN);
    return 0;
}

static int test_is_default(lua_State *L) {
    struct sigaction now;
    sigaction((int)luaL_checkinteger(L, 1), NULL, &now);
    lua_pushboolean(L, now.sa_handler == SIG_DFL);
    return 1;
}

/* One turn of a reactor that has only this terminal: how many nodes it called. */
static int test_turn(lua_State *L) {
    terminal *t = luaL_checkudata(L, 1, TERMINAL);
    struct pollfd p = {.fd = t->wait.events ? t->wait.fd : -1, .events = t->wait.events};
    int n = poll(&p, 1, lua_toboolean(L, 2) ? 5000 : 0);
    if (n > 0) t->wait.pump(&t->wait, p.revents, 0);
    lua_pushinteger(L, n);
    return 1;
}

/* In the child: runs the script, then ends as main would. */
static void run_script(const char *script) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "tty", luaopen_terret_tty, 1);
    lua_register(L, "modes", test_modes);
    lua_register(L, "raise", test_raise);
    lua_register(L, "ignore", test_ignore);
    lua_register(L, "is_default", test_is_default);
    lua_register(L, "turn", test_turn);
    lua_pushinteger(L, SIGTERM);
    lua_setglobal(L, "TERM");
    lua_pushinteger(L, SIGHUP);
    lua_setglobal(L, "HUP");
    int status = 0;
    if (luaL_dostring(L, script)) {
        fprintf(stderr, "# %s\n", lua_tostring(L, -1));
        status = 9;
    }
    fflush(NULL);
    lua_close(L);
    exit(status);
}

/* ---- the other side of the terminal -------------------------------------------------------- */

typedef struct session {
    const char *input;  /* sent once when the script has written a "?" */
    bool hang_up, stop; /* at the "?": close our side; read no more */
    bool detached;      /* no controlling terminal */
    unsigned short cols, rows;
    int status;           /* out: of waitpid */
    bool restored;        /* out: the settings are as before */
    char output[1 << 18]; /* out */
    size_t n;
} session;

static void serve(session *s, int master, pid_t pid) {
    bool asked = false;
    for (;;) {
        struct pollfd p = {.fd = master, .events = POLLIN};
        bool quiet = poll(&p, 1, 10) == 0 || (asked && (s->hang_up || s->stop));
        if (!quiet) {
            ssize_t n = read(master, s->output + s->n, sizeof s->output - 1 - s->n);
            if (n > 0) s->n += (size_t)n;
        } else if (tr_retry(waitpid(pid, &s->status, s->hang_up || s->stop ? 0 : WNOHANG)) == pid) {
            return;
        }
        if (asked || !memchr(s->output, '?', s->n)) continue;
        asked = true;
        if (s->hang_up) close(master);
        if (s->input && tr_write_all(master, s->input, strlen(s->input))) return;
    }
}

static void play(session *s, const char *script) {
    int master, slave;
    struct termios before, after;
    struct winsize size = {.ws_col = s->cols, .ws_row = s->rows};
    s->n = 0;
    memset(s->output, 0, sizeof s->output);
    if (openpty(&master, &slave, NULL, NULL, &size) || tcgetattr(slave, &before)) exit(1);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setsid();
        if (!s->detached) ioctl(slave, TIOCSCTTY, 0);
        for (int fd = 0; fd <= 2; fd++) dup2(slave, fd);
        close(master);
        close(slave);
        run_script(script);
    }
    serve(s, master, pid);
    /* Field by field: the structures have padding. */
    s->restored = tcgetattr(slave, &after) == 0 && after.c_iflag == before.c_iflag &&
                  after.c_oflag == before.c_oflag && after.c_cflag == before.c_cflag &&
                  after.c_lflag == before.c_lflag &&
                  memcmp(after.c_cc, before.c_cc, sizeof after.c_cc) == 0;
    close(slave);
    if (!s->hang_up) close(master);
}

static bool succeeded(const session *s) {
    bool good = WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0;
    if (!good) printf("# status %d, output: %s\n", s->status, s->output);
    return good;
}

/* ---- tests ------------------------------------------------------------------------------- */

static void test_modes_of_raw(session *s) {
    *s = (session){.cols = 1};
    play(s, "local cooked = modes() "
            "assert(cooked == 'echo lines signals output', cooked) "
            "assert(tty.isatty(0) and tty.isatty(1) and tty.isatty(2)) "
            "local t = assert(tty.open()) "
            "assert(t:raw() == true and modes() == 'signals output', modes()) "
            "assert(t:raw(true) and modes() == 'output', modes()) "
            "t:restore() assert(modes() == cooked) t:restore() "
            "assert(t:raw()) t:close() assert(modes() == cooked) t:close() "
            "assert(t:ready()) assert(not pcall(t.read, t)) assert(not pcall(t.raw, t)) "
            "do local u <close> = tty.open() u:raw() end assert(modes() == cooked) "
            "assert(is_default(TERM))");
    ok(succeeded(s) && s->restored, "raw, restore, close");
    play(s, "local t, u = tty.open(), tty.open() assert(t:raw()) "
            "local ok, message, code = u:raw() assert(not ok and code == 'busy') "
            "u:close() assert(modes() == 'signals output') "
            "t:restore() u = tty.open() assert(u:raw())");
    ok(succeeded(s) && s->restored, "one terminal at a time");
}

static void test_input(session *s) {
    *s = (session){.input = "k\x03\xff"};
    play(s, "local t = tty.open() t:raw(true) "
            "assert(not t:ready() and t:read() == '' and turn(t) == 0) "
            "t:write('?') assert(turn(t, true) == 1 and t:ready()) "
            "assert(turn(t) == 0, 'is watched although nobody read') "
            "local s = t:read() while #s < 3 do turn(t, true) s = s .. t:read() end "
            "assert(s == 'k\\3\\255' and t:read() == '' and not t:ready())");
    ok(succeeded(s), "keys arrive as bytes");
    *s = (session){.input = "k"}; /* one byte, so that all of it is there after the turn */
    play(s, "local t = tty.open() t:raw(true) t:write('?') turn(t, true) "
            "t:flush_input() assert(not t:ready() and t:read() == '' and turn(t) == 0)");
    ok(succeeded(s), "flushed input is gone");
    *s = (session){.hang_up = true};
    play(s, "ignore(HUP) local t = tty.open() t:raw() t:write('?') "
            "assert(turn(t, true) == 1 and t:ready()) "
            "assert(t:read() == nil and t:read() == nil and t:ready() and turn(t) == 0) "
            "local ok, message, code = t:write('x') assert(not ok and code == 'io')");
    ok(WIFEXITED(s->status) && WEXITSTATUS(s->status) == 0, "a terminal that hung up");
}

static void test_output(session *s) {
    *s = (session){0};
    play(s, "assert(tty.open():write(('x'):rep(200000)))");
    ok(succeeded(s) && s->n == 200000, "all is written");
    *s = (session){.stop = true};
    play(s, "local t = tty.open() t:write('?') "
            "local ok, message, code = t:write(('x'):rep(200000)) "
            "os.exit(not ok and code == 'timeout' and 0 or 1)");
    ok(succeeded(s), "a stuck terminal is given up");
}

static void test_size(session *s) {
    *s = (session){.cols = 120, .rows = 40};
    play(s, "local c, r = tty.open():size() assert(c == 120 and r == 40)");
    ok(succeeded(s), "size of the terminal");
    *s = (session){0};
    setenv("COLUMNS", "99", 1);
    setenv("LINES", "-3", 1);
    play(s, "local c, r = tty.open():size() assert(c == 99 and r == 24)");
    unsetenv("COLUMNS");
    unsetenv("LINES");
    ok(succeeded(s), "size from the environment, or 80 by 24");
}

static void test_none(session *s) {
    *s = (session){.detached = true};
    play(s, "local t, message, code = tty.open() assert(not t and code == 'no_terminal')");
    ok(succeeded(s), "no controlling terminal");
}

static void test_ends(session *s) {
    *s = (session){0};
    play(s, "t = tty.open() t:raw()");
    ok(succeeded(s) && s->restored, "restored at a normal end");
    play(s, "t = tty.open() t:raw() os.exit(0, false)");
    ok(succeeded(s) && s->restored, "restored at os.exit");
    play(s, "t = tty.open() t:raw() error('expected')");
    ok(WEXITSTATUS(s->status) == 9 && s->restored, "restored after a Lua error");
    static const int signals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL,
                                  SIGQUIT, SIGTERM, SIGHUP, SIGINT};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char script[100], name[50];
        snprintf(script, sizeof script, "t = tty.open() t:raw() raise(%d)", signals[i]);
        snprintf(name, sizeof name, "restored by signal %d", signals[i]);
        play(s, script);
        /* A sanitizer's handler comes next and may turn the signal into an exit. */
        bool died = WIFSIGNALED(s->status) ? WTERMSIG(s->status) == signals[i]
                                           : WEXITSTATUS(s->status) != 0;
        ok(died && s->restored && strstr(s->output, "\x1b[?25h"), name);
    }
    play(s, "ignore(TERM) t = tty.open() t:raw() raise(TERM) "
            "assert(modes() == 'signals output') t:restore() raise(TERM)");
    ok(succeeded(s) && s->restored, "leaves a signal that another has taken");
    setenv("TERM", "dumb", 1);
    play(s, "t = tty.open() t:raw() raise(TERM)");
    ok(s->restored && !strchr(s->output, '\x1b'), "sends no sequences to a dumb terminal");
}

int main(void) {
    static session s;
    printf("1..24\n");
    setenv("TERM", "xterm", 1);
    unsetenv("COLUMNS");
    unsetenv("LINES");
    test_modes_of_raw(&s);
    test_input(&s);
    test_output(&s);
    test_size(&s);
    test_none(&s);
    test_ends(&s);
    return failures != 0 || tests != 24;
}

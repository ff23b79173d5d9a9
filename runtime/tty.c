/* runtime/tty.c - terret.tty: the controlling terminal, raw mode that always ends, size.
 *
 * Owns: a descriptor of its own for the terminal, so that non-blocking mode stays ours (the
 * shell shares descriptors 0 to 2 with us), and the terminal's settings while it is raw.
 * Errors: wrong arguments and a closed terminal raise; the rest returns nil, message, code.
 *
 * Whoever makes a terminal raw owes it back: by restore, close and __gc, at exit, and when a
 * signal kills the process.  INT, TERM, HUP and QUIT are taken only where nobody else has a
 * handler: the reactor's come first.  SIGKILL can't be helped.  A process in the background
 * gives nothing back: the terminal is in another's use, which has set it as it needs it. */
#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define TERMINAL "terret.tty.terminal"
#define READ_MAX 4096
#ifndef STUCK_MS      /* the tests have a shorter one */
#define STUCK_MS 1000 /* how long write() waits for a terminal that takes nothing */
#endif

typedef struct terminal {
    tr_wait wait; /* owns the descriptor */
    bool gone;    /* hung up */
} terminal;

/* ---- the guard --------------------------------------------------------------------------- */

/* The first of them always, from QUIT on only where the default would kill. */
static const int fatal[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL,
                            SIGQUIT, SIGTERM, SIGHUP, SIGINT};
enum { FATAL = sizeof fatal / sizeof *fatal, POLITE = 5 };

/* Mutable and at file scope, since a signal handler and atexit have no other way to find it.
 * The terminal is a process-wide thing as well: one can be raw at a time. */
static struct {
    volatile sig_atomic_t active;
    const terminal *owner;
    int fd;
    pid_t pid; /* a forked copy of us owes nothing */
    bool reset, at_exit;
    struct termios saved;
    struct sigaction before[FATAL];
    bool taken[FATAL];
} guard;

/* Async-signal-safe.  Twice does no harm: so a signal in the middle of it doesn't either. */
static void give_back(void) {
    /* Bracketed paste off, cursor on, attributes off. */
    static const char reset[] = "\x1b[?2004l\x1b[?25h\x1b[0m";
    if (!guard.active || guard.pid != getpid()) return;
    if (tcgetpgrp(guard.fd) == getpgrp()) {
        tcsetattr(guard.fd, TCSANOW, &guard.saved);
        ssize_t n = guard.reset ? write(guard.fd, reset, sizeof reset - 1) : 0;
        (void)n; /* nobody is left to be told */
    }
    guard.active = 0;
}

/* The handler before us does what it would have done: it gets the signal on return. */
static void on_fatal(int signo) {
    int saved = errno;
    give_back();
    for (int i = 0; i < FATAL; i++)
        if (fatal[i] == signo) sigaction(signo, &guard.before[i], NULL);
    raise(signo);
    errno = saved;
}

static void take_signals(void) {
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_fatal;
    sigfillset(&act.sa_mask);
    for (int i = 0; i < FATAL; i++) {
        if (sigaction(fatal[i], NULL, &guard.before[i])) continue;
        if (i >= POLITE && guard.before[i].sa_handler != SIG_DFL) continue;
        guard.taken[i] = sigaction(fatal[i], &act, NULL) == 0;
    }
}

static void return_signals(void) {
    struct sigaction now;
    for (int i = 0; i < FATAL; i++) {
        if (guard.taken[i] && sigaction(fatal[i], NULL, &now) == 0 && now.sa_handler == on_fatal)
            sigaction(fatal[i], &guard.before[i], NULL);
        guard.taken[i] = false;
    }
}

/* In a .so atexit runs when it is unloaded, which is as good: the code is still there. */
static void guard_begin(const terminal *t, const struct termios *saved) {
    const char *type = getenv("TERM");
    guard.owner = t;
    guard.fd = t->wait.fd;
    guard.pid = getpid();
    guard.saved = *saved;
    guard.reset = type && *type && strcmp(type, "dumb") != 0;
    if (!guard.at_exit) guard.at_exit = atexit(give_back) == 0;
    guard.active = 1;
    take_signals();
}

static void guard_end(const terminal *t) {
    if (guard.owner != t) return;
    give_back();
    return_signals();
    guard.owner = NULL;
}

/* ---- the terminal ------------------------------------------------------------------------ */

static terminal *check_open(lua_State *L) {
    terminal *t = luaL_checkudata(L, 1, TERMINAL);
    luaL_argcheck(L, t->wait.fd >= 0, 1, "the terminal is closed");
    return t;
}

/* Off watch until somebody has looked: input that nobody takes must not keep the reactor busy. */
static bool terminal_pump(tr_wait *w, short revents, double now) {
    (void)revents;
    (void)now;
    w->events = 0;
    return true;
}

static bool has_input(const terminal *t) {
    struct pollfd p = {.fd = t->wait.fd, .events = POLLIN};
    return t->gone || t->wait.fd < 0 || poll(&p, 1, 0) > 0;
}

static void watch(terminal *t) {
    t->wait.events = t->gone ? 0 : POLLIN;
}

static int open_terminal(void) {
    int flags = O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC;
#ifdef __APPLE__ /* poll doesn't work on /dev/tty there */
    char name[128];
    for (int fd = 0; fd <= 2; fd++)
        if (ttyname_r(fd, name, sizeof name) == 0) return (int)tr_retry(open(name, flags));
#endif
    return (int)tr_retry(open("/dev/tty", flags));
}

static int tty_open(lua_State *L) {
    tr_reactor_get(L);
    terminal *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (terminal){.wait = {.fd = -1, .pump = terminal_pump, .result = -1}};
    luaL_setmetatable(L, TERMINAL);
    tr_wait_add(L, &t->wait, -1);
    t->wait.fd = open_terminal();
    if (t->wait.fd >= 0) {
        watch(t);
        return 1;
    }
    int err = errno;
    tr_wait_del(&t->wait);
    if (err == ENXIO || err == ENOENT || err == ENODEV || err == ENOTTY)
        return tr_fail(L, "no_terminal", "no controlling terminal");
    return tr_errno(L, err, "open '/dev/tty'");
}

static int tty_isatty(lua_State *L) {
    lua_Integer fd = luaL_checkinteger(L, 1);
    luaL_argcheck(L, fd >= 0 && fd <= 2, 1, "0, 1 or 2 expected");
    lua_pushboolean(L, isatty((int)fd));
    return 1;
}

/* Like cfmakeraw, but output stays processed: "\n" still begins a line. */
static struct termios raw_settings(const struct termios *saved, bool keys) {
    struct termios s = *saved;
    s.c_iflag &= ~(tcflag_t)(IGNBRK | BRKINT | PARMRK | ISTRIP | INLCR | IGNCR | ICRNL | IXON);
    s.c_lflag &= ~(tcflag_t)(ECHO | ECHONL | ICANON | IEXTEN | (keys ? ISIG : 0));
    /* Ctrl-C shall be heard by a script that loops; the other two would leave the terminal raw. */
    s.c_lflag |= keys ? 0 : NOFLSH;
    s.c_cc[VQUIT] = s.c_cc[VSUSP] = _POSIX_VDISABLE;
    s.c_cflag = (s.c_cflag & ~(tcflag_t)(CSIZE | PARENB)) | CS8;
    s.c_cc[VMIN] = 1; /* with 0, "nothing yet" and "hung up" would look the same */
    s.c_cc[VTIME] = 0;
    return s;
}

static int terminal_raw(lua_State *L) {
    terminal *t = check_open(L);
    bool keys = lua_toboolean(L, 2);
    struct termios saved;
    if (guard.owner && guard.owner != t) return tr_fail(L, "busy", "a terminal is raw already");
    if (guard.owner)
        saved = guard.saved; /* again, as after a stop: what we owe stays the same */
    else if (tcgetattr(t->wait.fd, &saved))
        return tr_errno(L, errno, "terminal settings");
    struct termios raw = raw_settings(&saved, keys);
    if (!guard.owner) guard_begin(t, &saved);
    tr_reactor_get(L)->rescue = give_back; /* the reactor's handlers come before ours */
    if (tr_retry(tcsetattr(t->wait.fd, TCSANOW, &raw))) {
        int err = errno;
        guard_end(t);
        return tr_errno(L, err, "terminal settings");
    }
    lua_pushboolean(L, true);
    return 1;
}

static int terminal_restore(lua_State *L) {
    guard_end(luaL_checkudata(L, 1, TERMINAL));
    return 0;
}

static int terminal_flush_input(lua_State *L) {
    terminal *t = check_open(L);
    tcflush(t->wait.fd, TCIFLUSH);
    watch(t);
    return 0;
}

/* A closed one is ready: nobody may wait for it for ever. */
static int terminal_ready(lua_State *L) {
    terminal *t = luaL_checkudata(L, 1, TERMINAL);
    bool ready = has_input(t);
    if (!ready) watch(t);
    lua_pushboolean(L, ready);
    return 1;
}

static int terminal_read(lua_State *L) {
    terminal *t = check_open(L);
    char bytes[READ_MAX];
    ssize_t n = t->gone ? 0 : (ssize_t)tr_retry(read(t->wait.fd, bytes, sizeof bytes));
    bool later = n < 0 && errno == EAGAIN;
    if (n <= 0 && !later) t->gone = true;
    watch(t);
    if (t->gone) return 0;
    lua_pushlstring(L, bytes, later ? 0 : (size_t)n);
    return 1;
}

/* All of it; errno, ETIMEDOUT when the terminal takes nothing for a second (Ctrl-S). */
static int write_all(int fd, const char *s, size_t n) {
    while (n > 0) {
        ssize_t k = (ssize_t)tr_retry(write(fd, s, n));
        if (k < 0 && errno != EAGAIN) return errno;
        if (k < 0) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            if (tr_retry(poll(&p, 1, STUCK_MS)) == 0) return ETIMEDOUT;
            continue;
        }
        s += k;
        n -= (size_t)k;
    }
    return 0;
}

static int terminal_write(lua_State *L) {
    terminal *t = check_open(L);
    size_t n;
    const char *s = luaL_checklstring(L, 2, &n);
    int err = write_all(t->wait.fd, s, n);
    if (err) return tr_errno(L, err, "write to the terminal");
    lua_pushboolean(L, true);
    return 1;
}

static int measure(unsigned short told, const char *variable, int otherwise) {
    if (told > 0) return told;
    const char *text = getenv(variable);
    long n = text ? strtol(text, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (int)n : otherwise;
}

static int terminal_size(lua_State *L) {
    terminal *t = check_open(L);
    struct winsize size;
    if (ioctl(t->wait.fd, TIOCGWINSZ, &size)) memset(&size, 0, sizeof size);
    lua_pushinteger(L, measure(size.ws_col, "COLUMNS", 80));
    lua_pushinteger(L, measure(size.ws_row, "LINES", 24));
    return 2;
}

static int terminal_gc(lua_State *L) {
    terminal *t = luaL_checkudata(L, 1, TERMINAL);
    guard_end(t);
    tr_wait_del(&t->wait);
    tr_close(&t->wait.fd);
    return 0;
}

static const luaL_Reg terminal_meta[] = {
    {"__gc", terminal_gc}, {"__close", terminal_gc}, {NULL, NULL}};
static const luaL_Reg terminal_methods[] = {
    {"raw", terminal_raw},     {"restore", terminal_restore}, {"flush_input", terminal_flush_input},
    {"ready", terminal_ready}, {"read", terminal_read},       {"write", terminal_write},
    {"size", terminal_size},   {"close", terminal_gc},        {NULL, NULL}};
static const luaL_Reg tty_funcs[] = {{"isatty", tty_isatty}, {"open", tty_open}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_tty(lua_State *L);
int luaopen_terret_tty(lua_State *L) {
    tr_class(L, TERMINAL, terminal_meta, terminal_methods);
    luaL_newlib(L, tty_funcs);
    return 1;
}

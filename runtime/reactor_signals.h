/* runtime/reactor_signals.h - the part of reactor.c that takes signals; included only there.
 *
 * Handlers write one byte to a non-blocking pipe.  The pipe is per process and belongs to the
 * first Lua state that asks, until that is closed.  A script that loops lets no turn take the
 * byte: the next INT, TERM or HUP sets a hook that raises in it, as lua.c does, and the one after
 * that has its default action; the terminal is given back before. */
#ifndef TERRET_REACTOR_SIGNALS_H
#define TERRET_REACTOR_SIGNALS_H

#include "terret.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#define SIGNALS "terret.reactor.signals"
#define SIGNALS_KEY "terret.reactor.signals.one"
#define RUNNING_KEY "terret.reactor.running"
#define MAX_PENDING 32
#define PATIENCE 2.0 /* seconds that TERM and HUP have to be taken */
#define BURST 0.1    /* seconds within which several signals are one */

/* The order is the bit in signals.routed; CHLD serves the orphan reaper only. */
static const struct {
    const char *name;
    int signo;
    bool merge; /* two that nobody took yet say no more than one */
} known_signals[] = {{"INT", SIGINT, false},    {"TERM", SIGTERM, false}, {"HUP", SIGHUP, false},
                     {"WINCH", SIGWINCH, true}, {"CONT", SIGCONT, true},  {"CHLD", SIGCHLD, true}};
enum { KNOWN = sizeof known_signals / sizeof *known_signals, CHLD = KNOWN - 1 };

typedef struct signals {
    tr_wait wait;
    enum { UNROUTED, ROUTED, GONE } state; /* ROUTED: this object owns the pipe */
    unsigned routed;                       /* bit k: known_signals[k] has our handler */
    bool chld;                             /* a child ended and nobody looked for orphans since */
    int pending;
    unsigned char queue[MAX_PENDING]; /* indices into known_signals, oldest first */
    struct sigaction before[KNOWN];
} signals;

/* The one mutable thing at file scope: a handler has no other way to find it.  `in` is set
 * before the first handler is installed; owner is the reactor of the Lua state that reads. */
static struct {
    volatile sig_atomic_t in;
    int out;
    const tr_reactor *owner;
    lua_State *volatile main, *volatile running; /* running is NULL for the main thread */
    volatile sig_atomic_t untaken;               /* signals to end that no turn has seen */
    double first, last;                          /* when they came; of the handlers only */
} signal_pipe = {.in = -1, .out = -1};

void tr_signal_write(int signo) {
    int saved = errno;
    unsigned char byte = (unsigned char)signo;
    /* A full pipe loses the byte: there is plenty to read already. */
    ssize_t n = write(signal_pipe.in, &byte, 1);
    (void)n;
    errno = saved;
}

static void on_hook(lua_State *L, lua_Debug *ar) {
    (void)ar;
    lua_sethook(L, NULL, 0, 0);
    luaL_error(L, "interrupted by a signal");
}

/* The handler returns, then the signal that is pending kills. */
static void die_of(int signo) {
    struct sigaction act = {.sa_handler = SIG_DFL};
    if (signal_pipe.owner && signal_pipe.owner->rescue) signal_pipe.owner->rescue();
    sigaction(signo, &act, NULL);
    raise(signo);
}

/* Nobody takes our signals: raises in the script that runs; then ends the process. */
static void insist(int signo) {
    double now = tr_now();
    if (signal_pipe.untaken > 0 && now - signal_pipe.last < BURST) return;
    if (signal_pipe.untaken == 0) signal_pipe.first = now;
    signal_pipe.last = now;
    int n = signal_pipe.untaken = signal_pipe.untaken + 1;
    lua_State *L = signal_pipe.running ? signal_pipe.running : signal_pipe.main;
    if (n > 2 || (n == 2 && signo != SIGINT && now - signal_pipe.first >= PATIENCE))
        die_of(signo);
    else if (n == 2 && L)
        lua_sethook(L, on_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKLINE | LUA_MASKCOUNT, 1);
}

static void on_signal(int signo) {
    int saved = errno;
    if (signo == SIGINT || signo == SIGTERM || signo == SIGHUP) insist(signo);
    tr_signal_write(signo);
    errno = saved;
}

static bool signal_pipe_open(void) {
    int fd[2];
    if (signal_pipe.in >= 0) return true;
    if (tr_pipe(fd)) return false;
    fcntl(fd[1], F_SETFL, O_NONBLOCK);
    signal_pipe.out = fd[0];
    signal_pipe.in = fd[1];
    return true;
}

/* After the handlers are gone.  None can be halfway through: the kernel gives a signal for the
 * process to its main thread, which is here. */
static void signal_pipe_close(void) {
    int in = signal_pipe.in;
    signal_pipe.in = -1;
    signal_pipe.owner = NULL;
    signal_pipe.main = signal_pipe.running = NULL;
    tr_close(&in);
    tr_close(&signal_pipe.out);
}

static void signals_enqueue(signals *s, int signo) {
    int k = 0;
    while (k < KNOWN && known_signals[k].signo != signo) k++;
    if (k == CHLD) s->chld = true;
    if (k >= CHLD) return;
    if (known_signals[k].merge && memchr(s->queue, k, (size_t)s->pending)) return;
    if (s->pending < MAX_PENDING) s->queue[s->pending++] = (unsigned char)k;
}

/* Called in every turn, with or without revents. */
static bool signals_pump(tr_wait *w, short revents, double now) {
    signals *s = w->owner;
    unsigned char bytes[64];
    ssize_t n;
    (void)revents;
    (void)now;
    while ((n = (ssize_t)tr_retry(read(w->fd, bytes, sizeof bytes))) > 0)
        for (ssize_t i = 0; i < n; i++) signals_enqueue(s, bytes[i]);
    signal_pipe.untaken = 0;
    return s->pending > 0;
}

static void signals_route(signals *s, int k) {
    if (s->routed & (1u << k)) return;
    struct sigaction act = {.sa_handler = on_signal};
    act.sa_flags = SA_RESTART | (k == CHLD ? SA_NOCLDSTOP : 0);
    sigfillset(&act.sa_mask);
    if (sigaction(known_signals[k].signo, &act, &s->before[k]) == 0) s->routed |= 1u << k;
}

/* Pushes the one object of this state, which may not have the pipe yet. */
static signals *signals_object(lua_State *L) {
    luaL_checkstack(L, 4, "signals");
    if (lua_getfield(L, LUA_REGISTRYINDEX, SIGNALS_KEY) == LUA_TUSERDATA)
        return lua_touserdata(L, -1);
    lua_pop(L, 1);
    signals *s = lua_newuserdatauv(L, sizeof *s, 0);
    *s = (signals){.wait = {.fd = -1, .events = POLLIN, .pump = signals_pump, .result = -1}};
    luaL_setmetatable(L, SIGNALS);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, SIGNALS_KEY);
    return s;
}

/* Pushes the object and sees to it that it owns the pipe; NULL with errno if it can't. */
static signals *signals_get(lua_State *L, tr_reactor *r) {
    signals *s = signals_object(L);
    if (s->state == ROUTED) return s;
    errno = EBUSY;
    if (s->state == GONE || signal_pipe.owner || !signal_pipe_open()) return NULL;
    s->wait.fd = signal_pipe.out;
    tr_wait_add(L, &s->wait, -1);
    signal_pipe.owner = r;
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    signal_pipe.main = lua_tothread(L, -1);
    lua_getfield(L, LUA_REGISTRYINDEX, RUNNING_KEY);
    signal_pipe.running = lua_tothread(L, -1);
    lua_pop(L, 2);
    s->state = ROUTED;
    s->chld = true; /* orphans may have died before there was a handler */
    return s;
}

static int signals_gc(lua_State *L) {
    signals *s = luaL_checkudata(L, 1, SIGNALS);
    for (int k = 0; k < KNOWN; k++)
        if (s->routed & (1u << k)) sigaction(known_signals[k].signo, &s->before[k], NULL);
    s->routed = 0;
    if (s->state == ROUTED || !signal_pipe.owner) signal_pipe_close();
    s->state = GONE;
    tr_wait_del(&s->wait);
    return 0;
}

/* The value on the top of the stack as an index into known_signals; -1: none of a script's. */
static int signal_index(lua_State *L) {
    const char *name = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    for (int k = 0; k < CHLD; k++)
        if (strcmp(known_signals[k].name, name) == 0) return k;
    return -1;
}

static int reactor_signals(lua_State *L) {
    unsigned wanted = 0;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_Integer n = (lua_Integer)lua_rawlen(L, 1);
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, 1, i);
        int k = signal_index(L);
        if (k < 0)
            luaL_argerror(L, 1,
                          lua_pushfstring(L, "unknown signal '%s'", luaL_tolstring(L, -1, 0)));
        wanted |= 1u << k;
        lua_pop(L, 1);
    }
    signals *s = signals_get(L, tr_reactor_get(L));
    if (!s && errno == EBUSY)
        return tr_fail(L, "busy", "the signals of this process belong to another Lua state");
    if (!s) return tr_errno(L, errno, "signal pipe");
    for (int k = 0; k < KNOWN; k++)
        if (wanted & (1u << k)) signals_route(s, k);
    return 1;
}

static int signals_ready(lua_State *L) {
    const signals *s = luaL_checkudata(L, 1, SIGNALS);
    lua_pushboolean(L, s->pending > 0);
    return 1;
}

static int signals_take(lua_State *L) {
    signals *s = luaL_checkudata(L, 1, SIGNALS);
    if (s->pending == 0) return 0;
    lua_pushstring(L, known_signals[s->queue[0]].name);
    s->pending--;
    memmove(s->queue, s->queue + 1, (size_t)s->pending);
    return 1;
}

/* The registry keeps the thread alive as long as a handler may set a hook on it. */
static int reactor_running(lua_State *L) {
    lua_State *co = lua_isnoneornil(L, 1) ? NULL : lua_tothread(L, 1);
    luaL_argexpected(L, co || lua_isnoneornil(L, 1), 1, "thread");
    if (signal_pipe.owner == tr_reactor_get(L)) signal_pipe.running = co;
    lua_settop(L, 1);
    lua_setfield(L, LUA_REGISTRYINDEX, RUNNING_KEY);
    return 0;
}

#endif

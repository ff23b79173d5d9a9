/* runtime/reactor.c - terret.reactor: the one place where the process waits.
 *
 * Owns: timers, the signal pipe, and the turn of the loop (reactor.poll).  The ring of waiting
 * things and the CURLM belong to the tr_reactor of util.c, so that every module reaches them.
 * Never calls Lua: poll returns the list of waitables that may have become ready, and the
 * scheduler in Lua asks each one.
 * Errors: raises on wrong arguments and when libcurl can't wait any more (out of memory);
 * reactor.signals returns nil, message, code when there is no pipe, or when the signals of this
 * process already belong to another Lua state.
 *
 * Why curl_multi_poll and not poll(2): it watches libcurl's sockets, its timers and our extra
 * descriptors in one call, also when there is no transfer.  Three of its habits shape the code:
 *   - a signal ends the wait with every revents 0, although the signal pipe is readable: the
 *     pipe is drained after each turn, whatever revents say;
 *   - a hang-up is reported as readable: pump must treat every event as "try it";
 *   - messages of finished transfers don't end the wait: they are read before it, too. */
#include <curl/curl.h>
#include "reactor_signals.h"
#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define TIMER "terret.reactor.timer"
#define SCRATCH_KEY "terret.reactor.scratch"

/* ---- timers ----------------------------------------------------------------------------- */

typedef struct timer {
    tr_wait wait;
    double at;
} timer;

static bool timer_pump(tr_wait *w, short revents, double now) {
    (void)revents;
    if (now < ((timer *)w->owner)->at) return false;
    tr_wait_del(w); /* else each later turn would end at once */
    return true;
}

static int reactor_timer(lua_State *L) {
    double seconds = luaL_checknumber(L, 1);
    luaL_argcheck(L, seconds >= 0, 1, "must not be negative");
    tr_reactor_get(L);
    timer *t = lua_newuserdatauv(L, sizeof *t, 0);
    *t = (timer){.wait = {.fd = -1, .pump = timer_pump, .result = -1}};
    t->at = t->wait.deadline = tr_now() + seconds;
    luaL_setmetatable(L, TIMER);
    tr_wait_add(L, &t->wait, -1);
    return 1;
}

static int timer_ready(lua_State *L) {
    const timer *t = luaL_checkudata(L, 1, TIMER);
    lua_pushboolean(L, tr_now() >= t->at);
    return 1;
}

/* Nobody shall wait for a closed timer: it is ready, and the next turn says so. */
static int timer_close(lua_State *L) {
    timer *t = luaL_checkudata(L, 1, TIMER);
    t->at = 0;
    t->wait.deadline = tr_now();
    return 0;
}

static int timer_gc(lua_State *L) {
    timer *t = luaL_checkudata(L, 1, TIMER);
    t->at = 0;
    tr_wait_del(&t->wait);
    return 0;
}

/* ---- orphans ---------------------------------------------------------------------------- */

/* A subreaper inherits what its commands leave behind.  An orphan is a zombie that nobody here
 * will wait for: not a child of exec.c, and of another session than ours (a child of io.popen
 * stays in our session, each command of exec.c has its own). */
static bool is_orphan(const tr_reactor *r, pid_t pid) {
    for (const tr_child *c = r->children; c; c = c->next)
        if (c->pid == pid) return false;
    pid_t sid = getsid(pid);
    return sid >= 0 && sid != getsid(0);
}

static void reap(pid_t pid) {
    siginfo_t info;
    tr_retry(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG));
}

/* Looks at every child.  Needed when one that we must leave alone is the first that waitid
 * finds: it would find the same one for ever. */
static void reap_listed(const tr_reactor *r) {
    char path[64];
    long pid;
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
    FILE *f = fopen(path, "re");
    if (!f) return;
    while (fscanf(f, "%ld", &pid) == 1)
        if (is_orphan(r, (pid_t)pid)) reap((pid_t)pid);
    fclose(f);
}

static void reap_orphans(const tr_reactor *r) {
    for (;;) {
        siginfo_t info = {.si_pid = 0};
        if (tr_retry(waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT)) || !info.si_pid) return;
        if (!is_orphan(r, info.si_pid)) break;
        reap(info.si_pid);
    }
    reap_listed(r);
}

/* ---- the turn --------------------------------------------------------------------------- */

/* The memory of one turn; the three arrays have `cap` elements each. */
typedef struct scratch {
    size_t cap;
    tr_wait **node;
    void **owner;
    struct curl_waitfd *fd; /* of the first `fds` nodes; the others have no descriptor */
} scratch;

static size_t ring_count(const tr_reactor *r) {
    size_t n = 0;
    for (const tr_wait *w = r->ring.next; w != &r->ring; w = w->next) n++;
    return n;
}

/* Room for n nodes, kept in the registry from turn to turn. */
static scratch *scratch_get(lua_State *L, size_t n) {
    lua_getfield(L, LUA_REGISTRYINDEX, SCRATCH_KEY);
    scratch *s = lua_touserdata(L, -1);
    lua_pop(L, 1);
    if (s && s->cap >= n) return s;
    size_t cap = n + 16;
    size_t size = sizeof(tr_wait *) + sizeof(void *) + sizeof(struct curl_waitfd);
    s = lua_newuserdatauv(L, sizeof *s + cap * size, 0);
    s->cap = cap;
    s->node = (tr_wait **)(s + 1);
    s->owner = (void **)(s->node + cap);
    s->fd = (struct curl_waitfd *)(s->owner + cap);
    lua_setfield(L, LUA_REGISTRYINDEX, SCRATCH_KEY);
    return s;
}

/* Hands the results of finished transfers to their nodes. */
static void finish_transfers(CURLM *multi, double now) {
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(multi, &left))) {
        char *private = NULL;
        CURLcode result = msg->data.result; /* pump may free the handle, and msg with it */
        if (msg->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &private);
        if (!private) continue;
        tr_wait *w = (tr_wait *)(void *)private;
        w->result = (int)result;
        if (w->pump(w, 0, now)) w->hot = true;
    }
}

/* Copies the ring, nodes with a descriptor first; returns how many those are.  *until becomes
 * the nearest deadline, or 0 if something is ready already. */
static size_t take_ring(const tr_reactor *r, scratch *s, double *until) {
    size_t fds = 0, n = 0;
    for (tr_wait *w = r->ring.next; w != &r->ring; w = w->next, n++) {
        if (w->hot) *until = 0;
        if (w->deadline > 0 && w->deadline < *until) *until = w->deadline;
        s->node[n] = w;
        if (w->fd < 0 || !w->events) continue;
        s->node[n] = s->node[fds];
        s->node[fds] = w;
        s->fd[fds++] =
            (struct curl_waitfd){.fd = w->fd,
                                 .events = (short)((w->events & POLLIN ? CURL_WAIT_POLLIN : 0) |
                                                   (w->events & POLLOUT ? CURL_WAIT_POLLOUT : 0))};
    }
    return fds;
}

/* Rounded up: a wait that ends before its deadline would spin. */
static int milliseconds(double seconds) {
    if (!(seconds > 0)) return 0;
    if (seconds >= INT_MAX / 1000 - 1) return INT_MAX;
    return (int)(seconds * 1000) + 1;
}

/* Pumps what has something to do; returns how many owners of s->owner may be ready.  A pump
 * may unregister any node: their memory stays, since no Lua runs meanwhile. */
static size_t pump_nodes(scratch *s, size_t n, size_t fds, double now) {
    size_t ready = 0;
    for (size_t i = 0; i < n; i++) {
        tr_wait *w = s->node[i];
        if (!w->next) continue;
        short seen = i < fds ? s->fd[i].revents : 0;
        short revents = (short)((seen & CURL_WAIT_POLLIN ? POLLIN : 0) |
                                (seen & CURL_WAIT_POLLOUT ? POLLOUT : 0));
        bool due = w->deadline > 0 && w->deadline <= now;
        bool hot = w->hot;
        w->hot = false;
        if (revents || due || w->pump == signals_pump) hot = w->pump(w, revents, now) || hot;
        if (hot && (ready == 0 || s->owner[ready - 1] != w->owner)) s->owner[ready++] = w->owner;
    }
    return ready;
}

static void check_multi(lua_State *L, CURLMcode code) {
    if (code != CURLM_OK) luaL_error(L, "reactor.poll: %s", curl_multi_strerror(code));
}

/* Everything that may run a finalizer comes first: from take_ring to the end no Lua runs. */
static int reactor_poll(lua_State *L) {
    double seconds = luaL_optnumber(L, 1, HUGE_VAL);
    luaL_argcheck(L, seconds >= 0, 1, "must not be negative");
    lua_settop(L, 1);
    tr_reactor *r = tr_reactor_get(L);
    CURLM *multi = tr_multi(r);
    if (!multi) return luaL_error(L, "reactor.poll: not enough memory");
    signals *sig = NULL;
    if (r->reap_orphans && (sig = signals_get(L, r))) signals_route(sig, CHLD);
    lua_settop(L, 1);
    lua_createtable(L, 0, 0); /* seconds ready */
    scratch *s;
    size_t n;
    do {
        n = ring_count(r);
        s = scratch_get(L, n);
    } while (ring_count(r) > s->cap);

    double now = tr_now(), until = now + seconds;
    finish_transfers(multi, now);
    n = ring_count(r);
    size_t fds = take_ring(r, s, &until);
    check_multi(L, curl_multi_poll(multi, s->fd, (unsigned)fds, milliseconds(until - now), NULL));
    int running;
    check_multi(L, curl_multi_perform(multi, &running));
    now = tr_now();
    finish_transfers(multi, now);
    size_t ready = pump_nodes(s, n, fds, now);
    if (sig && sig->chld) { /* after the pumps: exec.c has reaped its own by now */
        sig->chld = false;
        reap_orphans(r);
    }
    lua_Integer k = 0;
    for (size_t i = 0; i < ready; i++) {
        tr_wait_push(L, s->owner[i]);
        if (lua_isnil(L, -1))
            lua_pop(L, 1);
        else
            lua_rawseti(L, 2, ++k);
    }
    return 1;
}

static int reactor_now(lua_State *L) {
    lua_pushnumber(L, tr_now());
    return 1;
}

/* ---- module ----------------------------------------------------------------------------- */

static const luaL_Reg reactor_funcs[] = {{"poll", reactor_poll},       {"now", reactor_now},
                                         {"timer", reactor_timer},     {"signals", reactor_signals},
                                         {"running", reactor_running}, {NULL, NULL}};
static const luaL_Reg timer_methods[] = {
    {"ready", timer_ready}, {"close", timer_close}, {NULL, NULL}};
static const luaL_Reg timer_meta[] = {{"__gc", timer_gc}, {"__close", timer_gc}, {NULL, NULL}};
static const luaL_Reg signals_methods[] = {
    {"ready", signals_ready}, {"take", signals_take}, {NULL, NULL}};
static const luaL_Reg signals_meta[] = {{"__gc", signals_gc}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_reactor(lua_State *L);
TR_EXPORT int luaopen_terret_reactor(lua_State *L) {
    tr_class(L, TIMER, timer_meta, timer_methods);
    tr_class(L, SIGNALS, signals_meta, signals_methods);
    luaL_newlib(L, reactor_funcs);
    return 1;
}

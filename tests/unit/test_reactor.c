/* tests/unit/test_reactor.c - the loop with raw descriptors, and the orphans of a subreaper.
 * Each claim about curl_multi_poll that reactor.c rests on has its test here. */
#include "../../runtime/reactor.c"

#include <lualib.h>
#include <sys/prctl.h>
#include <sys/resource.h>

static int failures, tests;

static void ok(bool good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

/* A waitable over any descriptor; counts what its pump was told. */
typedef struct probe {
    tr_wait wait;
    int calls;
    short seen;
    tr_wait *kill; /* unregistered by pump: a node may do that to any other */
} probe;

static bool probe_pump(tr_wait *w, short revents, double now) {
    probe *p = w->owner;
    (void)now;
    p->calls++;
    p->seen = revents;
    if (p->kill) tr_wait_del(p->kill);
    return true;
}

static int probe_gc(lua_State *L) {
    tr_wait_del(&((probe *)lua_touserdata(L, 1))->wait);
    return 0;
}

static probe *probe_new(lua_State *L, int fd, short events) {
    tr_reactor_get(L);
    probe *p = lua_newuserdatauv(L, sizeof *p, 0);
    *p = (probe){.wait = {.fd = fd, .events = events, .pump = probe_pump, .result = -1}};
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, probe_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
    tr_wait_add(L, &p->wait, -1);
    return p;
}

/* One turn; how many owners it reported. */
static int turn(lua_State *L, double seconds) {
    lua_pushcfunction(L, reactor_poll);
    lua_pushnumber(L, seconds);
    lua_call(L, 1, 1);
    int n = (int)lua_rawlen(L, -1);
    lua_pop(L, 1);
    return n;
}

static lua_State *open_state(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "terret.reactor", luaopen_terret_reactor, 0);
    lua_settop(L, 0);
    return L;
}

static void test_descriptors(void) {
    lua_State *L = open_state();
    int fd[2];
    if (tr_pipe(fd)) exit(1);
    probe *p = probe_new(L, fd[0], POLLIN);
    double start = tr_now();
    ok(turn(L, 0.01) == 0 && p->calls == 0 && tr_now() - start >= 0.01,
       "no transfer: the time-out is honoured");
    ok(write(fd[1], "x", 1) == 1 && turn(L, 5) == 1 && p->seen == POLLIN,
       "no transfer: a readable descriptor ends the wait");
    ok(turn(L, 5) == 1 && p->calls == 2, "level: unread data is reported again");
    p->wait.events = 0;
    ok(turn(L, 0) == 0 && p->calls == 2, "events 0: not watched");
    p->wait.events = POLLIN;
    char byte;
    ok(read(fd[0], &byte, 1) == 1 && turn(L, 0) == 0, "nothing left");
    tr_close(&fd[1]);
    ok(turn(L, 5) == 1 && (p->seen & POLLIN), "a writer that left is readable");
    tr_wait_del(&p->wait);
    ok(turn(L, 0) == 0, "an unregistered node is left alone");
    tr_close(&fd[0]);

    if (tr_pipe(fd)) exit(1);
    p = probe_new(L, fd[1], POLLOUT);
    ok(turn(L, 5) == 1 && p->seen == POLLOUT, "writable");
    tr_close(&fd[0]);
    ok(turn(L, 5) == 1 && (p->seen & POLLOUT), "a reader that left is writable");
    tr_wait_del(&p->wait);
    tr_close(&fd[1]);
    lua_close(L);
}

static void test_high_descriptor(void) {
    lua_State *L = open_state();
    struct rlimit limit;
    int fd[2];
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max < 2000 ? limit.rlim_max : 2000;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (tr_pipe(fd)) exit(1);
    int high = fcntl(fd[0], F_DUPFD_CLOEXEC, 1500);
    if (high < 0) {
        ok(true, "descriptor above 1024 # SKIP the limit is lower");
    } else {
        probe *p = probe_new(L, high, POLLIN);
        ok(turn(L, 0) == 0 && write(fd[1], "x", 1) == 1 && turn(L, 5) == 1 && p->seen == POLLIN,
           "descriptor above 1024");
    }
    lua_close(L);
    tr_close(&high);
    tr_close(&fd[0]);
    tr_close(&fd[1]);
}

static void test_nodes(void) {
    lua_State *L = open_state();
    probe *a = probe_new(L, -1, 0), *b = probe_new(L, -1, 0), *c = probe_new(L, -1, 0);
    a->wait.deadline = b->wait.deadline = c->wait.deadline = tr_now();
    a->kill = &b->wait;
    ok(turn(L, 5) == 2 && a->calls == 1 && b->calls == 0 && c->calls == 1,
       "a pump may unregister another node");
    c->kill = &c->wait;
    ok(turn(L, 5) == 2 && turn(L, 5) == 1 && c->calls == 2, "a pump may unregister its own");
    a->wait.deadline = 0;
    ok(turn(L, 0) == 0, "no deadline, no descriptor: never due");
    double start = tr_now();
    a->wait.hot = true;
    int before = a->calls;
    ok(turn(L, 5) == 1 && a->calls == before && tr_now() - start < 1,
       "hot: reported without a wait");
    ok(turn(L, 0) == 0, "hot: once");
    lua_pushnil(L);
    lua_replace(L, 1); /* the only reference to a */
    lua_gc(L, LUA_GCCOLLECT);
    ok(turn(L, 0) == 0, "a collected waitable is gone");
    lua_close(L);
}

static void test_signal_during_wait(void) {
    lua_State *L = open_state();
    ok(luaL_dostring(L, "s = require 'terret.reactor'.signals{'HUP'}") == LUA_OK, "signals");
    raise(SIGHUP);
    ok(turn(L, 5) == 1, "a signal before the wait ends it");
    ok(luaL_dostring(L, "assert(s:take() == 'HUP' and not s:take())") == LUA_OK, "taken");
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        usleep(20000);
        kill(parent, SIGHUP);
        _exit(0);
    }
    double start = tr_now();
    int n = turn(L, 5);
    ok(n == 1 && tr_now() - start < 2, "a signal during the wait is seen in the same turn");
    waitpid(pid, NULL, 0);

    lua_State *other = open_state();
    ok(luaL_dostring(other, "local s, why, code = require 'terret.reactor'.signals{'HUP'}\n"
                            "assert(s == nil and code == 'busy', why)") == LUA_OK,
       "the signals belong to one Lua state");
    ok(turn(other, 0) == 0, "and the other one polls without them");
    lua_close(L);
    struct sigaction now;
    sigaction(SIGHUP, NULL, &now);
    ok(now.sa_handler == SIG_DFL, "lua_close restores the disposition");
    ok(signal_pipe.in == -1 && signal_pipe.out == -1 && !signal_pipe.owner, "and closes the pipe");
    ok(luaL_dostring(other, "assert(require 'terret.reactor'.signals{'HUP'})") == LUA_OK,
       "then another state may have them");
    lua_close(other);
    tr_signal_write(SIGHUP); /* nobody listens: must do no harm */
}

static bool is_zombie(pid_t pid) {
    siginfo_t info = {.si_pid = 0};
    return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid;
}

static bool is_gone(pid_t pid) {
    return kill(pid, 0) == -1 && errno == ESRCH;
}

/* A child that ended already; session: in one of its own. */
static pid_t dead_child(bool session) {
    pid_t pid = fork();
    if (pid < 0) exit(1);
    if (pid == 0) {
        if (session) setsid();
        _exit(0);
    }
    siginfo_t info;
    tr_retry(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
    return pid;
}

static void test_orphans(void) {
    lua_State *L = open_state();
    tr_reactor *r = tr_reactor_get(L);
    pid_t early = dead_child(true);
    turn(L, 0);
    ok(is_zombie(early), "not a subreaper: nothing is reaped");
    r->reap_orphans = true;
    turn(L, 0);
    ok(is_gone(early), "an orphan that died before the handler was there is reaped");

    /* The oldest zombie is the one waitid finds first. */
    tr_child ours = {.pid = dead_child(true)};
    tr_child_add(r, &ours);
    pid_t same_session = dead_child(false), orphan = dead_child(true);
    turn(L, 0);
    ok(is_zombie(ours.pid), "a child of exec.c is left alone");
    ok(is_zombie(same_session), "a child in our session is left alone");
    ok(is_gone(orphan), "the orphan behind them is reaped");
    tr_child_del(r, &ours);
    tr_child_del(r, &ours);
    waitpid(same_session, NULL, 0);
    pid_t another = dead_child(true);
    turn(L, 0);
    ok(is_gone(another) && is_gone(ours.pid), "later ones are, too");

    /* A grandchild really left behind. */
    int fd[2];
    if (pipe(fd)) exit(1);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    pid_t middle = fork();
    if (middle == 0) {
        setsid();
        pid_t left = fork();
        if (left == 0) {
            usleep(20000);
            _exit(0);
        }
        _exit(write(fd[1], &left, sizeof left) != sizeof left);
    }
    pid_t left = 0;
    bool got = read(fd[0], &left, sizeof left) == sizeof left;
    double limit = tr_now() + 5;
    while (!is_gone(left) && tr_now() < limit) turn(L, 0.1);
    ok(got && is_gone(left) && is_gone(middle), "a process left behind is reaped when it ends");
    lua_close(L);
    struct sigaction now;
    sigaction(SIGCHLD, NULL, &now);
    ok(now.sa_handler == SIG_DFL, "lua_close restores SIGCHLD");
    close(fd[0]);
    close(fd[1]);
}

static void test_milliseconds(void) {
    ok(milliseconds(0) == 0 && milliseconds(-1) == 0, "no time: no wait");
    ok(milliseconds(0.0001) == 1 && milliseconds(0.0101) == 11, "rounded up");
    ok(milliseconds(HUGE_VAL) == INT_MAX && milliseconds(1e12) == INT_MAX, "without limit");
}

int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    test_milliseconds();
    test_descriptors();
    test_high_descriptor();
    test_nodes();
    test_signal_during_wait();
    test_orphans();
    printf("1..%d\n", tests);
    return failures != 0;
}

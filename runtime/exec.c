/* runtime/exec.c - terret.exec: run a command, bounded in time, output and descriptors.
 *
 * Owns: one child process per userdata, its pipes, its pidfd and the file of its long output.
 * Errors: wrong arguments raise; what the system refuses before or in execve returns nil,
 * message, code, with the step that failed in the message.
 * exec_options.h makes the plan of a child, exec_child.h starts it (exec_contain.h confines it,
 * in what exec_namespaces.h holds), exec_output.h keeps what it writes.
 *
 * The end.  The main process's exit is what ends a command, not the end of its output: a
 * background process that keeps the pipe open must not hold the caller.  The leader is first
 * looked at without reaping it (WNOWAIT).  As long as it is a zombie its process group's number
 * can't be taken again, so killing the group is safe; then it is reaped and the pipe is drained.
 * A process that left the group (setsid) survives that.  Not so where the command joined
 * namespaces: then our child is process 1 of a PID namespace of its own, which ends with the
 * command, says through a pipe how that ended, and takes everything along.
 *
 * All of this happens in the pumps, which the reactor calls.  Lua only reads the result. */
#include "exec_child.h"
#include "exec_options.h"
#include "exec_output.h"
#include "terret.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESS "terret.exec.process"
#define CHUNK (64 * 1024)        /* one read of a pipe; also a pipe's usual capacity */
#define PUMP_MAX (4 * CHUNK)     /* so that one loud child can't starve the others */
#define DRAIN_MAX (1024 * 1024)  /* after the end: what a pipe can hold at most */
#define STREAM_MAX (1024 * 1024) /* unread, before the child has to wait */
#define KEEP_MAX (1 << 30)       /* of head, tail and err_head each */
#define UNKILLABLE 5.0           /* seconds after SIGKILL until a process is given up */
#define REAP_MS 50               /* how long close() waits for a killed process */
#define EXIT_POLL 0.01           /* where there is no pidfd: seconds between two looks */

/* ---- a process --------------------------------------------------------------------------- */

enum stage { STAGE_RUN, STAGE_ASKED, STAGE_KILLED }; /* nothing, TERM, KILL was sent */

typedef struct exec_proc {
    tr_wait out, err, exit; /* the pipes and the pidfd; exit also carries the deadlines */
    tr_child child;         /* keeps the orphan reaper off our pid */
    tr_reactor *reactor;
    exec_output output, errors;
    double started, limit, grace; /* limit: when the stage changes, 0 for never */
    double seconds;
    enum stage stage;
    bool apart;     /* stderr has its own pipe */
    bool contained; /* the child is process 1 */
    int status;     /* where that writes how the command ended */
    bool ended, closed, timed_out, killed;
    int code, signo; /* -1: does not apply */
} exec_proc;

/* Process 1 passes TERM and INT on to the command's group. */
static void signal_group(exec_proc *p, int signo) {
    if (p->ended || p->child.pid <= 1) return;
    kill(p->contained ? p->child.pid : -p->child.pid, signo);
}

static void send_kill(exec_proc *p, double now) {
    signal_group(p, SIGKILL);
    p->stage = STAGE_KILLED;
    p->limit = now + UNKILLABLE;
}

static void send_term(exec_proc *p, double now) {
    signal_group(p, SIGTERM);
    p->stage = STAGE_ASKED;
    p->limit = now + p->grace;
}

/* Sets the exit node's deadline: the limit, and where there is no pidfd the next look. */
static void schedule(exec_proc *p, double now) {
    p->exit.deadline = p->limit;
    if (p->exit.fd >= 0 || p->ended) return;
    double look = now + EXIT_POLL;
    if (p->limit <= 0 || look < p->limit) p->exit.deadline = look;
}

/* Brings the next look forward; never puts it off, however often it is called. */
static void wake_by(exec_proc *p, double when) {
    if (when > 0 && (p->exit.deadline <= 0 || when < p->exit.deadline)) p->exit.deadline = when;
}

/* Reads what is there, at most max bytes.  At its end the pipe is closed. */
static void take(tr_wait *w, exec_output *o, size_t max) {
    char chunk[CHUNK];
    for (size_t sum = 0; w->fd >= 0 && sum < max;) {
        ssize_t n = (ssize_t)tr_retry(read(w->fd, chunk, sizeof chunk));
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            tr_close(&w->fd);
            w->events = 0;
            return;
        }
        sum += (size_t)n;
        output_put(o, chunk, (size_t)n);
    }
}

/* The nodes stay in the ring, which the reactor may be walking; Lua's side takes them out. */
static void finish(exec_proc *p, double now) {
    take(&p->out, &p->output, DRAIN_MAX);
    take(&p->err, &p->errors, DRAIN_MAX);
    tr_close(&p->out.fd);
    tr_close(&p->err.fd);
    tr_close(&p->exit.fd);
    tr_close(&p->status);
    tr_close(&p->output.blob_fd);
    p->out.events = p->err.events = p->exit.events = 0;
    p->limit = p->exit.deadline = 0;
    p->seconds = now - p->started;
    p->ended = true;
    tr_child_del(p->reactor, &p->child);
}

static void note_end(exec_proc *p, const siginfo_t *info) {
    int status;
    if (p->status >= 0 &&
        tr_retry(read(p->status, &status, sizeof status)) == (long)sizeof status) {
        if (WIFEXITED(status))
            p->code = WEXITSTATUS(status);
        else
            p->signo = WTERMSIG(status);
    } else if (info->si_code == CLD_EXITED) {
        p->code = info->si_status;
    } else {
        p->signo = info->si_status;
    }
}

/* True when the main process has ended: then the group is killed and all is collected. */
static bool collect(exec_proc *p, double now) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    id_t id = (id_t)p->child.pid;
    if (tr_retry(waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT)) == 0) {
        if (info.si_pid == 0) return false;
        signal_group(p, SIGKILL); /* the zombie keeps the number ours */
        tr_retry(waitpid(p->child.pid, NULL, WNOHANG));
        note_end(p, &info);
    } /* else somebody else reaped it: neither code nor signal is known */
    finish(p, now);
    return true;
}

/* The limit of the stage is over. */
static void escalate(exec_proc *p, double now) {
    if (p->stage == STAGE_RUN) {
        p->timed_out = true;
        send_term(p, now);
    } else if (p->stage == STAGE_ASKED) {
        send_kill(p, now);
    } else { /* stuck in the kernel: nobody should wait for it; the orphan reaper gets it */
        p->signo = SIGKILL;
        finish(p, now);
    }
}

static bool exit_pump(tr_wait *w, short revents, double now) {
    exec_proc *p = w->owner;
    (void)revents;
    if (p->ended || collect(p, now)) return true;
    if (p->limit > 0 && now >= p->limit) escalate(p, now);
    schedule(p, now);
    return p->ended;
}

static bool out_pump(tr_wait *w, short revents, double now) {
    exec_proc *p = w->owner;
    (void)revents;
    take(w, &p->output, PUMP_MAX);
    if (w->fd < 0 && p->exit.fd < 0 && !p->ended) wake_by(p, now);
    if (p->output.unread.n >= STREAM_MAX) w->events = 0;
    return p->output.unread.n > 0;
}

static bool err_pump(tr_wait *w, short revents, double now) {
    exec_proc *p = w->owner;
    (void)revents;
    (void)now;
    take(w, &p->errors, PUMP_MAX);
    return false;
}

static void leave_ring(exec_proc *p) {
    tr_wait_del(&p->out);
    tr_wait_del(&p->err);
    tr_wait_del(&p->exit);
}

/* Kills and reaps.  A process that SIGKILL does not end at once is left to the orphan reaper. */
static void proc_close(exec_proc *p) {
    if (p->closed) return;
    p->closed = true;
    leave_ring(p);
    if (p->child.pid > 0 && !p->ended) {
        signal_group(p, SIGKILL);
        struct pollfd wait = {.fd = p->exit.fd, .events = POLLIN};
        for (int i = 0; i < REAP_MS && waitpid(p->child.pid, NULL, WNOHANG) == 0; i++)
            poll(&wait, 1, 1);
        tr_child_del(p->reactor, &p->child);
    }
    p->ended = true;
    tr_close(&p->out.fd);
    tr_close(&p->err.fd);
    tr_close(&p->exit.fd);
    tr_close(&p->status);
    output_free(&p->output);
    output_free(&p->errors);
}

/* ---- spawn ------------------------------------------------------------------------------- */

static void parse_output(lua_State *L, exec_proc *p) {
    p->output.head_max = (size_t)tr_opt_integer(L, 1, "head", 65536, 0, KEEP_MAX);
    p->output.tail_max = (size_t)tr_opt_integer(L, 1, "tail", 65536, 0, KEEP_MAX);
    p->errors.head_max = (size_t)tr_opt_integer(L, 1, "err_head", 65536, 0, KEEP_MAX);
    p->output.blob_max = (uint64_t)tr_opt_integer(L, 1, "blob_max", 1 << 30, 0, LUA_MAXINTEGER);
    p->output.stream = tr_opt_boolean(L, 1, "stream", false);
    p->output.blob = opt_path(L, "blob");
    if (!p->output.blob) return;
    lua_pushstring(L, p->output.blob);
    p->output.blob = lua_tostring(L, -1);
    lua_setiuservalue(L, 2, 1);
}

static bool open_pipe(exec_plan *plan, tr_wait *w, int target) {
    int fd[2];
    if (tr_pipe(fd)) return refuse(plan, "pipe", NULL);
    w->fd = fd[0];
    w->events = POLLIN;
    plan->fd[target] = fd[1];
    return true;
}

static bool open_status(exec_proc *p, exec_plan *plan) {
    int fd[2];
    if (!plan->join) return true;
    if (tr_pipe(fd)) return refuse(plan, "pipe", NULL);
    p->contained = true;
    p->status = plan->status_end = fd[0];
    plan->status = fd[1];
    return true;
}

static bool supported(exec_plan *plan) {
    errno = ENOSYS;
    return EXEC_LINUX || !is_confined(plan) || refuse(plan, "sandbox", NULL);
}

/* No call of Lua in here, so nothing can raise while descriptors are in our hands. */
static bool launch(exec_proc *p, exec_plan *plan) {
    int *fd = plan->fd;
    bool ok = supported(plan) && child_stdin(plan) && open_pipe(plan, &p->out, 1) &&
              (!p->apart || open_pipe(plan, &p->err, 2)) && open_status(p, plan);
    if (!p->apart) fd[2] = fd[1];
    pid_t pid = ok ? child_launch(plan) : -1;
    if (!p->apart) fd[2] = -1;
    for (int i = 0; i <= 2; i++) tr_close(&fd[i]);
    tr_close(&plan->status);
    if (pid < 0) return false;
    p->child.pid = pid;
    tr_child_add(p->reactor, &p->child);
#if EXEC_LINUX
    p->exit.fd = (int)syscall(SYS_pidfd_open, pid, 0);
#endif
    if (p->exit.fd >= 0) p->exit.events = POLLIN;
    return true;
}

static exec_proc *new_process(lua_State *L) {
    tr_reactor *reactor = tr_reactor_get(L);
    exec_proc *p = lua_newuserdatauv(L, sizeof *p, 1);
    *p = (exec_proc){.out = {.fd = -1, .pump = out_pump, .result = -1},
                     .err = {.fd = -1, .pump = err_pump, .result = -1},
                     .exit = {.fd = -1, .pump = exit_pump, .result = -1},
                     .output = {.blob_fd = -1},
                     .errors = {.blob_fd = -1},
                     .reactor = reactor,
                     .status = -1,
                     .code = -1,
                     .signo = -1};
    luaL_setmetatable(L, PROCESS);
    tr_wait_add(L, &p->out, -1);
    tr_wait_add(L, &p->err, -1);
    tr_wait_add(L, &p->exit, -1);
    return p;
}

static int spawn_failed(lua_State *L, const exec_refusal *r) {
    if (!r->subject) return tr_errno(L, r->err, r->step);
    return tr_fail(L, tr_errcode(r->err), "%s '%s': %s", r->step, r->subject, strerror(r->err));
}

static int exec_spawn(lua_State *L) {
    static const char *const known[] = {
        "argv",     "env",     "cwd",     "stdin",    "fds",     "head",   "tail",     "blob",
        "blob_max", "timeout", "grace",   "merge",    "rlimits", "stream", "err_head", "join",
        "mounts",   "drop",    "seccomp", "landlock", "cgroups", NULL};
    exec_plan plan;
    memset(&plan, 0, sizeof plan);
    plan.report = -1;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tr_options(L, 1, known);
    exec_proc *p = new_process(L); /* options process */
    parse_output(L, p);
    parse_argv(L, &plan);
    parse_env(L, &plan);
    parse_fds(L, &plan);
    parse_rlimits(L, &plan);
    parse_confinement(L, &plan);
    find_search(&plan);
    plan.cwd = opt_path(L, "cwd");
    plan.input = tr_opt_string(L, 1, "stdin", NULL, &plan.input_len);
    p->apart = !tr_opt_boolean(L, 1, "merge", true);
    double timeout = tr_opt_number(L, 1, "timeout", -1, 0, 1e9);
    p->grace = tr_opt_number(L, 1, "grace", 1, 0, 1e9);
    p->started = tr_now();
    if (!launch(p, &plan)) {
        proc_close(p);
        return spawn_failed(L, &plan.refusal);
    }
    if (timeout >= 0) p->limit = p->started + timeout;
    schedule(p, p->started);
    lua_pushvalue(L, 2);
    return 1;
}

/* ---- other functions of the module ---------------------------------------------------------- */

static int exec_environ(lua_State *L) {
    lua_newtable(L);
    for (char **e = environ; e && *e; e++) {
        const char *eq = strchr(*e, '=');
        if (!eq || eq == *e) continue;
        lua_pushlstring(L, *e, (size_t)(eq - *e)); /* env name */
        lua_pushvalue(L, -1);
        bool seen = lua_rawget(L, -3) != LUA_TNIL; /* as getenv: the first one counts */
        lua_pop(L, 1);
        lua_pushstring(L, eq + 1); /* env name value */
        if (seen)
            lua_pop(L, 2);
        else
            lua_rawset(L, -3);
    }
    return 1;
}

static int exec_close(lua_State *L) {
    lua_Integer fd = luaL_checkinteger(L, 1);
    luaL_argcheck(L, fd > 2 && fd <= INT_MAX, 1, "a descriptor above 2 expected");
    lua_pushboolean(L, close((int)fd) == 0);
    return 1;
}

/* ---- methods ----------------------------------------------------------------------------- */

static exec_proc *check_open(lua_State *L) {
    exec_proc *p = luaL_checkudata(L, 1, PROCESS);
    luaL_argcheck(L, !p->closed, 1, "the process is closed");
    if (p->ended) leave_ring(p);
    return p;
}

/* A closed one is ready: nobody may wait for it for ever. */
static int process_ready(lua_State *L) {
    exec_proc *p = luaL_checkudata(L, 1, PROCESS);
    lua_pushboolean(L, p->ended || p->output.unread.n > 0);
    return 1;
}

static int process_pid(lua_State *L) {
    lua_pushinteger(L, check_open(L)->child.pid);
    return 1;
}

static int process_read(lua_State *L) {
    exec_proc *p = check_open(L);
    tr_buf *b = &p->output.unread;
    if (p->ended && b->n == 0) return 0;
    lua_pushlstring(L, b->n ? b->p : "", b->n);
    b->n = 0;
    if (p->out.fd >= 0) p->out.events = POLLIN;
    return 1;
}

static const char *signal_name(lua_State *L, int signo) {
    static const struct {
        int signo;
        const char *name;
    } names[] = {{SIGHUP, "HUP"},   {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},
                 {SIGTRAP, "TRAP"}, {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},   {SIGFPE, "FPE"},
                 {SIGKILL, "KILL"}, {SIGUSR1, "USR1"}, {SIGSEGV, "SEGV"}, {SIGUSR2, "USR2"},
                 {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"}, {SIGTERM, "TERM"}, {SIGXCPU, "XCPU"},
                 {SIGXFSZ, "XFSZ"}, {SIGSYS, "SYS"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].signo == signo) return lua_pushstring(L, names[i].name);
    return lua_pushfstring(L, "%d", signo);
}

static int process_status(lua_State *L) {
    exec_proc *p = check_open(L);
    if (!p->ended) return 0;
    lua_createtable(L, 0, 5); /* status */
    if (p->code >= 0) {
        lua_pushinteger(L, p->code);
        lua_setfield(L, -2, "code");
    } else {
        if (p->signo >= 0)
            signal_name(L, p->signo);
        else
            lua_pushliteral(L, "UNKNOWN"); /* somebody else reaped it */
        lua_setfield(L, -2, "signal");
    }
    lua_pushboolean(L, p->timed_out);
    lua_setfield(L, -2, "timed_out");
    lua_pushboolean(L, p->killed);
    lua_setfield(L, -2, "killed");
    lua_pushnumber(L, p->seconds);
    lua_setfield(L, -2, "seconds");
    return 1;
}

static int process_output(lua_State *L) {
    exec_proc *p = check_open(L);
    const exec_output *o = &p->output;
    lua_createtable(L, 0, 8); /* output */
    lua_pushlstring(L, o->head.n ? o->head.p : "", o->head.n);
    lua_setfield(L, -2, "head");
    push_tail(L, o);
    lua_setfield(L, -2, "tail");
    lua_pushinteger(L, (lua_Integer)o->total);
    lua_setfield(L, -2, "total");
    lua_pushinteger(L, (lua_Integer)(o->total - o->head.n - o->tail.n));
    lua_setfield(L, -2, "elided");
    set_blob_fields(L, o);
    if (p->apart) {
        lua_pushlstring(L, p->errors.head.n ? p->errors.head.p : "", p->errors.head.n);
        lua_setfield(L, -2, "stderr");
    }
    return 1;
}

static int process_kill(lua_State *L) {
    static const char *const names[] = {"TERM", "KILL", "INT", NULL};
    exec_proc *p = check_open(L);
    int which = luaL_checkoption(L, 2, "TERM", names);
    double now = tr_now();
    if (p->ended) return 0;
    p->killed = true;
    if (which == 2)
        signal_group(p, SIGINT);
    else if (which == 1 && p->stage != STAGE_KILLED)
        send_kill(p, now);
    else if (which == 0 && p->stage == STAGE_RUN) /* else the KILL would come later */
        send_term(p, now);
    wake_by(p, p->limit);
    return 0;
}

static int process_gc(lua_State *L) {
    proc_close(luaL_checkudata(L, 1, PROCESS));
    return 0;
}

static int process_tostring(lua_State *L) {
    exec_proc *p = luaL_checkudata(L, 1, PROCESS);
    const char *state = p->closed ? "closed" : p->ended ? "ended" : "running";
    lua_pushfstring(L, PROCESS " %d (%s)", (int)p->child.pid, state);
    return 1;
}

static const luaL_Reg process_meta[] = {
    {"__gc", process_gc}, {"__close", process_gc}, {"__tostring", process_tostring}, {NULL, NULL}};
static const luaL_Reg process_methods[] = {{"ready", process_ready},   {"read", process_read},
                                           {"status", process_status}, {"kill", process_kill},
                                           {"output", process_output}, {"pid", process_pid},
                                           {"close", process_gc},      {NULL, NULL}};
static const luaL_Reg exec_funcs[] = {{"spawn", exec_spawn},
                                      {"environ", exec_environ},
                                      {"close", exec_close},
                                      {"namespaces", exec_namespaces},
                                      {NULL, NULL}};

TR_EXPORT int luaopen_terret_exec(lua_State *L);
int luaopen_terret_exec(lua_State *L) {
    tr_class(L, PROCESS, process_meta, process_methods);
    tr_class(L, NAMESPACES, namespaces_meta, namespaces_methods);
    luaL_newlib(L, exec_funcs);
    return 1;
}

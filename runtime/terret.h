/* runtime/terret.h - what the C modules share; the only common header.
 *
 * Every module is one C file that becomes part of the executable or a loadable
 * .so; util.c is compiled into both.  Conventions:
 *   - a mistake of the script raises (luaL_argerror);
 *   - a refusal of the world returns nil, message, code (tr_fail, tr_errno);
 *   - no C code calls Lua, so nothing here ever runs a callback in a script;
 *   - a resource sits in a userdata with __gc before the next call that can raise. */
#ifndef TERRET_H
#define TERRET_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define TR_EXPORT __attribute__((visibility("default")))

/* Repeats a system call that a signal interrupted.  Never for close(). */
#define tr_retry(call)                              \
    (__extension__({                                \
        long tr_result_;                            \
        do tr_result_ = (long)(call);               \
        while (tr_result_ == -1 && errno == EINTR); \
        tr_result_;                                 \
    }))

/* ---- errors ----------------------------------------------------------------------------- */

/* Pushes nil, the formatted message and the code; returns 3, so: return tr_fail(...). */
int tr_fail(lua_State *L, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for an errno value: "WHAT: No such file or directory", "not_found". */
int tr_errno(lua_State *L, int err, const char *what);
/* The stable word of an errno value ("denied", "no_space", ... or "io"). */
const char *tr_errcode(int err);

/* ---- options tables --------------------------------------------------------------------- */

/* Checks that the value at idx is a table (or none: then false) and that each key is in the
 * NULL-terminated list; an unknown key raises "unknown option 'timout'". */
bool tr_options(lua_State *L, int idx, const char *const known[]);
/* One option each; idx may be a missing table.  The number forms raise outside [min, max].
 * The string form leaves nothing on the stack: the table keeps the string alive. */
lua_Integer tr_opt_integer(lua_State *L, int idx, const char *key, lua_Integer def, lua_Integer min,
                           lua_Integer max);
double tr_opt_number(lua_State *L, int idx, const char *key, double def, double min, double max);
bool tr_opt_boolean(lua_State *L, int idx, const char *key, bool def);
const char *tr_opt_string(lua_State *L, int idx, const char *key, const char *def, size_t *len);

/* ---- descriptors and time --------------------------------------------------------------- */

double tr_now(void);    /* monotonic, seconds */
int tr_pipe(int fd[2]); /* close-on-exec, read end non-blocking; 0 or -1 with errno */
void tr_close(int *fd); /* closes once, leaves -1, keeps errno */
/* write(2) until all is out; 0, or -1 with errno. */
int tr_write_all(int fd, const char *p, size_t n);

/* ---- growing buffer (malloc; owned by a userdata, freed in its __gc) ---------------------- */

typedef struct tr_buf {
    char *p;
    size_t n, cap;
    size_t max; /* 0: no limit */
} tr_buf;

/* false: out of memory or over max; the buffer is as before. */
bool tr_buf_put(tr_buf *b, const void *data, size_t n);
bool tr_buf_reserve(tr_buf *b, size_t more);
void tr_buf_free(tr_buf *b);

/* ---- waiting: what reactor.c and the waitable modules share -------------------------------
 *
 * A waitable is a userdata that embeds one or more tr_wait nodes.  reactor.poll watches the
 * descriptors and deadlines of all nodes, calls pump when something happened, and hands the
 * owner to Lua when pump says that `ready` may now be true.  Readiness is a level: the owner's
 * own :ready() method is the truth, the list of poll only says where to look. */
typedef struct tr_wait tr_wait;
struct tr_wait {
    tr_wait *next, *prev; /* the reactor's ring; NULL when not registered */
    void *owner;          /* the userdata (its address is the key of the reactor's weak table) */
    int fd;               /* -1: none */
    short events;         /* POLLIN | POLLOUT; 0: do not watch fd now */
    double deadline;      /* monotonic seconds; 0: none */
    /* Something happened: revents of fd, or 0 for the deadline or a finished transfer.
     * true: the owner may be ready.  Must not raise, must not touch Lua. */
    bool (*pump)(tr_wait *w, short revents, double now);
    int result; /* http: the CURLcode of a finished transfer, else -1 */
    bool hot;   /* became ready outside pump (a libcurl callback); poll clears it */
};

/* A child that its owner will reap: the orphan reaper of reactor.c passes it by. */
typedef struct tr_child tr_child;
struct tr_child {
    tr_child *next;
    pid_t pid;
};

typedef struct tr_reactor {
    tr_wait ring; /* head of the ring; its fields are unused */
    void *multi;  /* CURLM, made on first use by tr_multi (http.c, reactor.c) */
    void (*multi_free)(void *multi);
    bool reap_orphans;    /* set by main.c when the process is a child subreaper */
    tr_child *children;   /* of exec.c, embedded in its userdata */
    void (*rescue)(void); /* of tty.c: gives the terminal back; async-signal-safe */
} tr_reactor;

static inline void tr_child_add(tr_reactor *r, tr_child *c) {
    c->next = r->children;
    r->children = c;
}

/* Idempotent. */
static inline void tr_child_del(tr_reactor *r, tr_child *c) {
    for (tr_child **p = &r->children; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            return;
        }
}

/* The reactor of this Lua state; made on first use.  Call it before lua_setmetatable of a
 * waitable, so that lua_close finalizes the waitable first. */
tr_reactor *tr_reactor_get(lua_State *L);
/* Registers a node; the userdata at idx becomes its owner. */
void tr_wait_add(lua_State *L, tr_wait *w, int idx);
void tr_wait_del(tr_wait *w); /* idempotent */
/* Pushes the owner's userdata, or nil if it was collected. */
void tr_wait_push(lua_State *L, const void *owner);

/* The read end of the signal pipe and the function that the handlers run; see reactor.c. */
void tr_signal_write(int signo);

#ifdef CURLINC_CURL_H
static inline CURLM *tr_multi(tr_reactor *r) {
    if (!r->multi) {
        r->multi = curl_multi_init();
        r->multi_free = (void (*)(void *))(void (*)(void))curl_multi_cleanup;
    }
    return r->multi;
}
#endif

/* ---- modules ----------------------------------------------------------------------------- */

/* A class: metamethods (with __gc, __close) and methods in tables of their own. */
void tr_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods);

#endif

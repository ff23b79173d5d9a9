/* runtime/util.c - helpers shared by the modules; no module of its own.
 *
 * Compiled into the executable and into every .so.  Keeps no state: what is per Lua state
 * (the reactor) lives in the registry under string keys, since a .so has its own copy of
 * every address in this file. */
#include "terret.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define REACTOR_KEY "terret.reactor.state"
#define OWNERS_KEY "terret.reactor.owners"

/* ---- errors ---- */

int tr_fail(lua_State *L, const char *code, const char *fmt, ...) {
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    lua_pushnil(L);
    lua_pushstring(L, text);
    lua_pushstring(L, code);
    return 3;
}

const char *tr_errcode(int err) {
    switch (err) {
    case ENOENT: return "not_found";
    case EACCES:
    case EPERM: return "denied";
    case EROFS: return "read_only";
    case EEXIST:
    case ENOTEMPTY: return "exists";
    case EISDIR: return "is_directory";
    case ENOTDIR: return "not_directory";
    case ELOOP:
    case EXDEV: return "escapes";
    case ENOSPC:
    case EDQUOT: return "no_space";
    case E2BIG:
    case EFBIG: return "too_large";
    case EMFILE:
    case ENFILE: return "too_many_files";
    case ENAMETOOLONG: return "name_too_long";
    case ENOMEM: return "no_memory";
    case EAGAIN: return "again";
    case ETIMEDOUT: return "timeout";
    default: return "io";
    }
}

int tr_errno(lua_State *L, int err, const char *what) {
    return tr_fail(L, tr_errcode(err), "%s: %s", what, strerror(err));
}

/* ---- options ---- */

bool tr_options(lua_State *L, int idx, const char *const known[]) {
    if (lua_isnoneornil(L, idx)) return false;
    luaL_checktype(L, idx, LUA_TTABLE);
    luaL_checkstack(L, 3, "options");
    lua_pushnil(L);
    while (lua_next(L, idx)) { /* key value */
        const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : NULL;
        bool found = false;
        for (size_t i = 0; key && known[i] && !found; i++) found = strcmp(key, known[i]) == 0;
        if (!found) {
            if (!key) key = lua_pushfstring(L, "(a %s)", luaL_typename(L, -2));
            luaL_argerror(L, idx, lua_pushfstring(L, "unknown option '%s'", key));
        }
        lua_pop(L, 1);
    }
    return true;
}

/* Pushes the option; false if it is nil (then nothing is left on the stack).  Raw: an __index
 * would run Lua from C, and could return a string that nothing keeps alive. */
static bool push_option(lua_State *L, int idx, const char *key) {
    if (lua_isnoneornil(L, idx)) return false;
    luaL_checkstack(L, 3, "options");
    idx = lua_absindex(L, idx);
    lua_pushstring(L, key);
    if (lua_rawget(L, idx) != LUA_TNIL) return true;
    lua_pop(L, 1);
    return false;
}

static int bad_option(lua_State *L, int idx, const char *key, const char *wanted) {
    return luaL_argerror(L, idx, lua_pushfstring(L, "option '%s' must be %s", key, wanted));
}

lua_Integer tr_opt_integer(lua_State *L, int idx, const char *key, lua_Integer def, lua_Integer min,
                           lua_Integer max) {
    if (!push_option(L, idx, key)) return def;
    int ok;
    lua_Integer v = lua_tointegerx(L, -1, &ok);
    if (!ok || v < min || v > max)
        bad_option(L, idx, key, lua_pushfstring(L, "an integer from %I to %I", min, max));
    lua_pop(L, 1);
    return v;
}

double tr_opt_number(lua_State *L, int idx, const char *key, double def, double min, double max) {
    if (!push_option(L, idx, key)) return def;
    int ok;
    double v = lua_tonumberx(L, -1, &ok);
    if (!ok || !(v >= min && v <= max))
        bad_option(L, idx, key, lua_pushfstring(L, "a number from %f to %f", min, max));
    lua_pop(L, 1);
    return v;
}

bool tr_opt_boolean(lua_State *L, int idx, const char *key, bool def) {
    if (!push_option(L, idx, key)) return def;
    if (!lua_isboolean(L, -1)) bad_option(L, idx, key, "a boolean");
    bool v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

const char *tr_opt_string(lua_State *L, int idx, const char *key, const char *def, size_t *len) {
    if (!push_option(L, idx, key)) {
        if (len) *len = def ? strlen(def) : 0;
        return def;
    }
    if (lua_type(L, -1) != LUA_TSTRING) bad_option(L, idx, key, "a string");
    const char *v = lua_tolstring(L, -1, len);
    lua_pop(L, 1);
    return v;
}

/* ---- descriptors and time ---- */

double tr_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int tr_pipe(int fd[2]) {
#ifdef __linux__
    if (pipe2(fd, O_CLOEXEC)) return -1;
#else
    if (pipe(fd)) return -1;
    fcntl(fd[0], F_SETFD, FD_CLOEXEC);
    fcntl(fd[1], F_SETFD, FD_CLOEXEC);
#endif
    fcntl(fd[0], F_SETFL, O_NONBLOCK);
    return 0;
}

void tr_close(int *fd) {
    int saved = errno;
    if (*fd >= 0) close(*fd);
    *fd = -1;
    errno = saved;
}

int tr_write_all(int fd, const char *p, size_t n) {
    while (n > 0) {
        ssize_t k = (ssize_t)tr_retry(write(fd, p, n));
        if (k < 0) return -1;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

/* ---- buffer ---- */

bool tr_buf_reserve(tr_buf *b, size_t more) {
    size_t need = b->n + more;
    if (need < b->n || (b->max && need > b->max)) return false;
    if (need <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    char *p = realloc(b->p, cap);
    if (!p) return false;
    b->p = p;
    b->cap = cap;
    return true;
}

bool tr_buf_put(tr_buf *b, const void *data, size_t n) {
    if (!tr_buf_reserve(b, n)) return false;
    if (n) memcpy(b->p + b->n, data, n);
    b->n += n;
    return true;
}

void tr_buf_free(tr_buf *b) {
    free(b->p);
    b->p = NULL;
    b->n = b->cap = 0;
}

/* ---- waiting ---- */

static int reactor_gc(lua_State *L) {
    tr_reactor *r = lua_touserdata(L, 1);
    if (r->multi && r->multi_free) r->multi_free(r->multi);
    r->multi = NULL;
    return 0;
}

tr_reactor *tr_reactor_get(lua_State *L) {
    luaL_checkstack(L, 4, "reactor");
    if (lua_getfield(L, LUA_REGISTRYINDEX, REACTOR_KEY) == LUA_TUSERDATA) {
        tr_reactor *old = lua_touserdata(L, -1);
        lua_pop(L, 1);
        return old;
    }
    lua_pop(L, 1);
    tr_reactor *r = lua_newuserdatauv(L, sizeof *r, 0); /* reactor */
    memset(r, 0, sizeof *r);
    r->ring.next = r->ring.prev = &r->ring;
    lua_createtable(L, 0, 1); /* reactor meta */
    lua_pushcfunction(L, reactor_gc);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);  /* reactor */
    lua_createtable(L, 0, 0); /* reactor owners */
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_setfield(L, LUA_REGISTRYINDEX, OWNERS_KEY); /* reactor */
    lua_setfield(L, LUA_REGISTRYINDEX, REACTOR_KEY);
    return r;
}

void tr_wait_add(lua_State *L, tr_wait *w, int idx) {
    idx = lua_absindex(L, idx);
    tr_reactor *r = tr_reactor_get(L);
    w->owner = lua_touserdata(L, idx);
    luaL_checkstack(L, 3, "waitable");
    lua_getfield(L, LUA_REGISTRYINDEX, OWNERS_KEY);
    lua_pushvalue(L, idx);
    lua_rawsetp(L, -2, w->owner);
    lua_pop(L, 1);
    if (w->next) return;
    w->next = &r->ring;
    w->prev = r->ring.prev;
    r->ring.prev->next = w;
    r->ring.prev = w;
}

void tr_wait_del(tr_wait *w) {
    if (!w->next) return;
    w->next->prev = w->prev;
    w->prev->next = w->next;
    w->next = w->prev = NULL;
}

void tr_wait_push(lua_State *L, const void *owner) {
    luaL_checkstack(L, 3, "waitable");
    if (lua_getfield(L, LUA_REGISTRYINDEX, OWNERS_KEY) != LUA_TTABLE) return; /* nil */
    lua_rawgetp(L, -1, owner);
    lua_remove(L, -2);
}

/* ---- classes ---- */

void tr_class(lua_State *L, const char *name, const luaL_Reg *meta, const luaL_Reg *methods) {
    luaL_checkstack(L, 5, "class");
    luaL_newmetatable(L, name);
    luaL_setfuncs(L, meta, 0);
    lua_createtable(L, 0, 8); /* meta methods */
    luaL_setfuncs(L, methods, 0);
    lua_setfield(L, -2, "__index");
    lua_pushliteral(L, "terret");
    lua_setfield(L, -2, "__metatable"); /* scripts can't reach __gc */
    lua_pop(L, 1);
}

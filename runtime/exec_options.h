/* runtime/exec_options.h - the part of exec.c that reads spawn's options into a plan; included
 * only there.
 *
 * The options are at index 1.  What the plan points to is kept alive by values that these
 * functions leave on the stack: nothing may be popped before the child runs. */
#ifndef TERRET_EXEC_OPTIONS_H
#define TERRET_EXEC_OPTIONS_H

#include "exec_child.h"
#include "exec_namespaces.h"
#include "terret.h"

#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __APPLE__
#include <crt_externs.h>
#define environ (*_NSGetEnviron())
#else
extern char **environ;
#endif

static bool has_nul(const char *s, size_t n) {
    return memchr(s, 0, n) != NULL;
}

/* The string at the top, or raises.  It stays there. */
static const char *check_text(lua_State *L, const char *what) {
    size_t n = 0;
    const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &n) : NULL;
    if (!s) luaL_argerror(L, 1, lua_pushfstring(L, "%s must be a string", what));
    if (has_nul(s, n)) luaL_argerror(L, 1, lua_pushfstring(L, "%s holds a NUL byte", what));
    return s;
}

static const char *opt_path(lua_State *L, const char *key) {
    size_t n;
    const char *s = tr_opt_string(L, 1, key, NULL, &n);
    if (s && has_nul(s, n))
        luaL_argerror(L, 1, lua_pushfstring(L, "option '%s' holds a NUL byte", key));
    return s;
}

/* Turns the list of n strings at the top into a NULL-terminated array.  Both stay on the stack,
 * and with them the strings. */
static char **string_array(lua_State *L, lua_Integer n) {
    char **array = lua_newuserdatauv(L, ((size_t)n + 1) * sizeof *array, 0); /* list array */
    for (lua_Integer i = 0; i < n; i++) {
        lua_rawgeti(L, -2, i + 1);
        array[i] = (char *)(uintptr_t)lua_tostring(L, -1); /* execve's type, it doesn't write */
        lua_pop(L, 1);
    }
    array[n] = NULL;
    return array;
}

/* The same of a list that the caller gave.  It is copied: a finalizer that changes the caller's
 * table can't free our strings. */
static char **check_strings(lua_State *L, lua_Integer n, const char *what) {
    lua_createtable(L, n < 1024 ? (int)n : 0, 0); /* given list */
    for (lua_Integer i = 1; i <= n; i++) {
        lua_rawgeti(L, -2, i);
        check_text(L, what);
        lua_rawseti(L, -2, i);
    }
    return string_array(L, n); /* given list array */
}

static void parse_argv(lua_State *L, exec_plan *plan) {
    if (lua_getfield(L, 1, "argv") != LUA_TTABLE)
        luaL_argerror(L, 1, "option 'argv' must be a list of strings");
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    luaL_argcheck(L, n > 0, 1, "option 'argv' is empty");
    plan->argv = check_strings(L, n, "each of 'argv'");
}

static void parse_env(lua_State *L, exec_plan *plan) {
    int type = lua_getfield(L, 1, "env");
    int env = lua_gettop(L);
    plan->env = environ;
    if (type == LUA_TNIL) return;
    luaL_argcheck(L, type == LUA_TTABLE, 1, "option 'env' must be a table");
    lua_newtable(L); /* env list */
    lua_Integer n = 0;
    for (lua_pushnil(L); lua_next(L, env); lua_pop(L, 1)) { /* env list name value */
        check_text(L, "each value of 'env'");
        lua_pushvalue(L, -2);
        const char *name = check_text(L, "each name of 'env'");
        luaL_argcheck(L, *name && !strchr(name, '='), 1, "a name of 'env' is empty or holds '='");
        lua_pushliteral(L, "=");
        lua_pushvalue(L, -3);
        lua_concat(L, 3); /* env list name value entry */
        lua_rawseti(L, env + 1, ++n);
    }
    plan->env = string_array(L, n);
}

static void parse_fds(lua_State *L, exec_plan *plan) {
    for (int i = 0; i < FD_LIMIT; i++) plan->fd[i] = -1;
    if (lua_getfield(L, 1, "fds") == LUA_TNIL) return;
    luaL_argcheck(L, lua_istable(L, -1), 1, "option 'fds' must be a table");
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) { /* fds target source */
        lua_Integer target = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : -1;
        lua_Integer source = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
        luaL_argcheck(L, target > 2 && target < FD_LIMIT, 1, "'fds' has keys from 3 to 63 only");
        luaL_argcheck(L, source >= 0 && source <= INT_MAX, 1, "a value of 'fds' is no descriptor");
        plan->fd[target] = (int)source;
    }
}

/* A hard limit that is lower already stays.  One second lies between the two limits of cpu, so
 * that the end is told by XCPU; at the hard one it would be a KILL that says nothing. */
static void parse_rlimits(lua_State *L, exec_plan *plan) {
    static const char *const names[] = {"core", "nofile", "fsize", "cpu", "as", "nproc", NULL};
    static const exec_resource resources[] = {RLIMIT_CORE, RLIMIT_NOFILE, RLIMIT_FSIZE,
                                              RLIMIT_CPU,  RLIMIT_AS,     RLIMIT_NPROC};
    plan->nlimits = 0;
    lua_getfield(L, 1, "rlimits");
    int idx = lua_gettop(L);
    luaL_argcheck(L, lua_isnil(L, idx) || lua_istable(L, idx), 1, "'rlimits' must be a table");
    if (!tr_options(L, idx, names)) return;
    for (int i = 0; names[i]; i++) {
        lua_Integer v = tr_opt_integer(L, idx, names[i], -1, 0, LUA_MAXINTEGER);
        struct rlimit rl;
        if (v < 0 || getrlimit(resources[i], &rl)) continue;
        rlim_t soft = (rlim_t)v, hard = soft + (resources[i] == RLIMIT_CPU);
        if (hard < rl.rlim_max) rl.rlim_max = hard;
        rl.rlim_cur = soft < rl.rlim_max ? soft : rl.rlim_max;
        plan->limits[plan->nlimits].resource = resources[i];
        plan->limits[plan->nlimits++].value = rl;
    }
}

/* ---- the program ------------------------------------------------------------------------- */

static void find_search(exec_plan *plan) {
    plan->search = NULL;
    for (char *const *e = plan->env; *e && !plan->search; e++)
        if (strncmp(*e, "PATH=", 5) == 0) plan->search = *e + 5;
    if (!plan->search) plan->search = getenv("PATH");
    if (!plan->search) plan->search = "/usr/local/bin:/usr/bin:/bin";
}

/* ---- what confines it ---------------------------------------------------------------------- */

static void parse_join(lua_State *L, exec_plan *plan) {
    plan->status = plan->status_end = -1;
    if (lua_getfield(L, 1, "join") == LUA_TNIL) return;
    exec_ns *ns = luaL_testudata(L, -1, NAMESPACES);
    luaL_argcheck(L, ns, 1, "option 'join' must be " NAMESPACES);
    luaL_argcheck(L, ns->init >= 0, 1, "option 'join': the namespaces are closed");
    plan->join = ns;
}

/* The words of one mount, copied into the list of strings at `kept`. */
static const char *mount_word(lua_State *L, int i, int kept) {
    if (lua_rawgeti(L, -1, i) == LUA_TNIL) {
        lua_pop(L, 1);
        return NULL;
    }
    const char *s = check_text(L, "each word of 'mounts'");
    lua_rawseti(L, kept, (lua_Integer)lua_rawlen(L, kept) + 1);
    return s;
}

static bool parse_mount(exec_mount *m, const char *kind, const char *a, const char *b) {
    static const struct {
        const char *name;
        enum exec_mount_kind kind;
        int words; /* after the first */
        bool optional;
    } kinds[] = {{"bind", MOUNT_BIND, 2, false},       {"bind-try", MOUNT_BIND, 2, true},
                 {"ro-bind", MOUNT_RO_BIND, 2, false}, {"ro-bind-try", MOUNT_RO_BIND, 2, true},
                 {"tmpfs", MOUNT_TMPFS, 2, false},     {"remount-ro", MOUNT_READONLY, 1, false},
                 {"bind-link", MOUNT_LINK, 2, false}};
    for (size_t i = 0; kind && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kind, kinds[i].name) != 0 || !a || (kinds[i].words == 2) != (b != NULL))
            continue;
        bool tmpfs = kinds[i].kind == MOUNT_TMPFS;
        *m = (exec_mount){kinds[i].kind, kinds[i].optional, tmpfs ? b : a, b && !tmpfs ? b : a};
        return true;
    }
    return false;
}

static void parse_mounts(lua_State *L, exec_plan *plan) {
    int type = lua_getfield(L, 1, "mounts");
    int list = lua_gettop(L), kept = list + 1;
    if (type == LUA_TNIL) return;
    luaL_argcheck(L, type == LUA_TTABLE, 1, "option 'mounts' must be a list");
    luaL_argcheck(L, plan->join, 1, "option 'mounts' needs 'join'");
    lua_newtable(L); /* mounts kept */
    size_t n = (size_t)lua_rawlen(L, list);
    plan->mounts = lua_newuserdatauv(L, (n + 1) * sizeof *plan->mounts, 0);
    for (plan->nmounts = 0; plan->nmounts < n; plan->nmounts++) {
        if (lua_rawgeti(L, list, (lua_Integer)plan->nmounts + 1) != LUA_TTABLE)
            luaL_argerror(L, 1, "each of 'mounts' must be a list of words");
        const char *kind = mount_word(L, 1, kept), *a = mount_word(L, 2, kept);
        const char *b = mount_word(L, 3, kept);
        if (!parse_mount(&plan->mounts[plan->nmounts], kind, a, b))
            luaL_argerror(L, 1, "one of 'mounts' has unknown or missing words");
        lua_pop(L, 1);
    }
}

static void parse_cgroups(lua_State *L, exec_plan *plan) {
    int type = lua_getfield(L, 1, "cgroups");
    if (type == LUA_TNIL) return;
    luaL_argcheck(L, type == LUA_TTABLE, 1, "option 'cgroups' must be a list");
    plan->cgroups = check_strings(L, (lua_Integer)lua_rawlen(L, -1), "each of 'cgroups'");
}

static void parse_confinement(lua_State *L, exec_plan *plan) {
    parse_cgroups(L, plan);
    parse_join(L, plan);
    parse_mounts(L, plan);
    plan->drop = tr_opt_boolean(L, 1, "drop", false);
    plan->landlock = (int)tr_opt_integer(L, 1, "landlock", -1, 0, INT_MAX);
    size_t n;
    plan->filter = tr_opt_string(L, 1, "seccomp", NULL, &n);
    luaL_argcheck(L, !plan->filter || (n > 0 && n % 8 == 0 && n / 8 <= 4096), 1,
                  "option 'seccomp' is no filter");
    plan->filter_len = (unsigned short)(n / 8);
}

static bool is_confined(const exec_plan *plan) {
    return plan->join || plan->drop || plan->landlock >= 0 || plan->filter || plan->cgroups;
}

#endif

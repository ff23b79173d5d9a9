/* sandbox/seccomp.c - terret.seccomp: a list of rules becomes a seccomp filter.
 *
 * Owns: a libseccomp context while filter() runs.  Errors: wrong arguments raise; what
 * libseccomp refuses returns nil, message, code.
 *
 * A filter is a string, the bytes of its instructions: it needs no owner, and exec.spawn takes it
 * as it is.  Which calls are refused is the caller's policy; the mechanism's part is what is easy
 * to get wrong:
 *   - Arguments are compared in their low 32 bits, since the kernel drops the rest of an int: a
 *     comparison of all 64 lets TIOCSTI | 1 << 32 pass.
 *   - A program of another architecture (i386, x32) has other numbers, so a list says nothing
 *     about it: it is killed, or gets the error that `foreign` names.
 *   - A name that this libseccomp or architecture doesn't have is returned, not an error: the
 *     lists are the same for old and new systems. */
#include "terret.h"

#include <limits.h>

#if defined(__linux__) && __has_include(<seccomp.h>)
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#define CONTEXT "terret.seccomp.context" /* internal: so that an error frees it */
#define LOW 0xffffffffU

/* ---- actions ----------------------------------------------------------------------------- */

static bool action_of(const char *name, uint32_t *action) {
    static const struct {
        const char *name;
        int err;
    } errors[] = {{"EPERM", EPERM},
                  {"EACCES", EACCES},
                  {"ENOSYS", ENOSYS},
                  {"EINVAL", EINVAL},
                  {"EAFNOSUPPORT", EAFNOSUPPORT},
                  {"ENOSPC", ENOSPC}};
    if (strcmp(name, "kill") == 0) {
        *action = SCMP_ACT_KILL_PROCESS;
        return true;
    }
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(name, errors[i].name) == 0) {
            *action = SCMP_ACT_ERRNO((uint16_t)errors[i].err);
            return true;
        }
    return false;
}

static uint32_t opt_action(lua_State *L, int idx, const char *key, uint32_t def) {
    uint32_t action = def;
    const char *name = tr_opt_string(L, idx, key, NULL, NULL);
    if (name && !action_of(name, &action))
        luaL_error(L, "option '%s' must be 'kill' or the name of an error, not '%s'", key, name);
    return action;
}

/* ---- rules -------------------------------------------------------------------------------- */

typedef struct rule {
    scmp_filter_ctx ctx;
    uint32_t action;
    int number;
    unsigned arg;
    int err; /* the first failure */
} rule;

static void note(rule *r, int rc) {
    if (rc < 0 && rc != -EEXIST && !r->err) r->err = -rc; /* EEXIST: said twice */
}

static void add_equal(rule *r, uint64_t mask, uint64_t value) {
    struct scmp_arg_cmp cmp = {r->arg, SCMP_CMP_MASKED_EQ, mask, value};
    note(r, seccomp_rule_add_array(r->ctx, r->action, r->number, 1, &cmp));
}

/* Any of these bits. */
static void add_bits(rule *r, lua_Integer bits) {
    for (int i = 0; i < 32; i++)
        if (bits & ((lua_Integer)1 << i)) add_equal(r, (uint64_t)1 << i, (uint64_t)1 << i);
}

static bool listed(lua_State *L, lua_Integer value) {
    bool found = false;
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n && !found; i++) {
        lua_rawgeti(L, -1, i);
        found = lua_tointeger(L, -1) == value;
        lua_pop(L, 1);
    }
    return found;
}

/* All values but those of the list at the top: the gaps one by one, then what is above.  There
 * all 64 bits count, which can only refuse more. */
static void add_except(lua_State *L, rule *r) {
    lua_Integer last = -1;
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n; i++) {
        lua_rawgeti(L, -1, i);
        lua_Integer v = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
        if (v < 0 || v > 255) luaL_error(L, "'except' holds integers from 0 to 255");
        if (v > last) last = v;
        lua_pop(L, 1);
    }
    if (last < 0) luaL_error(L, "'except' is empty");
    for (lua_Integer v = 0; v < last; v++)
        if (!listed(L, v)) add_equal(r, LOW, (uint64_t)v);
    struct scmp_arg_cmp above = {r->arg, SCMP_CMP_GT, (uint64_t)last, 0};
    note(r, seccomp_rule_add_array(r->ctx, r->action, r->number, 1, &above));
}

/* The rule at the top has conditions: exactly one of equals, bits, except, about one argument. */
static void add_conditions(lua_State *L, rule *r) {
    int idx = lua_gettop(L), kinds = 0;
    r->arg = (unsigned)tr_opt_integer(L, idx, "arg", 0, 0, 5);
    lua_Integer equals = tr_opt_integer(L, idx, "equals", -1, 0, LOW);
    lua_Integer bits = tr_opt_integer(L, idx, "bits", 0, 1, LOW);
    if (equals >= 0) {
        add_equal(r, LOW, (uint64_t)equals);
        kinds++;
    }
    if (bits) {
        add_bits(r, bits);
        kinds++;
    }
    if (lua_getfield(L, idx, "except") != LUA_TNIL) {
        luaL_checktype(L, -1, LUA_TTABLE);
        add_except(L, r);
        kinds++;
    }
    lua_settop(L, idx);
    if (kinds != 1) luaL_error(L, "a rule with 'arg' has one of 'equals', 'bits', 'except'");
}

/* The number of the system call whose name is at the top; false: not here. */
static bool call_number(lua_State *L, rule *r) {
    if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "a rule begins with a system call's name");
    r->number = seccomp_syscall_resolve_name(lua_tostring(L, -1));
    return r->number >= 0; /* negative: unknown, or of another architecture only */
}

/* The keys of a rule; its [1] is the name. */
static void check_rule(lua_State *L, int idx) {
    static const char *const known[] = {"arg", "equals", "bits", "except", "action"};
    for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
        bool ok = lua_isinteger(L, -2) && lua_tointeger(L, -2) == 1;
        for (size_t i = 0; !ok && lua_type(L, -2) == LUA_TSTRING && i < 5; i++)
            ok = strcmp(lua_tostring(L, -2), known[i]) == 0;
        if (!ok) luaL_error(L, "unknown key '%s' in a rule", luaL_tolstring(L, -2, NULL));
    }
}

static bool has_conditions(lua_State *L, int idx) {
    static const char *const kinds[] = {"equals", "bits", "except"};
    bool arg = lua_getfield(L, idx, "arg") != LUA_TNIL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (lua_getfield(L, idx, kinds[i]) != LUA_TNIL && !arg)
            luaL_error(L, "'%s' needs 'arg'", kinds[i]);
    lua_settop(L, idx);
    return arg;
}

/* The rule at the top: a name, or {name, arg=, equals= | bits= | except=, action=}. */
static void add_rule(lua_State *L, rule *r, int skipped) {
    int top = lua_gettop(L);
    uint32_t usual = r->action;
    bool conditions = false;
    if (lua_istable(L, top)) {
        check_rule(L, top);
        r->action = opt_action(L, top, "action", usual);
        conditions = has_conditions(L, top);
        lua_rawgeti(L, top, 1); /* rule name */
    }
    if (!call_number(L, r)) {
        lua_rawseti(L, skipped, (lua_Integer)lua_rawlen(L, skipped) + 1);
    } else if (conditions) {
        lua_settop(L, top);
        add_conditions(L, r);
    } else {
        note(r, seccomp_rule_add_array(r->ctx, r->action, r->number, 0, NULL));
    }
    r->action = usual;
    lua_settop(L, top);
}

/* ---- filter() ------------------------------------------------------------------------------ */

/* libseccomp writes to a descriptor only.  The string, or nothing and errno. */
static bool push_program(lua_State *L, scmp_filter_ctx ctx) {
    static const size_t most = 4096 * 8; /* BPF_MAXINSNS */
    char *bytes = lua_newuserdatauv(L, most, 0);
    int fd = memfd_create("filter", MFD_CLOEXEC);
    int rc = fd < 0 ? -errno : seccomp_export_bpf(ctx, fd);
    ssize_t n = rc < 0 ? rc : (ssize_t)tr_retry(pread(fd, bytes, most, 0));
    int err = rc < 0 ? -rc : errno;
    tr_close(&fd);
    errno = err;
    if (n <= 0) return false;
    lua_pushlstring(L, bytes, (size_t)n);
    return true;
}

static int seccomp_filter(lua_State *L) {
    static const char *const known[] = {"rules", "action", "foreign", NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tr_options(L, 1, known);
    rule r = {.action = opt_action(L, 1, "action", SCMP_ACT_ERRNO(EPERM))};
    uint32_t foreign = opt_action(L, 1, "foreign", SCMP_ACT_KILL_PROCESS);
    lua_newtable(L); /* options skipped */
    luaL_argcheck(L, lua_getfield(L, 1, "rules") == LUA_TTABLE, 1, "'rules' must be a list");
    scmp_filter_ctx *owner = lua_newuserdatauv(L, sizeof *owner, 0);
    *owner = NULL;
    luaL_setmetatable(L, CONTEXT); /* options skipped rules owner */
    r.ctx = *owner = seccomp_init(SCMP_ACT_ALLOW);
    if (!r.ctx) return tr_fail(L, "no_memory", "seccomp: no memory");
    note(&r, seccomp_attr_set(r.ctx, SCMP_FLTATR_ACT_BADARCH, foreign));
#if SCMP_VER_MAJOR > 2 || SCMP_VER_MINOR >= 5
    /* A tree instead of a list: when a command starts, the kernel runs the program once for each
     * call that there is. */
    seccomp_attr_set(r.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
#endif
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, 3); i <= n; i++) {
        lua_rawgeti(L, 3, i);
        add_rule(L, &r, 2);
        lua_settop(L, 4);
    }
    if (r.err) return tr_errno(L, r.err, "seccomp");
    if (!push_program(L, r.ctx)) return tr_errno(L, errno, "seccomp");
    lua_pushvalue(L, 2);
    return 2;
}

static int context_gc(lua_State *L) {
    scmp_filter_ctx *owner = luaL_checkudata(L, 1, CONTEXT);
    if (*owner) seccomp_release(*owner);
    *owner = NULL;
    return 0;
}

#else
#define CONTEXT "terret.seccomp.context"

static int seccomp_filter(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    return tr_fail(L, "unsupported", "seccomp: not on this system");
}

static int context_gc(lua_State *L) {
    (void)L;
    return 0;
}
#endif

static const luaL_Reg context_meta[] = {{"__gc", context_gc}, {NULL, NULL}};
static const luaL_Reg context_methods[] = {{NULL, NULL}};
static const luaL_Reg seccomp_funcs[] = {{"filter", seccomp_filter}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_seccomp(lua_State *L);
int luaopen_terret_seccomp(lua_State *L) {
    tr_class(L, CONTEXT, context_meta, context_methods);
    luaL_newlib(L, seccomp_funcs);
    return 1;
}

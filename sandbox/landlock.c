/* sandbox/landlock.c - terret.landlock: rulesets of the kernel's unprivileged access control.
 *
 * Owns: a ruleset's descriptor per userdata.  A ruleset is made once and used for any number of
 * commands (exec.spawn's `landlock`).  Errors: wrong arguments raise; what the kernel refuses
 * returns nil, message, code.
 *
 * What is not allowed is denied, and rules can't subtract: a secret inside a readable directory
 * is hidden only by naming its siblings instead.  Each ABI version of the kernel adds rights;
 * what an older one can't hold is returned by name, so that it can be said or be held by other
 * means.  Paths that don't exist are passed by: nothing is allowed there. */
#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#define RULESET "terret.landlock.ruleset"

typedef struct ruleset {
    int fd;
} ruleset;

#ifdef __linux__
#include <sys/syscall.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#endif
#define WANT_VERSION 1U
#define PATH_BENEATH 1
#define NET_PORT 2

/* Of linux/landlock.h, which on many systems is older than the kernel. */
enum {
    FS_EXECUTE = 1 << 0,
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_CHANGE = 0x1ff0, /* remove and make names of all kinds */
    FS_REFER = 1 << 13,
    FS_TRUNCATE = 1 << 14,
    FS_IOCTL_DEV = 1 << 15,
    FS_OF_FILES = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE | FS_IOCTL_DEV,
    NET_BIND = 1 << 0,
    NET_CONNECT = 1 << 1,
    SCOPE_ABSTRACT = 1 << 0,
    SCOPE_SIGNAL = 1 << 1,
};
struct attributes {
    uint64_t fs, net, scoped;
};
struct path_rule {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));
struct port_rule {
    uint64_t allowed, port;
};

/* From which ABI on, and what is missing below it. */
static const struct {
    int abi;
    const char *name;
    struct attributes rights;
} levels[] = {{2, "refer", {.fs = FS_REFER}},
              {3, "truncate", {.fs = FS_TRUNCATE}},
              {4, "net", {.net = NET_BIND | NET_CONNECT}},
              {5, "ioctl", {.fs = FS_IOCTL_DEV}},
              {6, "scoped", {.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL}}};

static const struct {
    const char *key;
    uint64_t fs;
} lists[] = {{"read", FS_READ_FILE | FS_READ_DIR},
             {"exec", FS_EXECUTE},
             {"write", FS_WRITE_FILE | FS_CHANGE | FS_REFER | FS_TRUNCATE},
             {"ioctl", FS_IOCTL_DEV}};

static int kernel_abi(void) {
    long n = syscall(SYS_landlock_create_ruleset, NULL, 0, WANT_VERSION);
    return n > 0 ? (int)n : 0;
}

/* All that this ABI can hold of what is wanted; the names of the rest go to the table at the
 * top. */
static struct attributes handled(lua_State *L, int abi, const struct attributes *wanted) {
    struct attributes have = {.fs = FS_EXECUTE | FS_WRITE_FILE | FS_READ_FILE | FS_READ_DIR |
                                    FS_CHANGE};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        const struct attributes *more = &levels[i].rights;
        if (abi >= levels[i].abi) {
            have.fs |= more->fs;
            have.net |= more->net & wanted->net;
            have.scoped |= more->scoped & wanted->scoped;
        } else if (more->fs || (more->net & wanted->net) || (more->scoped & wanted->scoped)) {
            lua_pushstring(L, levels[i].name);
            lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
        }
    }
    return have;
}

/* The sizes of the structure are those of ABI 1, 4 and 6: an old kernel takes no long one with
 * something in it, an odd one takes none that it doesn't know. */
static int create(const struct attributes *a) {
    size_t size = a->scoped ? sizeof *a : a->net ? 2 * sizeof a->fs : sizeof a->fs;
    return (int)syscall(SYS_landlock_create_ruleset, a, size, 0);
}

static bool allow_path(int ruleset_fd, const char *path, uint64_t rights) {
    struct stat st;
    int fd = (int)tr_retry(open(path, O_PATH | O_CLOEXEC));
    if (fd < 0) return errno == ENOENT || errno == ENOTDIR;
    bool ok = fstat(fd, &st) == 0;
    if (ok && !S_ISDIR(st.st_mode)) rights &= FS_OF_FILES;
    struct path_rule rule = {.allowed = rights, .parent = fd};
    if (ok && rights) ok = syscall(SYS_landlock_add_rule, ruleset_fd, PATH_BENEATH, &rule, 0) == 0;
    tr_close(&fd);
    return ok;
}

/* The n-th value of the list at the top as a path, or raises. */
static const char *path_at(lua_State *L, lua_Integer n, const char *key) {
    size_t len = 0;
    lua_rawgeti(L, -1, n);
    const char *s = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : NULL;
    if (!s || strlen(s) != len) luaL_error(L, "'%s' must be a list of paths", key);
    lua_pop(L, 1); /* the list keeps it */
    return s;
}

/* 0, or the number of results of a refusal. */
static int add_paths(lua_State *L, int fd, const char *key, uint64_t rights) {
    int type = lua_getfield(L, 1, key);
    if (type == LUA_TNIL) return 0;
    if (type != LUA_TTABLE) luaL_error(L, "'%s' must be a list of paths", key);
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n; i++) {
        const char *path = path_at(L, i, key);
        if (!allow_path(fd, path, rights)) return tr_errno(L, errno, path);
    }
    return 0;
}

static int add_ports(lua_State *L, int fd, const char *key, uint64_t right) {
    if (lua_getfield(L, -1, key) == LUA_TNIL) {
        lua_pop(L, 1);
        return 0;
    }
    luaL_checktype(L, -1, LUA_TTABLE);
    for (lua_Integer i = 1, n = (lua_Integer)lua_rawlen(L, -1); i <= n; i++) {
        lua_rawgeti(L, -1, i);
        lua_Integer port = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
        if (port < 0 || port > 65535) luaL_error(L, "'net.%s' must be a list of ports", key);
        struct port_rule rule = {right, (uint64_t)port};
        if (syscall(SYS_landlock_add_rule, fd, NET_PORT, &rule, 0)) return tr_errno(L, errno, key);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return 0;
}

static struct attributes parse_wanted(lua_State *L) {
    static const char *const ports[] = {"bind", "connect", NULL};
    struct attributes wanted = {.net = NET_BIND | NET_CONNECT};
    int type = lua_getfield(L, 1, "net");
    if (type == LUA_TTABLE)
        tr_options(L, lua_gettop(L), ports);
    else if (tr_opt_boolean(L, 1, "net", false))
        wanted.net = 0;
    if (tr_opt_boolean(L, 1, "scoped", true)) wanted.scoped = SCOPE_ABSTRACT | SCOPE_SIGNAL;
    lua_pop(L, 1);
    return wanted;
}

static int fill(lua_State *L, int fd, const struct attributes *a) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int refused = add_paths(L, fd, lists[i].key, lists[i].fs & a->fs);
        if (refused) return refused;
    }
    if (!a->net || lua_getfield(L, 1, "net") != LUA_TTABLE) return 0;
    int refused = add_ports(L, fd, "bind", NET_BIND);
    return refused ? refused : add_ports(L, fd, "connect", NET_CONNECT);
}

static int landlock_ruleset(lua_State *L) {
    static const char *const known[] = {"read", "exec",   "write", "ioctl",
                                        "net",  "scoped", "abi",   NULL};
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    tr_options(L, 1, known);
    struct attributes wanted = parse_wanted(L);
    int most = (int)tr_opt_integer(L, 1, "abi", INT_MAX, 1, INT_MAX), abi = kernel_abi();
    if (abi == 0) return tr_fail(L, "unsupported", "landlock: not in this kernel");
    ruleset *r = lua_newuserdatauv(L, sizeof *r, 0);
    r->fd = -1;
    luaL_setmetatable(L, RULESET);
    lua_newtable(L); /* options ruleset missing */
    struct attributes a = handled(L, abi < most ? abi : most, &wanted);
    r->fd = create(&a);
    if (r->fd < 0) return tr_errno(L, errno, "landlock");
    int refused = fill(L, r->fd, &a);
    if (refused) return refused;
    lua_settop(L, 3);
    return 2;
}

#else
static int kernel_abi(void) {
    return 0;
}

static int landlock_ruleset(lua_State *L) {
    luaL_checktype(L, 1, LUA_TTABLE);
    return tr_fail(L, "unsupported", "landlock: not on this system");
}
#endif

static int landlock_abi(lua_State *L) {
    lua_pushinteger(L, kernel_abi());
    return 1;
}

static int ruleset_fd(lua_State *L) {
    ruleset *r = luaL_checkudata(L, 1, RULESET);
    luaL_argcheck(L, r->fd >= 0, 1, "the ruleset is closed");
    lua_pushinteger(L, r->fd);
    return 1;
}

static int ruleset_gc(lua_State *L) {
    ruleset *r = luaL_checkudata(L, 1, RULESET);
    tr_close(&r->fd);
    return 0;
}

static const luaL_Reg ruleset_meta[] = {
    {"__gc", ruleset_gc}, {"__close", ruleset_gc}, {NULL, NULL}};
static const luaL_Reg ruleset_methods[] = {{"fd", ruleset_fd}, {"close", ruleset_gc}, {NULL, NULL}};
static const luaL_Reg landlock_funcs[] = {
    {"abi", landlock_abi}, {"ruleset", landlock_ruleset}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_landlock(lua_State *L);
int luaopen_terret_landlock(lua_State *L) {
    tr_class(L, RULESET, ruleset_meta, ruleset_methods);
    luaL_newlib(L, landlock_funcs);
    return 1;
}

/* tests/oom/oom.c - fails the k-th allocation, for k = 1, 2, 3..., until the body passes.
 *
 *   oom BODY.lua...      each body uses every function of one module once
 *
 * Counts Lua's allocations (own allocator) and malloc, calloc and realloc of our modules (the
 * linker's --wrap).  After each run the Lua state must have given back every byte and the
 * process must have as many descriptors as before; leaks of malloc are the sanitizer's to find.
 * Whatever error the body raises is fine: no crash, no leak is the claim. */
#include "../../runtime/terret.h"

#include <lualib.h>
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#define MODULE(name) int luaopen_terret_##name(lua_State *L);
#include "modules.h"
#undef MODULE
#define MODULE(name) {"terret." #name, luaopen_terret_##name},
static const luaL_Reg modules[] = {
#include "modules.h"
    {NULL, NULL}};

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);

static bool armed; /* allocations count only while the body runs */
static long count, fail_at;
static size_t lua_bytes;

/* One failure per run: what frees and unwinds after it may allocate again. */
static bool must_fail(void) {
    return armed && ++count == fail_at;
}

void *__wrap_malloc(size_t n) {
    return must_fail() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t m) {
    return must_fail() ? NULL : __real_calloc(n, m);
}
void *__wrap_realloc(void *p, size_t n) {
    return must_fail() ? NULL : __real_realloc(p, n);
}

static void *lua_alloc(void *ud, void *p, size_t old, size_t n) {
    (void)ud;
    if (!p) old = 0;
    if (n == 0) {
        lua_bytes -= old;
        free(p);
        return NULL;
    }
    if (n > old && must_fail()) return NULL; /* Lua assumes that shrinking can't fail */
    void *q = __real_realloc(p, n);
    if (q) lua_bytes += n - old;
    return q;
}

static int count_fds(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    if (!d) return -1;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

static int set_up(lua_State *L) {
    luaL_openlibs(L);
    lua_getglobal(L, "package");
    lua_getfield(L, -1, "preload");
    for (const luaL_Reg *m = modules; m->name; m++) {
        lua_pushcfunction(L, m->func);
        lua_setfield(L, -2, m->name);
    }
    lua_settop(L, 0);
    if (luaL_loadfile(L, lua_touserdata(L, lua_upvalueindex(1)))) return lua_error(L);
    return 1;
}

/* One run.  true: it passed without an injected failure. */
static bool run_once(const char *body, int *bad) {
    int fds = count_fds();
    lua_bytes = 0;
    count = 0;
    lua_State *L = lua_newstate(lua_alloc, NULL);
    lua_pushlightuserdata(L, (void *)(uintptr_t)body);
    lua_pushcclosure(L, set_up, 1);
    if (lua_pcall(L, 0, 1, 0)) {
        printf("# %s\n", lua_tostring(L, -1));
        *bad = 1;
        lua_close(L);
        return true;
    }
    armed = true;
    int rc = lua_pcall(L, 0, 0, 0);
    armed = false;
    bool injected = count >= fail_at;
    if (rc && !injected) {
        printf("# without a failure: %s\n", lua_tostring(L, -1));
        *bad = 1;
    }
    lua_close(L);
    if (lua_bytes != 0) {
        printf("# allocation %ld: %zu bytes of Lua lost\n", fail_at, lua_bytes);
        *bad = 1;
    }
    int now = count_fds();
    if (now != fds) {
        printf("# allocation %ld: %d descriptors before, %d after\n", fail_at, fds, now);
        *bad = 1;
    }
    return !injected;
}

int main(int argc, char **argv) {
    int failed = 0;
    printf("1..%d\n", argc - 1);
    for (int i = 1; i < argc; i++) {
        int bad = 0;
        for (fail_at = 1; !run_once(argv[i], &bad); fail_at++) {
        }
        printf("%sok %d - %s: %ld failing allocations\n", bad ? "not " : "", i, argv[i],
               fail_at - 1);
        failed |= bad;
        fflush(stdout);
    }
    return failed;
}

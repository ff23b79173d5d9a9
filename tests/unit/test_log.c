/* tests/unit/test_log.c - terret.log with chunks of 8 bytes and lines of at most 20, on a "file
 * system without flock", and with writes and syncs that fail when told to. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define LOG_CHUNK 8
#define LOG_MAX_LINE ((size_t)20)

#include <errno.h>
#include <stdbool.h>
#include <sys/file.h>
#include <sys/uio.h>
#include <unistd.h>

static bool no_flock;
static ssize_t write_limit = -1; /* bytes of the next writev; -1: all */
static int sync_fails;           /* errno of the next fdatasync */
static bool rest_fails;          /* the write after the short one */

static int test_flock(int fd, int how) {
    if (!no_flock) return flock(fd, how);
    errno = ENOLCK;
    return -1;
}

static ssize_t test_writev(int fd, const struct iovec *v, int n) {
    if (write_limit < 0) return writev(fd, v, n);
    size_t k = (size_t)write_limit;
    write_limit = -1;
    struct iovec part = v[0];
    if (part.iov_len > k) part.iov_len = k;
    return writev(fd, &part, 1);
}

static int test_fdatasync(int fd) {
    int err = sync_fails;
    sync_fails = 0;
    (void)fd; /* the disk has no part in this test */
    if (!err) return 0;
    errno = err;
    return -1;
}

#include "../../runtime/terret.h"
static int test_write_all(int fd, const char *p, size_t n) {
    if (!rest_fails) return tr_write_all(fd, p, n);
    rest_fails = false;
    errno = ENOSPC;
    return -1;
}

#define flock(fd, how) test_flock(fd, how)
#define writev test_writev
#define fdatasync test_fdatasync
#define fsync test_fdatasync
#define tr_write_all test_write_all
#include "../../runtime/log.c"
#undef tr_write_all

#include <lualib.h>

static int count, failed;

/* Runs Lua text, which asserts. */
static void run(lua_State *L, const char *name, const char *text) {
    bool bad = luaL_dostring(L, text);
    count++;
    failed += bad;
    if (bad) printf("# %s\n", lua_tostring(L, -1));
    printf("%sok %d - %s\n", bad ? "not " : "", count, name);
    lua_settop(L, 0);
    lua_gc(L, LUA_GCCOLLECT);
}

static const char prelude[] =
    "function put(name, s) local f = io.open(name, 'wb') f:write(s) f:close() end\n"
    "function get(name) local f = io.open(name, 'rb') if not f then return end\n"
    "  local s = f:read('a') f:close() return s end\n"
    "function same(a, b) assert(a == b, ('%q is not %q'):format(a, b)) end\n";

static const char tails[] =
    "for n = 0, 40 do for _, torn in ipairs {'', 't', ('t'):rep(7), ('t'):rep(8), ('t'):rep(30),\n"
    "    '\\0', ('\\0'):rep(17), 'a\\0b\\n', '\\0\\n\\0\\n', ('\\0'):rep(9) .. '\\nx'} do\n"
    "  for _, before in ipairs {'', ('x'):rep(n) .. '\\n', 'one\\n' .. ('x'):rep(n) .. '\\n'} do\n"
    "    put('log', before .. torn) os.remove('log.torn')\n"
    "    local l = assert(log.open('log'))\n"
    "    same(l:repaired(), #torn) same(get('log'), before)\n"
    "    same(get('log.torn'), torn ~= '' and torn or nil)\n"
    "    l:close()\n"
    "  end\n"
    "end end";

static const char reading[] =
    "for n = 0, 20 do\n"
    "  local want = {}\n"
    "  for i = 1, 12 do want[i] = ('abcdefghijkl'):sub(i, i):rep((n * i) % 21) end\n"
    "  put('log', table.concat(want, '\\n') .. '\\n' .. ('t'):rep(n))\n"
    "  local r, at = assert(log.read('log')), 0\n"
    "  for i = 1, 12 do\n"
    "    local line, offset = r:next()\n"
    "    same(line, want[i]) same(offset, at)\n"
    "    at = at + #line + 1\n"
    "  end\n"
    "  same(r:next(), nil) same(r:torn(), n) r:close()\n"
    "end";

static const char too_long[] =
    "put('log', ('x'):rep(20) .. '\\n' .. ('y'):rep(21) .. '\\nz\\n')\n"
    "local r = log.read('log')\n"
    "same(#r:next(), 20)\n"
    "for _ = 1, 3 do local _, m, c = r:next() assert(m) same(c, 'too_large') end\n"
    "r:close()\n"
    "put('log', ('y'):rep(1000))\n"
    "local t = log.read('log') same(select(3, t:next()), 'too_large') t:close()\n"
    "os.remove('log')\n"
    "local l = log.open('log')\n"
    "same(select(3, l:append(('x'):rep(21))), 'too_large')\n"
    "assert(l:append(('x'):rep(20))) l:close()";

static const char lock_file[] = "local l = assert(log.open('log'))\n"
                                "assert(get('log.lock'):match('^%S+ %S+ %d+\\n$'))\n"
                                "local _, m, c = log.open('log')\n"
                                "same(c, 'locked') assert(m:find('.lock', 1, true))\n"
                                "l:close() same(get('log.lock'), nil)\n"
                                "local k = assert(log.open('log')) put('log.lock2', 'other') "
                                "os.rename('log.lock2', 'log.lock')\n"
                                "k:close() same(get('log.lock'), 'other') os.remove('log.lock')\n";

/* The pid is that of a child that has been waited for. */
static const char left_over[] =
    "local l = assert(log.open('log')) local text = get('log.lock') l:close()\n"
    "local place = text:match('^(%S+ %S+ )')\n"
    "put('log.lock', place .. gone .. '\\n')\n"
    "l = assert(log.open('log')) same(get('log.lock'), text) l:close()\n"
    "for _, other in ipairs {'', 'x', 'far ' .. text:match(' (.*)'), text:match('%S+') .. ' boot ' "
    ".. gone\n"
    "    .. '\\n', place, place .. '1\\n', place .. '-1\\n', place .. gone, place .. '0\\n'} do\n"
    "  put('log.lock', other)\n"
    "  same(select(3, log.open('log')), 'locked') same(get('log.lock'), other)\n"
    "end os.remove('log.lock')";

static const char short_write[] =
    "os.remove('log') local l = assert(log.open('log')) assert(l:append('first'))\n"
    "for limit = 0, 4 do\n"
    "  fail(limit, true) local ok, m, c = l:append('abcd')\n"
    "  same(ok, nil) same(c, 'no_space') same(get('log'), 'first\\n') same(l:size(), 6)\n"
    "end\n"
    "for limit = 0, 4 do fail(limit, false) assert(l:append('abcd')) end\n"
    "same(get('log'), 'first\\n' .. ('abcd\\n'):rep(5)) l:close()";

static const char failing_sync[] =
    "os.remove('log') local l = assert(log.open('log', {sync = 'record'}))\n"
    "assert(l:append('one')) fail_sync()\n"
    "local ok, m, c = l:append('two') same(ok, nil) same(c, 'io')\n"
    "same(get('log'), 'one\\n') assert(l:append('three')) l:close()\n"
    "l = assert(log.open('log')) l:append('x') fail_sync() l:sync()\n"
    "while not l:ready() do end\n"
    "assert(l:sync_error():find('log', 1, true)) l:sync() l:close()";

static int lua_fail(lua_State *L) {
    write_limit = (ssize_t)luaL_checkinteger(L, 1);
    rest_fails = lua_toboolean(L, 2);
    return 0;
}

static int lua_fail_sync(lua_State *L) {
    (void)L;
    sync_fails = EIO;
    return 0;
}

#include <sys/wait.h>

static pid_t gone_pid(void) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    waitpid(pid, NULL, 0);
    return pid;
}

static lua_State *new_state(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "log", luaopen_terret_log, 1);
    lua_register(L, "fail", lua_fail);
    lua_register(L, "fail_sync", lua_fail_sync);
    lua_pushinteger(L, gone_pid());
    lua_setglobal(L, "gone");
    if (luaL_dostring(L, prelude)) abort();
    return L;
}

int main(void) {
    char top[] = "/tmp/terret-test-log-XXXXXX", clean[64];
    if (!mkdtemp(top) || chdir(top)) return 1;
    lua_State *L = new_state();
    run(L, "tails of every length are cut off and kept", tails);
    run(L, "lines of every length are read", reading);
    run(L, "lines that are too long are refused", too_long);
    run(L, "a short write is finished or taken back", short_write);
    run(L, "a sync that fails is told", failing_sync);
    no_flock = true;
    run(L, "without flock a lock file keeps others out", lock_file);
    run(L, "a lock file that is left over is replaced, no other", left_over);
    run(L, "a log that is open at the end", "os.remove('log') l = log.open('log') l:sync()");
    lua_close(L);
    run(L = new_state(), "is closed with the state", "assert(not get('log.lock'))");
    lua_close(L);
    printf("1..%d\n", count);
    snprintf(clean, sizeof clean, "rm -rf '%s'", top);
    if (system(clean)) return 1;
    return failed != 0;
}

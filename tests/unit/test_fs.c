/* tests/unit/test_fs.c - what is easier from C than from Lua: the matcher against a naive one,
 * the walk for kernels without openat2, failing writes, an ordinary user's permissions,
 * and trees and buffers with shrunken constants. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define TERRET_NO_OPENAT2
#define MAX_LEVELS 3
#define READ_STEP 7

#include <errno.h>
#include <sys/types.h>
#include <unistd.h>

static int pwrites_left = -1; /* how many more succeed; -1: all */
static ssize_t failing_pwrite(int fd, const void *p, size_t n, off_t at) {
    if (pwrites_left == 0) {
        pwrites_left = -1; /* the restoration may write */
        errno = ENOSPC;
        return -1;
    }
    if (pwrites_left > 0) pwrites_left--;
    return pwrite(fd, p, n > 3 && pwrites_left >= 0 ? 3 : n, at);
}
#define pwrite failing_pwrite
#include "../../runtime/fs.c"
#undef pwrite

#include <grp.h>
#include <lualib.h>

static int count, failed;

static void check(bool ok, const char *name) {
    count++;
    if (!ok) failed++;
    printf("%sok %d - %s\n", ok ? "" : "not ", count, name);
}

/* ---- the matcher ---- */

/* By definition, exponential: what glob_match has to agree with.  Alphabet: a b / * only. */
static bool naive(const char *p, const char *start, const char *t, const char *begin) {
    if (!*p) return !*t;
    if (*p != '*') return *t && *p == *t && naive(p + 1, start, t + 1, begin);
    const char *s = p;
    while (*s == '*') s++;
    bool many = s - p > 1, dirs = many && (p == start || p[-1] == '/') && *s == '/';
    if (dirs) s++;
    for (;; t++) {
        bool here = !dirs || t == begin || t[-1] == '/';
        if (here && naive(s, start, t, begin)) return true;
        if (!*t || (!many && *t == '/')) return false;
    }
}

static void random_text(char *out, size_t most, const char *letters, unsigned *seed) {
    size_t n = (size_t)rand_r(seed) % (most + 1), k = strlen(letters);
    for (size_t i = 0; i < n; i++) out[i] = letters[(size_t)rand_r(seed) % k];
    out[n] = '\0';
}

static void test_glob(void) {
    unsigned seed = 20240607;
    int wrong = 0, hits = 0;
    for (int i = 0; i < 200000; i++) {
        char p[12], t[12];
        random_text(p, 9, i % 2 ? "ab/**" : "a/****", &seed);
        random_text(t, 10, i % 3 ? "aab/" : "ab/", &seed);
        bool want = naive(p, p, t, t);
        hits += want;
        if (glob_match(p, strlen(p), t, strlen(t)) == want) continue;
        if (wrong++ < 5) printf("# '%s' on '%s' should be %d\n", p, t, want);
    }
    check(wrong == 0, "glob agrees with the definition on random patterns");
    check(hits > 5000, "and enough of them match");
}

/* ---- files ---- */

static char top[] = "/tmp/terret-test-fs-XXXXXX";

static void put(const char *name, const char *text) {
    FILE *f = fopen(name, "w");
    if (!f || fputs(text, f) < 0 || fclose(f)) abort();
}

static bool holds(const char *name, const char *text) {
    char got[256] = "";
    FILE *f = fopen(name, "r");
    if (!f) return false;
    size_t n = fread(got, 1, sizeof got - 1, f);
    fclose(f);
    return n == strlen(text) && memcmp(got, text, n) == 0;
}

static int write_text(fs_base base, const char *path, const char *text, fs_why *why) {
    const fs_write_opts o = {.mode = -1};
    return fs_write_file(base, path, (fs_text){text, strlen(text)}, &o, why);
}

static int opened(fs_base base, const char *path) {
    int fd = fs_open(base, path, O_RDONLY);
    int err = fd < 0 ? errno : 0;
    tr_close(&fd);
    return err;
}

static void test_walk(void) {
    fs_why why;
    put("outside", "secret");
    if (mkdir("in", 0700) || mkdir("in/sub", 0700) || symlink("../outside", "in/link") ||
        symlink("sub", "in/dir"))
        abort();
    put("in/sub/file", "inside");
    fs_base base = {open("in", O_RDONLY | O_DIRECTORY | O_CLOEXEC), true};
    check(opened(base, "sub/file") == 0, "walk: a file");
    check(opened(base, "./sub//../sub/./file") == 0, "walk: dots within");
    check(opened(base, ".") == 0 && opened(base, "sub/..") == 0, "walk: the root itself");
    check(opened(base, "sub/../../outside") == EXDEV, "walk: dots lead out");
    check(opened(base, "..") == EXDEV && opened(base, "/etc") == EXDEV, "walk: up, absolute");
    check(opened(base, "link") == ELOOP, "walk: a link at the end");
    check(opened(base, "dir/file") == ELOOP, "walk: a link on the way");
    check(opened(base, "none") == ENOENT && opened(base, "") == ENOENT, "walk: missing");
    struct stat st;
    check(fs_stat_path(base, "link", false, &st) == 0 && S_ISLNK(st.st_mode),
          "walk: the link itself may be looked at");
    check(fs_stat_path(base, "link", true, &st) == -1 && errno == ELOOP, "walk: but not followed");
    check(write_text(base, "sub/new", "x", &why) == 0 && holds("in/sub/new", "x"), "walk: write");
    check(write_text(base, "link", "x", &why) == -1 && why.err == ELOOP, "walk: write to a link");
    check(holds("outside", "secret"), "walk: nothing outside changed");
    char longest[PATH_MAX + 10];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    check(opened(base, longest) == ENAMETOOLONG, "walk: too long");
    tr_close(&base.fd);
}

static void test_restore(void) {
    const char *old = "0123456789";
    fs_why why;
    const char *texts[] = {"a longer text than the old one", "short"};
    for (int t = 0; t < 2; t++) {
        for (int k = 0; k < 2; k++) {
            put("one", old);
            unlink("two");
            if (link("one", "two")) abort();
            pwrites_left = k;
            int result = write_text(cwd_base, "one", texts[t], &why);
            pwrites_left = -1;
            check(result == -1 && why.err == ENOSPC && holds("two", old),
                  "a write in place that fails leaves the old content");
        }
    }
    unlink("two");
}

/* As somebody who is not root: permissions count, and owners can't be given away. */
static void test_ordinary_user(void) {
    if (geteuid() != 0) {
        check(true, "ordinary user # SKIP not root");
        return;
    }
    fs_why why;
    struct stat st;
    put("readonly", "old");
    put("group", "old");
    if (mkdir("closed", 0755) || mkdir("open", 0777) || chmod("open", 0777)) abort();
    put("closed/mine", "old");
    put("open/other", "old");
    if (chown("closed/mine", 4242, 4242) || chmod("open/other", 0666) || chmod(top, 0777) ||
        chmod("readonly", 0444) || chown("group", 4242, 1) || chmod("group", 0664))
        abort();
    gid_t groups[1] = {4242};
    if (setgroups(1, groups) || setegid(4242) || seteuid(4242)) abort();
    check(write_text(cwd_base, "readonly", "x", &why) == -1 && why.err == EACCES,
          "a read-only file is refused though its directory is writable");
    check(write_text(cwd_base, "closed/mine", "new", &why) == 0 && holds("closed/mine", "new"),
          "a writable file in a closed directory is written in place");
    check(write_text(cwd_base, "closed/none", "x", &why) == -1 && why.err == EACCES,
          "a new file there is refused");
    check(write_text(cwd_base, "open/other", "new", &why) == 0 && holds("open/other", "new"),
          "another's writable file is replaced");
    check(write_text(cwd_base, "group", "new", &why) == 0 && stat("group", &st) == 0 &&
              st.st_gid == 4242 && (st.st_mode & 0777) == 0644,
          "a group that can't be kept loses what not everybody may");
    if (seteuid(0) || setegid(0)) abort();
}

static void test_tree(void) {
    fs_why why;
    char path[PATH_MAX] = "tree";
    put("keep", "x");
    for (int i = 0; i < 20; i++) {
        if (mkdir(path, 0700)) abort();
        char more[PATH_MAX];
        snprintf(more, sizeof more, "%.2000s/.terret-removing-%d", path, i % 4);
        put(more, "a file in the way");
        snprintf(more, sizeof more, "%.2000s/link", path);
        if (symlink(top, more)) abort();
        strcat(path, "/d");
    }
    check(fs_remove_path(cwd_base, "tree", true, &why) == 0, "a deep tree is removed");
    check(access("tree", F_OK) != 0 && holds("keep", "x"), "and nothing but that");
    check(fs_remove_path(cwd_base, "/", true, &why) == -1 && why.err == EINVAL, "not the root");
}

/* Buffers in steps of 7 bytes, by Lua. */
static void test_read_steps(void) {
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    luaL_requiref(L, "fs", luaopen_terret_fs, 1);
    lua_pop(L, 1);
    int bad = luaL_dostring(L, "local all = assert(fs.read('/proc/self/maps'))\n"
                               "assert(#all > 100 and all:sub(-1) == '\\n')\n"
                               "for i = 0, 40 do\n"
                               "  assert(#fs.read('/proc/self/maps', {length = i}) == i)\n"
                               "  assert(select(3, fs.read('/proc/self/maps', {max = i})) == "
                               "'too_large')\n"
                               "end");
    if (bad) printf("# %s\n", lua_tostring(L, -1));
    check(!bad, "files that grow while they are read");
    lua_close(L);
}

int main(void) {
    char clean[64];
    if (!mkdtemp(top) || chdir(top)) return 1;
    test_glob();
    test_walk();
    test_restore();
    test_ordinary_user();
    test_tree();
    test_read_steps();
    printf("1..%d\n", count);
    snprintf(clean, sizeof clean, "rm -rf '%s'", top);
    if (system(clean)) return 1;
    return failed != 0;
}

/* runtime/fs.c - terret.fs: files and directories, safely for paths that a model wrote.
 *
 * Owns: the descriptor of a root, and for the length of one call a descriptor, a directory
 * stream and scratch memory (fs_box).  Errors: raises on wrong arguments, among them a NUL in
 * a path; what the system refuses returns nil, message, code.
 *
 * The free functions and the methods of a root are the same code over an fs_base.  What has no
 * need of Lua is in headers of its own: fs_path.h (reaching a file, beneath a root), fs_write.h
 * (replacing content), fs_tree.h (removing trees), fs_glob.h (match). */
#include "fs_glob.h"
#include "fs_path.h"
#include "fs_tree.h"
#include "fs_write.h"
#include "terret.h"

#include <math.h>

#define ROOT "terret.fs.root"
#define BOX "terret.fs.box"
#define MAX_READ ((lua_Integer)256 << 20)
#define MAX_ENTRIES 1000000
#ifndef READ_STEP
#define READ_STEP 65536 /* growth of the buffer past the size that the file claimed */
#endif

static const fs_base cwd_base = {AT_FDCWD, false};

/* ---- arguments and refusals ---- */

static const char *check_path(lua_State *L, int arg) {
    size_t n;
    const char *path = luaL_checklstring(L, arg, &n);
    luaL_argcheck(L, strlen(path) == n, arg, "path holds a NUL byte");
    return path;
}

typedef struct fs_root {
    int fd; /* -1: closed */
} fs_root;

static fs_base check_root(lua_State *L) {
    const fs_root *r = luaL_checkudata(L, 1, ROOT);
    luaL_argcheck(L, r->fd >= 0, 1, "root is closed");
    return (fs_base){r->fd, true};
}

/* The words of stat and list, and what a refusal calls it. */
static const struct type_word {
    mode_t kind;
    unsigned char d_type;
    const char *word, *text;
} type_words[] = {
    {S_IFREG, DT_REG, "file", "is a regular file"},
    {S_IFDIR, DT_DIR, "directory", "is a directory"},
    {S_IFLNK, DT_LNK, "link", "is a symbolic link"},
    {S_IFIFO, DT_FIFO, "fifo", "is a FIFO"},
    {S_IFSOCK, DT_SOCK, "socket", "is a socket"},
    {S_IFCHR, DT_CHR, "char_device", "is a character device"},
    {S_IFBLK, DT_BLK, "block_device", "is a block device"},
    {0, DT_UNKNOWN, "unknown", "is no regular file"},
};

static const struct type_word *type_of(mode_t mode) {
    const struct type_word *t = type_words;
    while (t->kind && t->kind != (mode & S_IFMT)) t++;
    return t;
}

/* "read 'x': No such file or directory", "not_found". */
static int refuse(lua_State *L, fs_base base, const char *op, const char *path, fs_why why) {
    if (why.kind) {
        const char *code = S_ISDIR(why.kind) ? "is_directory" : "not_regular";
        return tr_fail(L, code, "%s '%.700s': %s", op, path, type_of(why.kind)->text);
    }
    if (base.beneath && (why.err == EXDEV || why.err == ELOOP))
        return tr_fail(L, "escapes", "%s '%.700s': leads out of its root", op, path);
    const char *code = tr_errcode(why.err);
    if (why.err == ELOOP) code = "link_loop";
    if (why.err == EXDEV) code = "cross_device";
    if (why.err == EINVAL) code = "invalid";
    return tr_fail(L, code, "%s '%.700s': %s", op, path, strerror(why.err));
}

static int refuse_errno(lua_State *L, fs_base base, const char *op, const char *path) {
    return refuse(L, base, op, path, (fs_why){.err = errno});
}

static int done(lua_State *L) {
    lua_pushboolean(L, true);
    return 1;
}

/* ---- what a call holds while Lua may raise ---- */

typedef struct fs_box {
    int fd;
    DIR *dir;
    tr_buf names;  /* of list: type byte, name, NUL; again */
    tr_buf sorted; /* of list: pointers into names */
} fs_box;

static fs_box *new_box(lua_State *L) {
    fs_box *b = lua_newuserdatauv(L, sizeof *b, 0);
    memset(b, 0, sizeof *b);
    b->fd = -1;
    luaL_setmetatable(L, BOX);
    return b;
}

static void box_release(fs_box *b) {
    if (b->dir) closedir(b->dir);
    b->dir = NULL;
    tr_close(&b->fd);
    tr_buf_free(&b->names);
    tr_buf_free(&b->sorted);
}

static int box_gc(lua_State *L) {
    box_release(luaL_checkudata(L, 1, BOX));
    return 0;
}

/* ---- stat ---- */

static void set_integer(lua_State *L, const char *key, lua_Integer v) {
    lua_pushinteger(L, v);
    lua_setfield(L, -2, key);
}

static void push_info(lua_State *L, const struct stat *st) {
    lua_createtable(L, 0, 8);
    lua_pushstring(L, type_of(st->st_mode)->word);
    lua_setfield(L, -2, "type");
    lua_pushnumber(L, (double)st->st_mtim.tv_sec + (double)st->st_mtim.tv_nsec * 1e-9);
    lua_setfield(L, -2, "mtime");
    set_integer(L, "size", (lua_Integer)st->st_size);
    set_integer(L, "mode", st->st_mode & 07777);
    set_integer(L, "inode", (lua_Integer)st->st_ino);
    set_integer(L, "dev", (lua_Integer)st->st_dev);
    set_integer(L, "nlink", (lua_Integer)st->st_nlink);
    set_integer(L, "uid", (lua_Integer)st->st_uid);
}

static int do_stat(lua_State *L, fs_base base, int arg) {
    static const char *const known[] = {"follow", NULL};
    const char *path = check_path(L, arg);
    tr_options(L, arg + 1, known);
    bool follow = tr_opt_boolean(L, arg + 1, "follow", true);
    struct stat st;
    if (fs_stat_path(base, path, follow, &st)) return refuse_errno(L, base, "stat", path);
    push_info(L, &st);
    return 1;
}

/* ---- read ---- */

typedef struct read_range {
    lua_Integer max, offset, length;
} read_range;

static read_range check_range(lua_State *L, int idx) {
    static const char *const known[] = {"max", "offset", "length", NULL};
    tr_options(L, idx, known);
    const lua_Integer most = LUA_MAXINTEGER;
    return (read_range){.max = tr_opt_integer(L, idx, "max", MAX_READ, 0, most - 1),
                        .offset = tr_opt_integer(L, idx, "offset", 0, 0, most / 2),
                        .length = tr_opt_integer(L, idx, "length", most, 0, most)};
}

/* Bytes that the file promises now: what the buffer starts with.  It may turn out to be more
 * (it grows; files of /proc claim to be empty) or less. */
static lua_Integer promised(const struct stat *st, const read_range *r) {
    lua_Integer rest = (lua_Integer)st->st_size - r->offset;
    if (rest < 0) rest = 0;
    return rest < r->length ? rest : r->length;
}

/* Reads on to the end, the length or one byte over max: 0, or an errno value.
 * Stack: the buffer's own slot. */
static int read_into(luaL_Buffer *b, int fd, const read_range *r, lua_Integer promise) {
    lua_Integer want = r->length <= r->max ? r->length : r->max + 1, have = 0;
    lua_Integer step = promise + 1; /* the one byte more finds the end without another growth */
    while (have < want) {
        if (step > want - have) step = want - have;
        char *p = luaL_prepbuffsize(b, (size_t)step);
        ssize_t k = (ssize_t)tr_retry(pread(fd, p, (size_t)step, (off_t)(r->offset + have)));
        if (k < 0) return errno;
        if (k == 0) break;
        luaL_addsize(b, (size_t)k);
        have += k;
        step = step > k ? step - k : READ_STEP;
    }
    return have > r->max ? EFBIG : 0;
}

static int too_large(lua_State *L, const char *path, lua_Integer max) {
    return tr_fail(L, "too_large", "read '%.700s': larger than %lld bytes", path, (long long)max);
}

static int do_read(lua_State *L, fs_base base, int arg) {
    const char *path = check_path(L, arg);
    read_range r = check_range(L, arg + 1);
    lua_settop(L, arg + 1);
    fs_box *box = new_box(L);
    struct stat st;
    fs_why why;
    box->fd = fs_open_regular(base, path, O_RDONLY, &st, &why);
    if (box->fd < 0) return refuse(L, base, "read", path, why);
    lua_Integer promise = promised(&st, &r);
    if (promise > r.max) {
        box_release(box);
        return too_large(L, path, r.max);
    }
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    int err = read_into(&b, box->fd, &r, promise);
    box_release(box);
    if (err == EFBIG) return too_large(L, path, r.max);
    if (err) return refuse(L, base, "read", path, (fs_why){.err = err});
    luaL_pushresult(&b);
    push_info(L, &st);
    return 2;
}

/* ---- write ---- */

static int do_write(lua_State *L, fs_base base, int arg) {
    static const char *const known[] = {"mode", "parents", "new", "sync", NULL};
    const char *path = check_path(L, arg);
    fs_text t;
    t.p = luaL_checklstring(L, arg + 1, &t.n);
    int idx = arg + 2;
    tr_options(L, idx, known);
    fs_write_opts o = {.mode = (int)tr_opt_integer(L, idx, "mode", -1, 0, 0777),
                       .parents = tr_opt_boolean(L, idx, "parents", false),
                       .fresh = tr_opt_boolean(L, idx, "new", false),
                       .sync = tr_opt_boolean(L, idx, "sync", true)};
    fs_why why;
    if (fs_write_file(base, path, t, &o, &why)) return refuse(L, base, "write", path, why);
    return done(L);
}

/* ---- list ---- */

/* Reads the whole directory into box->names; the count, or -1 with errno. */
static long read_names(fs_box *box) {
    long count = 0;
    struct dirent *e;
    for (errno = 0; (e = readdir(box->dir)); errno = 0) {
        if (fs_is_dots(e->d_name)) continue;
        if (++count > MAX_ENTRIES) {
            errno = EFBIG;
            return -1;
        }
        char type = (char)e->d_type;
        if (!tr_buf_put(&box->names, &type, 1) ||
            !tr_buf_put(&box->names, e->d_name, strlen(e->d_name) + 1)) {
            errno = ENOMEM;
            return -1;
        }
    }
    return errno ? -1 : count;
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a + 1, *(const char *const *)b + 1);
}

/* Pointers to all entries, by name; NULL: out of memory.  (names doesn't move any more.) */
static const char **sort_names(fs_box *box, size_t count) {
    box->sorted.n = 0;
    if (!tr_buf_reserve(&box->sorted, (count + 1) * sizeof(char *))) return NULL;
    const char **all = (const char **)(void *)box->sorted.p;
    const char *p = box->names.p;
    for (size_t i = 0; i < count; i++, p += strlen(p + 1) + 2) all[i] = p;
    if (count) qsort(all, count, sizeof *all, by_name);
    return all;
}

static const char *entry_word(int dir, const char *entry) {
    const struct type_word *t = type_words;
    while (t->d_type != (unsigned char)*entry && t->kind) t++;
    struct stat st;
    if (!t->kind && fstatat(dir, entry + 1, &st, AT_SYMLINK_NOFOLLOW) == 0) t = type_of(st.st_mode);
    return t->word;
}

static int do_list(lua_State *L, fs_base base, int arg) {
    const char *path = check_path(L, arg);
    lua_settop(L, arg);
    fs_box *box = new_box(L);
    box->fd = fs_open(base, path, O_RDONLY | O_DIRECTORY | O_NONBLOCK);
    if (box->fd < 0 || !(box->dir = fdopendir(box->fd))) return refuse_errno(L, base, "list", path);
    box->fd = -1; /* the stream's now */
    long count = read_names(box);
    if (count < 0) {
        int err = errno;
        box_release(box);
        return refuse(L, base, "list", path, (fs_why){.err = err});
    }
    const char **all = sort_names(box, (size_t)count);
    if (!all) {
        box_release(box);
        return refuse(L, base, "list", path, (fs_why){.err = ENOMEM});
    }
    lua_createtable(L, (int)count, 0);
    for (long i = 0; i < count; i++) {
        lua_createtable(L, 0, 2); /* list entry */
        lua_pushstring(L, all[i] + 1);
        lua_setfield(L, -2, "name");
        lua_pushstring(L, entry_word(dirfd(box->dir), all[i]));
        lua_setfield(L, -2, "type");
        lua_rawseti(L, -2, i + 1);
    }
    box_release(box);
    return 1;
}

/* ---- mkdir ---- */

static int do_mkdir(lua_State *L, fs_base base, int arg) {
    static const char *const known[] = {"parents", "mode", NULL};
    const char *path = check_path(L, arg);
    tr_options(L, arg + 1, known);
    bool parents = tr_opt_boolean(L, arg + 1, "parents", false);
    int mode = (int)tr_opt_integer(L, arg + 1, "mode", -1, 0, 07777);
    fs_why why;
    int result =
        parents ? fs_make_dirs(base, path, mode, &why) : fs_make_dir(base, path, mode, &why);
    return result ? refuse(L, base, "mkdir", path, why) : done(L);
}

/* ---- functions and methods of the same name ---- */

static int fs_read(lua_State *L) {
    return do_read(L, cwd_base, 1);
}

static int root_read(lua_State *L) {
    return do_read(L, check_root(L), 2);
}

static int fs_write(lua_State *L) {
    return do_write(L, cwd_base, 1);
}

static int root_write(lua_State *L) {
    return do_write(L, check_root(L), 2);
}

static int fs_stat(lua_State *L) {
    return do_stat(L, cwd_base, 1);
}

static int root_stat(lua_State *L) {
    return do_stat(L, check_root(L), 2);
}

static int fs_list(lua_State *L) {
    return do_list(L, cwd_base, 1);
}

static int root_list(lua_State *L) {
    return do_list(L, check_root(L), 2);
}

static int fs_mkdir(lua_State *L) {
    return do_mkdir(L, cwd_base, 1);
}

static int root_mkdir(lua_State *L) {
    return do_mkdir(L, check_root(L), 2);
}

/* ---- the root ---- */

static int fs_root_open(lua_State *L) {
    const char *path = check_path(L, 1);
    fs_root *r = lua_newuserdatauv(L, sizeof *r, 0);
    r->fd = -1;
    luaL_setmetatable(L, ROOT);
    r->fd = fs_open(cwd_base, path, O_PATH | O_DIRECTORY);
    return r->fd < 0 ? refuse_errno(L, cwd_base, "root", path) : 1;
}

static int root_close(lua_State *L) {
    fs_root *r = luaL_checkudata(L, 1, ROOT);
    tr_close(&r->fd);
    return 0;
}

/* ---- only free functions ---- */

static int fs_remove(lua_State *L) {
    static const char *const known[] = {"recursive", NULL};
    const char *path = check_path(L, 1);
    tr_options(L, 2, known);
    bool recursive = tr_opt_boolean(L, 2, "recursive", false);
    fs_why why;
    if (fs_remove_path(cwd_base, path, recursive, &why))
        return refuse(L, cwd_base, "remove", path, why);
    return done(L);
}

/* A rename replaces its target, so what write refuses to replace is refused here too. */
static int fs_rename(lua_State *L) {
    const char *from = check_path(L, 1), *to = check_path(L, 2);
    struct stat st;
    if (lstat(to, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))
        return refuse(L, cwd_base, "rename to", to, (fs_why){.kind = st.st_mode & S_IFMT});
    if (rename(from, to)) return refuse_errno(L, cwd_base, "rename", from);
    return done(L);
}

static int fs_realpath(lua_State *L) {
    char out[PATH_MAX];
    const char *path = check_path(L, 1);
    if (!realpath(path, out)) return refuse_errno(L, cwd_base, "realpath", path);
    lua_pushstring(L, out);
    return 1;
}

/* The reference promises a string, and so it is but for a directory that was removed. */
static int fs_cwd(lua_State *L) {
    char out[PATH_MAX];
    if (!getcwd(out, sizeof out)) return tr_errno(L, errno, "working directory");
    lua_pushstring(L, out);
    return 1;
}

static int fs_chdir(lua_State *L) {
    const char *path = check_path(L, 1);
    if (chdir(path)) return refuse_errno(L, cwd_base, "chdir", path);
    return done(L);
}

static int fs_mkdtemp(lua_State *L) {
    const char *prefix = check_path(L, 1);
    char out[PATH_MAX];
    int n = snprintf(out, sizeof out, "%sXXXXXX", prefix);
    if (n >= PATH_MAX) errno = ENAMETOOLONG;
    if (n >= PATH_MAX || !mkdtemp(out)) return refuse_errno(L, cwd_base, "mkdtemp", prefix);
    lua_pushstring(L, out);
    return 1;
}

static int fs_match(lua_State *L) {
    size_t np, n;
    const char *pattern = luaL_checklstring(L, 1, &np), *name = luaL_checklstring(L, 2, &n);
    lua_pushboolean(L, glob_match(pattern, np, name, n));
    return 1;
}

static int fs_whoami(lua_State *L) {
    char host[256] = "";
    if (gethostname(host, sizeof host - 1)) strcpy(host, "localhost");
    lua_createtable(L, 0, 4);
    set_integer(L, "uid", (lua_Integer)geteuid());
    set_integer(L, "gid", (lua_Integer)getegid());
    set_integer(L, "pid", (lua_Integer)getpid());
    lua_pushstring(L, host);
    lua_setfield(L, -2, "host");
    return 1;
}

/* ---- the module ---- */

static const luaL_Reg fs_funcs[] = {
    {"root", fs_root_open}, {"read", fs_read},     {"write", fs_write},
    {"stat", fs_stat},      {"list", fs_list},     {"mkdir", fs_mkdir},
    {"remove", fs_remove},  {"rename", fs_rename}, {"realpath", fs_realpath},
    {"cwd", fs_cwd},        {"chdir", fs_chdir},   {"mkdtemp", fs_mkdtemp},
    {"match", fs_match},    {"whoami", fs_whoami}, {NULL, NULL}};

static const luaL_Reg root_methods[] = {
    {"read", root_read},   {"write", root_write}, {"stat", root_stat}, {"list", root_list},
    {"mkdir", root_mkdir}, {"close", root_close}, {NULL, NULL}};

static const luaL_Reg root_meta[] = {{"__gc", root_close}, {"__close", root_close}, {NULL, NULL}};

static const luaL_Reg box_meta[] = {{"__gc", box_gc}, {NULL, NULL}};

static const luaL_Reg no_methods[] = {{NULL, NULL}};

TR_EXPORT int luaopen_terret_fs(lua_State *L) {
    tr_class(L, ROOT, root_meta, root_methods);
    tr_class(L, BOX, box_meta, no_methods);
    luaL_newlib(L, fs_funcs);
    return 1;
}

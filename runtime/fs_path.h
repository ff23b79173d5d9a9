/* runtime/fs_path.h - how fs.c reaches a file; private to fs.c.
 *
 * Everything starts from an fs_base: the working directory, or a root that no path may leave.
 * Only fs_open resolves paths; what follows works with *at calls on the descriptor of the
 * parent directory and a single name, so nothing that moves meanwhile can lead elsewhere.
 * Pure C: no function here knows Lua.  They return -1 and fill an fs_why. */
#ifndef TERRET_FS_PATH_H
#define TERRET_FS_PATH_H

#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__) && !defined(TERRET_NO_OPENAT2)
#include <sys/syscall.h>
#ifdef SYS_openat2
#include <linux/openat2.h>
#define HAVE_OPENAT2 1
#endif
#endif

#ifndef O_PATH /* elsewhere: the type is looked at after a non-blocking open */
#define O_PATH (O_RDONLY | O_NONBLOCK | O_NOCTTY)
#endif
#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

#define MAX_HOPS 40 /* links followed by hand, as many as Linux follows */

typedef struct fs_base {
    int fd;       /* AT_FDCWD or a directory */
    bool beneath; /* no path may leave fd */
} fs_base;

/* Why not: an errno value, or the type (S_IFMT bits) of a file that is not a regular one. */
typedef struct fs_why {
    int err;
    mode_t kind;
} fs_why;

/* A name in an open directory.  dir is the owner's to close. */
typedef struct fs_leaf {
    int dir;
    char name[NAME_MAX + 1];
} fs_leaf;

static int fs_no(fs_why *why, int err) {
    why->err = err;
    why->kind = 0;
    return -1;
}

static bool fs_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool fs_is_dots(const char *name) {
    return !strcmp(name, ".") || !strcmp(name, "..");
}

/* ---- beneath a root, where the kernel does not do it ---- */

/* Appends a component to the tidied path of *n bytes, or takes one away for "..". */
static int tidy_part(char out[PATH_MAX], size_t *n, const char *part, size_t len) {
    if (len == 0 || (len == 1 && part[0] == '.')) return 0;
    if (len == 2 && part[0] == '.' && part[1] == '.') {
        if (*n == 0) {
            errno = EXDEV;
            return -1;
        }
        while (*n > 0 && out[*n - 1] != '/') --*n;
        if (*n > 0) --*n;
        return 0;
    }
    if (*n + len + 2 > PATH_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    if (*n > 0) out[(*n)++] = '/';
    memcpy(out + *n, part, len);
    *n += len;
    return 0;
}

/* "a/./b/../c" becomes "a/c".  By text alone, which is right where no link is followed, and
 * safer than opening "..": the directory may have been moved out of the root meanwhile. */
static int tidy(const char *path, char out[PATH_MAX]) {
    size_t n = 0;
    if (*path == '/' || *path == '\0') {
        errno = *path ? EXDEV : ENOENT;
        return -1;
    }
    while (*path) {
        size_t len = strcspn(path, "/");
        if (tidy_part(out, &n, path, len)) return -1;
        path += len + (path[len] == '/');
    }
    out[n] = '\0';
    return 0;
}

/* Opens one component; a link is refused unless the caller wants the link itself. */
static int walk_step(int dir, const char *name, int flags) {
    struct stat st;
    bool link = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
    if (link && !(flags & O_NOFOLLOW)) {
        errno = ELOOP;
        return -1;
    }
    return (int)tr_retry(openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC));
}

static int walk_beneath(int root, const char *path, int flags) {
    char tidied[PATH_MAX];
    if (tidy(path, tidied)) return -1;
    int dir = root;
    char *part = tidied;
    for (char *slash; (slash = strchr(part, '/')); part = slash + 1) {
        *slash = '\0';
        int next = walk_step(dir, part, O_PATH | O_DIRECTORY);
        if (dir != root) tr_close(&dir);
        if (next < 0) return -1;
        dir = next;
    }
    int fd = walk_step(dir, *part ? part : ".", flags);
    if (dir != root) tr_close(&dir);
    return fd;
}

/* ---- opening ---- */

static int open_beneath(int root, const char *path, int flags) {
#ifdef HAVE_OPENAT2
    struct open_how how = {.flags = (uint64_t)(unsigned)(flags | O_CLOEXEC),
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    int fd = -1;
    /* EAGAIN: a ".." while something is being renamed; the kernel asks for another try. */
    for (int tries = 0; tries < 64; tries++) {
        fd = (int)tr_retry(syscall(SYS_openat2, root, path, &how, sizeof how));
        if (fd >= 0 || errno != EAGAIN) break;
    }
    /* EPERM: some containers' filters say that instead of ENOSYS. */
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return fd;
#endif
    return walk_beneath(root, path, flags);
}

/* Opens an existing path; never creates. */
static int fs_open(fs_base base, const char *path, int flags) {
    if (base.beneath) return open_beneath(base.fd, path, flags);
    return (int)tr_retry(openat(base.fd, path, flags | O_CLOEXEC));
}

static int fs_stat_path(fs_base base, const char *path, bool follow, struct stat *st) {
    int nofollow = follow ? 0 : AT_SYMLINK_NOFOLLOW;
    if (!base.beneath) return fstatat(base.fd, path, st, nofollow);
    int fd = fs_open(base, path, O_PATH | (follow ? 0 : O_NOFOLLOW));
    if (fd < 0) return -1;
    int result = fstat(fd, st);
    tr_close(&fd);
    return result;
}

/* Opens the file behind an O_PATH descriptor: the very same one, whatever its name means by
 * now.  Without /proc by name again, and then the caller's check of st catches a swap. */
static int reopen(int peek, fs_base base, const char *path, int flags) {
    char name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", peek);
    flags |= O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = (int)tr_retry(open(name, flags));
    return fd < 0 && errno == ENOENT ? fs_open(base, path, flags) : fd;
}

/* Opens a regular file.  Anything else is recognised before it is opened: opening a FIFO may
 * block, and opening a device can do things (rewind a tape, reset a modem, arm a watchdog). */
static int fs_open_regular(fs_base base, const char *path, int flags, struct stat *st,
                           fs_why *why) {
    int peek = fs_open(base, path, O_PATH);
    if (peek < 0 || fstat(peek, st)) {
        fs_no(why, errno);
        tr_close(&peek);
        return -1;
    }
    struct stat opened;
    int fd = -1;
    fs_no(why, 0);
    if (!S_ISREG(st->st_mode))
        why->kind = st->st_mode & S_IFMT;
    else if ((fd = reopen(peek, base, path, flags)) < 0 || fstat(fd, &opened))
        why->err = errno;
    else if (!fs_same(st, &opened))
        why->err = EAGAIN;
    tr_close(&peek);
    if (why->err) tr_close(&fd);
    return fd;
}

/* ---- a directory and a name in it ---- */

/* Cuts a path at its last component; trailing slashes don't count.  "/" is "." in "/". */
static int split(const char *path, char dir[PATH_MAX], char name[NAME_MAX + 1]) {
    size_t end = strlen(path);
    if (end == 0) return ENOENT;
    while (end > 0 && path[end - 1] == '/') end--;
    size_t start = end;
    while (start > 0 && path[start - 1] != '/') start--;
    size_t dirlen = start;
    while (dirlen > 1 && path[dirlen - 1] == '/') dirlen--;
    if (dirlen >= PATH_MAX || end - start > NAME_MAX) return ENAMETOOLONG;
    snprintf(dir, PATH_MAX, "%.*s", (int)dirlen, dirlen ? path : "");
    if (end == 0) dir[0] = '/', dir[1] = '\0';
    if (dir[0] == '\0') dir[0] = '.', dir[1] = '\0';
    snprintf(name, NAME_MAX + 1, "%.*s", (int)(end - start), path + start);
    if (name[0] == '\0') name[0] = '.', name[1] = '\0';
    return 0;
}

/* Opens the directory that holds the last component (which need not exist). */
static int fs_open_parent(fs_base base, const char *path, fs_leaf *leaf, fs_why *why) {
    char dir[PATH_MAX];
    leaf->dir = -1;
    int err = split(path, dir, leaf->name);
    if (err) return fs_no(why, err);
    leaf->dir = fs_open(base, dir, O_PATH | O_DIRECTORY);
    return leaf->dir < 0 ? fs_no(why, errno) : 0;
}

/* The path that the link `leaf` (last component of path) stands for, into path itself. */
static int follow_link(char path[PATH_MAX], const fs_leaf *leaf) {
    char target[PATH_MAX], dir[PATH_MAX], name[NAME_MAX + 1];
    ssize_t n = readlinkat(leaf->dir, leaf->name, target, sizeof target - 1);
    if (n < 0) return errno;
    target[n] = '\0';
    int err = split(path, dir, name);
    if (err) return err;
    int len = target[0] == '/' ? snprintf(path, PATH_MAX, "%s", target)
                               : snprintf(path, PATH_MAX, "%s/%s", dir, target);
    return len < PATH_MAX ? 0 : ENAMETOOLONG;
}

/* The directory and name of what path means after all links at its end, and its lstat:
 * 1 it exists, 0 it doesn't (a name to create), -1 no.  Each hop goes through fs_open from
 * the base again, so beneath a root a link can lead nowhere else.  leaf->dir is the caller's. */
static int fs_resolve(fs_base base, const char *path, fs_leaf *leaf, struct stat *st, fs_why *why) {
    char now[PATH_MAX];
    if (strlen(path) >= sizeof now) return fs_no(why, ENAMETOOLONG);
    strcpy(now, path);
    for (int hop = 0; hop < MAX_HOPS; hop++) {
        tr_close(&leaf->dir);
        if (fs_open_parent(base, now, leaf, why)) return -1;
        if (now[strlen(now) - 1] == '/' || fs_is_dots(leaf->name)) return fs_no(why, EISDIR);
        if (fstatat(leaf->dir, leaf->name, st, AT_SYMLINK_NOFOLLOW))
            return errno == ENOENT ? 0 : fs_no(why, errno);
        if (!S_ISLNK(st->st_mode)) return 1;
        int err = follow_link(now, leaf);
        if (err) return fs_no(why, err);
    }
    return fs_no(why, ELOOP);
}

/* ---- making directories ---- */

static int make_dir(const fs_leaf *leaf, int mode) {
    if (mkdirat(leaf->dir, leaf->name, mode < 0 ? 0777 : (mode_t)mode)) return errno;
    if (mode < 0) return 0;
    /* An explicit mode is exact: the umask has no say. */
    int fd = openat(leaf->dir, leaf->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int err = fd < 0 || fchmod(fd, (mode_t)mode) ? errno : 0;
    tr_close(&fd);
    return err;
}

static int fs_make_dir(fs_base base, const char *path, int mode, fs_why *why) {
    fs_leaf leaf;
    if (fs_open_parent(base, path, &leaf, why)) return -1;
    int err = make_dir(&leaf, mode);
    tr_close(&leaf.dir);
    return err ? fs_no(why, err) : 0;
}

/* Makes what is missing of path; mode is for the last one, -1: as the umask says.  Each
 * prefix is resolved from the base, so that ".." and links mean what they mean elsewhere. */
static int fs_make_dirs(fs_base base, const char *path, int mode, fs_why *why) {
    char prefix[PATH_MAX];
    size_t len = strlen(path);
    if (len >= sizeof prefix) return fs_no(why, ENAMETOOLONG);
    while (len > 1 && path[len - 1] == '/') len--;
    for (size_t i = 1; i <= len; i++) {
        if (i < len && (path[i] != '/' || path[i - 1] == '/')) continue;
        memcpy(prefix, path, i);
        prefix[i] = '\0';
        int fd = fs_open(base, prefix, O_PATH | O_DIRECTORY);
        if (fd < 0 && errno != ENOENT) return fs_no(why, errno);
        bool missing = fd < 0;
        tr_close(&fd);
        if (!missing || !fs_make_dir(base, prefix, i == len ? mode : -1, why)) continue;
        /* Somebody else may have made it just now; a dangling link stays "exists". */
        fd = why->err == EEXIST ? fs_open(base, prefix, O_PATH | O_DIRECTORY) : -1;
        if (fd < 0) return -1;
        tr_close(&fd);
    }
    return len ? 0 : fs_no(why, ENOENT);
}

static int fs_make_parents(fs_base base, const char *path, fs_why *why) {
    char dir[PATH_MAX], name[NAME_MAX + 1];
    int err = split(path, dir, name);
    return err ? fs_no(why, err) : fs_make_dirs(base, dir, -1, why);
}

#endif

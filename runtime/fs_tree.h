/* runtime/fs_tree.h - removing a directory with all that is in it; private to fs.c.
 *
 * Links are removed, never followed: each level is opened with O_NOFOLLOW from the descriptor
 * of the level above.  Descriptors and stack are bounded however deep a hostile tree is: what
 * lies MAX_LEVELS deep is first moved up into the top directory, which is scanned until it is
 * empty.  The first failure ends it; what is gone by then is gone. */
#ifndef TERRET_FS_TREE_H
#define TERRET_FS_TREE_H

#include "fs_path.h"

#include <dirent.h>

#ifndef MAX_LEVELS
#define MAX_LEVELS 64
#endif

typedef struct tree {
    int top;        /* the directory that is being removed */
    unsigned moved; /* number of the next directory moved up */
} tree;

static int empty_dir(tree *t, int fd, int level);

/* Moves a directory from deep down into the top directory, under a name that is free. */
static int move_up(tree *t, int dir, const char *name) {
    char up[40];
    struct stat st;
    do snprintf(up, sizeof up, ".terret-removing-%u", t->moved++);
    while (fstatat(t->top, up, &st, AT_SYMLINK_NOFOLLOW) == 0);
    return renameat(dir, name, t->top, up);
}

static int remove_entry(tree *t, int dir, const char *name, int level) {
    if (unlinkat(dir, name, 0) == 0) return 0;
    if (errno != EISDIR && errno != EPERM) return -1; /* EPERM: what POSIX says of directories */
    int saved = errno;
    struct stat st;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW)) return -1;
    if (!S_ISDIR(st.st_mode)) {
        errno = saved;
        return -1;
    }
    if (unlinkat(dir, name, AT_REMOVEDIR) == 0) return 0;
    if (errno != ENOTEMPTY && errno != EEXIST) return -1;
    if (level >= MAX_LEVELS) return move_up(t, dir, name);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || empty_dir(t, fd, level + 1)) return -1;
    return unlinkat(dir, name, AT_REMOVEDIR);
}

/* Removes all entries of one scan; the number of them, or -1. */
static long scan_and_remove(tree *t, DIR *d, int level) {
    long removed = 0;
    struct dirent *e;
    for (errno = 0; (e = readdir(d)); errno = 0) {
        if (fs_is_dots(e->d_name)) continue;
        if (remove_entry(t, dirfd(d), e->d_name, level)) return -1;
        removed++;
    }
    return errno ? -1 : removed;
}

/* Removes what is in fd, which it closes.  Scans again until nothing is found: removing while
 * reading may skip entries on some file systems, and move_up adds some. */
static int empty_dir(tree *t, int fd, int level) {
    DIR *d = fdopendir(fd);
    if (!d) {
        tr_close(&fd);
        return -1;
    }
    long removed;
    while ((removed = scan_and_remove(t, d, level)) > 0) rewinddir(d);
    int saved = errno;
    closedir(d);
    errno = saved;
    return removed < 0 ? -1 : 0;
}

static int remove_tree(const fs_leaf *leaf) {
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(leaf->dir, leaf->name, flags);
    if (fd < 0) return errno;
    tree t = {fd, 0};
    if (empty_dir(&t, fd, 1)) return errno;
    return unlinkat(leaf->dir, leaf->name, AT_REMOVEDIR) ? errno : 0;
}

static bool is_root_dir(const struct stat *st) {
    struct stat root;
    return stat("/", &root) == 0 && fs_same(st, &root);
}

/* Removes one thing; a device node only as a part of a tree, never by its own name. */
static int remove_leaf(const fs_leaf *leaf, bool recursive, fs_why *why) {
    struct stat st;
    if (fs_is_dots(leaf->name)) return fs_no(why, EINVAL);
    if (fstatat(leaf->dir, leaf->name, &st, AT_SYMLINK_NOFOLLOW)) return fs_no(why, errno);
    if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
        why->kind = st.st_mode & S_IFMT;
        return -1;
    }
    if (!S_ISDIR(st.st_mode)) return unlinkat(leaf->dir, leaf->name, 0) ? fs_no(why, errno) : 0;
    if (is_root_dir(&st)) return fs_no(why, EINVAL);
    int err = 0;
    if (recursive)
        err = remove_tree(leaf);
    else if (unlinkat(leaf->dir, leaf->name, AT_REMOVEDIR))
        err = errno;
    return err ? fs_no(why, err) : 0;
}

/* Trailing slashes don't turn a link into its target: split() has cut them off. */
static int fs_remove_path(fs_base base, const char *path, bool recursive, fs_why *why) {
    fs_leaf leaf;
    fs_no(why, 0);
    if (fs_open_parent(base, path, &leaf, why)) return -1;
    int result = remove_leaf(&leaf, recursive, why);
    tr_close(&leaf.dir);
    return result;
}

#endif

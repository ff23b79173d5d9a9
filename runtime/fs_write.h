/* runtime/fs_write.h - replacing a file's content; private to fs.c.
 *
 * The usual way: a temporary file in the same directory, fsync, rename over the old name,
 * fsync of the directory.  A reader sees the old content or the new, and whatever fails
 * (disk full, a limit, a crash) leaves the old file and no temporary one.
 *
 * In place instead, where a rename would break something:
 *   - a file with several links: the other names must go on being the same file;
 *   - a file whose directory can't take a temporary file (read-only, not ours) or that is a
 *     mount point itself, as sandboxes make them.
 * There the old content is held in memory and put back if the new one can't be written.
 *
 * Kept: mode, owner and group where we may.  Dropped: set-user-id and set-group-id, since they
 * vouched for the old content (the kernel drops them at a write, too).  Extended attributes
 * and ACLs are not copied by the rename way. */
#ifndef TERRET_FS_WRITE_H
#define TERRET_FS_WRITE_H

#include "fs_path.h"

#ifdef __APPLE__
#include <sys/random.h>
#endif

typedef struct fs_text {
    const char *p;
    size_t n;
} fs_text;

typedef struct fs_write_opts {
    int mode; /* of a new file; -1: 0666 less umask */
    bool parents, fresh, sync;
} fs_write_opts;

#define KEPT_BITS ((mode_t)01777)

/* ---- in place ---- */

static int pwrite_all(int fd, fs_text t) {
    for (size_t done = 0; done < t.n;) {
        ssize_t k = (ssize_t)tr_retry(pwrite(fd, t.p + done, t.n - done, (off_t)done));
        if (k < 0) return -1;
        done += (size_t)k;
    }
    return 0;
}

static int pread_all(int fd, char *p, size_t n) {
    for (size_t done = 0; done < n;) {
        ssize_t k = (ssize_t)tr_retry(pread(fd, p + done, n - done, (off_t)done));
        if (k < 0) return -1;
        if (k == 0) { /* it shrank meanwhile */
            errno = EAGAIN;
            return -1;
        }
        done += (size_t)k;
    }
    return 0;
}

/* The space for growth is taken before a byte of the old content is touched. */
static int overwrite(int fd, off_t old, fs_text t) {
    off_t size = (off_t)t.n;
#ifndef __APPLE__
    int err = size > old ? posix_fallocate(fd, old, size - old) : 0;
    if (err) {
        errno = err;
        return -1;
    }
#endif
    return pwrite_all(fd, t) || ftruncate(fd, size) ? -1 : 0;
}

/* Overwrites; on failure puts the old content back. */
static int overwrite_or_restore(int fd, const struct stat *st, fs_text t, bool sync) {
    fs_text old = {NULL, (size_t)st->st_size};
    char *copy = malloc(old.n ? old.n : 1);
    old.p = copy;
    int err = !copy ? ENOMEM : pread_all(fd, copy, old.n) ? errno : 0;
    if (!err && (overwrite(fd, st->st_size, t) || (sync && fsync(fd)))) {
        err = errno;
        /* First the length: that needs no space and is all there is after a failed growth. */
        if (ftruncate(fd, st->st_size) == 0) (void)pwrite_all(fd, old);
    }
    free(copy);
    return err;
}

static int write_in_place(const fs_leaf *leaf, const struct stat *old, fs_text t, bool sync) {
    int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    int fd = (int)tr_retry(openat(leaf->dir, leaf->name, flags));
    if (fd < 0) return errno;
    struct stat st;
    int err = fstat(fd, &st) ? errno : 0;
    if (!err && !(fs_same(&st, old) && S_ISREG(st.st_mode))) err = EAGAIN;
    if (!err) err = overwrite_or_restore(fd, &st, t, sync);
    if (!err && (st.st_mode & 06000)) (void)fchmod(fd, st.st_mode & KEPT_BITS);
    tr_close(&fd);
    return err;
}

/* ---- by a temporary file ---- */

/* ".NAME.terret-XXXXXX", with NAME cut (at a character's edge) where it would be too long. */
static void temp_name(char out[NAME_MAX + 1], const char *name) {
    static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
    unsigned char r[6];
    if (getentropy(r, sizeof r)) memset(r, 0, sizeof r); /* O_EXCL is what protects */
    size_t keep = strlen(name), most = NAME_MAX - sizeof "..terret-XXXXXX" + 1;
    if (keep > most) {
        keep = most;
        while (keep > 0 && ((unsigned char)name[keep] & 0xC0) == 0x80) keep--;
    }
    int n = snprintf(out, NAME_MAX + 1, ".%.*s.terret-", (int)keep, name);
    for (size_t i = 0; i < sizeof r; i++) out[(size_t)n + i] = digits[r[i] & 31];
    out[(size_t)n + sizeof r] = '\0';
}

static int open_temp(const fs_leaf *leaf, char temp[NAME_MAX + 1], mode_t mode) {
    int fd = -1;
    for (int tries = 0; tries < 100; tries++) {
        temp_name(temp, leaf->name);
        fd = (int)tr_retry(
            openat(leaf->dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
        if (fd >= 0 || errno != EEXIST) break;
    }
    return fd;
}

/* Owner, group and mode of the old file.  Where the group can't be kept, its bits would speak
 * about other people: they shrink to what everybody may. */
static int keep_attributes(int fd, const struct stat *old) {
    mode_t mode = old->st_mode & KEPT_BITS;
    struct stat now;
    if (fstat(fd, &now)) return -1;
    bool differs = now.st_uid != old->st_uid || now.st_gid != old->st_gid;
    if (differs && fchown(fd, old->st_uid, old->st_gid) && fchown(fd, (uid_t)-1, old->st_gid) &&
        now.st_gid != old->st_gid)
        mode &= ~(mode_t)070 | (mode & 07) << 3;
    return fchmod(fd, mode);
}

/* Gives the temporary file its name; with fresh only if nobody has that name. */
static int give_name(const fs_leaf *leaf, const char *temp, bool fresh) {
    if (!fresh) return renameat(leaf->dir, temp, leaf->dir, leaf->name);
#ifdef SYS_renameat2
    const unsigned noreplace = 1; /* RENAME_NOREPLACE; the header moved between versions */
    if (syscall(SYS_renameat2, leaf->dir, temp, leaf->dir, leaf->name, noreplace) == 0) return 0;
    if (errno != ENOSYS && errno != EINVAL) return -1;
#endif
    if (linkat(leaf->dir, temp, leaf->dir, leaf->name, 0)) return -1;
    (void)unlinkat(leaf->dir, temp, 0);
    return 0;
}

/* The new name reaches the disk.  What can't be opened or synced (a directory without read
 * permission, a file system without the notion) is left to the system; a broken disk is told. */
static int sync_dir(int dir) {
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int result = fd >= 0 && fsync(fd) && errno == EIO ? -1 : 0;
    tr_close(&fd);
    return result;
}

/* Fills the temporary file and renames it; old is NULL for a new file. */
static int fill_and_name(const fs_leaf *leaf, int fd, const char *temp, const struct stat *old,
                         fs_text t, const fs_write_opts *o) {
    if (tr_write_all(fd, t.p, t.n)) return errno;
    if (old && keep_attributes(fd, old)) return errno;
    if (!old && o->mode >= 0 && fchmod(fd, (mode_t)o->mode)) return errno;
    if (o->sync && fsync(fd)) return errno;
    if (give_name(leaf, temp, o->fresh)) return errno;
    return 0;
}

static int write_by_rename(const fs_leaf *leaf, const struct stat *old, fs_text t,
                           const fs_write_opts *o) {
    char temp[NAME_MAX + 1];
    int fd = open_temp(leaf, temp, old ? 0600 : o->mode < 0 ? 0666 : (mode_t)o->mode & 0700);
    if (fd < 0) return errno;
    int err = fill_and_name(leaf, fd, temp, old, t, o);
    if (close(fd) && !err && errno == EIO) err = EIO; /* NFS tells late */
    if (err) {
        (void)unlinkat(leaf->dir, temp, 0);
        return err;
    }
    return o->sync && sync_dir(leaf->dir) ? errno : 0;
}

/* ---- the whole ---- */

/* Replaces what is there.  A file that may not be written is refused, although a rename would
 * only ask the directory: somebody made it read-only for a reason. */
static int replace(const fs_leaf *leaf, const struct stat *old, fs_text t, const fs_write_opts *o) {
    if (faccessat(leaf->dir, leaf->name, W_OK, AT_EACCESS)) return errno;
    if (old->st_nlink > 1) return write_in_place(leaf, old, t, o->sync);
    int err = write_by_rename(leaf, old, t, o);
    if (err == EACCES || err == EPERM || err == EROFS || err == EBUSY)
        return write_in_place(leaf, old, t, o->sync);
    return err;
}

/* Looks at the target through links: absent (0), regular (1), refused (-1). */
static int look_at_target(fs_base base, const char *path, bool fresh, struct stat *st,
                          fs_why *why) {
    fs_no(why, 0);
    if (fs_stat_path(base, path, !fresh, st)) return errno == ENOENT ? 0 : fs_no(why, errno);
    if (fresh) return fs_no(why, EEXIST);
    if (S_ISREG(st->st_mode)) return 1;
    why->kind = st->st_mode & S_IFMT;
    return -1;
}

static int fs_write_file(fs_base base, const char *path, fs_text t, const fs_write_opts *o,
                         fs_why *why) {
    struct stat seen, st;
    int exists = look_at_target(base, path, o->fresh, &seen, why);
    if (exists < 0) return -1;
    if (!exists && o->parents && fs_make_parents(base, path, why)) return -1;
    fs_leaf leaf = {.dir = -1};
    int there = fs_resolve(base, path, &leaf, &st, why);
    if (there >= 0) {
        /* Not what was looked at: somebody is busy here, and nothing was touched yet. */
        if (there != exists || (there && !fs_same(&st, &seen)))
            why->err = o->fresh ? EEXIST : EAGAIN;
        else
            why->err = there ? replace(&leaf, &st, t, o) : write_by_rename(&leaf, NULL, t, o);
    }
    tr_close(&leaf.dir);
    return there < 0 || why->err ? -1 : 0;
}

#endif

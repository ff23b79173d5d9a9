/* runtime/log_lock.h - one writer per log; private to log.c.
 *
 * flock where the file system has it: it ends with the process, whatever happens.  Elsewhere
 * (some network file systems) PATH.lock, made with O_EXCL, holding "host boot-id pid".  Such a
 * file outlives a crash, so it counts as left over when it names this host and this boot and a
 * process that is gone; what another host or an earlier boot wrote only a person can judge. */
#ifndef TERRET_LOG_LOCK_H
#define TERRET_LOG_LOCK_H

#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct log_lock {
    int fd;       /* of the lock file, while it is held */
    bool by_file; /* the last try was by a lock file */
} log_lock;

#define LOCK_TEXT 512

/* ---- the lock file's text ---- */

static ssize_t read_text(const char *path, char *out, size_t size) {
    int fd = (int)tr_retry(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (fd < 0) return -1;
    ssize_t n = (ssize_t)tr_retry(read(fd, out, size - 1));
    tr_close(&fd);
    out[n > 0 ? n : 0] = '\0';
    return n;
}

/* "host boot-id " of this system; the pid follows. */
static void lock_place(char out[LOCK_TEXT]) {
    char host[256] = "", boot[64] = "";
    if (gethostname(host, sizeof host - 1)) strcpy(host, "localhost");
    if (read_text("/proc/sys/kernel/random/boot_id", boot, sizeof boot) <= 0) strcpy(boot, "-");
    boot[strcspn(boot, "\n")] = '\0';
    snprintf(out, LOCK_TEXT, "%s %s ", host, boot);
}

/* Is the process that wrote text surely gone? */
static bool is_left_over(const char *text, const char *place) {
    size_t n = strlen(place);
    if (strncmp(text, place, n) != 0) return false;
    char *end;
    long pid = strtol(text + n, &end, 10);
    if (end == text + n || *end != '\n' || pid <= 0 || pid > INT_MAX) return false;
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

/* ---- the lock file ---- */

/* Takes a left-over lock file away: first under a name of our own, then a look whether it is
 * still the one that was judged; another process may have replaced it in between. */
static bool clear_left_over(const char *path, const char *place) {
    char text[LOCK_TEXT], mine[PATH_MAX];
    if (read_text(path, text, sizeof text) <= 0 || !is_left_over(text, place)) return false;
    int len = snprintf(mine, sizeof mine, "%s.%ld", path, (long)getpid());
    if (len >= (int)sizeof mine || rename(path, mine)) return false;
    bool same = read_text(mine, text, sizeof text) > 0 && is_left_over(text, place);
    if (!same) (void)!link(mine, path);
    unlink(mine);
    return same;
}

static int create_lock(const char *path, const char *place, int *fd) {
    char text[LOCK_TEXT + 32];
    int len = snprintf(text, sizeof text, "%s%ld\n", place, (long)getpid());
    *fd = (int)tr_retry(open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (*fd < 0) return errno;
    if (tr_write_all(*fd, text, (size_t)len) == 0) return 0;
    int err = errno;
    unlink(path);
    tr_close(fd);
    return err;
}

static int lock_by_file(log_lock *lock, const char *log_path) {
    char path[PATH_MAX], place[LOCK_TEXT];
    int len = snprintf(path, sizeof path, "%s.lock", log_path);
    if (len >= (int)sizeof path) return ENAMETOOLONG;
    lock_place(place);
    lock->by_file = true;
    int err = create_lock(path, place, &lock->fd);
    if (err == EEXIST && clear_left_over(path, place)) err = create_lock(path, place, &lock->fd);
    return err == EEXIST ? EWOULDBLOCK : err;
}

/* ---- the lock ---- */

/* 0; EWOULDBLOCK: somebody else has it; another errno value. */
static int lock_take(log_lock *lock, int fd, const char *path) {
    if (tr_retry(flock(fd, LOCK_EX | LOCK_NB)) == 0) return 0;
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)
        return lock_by_file(lock, path);
    return errno;
}

/* Gives up the lock file, if it is still ours.  (flock ends with the log's descriptor.) */
static void lock_release(log_lock *lock, const char *log_path) {
    if (lock->fd < 0) return;
    char path[PATH_MAX];
    struct stat ours, there;
    snprintf(path, sizeof path, "%s.lock", log_path);
    if (fstat(lock->fd, &ours) == 0 && lstat(path, &there) == 0 && ours.st_dev == there.st_dev &&
        ours.st_ino == there.st_ino)
        unlink(path);
    tr_close(&lock->fd);
}

#endif

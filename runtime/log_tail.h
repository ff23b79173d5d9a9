/* runtime/log_tail.h - finding and keeping what a crash left at the end of a log; private to
 * log.c.  Pure C: 0 or an errno value. */
#ifndef TERRET_LOG_TAIL_H
#define TERRET_LOG_TAIL_H

#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef LOG_CHUNK /* the unit test has smaller ones */
#define LOG_CHUNK 65536
#endif

#ifdef __APPLE__
#define fdatasync fsync
#endif

/* ---- opening ---- */

/* Opens a regular file that is no link; what else is there is never opened.
 * 0, an errno value, or -1 for the wrong type. */
static int open_plain(const char *path, int flags, bool create, int *fd) {
    flags |= O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    struct stat seen, st;
    for (int tries = 0; tries < 16; tries++) {
        bool exists = lstat(path, &seen) == 0;
        if (!exists && (errno != ENOENT || !create)) return errno;
        if (exists && !S_ISREG(seen.st_mode)) return -1;
        *fd = (int)tr_retry(open(path, exists ? flags : flags | O_CREAT | O_EXCL, 0600));
        if (*fd >= 0 && fstat(*fd, &st) == 0 && S_ISREG(st.st_mode) &&
            (!exists || (st.st_dev == seen.st_dev && st.st_ino == seen.st_ino)))
            return 0;
        int err = *fd < 0 ? errno : 0;
        tr_close(fd);
        bool swapped = exists ? err == ENOENT || err == ELOOP : err == EEXIST;
        if (err && !swapped) return err;
    }
    return EAGAIN; /* somebody swaps it all the time */
}

/* ---- the torn tail ---- */

/* State of a scan from the end: the lowest line end after which all is torn so far. */
typedef struct tail_scan {
    off_t end; /* behind the last line end seen; -1: none yet */
    bool nul;  /* a NUL between it and here */
} tail_scan;

/* Index behind the last line end in p[0..n), 0 if there is none. */
static size_t behind_line_end(const char *p, size_t n) {
    while (n > 0 && p[n - 1] != '\n') n--;
    return n;
}

/* Takes the bytes p[0..n) at offset `at`, backwards; true when the line before s->end is whole.
 * No line of ours holds a NUL, so one that does is what a crashed file system made. */
static bool scan_back(tail_scan *s, const char *p, size_t n, off_t at) {
    while (n > 0) {
        size_t from = behind_line_end(p, n);
        s->nul = s->nul || memchr(p + from, '\0', n - from);
        if (from == 0) return false;
        if (s->end >= 0 && !s->nul) return true;
        s->end = at + (off_t)from;
        s->nul = false;
        n = from - 1;
    }
    return false;
}

/* Where the whole lines end: *cut. */
static int find_tail(int fd, off_t size, off_t *cut) {
    char chunk[LOG_CHUNK];
    tail_scan s = {.end = -1};
    for (off_t at = size; at > 0;) {
        size_t n = at < (off_t)sizeof chunk ? (size_t)at : sizeof chunk;
        at -= (off_t)n;
        ssize_t k = (ssize_t)tr_retry(pread(fd, chunk, n, at));
        if (k != (ssize_t)n) return k < 0 ? errno : EIO;
        if (scan_back(&s, chunk, n, at)) {
            *cut = s.end;
            return 0;
        }
    }
    *cut = s.end >= 0 && !s.nul ? s.end : 0;
    return 0;
}

static int copy_range(int from, off_t at, off_t end, int to) {
    char chunk[LOG_CHUNK];
    while (at < end) {
        size_t n = end - at < (off_t)sizeof chunk ? (size_t)(end - at) : sizeof chunk;
        ssize_t k = (ssize_t)tr_retry(pread(from, chunk, n, at));
        if (k <= 0) return k < 0 ? errno : EIO;
        if (tr_write_all(to, chunk, (size_t)k)) return errno;
        at += k;
    }
    return fsync(to) ? errno : 0;
}

/* Appends the bytes from cut on to PATH.torn, and only then cuts them off. */
static int save_tail(const char *path, int log, off_t cut, off_t size) {
    char torn[PATH_MAX];
    int fd = -1;
    int len = snprintf(torn, sizeof torn, "%s.torn", path);
    if (len >= (int)sizeof torn) return ENAMETOOLONG;
    int err = open_plain(torn, O_WRONLY | O_APPEND, true, &fd);
    if (err) return err < 0 ? EEXIST : err;
    off_t before = lseek(fd, 0, SEEK_END);
    err = copy_range(log, cut, size, fd);
    if (err && before >= 0) (void)!ftruncate(fd, before);
    tr_close(&fd);
    if (err) return err;
    return ftruncate(log, cut) || fdatasync(log) ? errno : 0;
}

#endif

/* runtime/log.c - terret.log: a file of lines that is only ever appended to.
 *
 * Owns: per log a locked descriptor and, from the first sync() on, one thread with a pipe; per
 * reader a descriptor and a buffer.  Errors: raises on wrong arguments and closed handles; what
 * the system refuses returns nil, message, code.
 *
 * A line is in the file whole or not at all.  append is one writev on an O_APPEND descriptor;
 * if it comes short, ftruncate takes it back.  What a crash leaves (a line without its end,
 * blocks of NUL bytes) is moved to PATH.torn at the next open (log_tail.h).  One process at a time
 * writes: flock, or a lock file where the file system has no flock (log_lock.h).
 *
 * The thread does fdatasync and nothing else, so that a slow disk never stops the reactor.  It
 * belongs to its log, shares only the fields of log_sync under its mutex, knows no Lua, and
 * has all signals blocked.  close and __gc join it, after what was asked for is done. */
#include "log_lock.h"
#include "log_tail.h"
#include "terret.h"

#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>

#define LOG "terret.log.log"
#define READER "terret.log.reader"

#ifndef LOG_MAX_LINE /* the unit test has shorter ones */
#define LOG_MAX_LINE ((size_t)256 << 20)
#endif

typedef struct log_sync {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_t thread;
    bool started;   /* Lua's side only */
    int fd, signal; /* the thread's: a duplicate of the log, the pipe's write end */
    int dir;        /* of a new log, until its first sync; then -1 */
    uint64_t asked, done;
    int err; /* of the last sync that failed; stays */
    bool stop;
} log_sync;

typedef enum sync_mode { SYNC_TURN, SYNC_RECORD, SYNC_NONE } sync_mode;

typedef struct log_log {
    int fd; /* -1: closed */
    log_lock lock;
    off_t size;
    bool dirty; /* a failed line could not be taken back yet */
    sync_mode mode;
    lua_Integer repaired;
    tr_wait wait; /* fd: the pipe's read end */
    log_sync sync;
    char path[];
} log_log;

static int refuse_open(lua_State *L, const char *path, int err) {
    if (err < 0) return tr_fail(L, "not_regular", "log '%.700s': is no regular file", path);
    return tr_fail(L, tr_errcode(err), "log '%.700s': %s", path, strerror(err));
}

/* Cuts off what is torn; sets size and repaired. */
static int repair(log_log *log) {
    struct stat st;
    off_t cut = 0;
    if (fstat(log->fd, &st)) return errno;
    int err = find_tail(log->fd, st.st_size, &cut);
    if (!err && cut < st.st_size) err = save_tail(log->path, log->fd, cut, st.st_size);
    if (err) return err;
    log->repaired = (lua_Integer)(st.st_size - cut);
    log->size = cut;
    return 0;
}

/* A log that is new in its directory is on disk when the directory is. */
static int open_dir_of(const char *path) {
    char dir[PATH_MAX];
    const char *slash = strrchr(path, '/');
    int len = slash ? snprintf(dir, sizeof dir, "%.*s/", (int)(slash - path), path) : 0;
    if (len == 0) strcpy(dir, ".");
    if (len >= (int)sizeof dir) return -1;
    return open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* fdatasync, the first time also of the directory: 0 or an errno value. */
static int sync_file(int fd, int *dir) {
    int err = tr_retry(fdatasync(fd)) ? errno : 0;
    if (*dir >= 0 && fsync(*dir) && errno == EIO && !err) err = EIO;
    tr_close(dir);
    return err;
}

/* ---- the sync thread ---- */

static void *sync_main(void *arg) {
    log_sync *s = arg;
    pthread_mutex_lock(&s->mutex);
    for (;;) {
        while (s->asked == s->done && !s->stop) pthread_cond_wait(&s->cond, &s->mutex);
        if (s->asked == s->done) break;
        uint64_t now = s->asked; /* all that was asked until here is served by one sync */
        pthread_mutex_unlock(&s->mutex);
        int err = sync_file(s->fd, &s->dir);
        pthread_mutex_lock(&s->mutex);
        s->done = now;
        if (err) s->err = err;
        /* A full pipe is fine: it wakes the reactor all the same. */
        (void)!tr_retry(write(s->signal, "", 1));
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

/* Signals are the main thread's: the new thread inherits a full mask. */
static int start_thread(log_sync *s) {
    pthread_attr_t attr;
    sigset_t all, old;
    int err = pthread_attr_init(&attr);
    if (err) return err;
    (void)pthread_attr_setstacksize(&attr, (size_t)256 << 10);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    err = pthread_create(&s->thread, &attr, sync_main, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

static bool start_sync(log_log *log) {
    log_sync *s = &log->sync;
    int pipe_fd[2] = {-1, -1};
    s->fd = fcntl(log->fd, F_DUPFD_CLOEXEC, 0);
    if (s->fd >= 0 && tr_pipe(pipe_fd) == 0) {
        s->signal = pipe_fd[1];
        (void)fcntl(s->signal, F_SETFL, O_NONBLOCK);
        s->started = start_thread(s) == 0;
    }
    if (s->started) {
        log->wait.fd = pipe_fd[0];
        log->wait.events = POLLIN;
        return true;
    }
    tr_close(&pipe_fd[0]);
    tr_close(&s->signal);
    tr_close(&s->fd);
    return false;
}

static void stop_sync(log_log *log) {
    log_sync *s = &log->sync;
    if (s->started) {
        pthread_mutex_lock(&s->mutex);
        s->stop = true;
        pthread_cond_signal(&s->cond);
        pthread_mutex_unlock(&s->mutex);
        pthread_join(s->thread, NULL);
        s->started = false;
    }
    tr_close(&s->fd);
    tr_close(&s->signal);
    tr_close(&s->dir);
    tr_close(&log->wait.fd);
}

static void drain(int fd) {
    char bytes[64];
    while (fd >= 0 && tr_retry(read(fd, bytes, sizeof bytes)) > 0) continue;
}

static bool log_pump(tr_wait *w, short revents, double now) {
    (void)revents;
    (void)now;
    drain(w->fd);
    return true;
}

/* ---- the log ---- */

static log_log *check_log(lua_State *L) {
    log_log *log = luaL_checkudata(L, 1, LOG);
    luaL_argcheck(L, log->fd >= 0, 1, "log is closed");
    return log;
}

static void release(log_log *log) {
    if (log->fd < 0 && !log->wait.next) return;
    tr_wait_del(&log->wait);
    stop_sync(log);
    lock_release(&log->lock, log->path);
    tr_close(&log->fd);
    pthread_mutex_destroy(&log->sync.mutex);
    pthread_cond_destroy(&log->sync.cond);
}

static int log_close(lua_State *L) {
    release(luaL_checkudata(L, 1, LOG));
    return 0;
}

/* A closed log on the stack, registered as a waitable. */
static log_log *new_log(lua_State *L, const char *path, size_t len, sync_mode mode) {
    (void)tr_reactor_get(L); /* so that it outlives us at lua_close */
    log_log *log = lua_newuserdatauv(L, sizeof *log + len + 1, 0);
    memset(log, 0, sizeof *log);
    memcpy(log->path, path, len + 1);
    log->fd = log->lock.fd = log->sync.fd = log->sync.signal = log->sync.dir = log->wait.fd = -1;
    log->mode = mode;
    log->wait.pump = log_pump;
    log->wait.result = -1;
    pthread_mutex_init(&log->sync.mutex, NULL);
    pthread_cond_init(&log->sync.cond, NULL);
    luaL_setmetatable(L, LOG);
    tr_wait_add(L, &log->wait, -1);
    return log;
}

static int refuse_locked(lua_State *L, const char *path, bool by_file) {
    return tr_fail(L, "locked", "log '%.700s' is in use by another terret%s", path,
                   by_file ? " (if it is not, remove its .lock file)" : "");
}

static int log_open(lua_State *L) {
    static const char *const known[] = {"create", "sync", NULL};
    static const char *const modes[] = {"turn", "record", "none"};
    size_t len, mode = 0;
    const char *path = luaL_checklstring(L, 1, &len);
    luaL_argcheck(L, strlen(path) == len, 1, "path holds a NUL byte");
    tr_options(L, 2, known);
    bool create = tr_opt_boolean(L, 2, "create", true);
    const char *sync = tr_opt_string(L, 2, "sync", "turn", NULL);
    while (mode < 3 && strcmp(sync, modes[mode]) != 0) mode++;
    luaL_argcheck(L, mode < 3, 2, "option 'sync' must be 'turn', 'record' or 'none'");
    log_log *log = new_log(L, path, len, (sync_mode)mode);
    int err = open_plain(path, O_RDWR | O_APPEND, create, &log->fd);
    if (!err) {
        int locked = lock_take(&log->lock, log->fd, path);
        if (locked == EWOULDBLOCK) {
            release(log);
            return refuse_locked(L, path, log->lock.by_file);
        }
        err = locked ? locked : repair(log);
        if (!err && log->size == 0 && mode != SYNC_NONE) log->sync.dir = open_dir_of(path);
    }
    if (!err) return 1;
    release(log);
    return refuse_open(L, path, err);
}

/* Cuts the file back to the lines that are whole. */
static int undo(log_log *log) {
    log->dirty = ftruncate(log->fd, log->size) != 0;
    return log->dirty ? errno : 0;
}

/* Writes line and line end.  After a short write the rest is tried once more: either it was a
 * signal and the line gets whole, or errno says why not. */
static int write_line(int fd, const char *line, size_t n) {
    struct iovec v[2] = {{.iov_base = (void *)(uintptr_t)line, .iov_len = n},
                         {.iov_base = (void *)(uintptr_t) "\n", .iov_len = 1}};
    ssize_t k = (ssize_t)tr_retry(writev(fd, v, 2));
    if (k < 0) return errno;
    if ((size_t)k == n + 1) return 0;
    if ((size_t)k < n && tr_write_all(fd, line + k, n - (size_t)k)) return errno;
    return tr_write_all(fd, "\n", 1) ? errno : 0;
}

static int append(log_log *log, const char *line, size_t n) {
    int err = log->dirty ? undo(log) : 0;
    if (err) return err;
    err = write_line(log->fd, line, n);
    if (!err && log->mode == SYNC_RECORD) err = sync_file(log->fd, &log->sync.dir);
    if (!err)
        log->size += (off_t)n + 1;
    else
        (void)undo(log);
    return err;
}

static int log_append(lua_State *L) {
    log_log *log = check_log(L);
    size_t n;
    const char *line = luaL_checklstring(L, 2, &n);
    luaL_argcheck(L, !memchr(line, '\n', n), 2, "line holds a line end");
    luaL_argcheck(L, !memchr(line, '\0', n), 2, "line holds a NUL byte");
    if (n > LOG_MAX_LINE)
        return tr_fail(L, "too_large", "log '%.700s': line of %zu bytes", log->path, n);
    int err = append(log, line, n);
    if (err) return refuse_open(L, log->path, err);
    lua_pushboolean(L, true);
    return 1;
}

/* Where no thread can be had, the sync is done here: late is better than never. */
static int log_sync_ask(lua_State *L) {
    log_log *log = check_log(L);
    log_sync *s = &log->sync;
    if (log->mode != SYNC_TURN) return 0;
    if (!s->started && !start_sync(log)) {
        int err = sync_file(log->fd, &s->dir);
        if (err) s->err = err;
        return 0;
    }
    pthread_mutex_lock(&s->mutex);
    s->asked++;
    pthread_cond_signal(&s->cond);
    pthread_mutex_unlock(&s->mutex);
    return 0;
}

static int log_ready(lua_State *L) {
    log_log *log = luaL_checkudata(L, 1, LOG);
    log_sync *s = &log->sync;
    if (log->fd < 0) { /* close has synced; nobody shall wait for a closed log */
        lua_pushboolean(L, true);
        return 1;
    }
    pthread_mutex_lock(&s->mutex);
    bool ready = s->asked == s->done;
    pthread_mutex_unlock(&s->mutex);
    lua_pushboolean(L, ready);
    return 1;
}

static int log_sync_error(lua_State *L) {
    log_log *log = check_log(L);
    pthread_mutex_lock(&log->sync.mutex);
    int err = log->sync.err;
    pthread_mutex_unlock(&log->sync.mutex);
    if (!err) return 0;
    lua_pushfstring(L, "sync '%s': %s", log->path, strerror(err));
    return 1;
}

static int log_repaired(lua_State *L) {
    lua_pushinteger(L, check_log(L)->repaired);
    return 1;
}

static int log_size(lua_State *L) {
    lua_pushinteger(L, (lua_Integer)check_log(L)->size);
    return 1;
}

static int log_path(lua_State *L) {
    lua_pushstring(L, check_log(L)->path);
    return 1;
}

/* ---- the reader ---- */

typedef struct log_reader {
    int fd;       /* -1: closed */
    tr_buf buf;   /* bytes from file offset `at` on */
    size_t from;  /* the next line begins here in buf */
    size_t clean; /* no line end before this */
    off_t at;
    lua_Integer torn;
} log_reader;

static log_reader *check_reader(lua_State *L) {
    log_reader *r = luaL_checkudata(L, 1, READER);
    luaL_argcheck(L, r->fd >= 0, 1, "reader is closed");
    return r;
}

static int reader_close(lua_State *L) {
    log_reader *r = luaL_checkudata(L, 1, READER);
    tr_close(&r->fd);
    tr_buf_free(&r->buf);
    return 0;
}

static int log_read(lua_State *L) {
    size_t len;
    const char *path = luaL_checklstring(L, 1, &len);
    luaL_argcheck(L, strlen(path) == len, 1, "path holds a NUL byte");
    log_reader *r = lua_newuserdatauv(L, sizeof *r, 0);
    memset(r, 0, sizeof *r);
    r->fd = -1;
    luaL_setmetatable(L, READER);
    int err = open_plain(path, O_RDONLY, false, &r->fd);
    return err ? refuse_open(L, path, err) : 1;
}

/* Drops the lines already given and reads on: bytes read, 0 at the end, -1 with errno. */
static ssize_t fill(log_reader *r) {
    tr_buf *b = &r->buf;
    if (r->from > 0) {
        memmove(b->p, b->p + r->from, b->n - r->from);
        b->n -= r->from;
        r->clean -= r->from;
        r->at += (off_t)r->from;
        r->from = 0;
    }
    if (!tr_buf_reserve(b, LOG_CHUNK)) {
        errno = ENOMEM;
        return -1;
    }
    ssize_t k = (ssize_t)tr_retry(pread(r->fd, b->p + b->n, b->cap - b->n, r->at + (off_t)b->n));
    if (k > 0) b->n += (size_t)k;
    return k;
}

/* The length of the line at r->from; -1 none whole (yet), -2 an error in errno. */
static ssize_t find_line(log_reader *r) {
    for (;;) {
        tr_buf *b = &r->buf;
        const char *end = b->n > r->clean ? memchr(b->p + r->clean, '\n', b->n - r->clean) : NULL;
        size_t n = end ? (size_t)(end - b->p) - r->from : b->n - r->from;
        if (n > LOG_MAX_LINE) {
            errno = EFBIG;
            return -2;
        }
        if (end) return (ssize_t)n;
        r->clean = b->n;
        ssize_t k = fill(r);
        if (k <= 0) return k < 0 ? -2 : -1;
    }
}

/* nil alone at the end (later there may be more); nil, message, code on failure. */
static int reader_next(lua_State *L) {
    log_reader *r = check_reader(L);
    ssize_t n = find_line(r);
    if (n == -2) return tr_errno(L, errno, "read log");
    r->torn = n < 0 ? (lua_Integer)(r->buf.n - r->from) : 0;
    if (n < 0) {
        /* The tail is read afresh next time: its writer may take it back and write another. */
        r->buf.n = r->clean = r->from;
        return 0;
    }
    lua_pushlstring(L, r->buf.p + r->from, (size_t)n);
    lua_pushinteger(L, (lua_Integer)(r->at + (off_t)r->from));
    r->from += (size_t)n + 1;
    r->clean = r->from;
    return 2;
}

static int reader_torn(lua_State *L) {
    lua_pushinteger(L, check_reader(L)->torn);
    return 1;
}

/* ---- the module ---- */

static const luaL_Reg log_funcs[] = {{"open", log_open}, {"read", log_read}, {NULL, NULL}};

static const luaL_Reg log_methods[] = {{"append", log_append},
                                       {"sync", log_sync_ask},
                                       {"ready", log_ready},
                                       {"sync_error", log_sync_error},
                                       {"repaired", log_repaired},
                                       {"size", log_size},
                                       {"path", log_path},
                                       {"close", log_close},
                                       {NULL, NULL}};

static const luaL_Reg log_meta[] = {{"__gc", log_close}, {"__close", log_close}, {NULL, NULL}};

static const luaL_Reg reader_methods[] = {
    {"next", reader_next}, {"torn", reader_torn}, {"close", reader_close}, {NULL, NULL}};

static const luaL_Reg reader_meta[] = {
    {"__gc", reader_close}, {"__close", reader_close}, {NULL, NULL}};

TR_EXPORT int luaopen_terret_log(lua_State *L) {
    tr_class(L, LOG, log_meta, log_methods);
    tr_class(L, READER, reader_meta, reader_methods);
    luaL_newlib(L, log_funcs);
    return 1;
}

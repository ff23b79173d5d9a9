/* runtime/exec_output.h - the part of exec.c that keeps a command's output; included only there.
 *
 * Two bounded buffers, the start and a ring for the end, so that any amount of output costs the
 * same memory; all of it goes to a file (the blob) once it exceeds both.  Nothing in here fails:
 * without memory the buffers stay as they are, an error of the file is kept for output(), and
 * the command goes on, its output counted. */
#ifndef TERRET_EXEC_OUTPUT_H
#define TERRET_EXEC_OUTPUT_H

#include "terret.h"

#include <fcntl.h>
#include <unistd.h>

typedef struct exec_output {
    tr_buf head, tail;                  /* tail is a ring once it holds tail_max bytes */
    size_t head_max, tail_max, tail_at; /* tail_at: where the ring's oldest byte is */
    uint64_t total;
    const char *blob; /* path; the owner keeps it alive; NULL: no file */
    int blob_fd, blob_err;
    bool blob_made, blob_full;
    uint64_t blob_bytes, blob_max;
    bool stream;
    tr_buf unread; /* what read() has not taken yet, if stream */
} exec_output;

static void blob_write(exec_output *o, const char *p, size_t n) {
    if (n > o->blob_max - o->blob_bytes) {
        n = (size_t)(o->blob_max - o->blob_bytes);
        o->blob_full = true;
    }
    while (n > 0 && !o->blob_err) {
        ssize_t k = (ssize_t)tr_retry(write(o->blob_fd, p, n));
        if (k < 0) {
            o->blob_err = errno;
        } else {
            o->blob_bytes += (uint64_t)k;
            p += k;
            n -= (size_t)k;
        }
    }
    if (o->blob_err || o->blob_full) tr_close(&o->blob_fd);
}

/* Called while head and tail still hold everything: before the ring is overwritten. */
static void blob_start(exec_output *o) {
    int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    o->blob_fd = (int)tr_retry(open(o->blob, flags, 0600));
    if (o->blob_fd < 0) {
        o->blob_err = errno;
        return;
    }
    o->blob_made = true;
    blob_write(o, o->head.p, o->head.n);
    if (o->blob_fd >= 0) blob_write(o, o->tail.p, o->tail.n);
}

/* Makes room for up to n bytes below max and returns how many fit.  Without memory, what there
 * is becomes the limit. */
static size_t grow(tr_buf *b, size_t *max, size_t n) {
    size_t room = *max - b->n;
    if (n > room) n = room;
    if (n == 0 || tr_buf_reserve(b, n)) return n;
    *max = b->n;
    return 0;
}

/* room: what grow() said. */
static void tail_put(exec_output *o, const char *p, size_t n, size_t room) {
    if (n > o->tail_max) {
        p += n - o->tail_max;
        n = o->tail_max;
    }
    tr_buf_put(&o->tail, p, room);
    for (p += room, n -= room; n > 0;) {
        size_t part = o->tail_max - o->tail_at;
        if (part > n) part = n;
        memcpy(o->tail.p + o->tail_at, p, part);
        o->tail_at = (o->tail_at + part) % o->tail_max;
        p += part;
        n -= part;
    }
}

static void output_put(exec_output *o, const char *p, size_t n) {
    if (o->stream) tr_buf_put(&o->unread, p, n);
    size_t first = grow(&o->head, &o->head_max, n);
    size_t room = grow(&o->tail, &o->tail_max, n - first);
    if (n > first + room && o->blob && !o->blob_made && !o->blob_err) blob_start(o);
    if (o->blob_fd >= 0) blob_write(o, p, n);
    o->total += n;
    tr_buf_put(&o->head, p, first);
    if (n > first) tail_put(o, p + first, n - first, room);
}

static void output_free(exec_output *o) {
    tr_close(&o->blob_fd);
    tr_buf_free(&o->head);
    tr_buf_free(&o->tail);
    tr_buf_free(&o->unread);
}

/* ---- for Lua ---- */

static void push_tail(lua_State *L, const exec_output *o) {
    luaL_Buffer b;
    luaL_buffinitsize(L, &b, o->tail.n);
    if (o->tail.n) {
        luaL_addlstring(&b, o->tail.p + o->tail_at, o->tail.n - o->tail_at);
        luaL_addlstring(&b, o->tail.p, o->tail_at);
    }
    luaL_pushresult(&b);
}

static void set_blob_fields(lua_State *L, const exec_output *o) {
    lua_pushinteger(L, (lua_Integer)o->blob_bytes);
    lua_setfield(L, -2, "blob_bytes");
    if (o->blob_made) {
        lua_pushstring(L, o->blob);
        lua_setfield(L, -2, "blob");
    }
    if (o->blob_err) {
        lua_pushstring(L, strerror(o->blob_err));
        lua_setfield(L, -2, "blob_error");
    } else if (o->blob_full) {
        lua_pushfstring(L, "cut at the limit of %I bytes", (lua_Integer)o->blob_max);
        lua_setfield(L, -2, "blob_error");
    }
}

#endif

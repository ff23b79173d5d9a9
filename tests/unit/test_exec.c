/* tests/unit/test_exec.c - the output buffers of runtime/exec.c against a simple model: each
 * size of head and tail, each length, each way to cut the output into equal pieces. */
#include "../../runtime/exec_output.h"

#include <stdio.h>

#define LENGTH 14

static const char text[] = "abcdefghijklmn";
static int failures, tests;

static void ok(bool good, const char *name) {
    printf("%sok %d - %s\n", good ? "" : "not ", ++tests, name);
    failures += !good;
}

static size_t min(size_t a, size_t b) {
    return a < b ? a : b;
}

static size_t read_file(const char *path, char *to, size_t max) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, to, max);
    close(fd);
    return n < 0 ? 0 : (size_t)n;
}

static bool tail_is(const exec_output *o, const char *want, size_t n) {
    if (o->tail.n != n) return false;
    for (size_t i = 0; i < n; i++)
        if (o->tail.p[(o->tail_at + i) % n] != want[i]) return false;
    return true;
}

/* One run: n bytes in pieces, then all that can be seen is compared. */
static bool run(size_t head, size_t tail, size_t n, size_t piece, const char *blob) {
    exec_output o = {.head_max = head,
                     .tail_max = tail,
                     .blob = blob,
                     .blob_fd = -1,
                     .blob_max = 1000,
                     .stream = true};
    for (size_t at = 0; at < n; at += piece) output_put(&o, text + at, min(piece, n - at));
    size_t first = min(head, n), last = min(tail, n - first);
    bool good = o.total == n && o.head.n == first && o.unread.n == n;
    good = good && (first == 0 || memcmp(o.head.p, text, first) == 0);
    good = good && (n == 0 || memcmp(o.unread.p, text, n) == 0);
    good = good && tail_is(&o, text + n - last, last);
    good = good && o.blob_made == (n > head + tail) && o.blob_err == 0;
    if (o.blob_made) {
        char whole[LENGTH + 1];
        good = good && o.blob_bytes == n && read_file(blob, whole, sizeof whole) == n &&
               memcmp(whole, text, n) == 0;
        unlink(blob);
    }
    output_free(&o);
    if (!good) printf("# head %zu tail %zu length %zu piece %zu\n", head, tail, n, piece);
    return good;
}

static void every_size(const char *blob) {
    bool good = true;
    for (size_t head = 0; head <= 5; head++)
        for (size_t tail = 0; tail <= 5; tail++)
            for (size_t n = 0; n <= LENGTH; n++)
                for (size_t piece = 1; piece <= LENGTH; piece++)
                    good = run(head, tail, n, piece, blob) && good;
    ok(good, "head, tail and blob at every size and cut");
}

/* tr_buf's own limit stands in for an exhausted memory. */
static void without_memory(const char *blob) {
    exec_output o = {.head_max = 8, .tail_max = 8, .blob = blob, .blob_fd = -1, .blob_max = 1000};
    o.head.max = 3;
    o.tail.max = 2;
    for (size_t i = 0; i < LENGTH; i++) output_put(&o, text + i, 1);
    ok(o.total == LENGTH && o.head.n == 3 && tail_is(&o, text + LENGTH - 2, 2),
       "what could be kept is kept, the rest is counted");
    char whole[LENGTH + 1];
    ok(read_file(blob, whole, sizeof whole) == LENGTH && memcmp(whole, text, LENGTH) == 0,
       "and the blob has all of it");
    unlink(blob);
    output_free(&o);
}

static void disk_full(void) {
    exec_output o = {.head_max = 1, .tail_max = 1, .blob = "/dev/full", .blob_fd = -1};
    o.blob_max = 1000;
    o.blob_fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (o.blob_fd < 0) {
        ok(true, "disk full # SKIP no /dev/full");
        return;
    }
    o.blob_made = true;
    output_put(&o, text, 5);
    output_put(&o, text + 5, 5);
    ok(o.blob_err == ENOSPC && o.blob_fd == -1 && o.total == 10 && o.blob_bytes == 0,
       "a full disk is remembered, the output goes on");
    output_free(&o);
}

int main(void) {
    char dir[] = "/tmp/terret-test-XXXXXX", blob[64];
    printf("1..4\n");
    if (!mkdtemp(dir)) return 1;
    snprintf(blob, sizeof blob, "%s/blob", dir);
    every_size(blob);
    without_memory(blob);
    disk_full();
    rmdir(dir);
    return failures != 0;
}

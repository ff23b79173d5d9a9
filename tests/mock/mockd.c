/* tests/mock/mockd.c - a scripted HTTP/1.1 server for the tests.
 *
 *     mockd SCRIPT
 *
 * Listens on a free port of 127.0.0.1, prints "port N", serves, and exits when its stdin
 * closes: no test can leave one behind.  One process, one poll loop, no dependencies.
 *
 * The script is a list of lines.  First, for the whole server:
 *     log PATH         append each request there: a line "==== N LENGTH", the bytes, a newline;
 *                      "==== N closed" when the client left before the end of its answer
 *     models ID...     answer GET .../models with this list
 * then blocks, one for each request in the order of arrival:
 *     answer           starts a block
 *     match TEXT       only for a request that contains TEXT (such blocks are tried first)
 *     repeat           may be used again and again
 *     status N, header NAME: VALUE, chunked, length N, nolength, close
 *     text T, sse T, body-file PATH    pieces of the body (each is a chunk, if chunked)
 *     raw T            bytes as they are; a block with raw has no generated head
 *     delay MS, stall, cut, reset      between the pieces, in the order given
 * T may contain \n \r \t \\ and \xHH.  A broken script ends the server with a message. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_CONNS 256

typedef struct bytes {
    char *p;
    size_t n, cap;
} bytes;

typedef enum op_kind { OP_SEND, OP_DELAY, OP_STALL, OP_CUT, OP_RESET } op_kind;
typedef struct op {
    op_kind kind;
    long ms;
    bytes data;
} op;

typedef struct answer {
    bytes match, headers;
    int status;
    long length; /* -1: the true one; -2: none */
    bool repeat, used, chunked, close, raw, sse, typed;
    op *ops;
    size_t nops;
} answer;

typedef struct conn {
    int fd;          /* -1: free slot */
    unsigned number; /* of the request being answered; 0: none */
    bytes in;
    const answer *answer;
    size_t op, sent;
    long due; /* end of a delay, ms; 0: none */
} conn;

static answer *answers;
static size_t nanswers;
static bytes models;
static FILE *log_file;
static conn conns[MAX_CONNS];
static unsigned requests;

/* ---- helpers ---------------------------------------------------------------------------- */

static void die(const char *what, const char *detail) {
    fprintf(stderr, "mockd: %s: %s\n", what, detail);
    exit(2);
}

static void put(bytes *b, const void *data, size_t n) {
    if (b->n + n + 1 > b->cap) {
        b->cap = (b->n + n + 1) * 2;
        b->p = realloc(b->p, b->cap);
        if (!b->p) die("memory", "none left");
    }
    if (n) memcpy(b->p + b->n, data, n);
    b->n += n;
    b->p[b->n] = '\0';
}

static void puts_to(bytes *b, const char *s) {
    put(b, s, strlen(s));
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bytes unescape(const char *s) {
    bytes out = {0};
    for (; *s; s++) {
        char c = *s;
        if (c == '\\' && s[1]) {
            c = *++s;
            if (c == 'x' && s[1] && s[2]) {
                char hex[3] = {s[1], s[2], 0};
                c = (char)strtol(hex, NULL, 16);
                s += 2;
            } else {
                c = c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
            }
        }
        put(&out, &c, 1);
    }
    return out;
}

/* ---- script ----------------------------------------------------------------------------- */

static op *add_op(answer *a, op_kind kind) {
    a->ops = realloc(a->ops, (a->nops + 1) * sizeof *a->ops);
    if (!a->ops) die("memory", "none left");
    op *o = &a->ops[a->nops++];
    *o = (op){.kind = kind};
    return o;
}

static void add_body_file(answer *a, const char *path) {
    char buffer[65536];
    size_t n;
    FILE *f = fopen(path, "rb");
    if (!f) die(path, strerror(errno));
    op *o = add_op(a, OP_SEND);
    while ((n = fread(buffer, 1, sizeof buffer, f)) > 0) put(&o->data, buffer, n);
    fclose(f);
}

static void add_sse(answer *a, const char *arg) {
    bytes text = unescape(arg);
    op *o = add_op(a, OP_SEND);
    puts_to(&o->data, "data: ");
    put(&o->data, text.p, text.n);
    puts_to(&o->data, "\n\n");
    free(text.p);
    a->sse = true;
}

static void add_header(answer *a, const char *arg) {
    puts_to(&a->headers, arg);
    puts_to(&a->headers, "\r\n");
    if (strncasecmp(arg, "content-type:", 13) == 0) a->typed = true;
}

static void add_models(const char *arg) {
    char *copy = strdup(arg), *rest = copy, *id;
    puts_to(&models, "{\"object\":\"list\",\"data\":[");
    for (bool first = true; (id = strsep(&rest, " ")); first = false) {
        puts_to(&models,
                first ? "{\"object\":\"model\",\"id\":\"" : ",{\"object\":\"model\",\"id\":\"");
        puts_to(&models, id);
        puts_to(&models, "\"}");
    }
    puts_to(&models, "]}");
    free(copy);
}

static bool answer_line(answer *a, const char *word, const char *arg) {
    if (strcmp(word, "match") == 0)
        a->match = unescape(arg);
    else if (strcmp(word, "repeat") == 0)
        a->repeat = true;
    else if (strcmp(word, "status") == 0)
        a->status = atoi(arg);
    else if (strcmp(word, "header") == 0)
        add_header(a, arg);
    else if (strcmp(word, "chunked") == 0)
        a->chunked = true;
    else if (strcmp(word, "length") == 0)
        a->length = atol(arg);
    else if (strcmp(word, "nolength") == 0)
        a->length = -2;
    else if (strcmp(word, "close") == 0)
        a->close = true;
    else if (strcmp(word, "text") == 0)
        add_op(a, OP_SEND)->data = unescape(arg);
    else if (strcmp(word, "sse") == 0)
        add_sse(a, arg);
    else if (strcmp(word, "body-file") == 0)
        add_body_file(a, arg);
    else if (strcmp(word, "raw") == 0)
        a->raw = true, add_op(a, OP_SEND)->data = unescape(arg);
    else if (strcmp(word, "delay") == 0)
        add_op(a, OP_DELAY)->ms = atol(arg);
    else if (strcmp(word, "stall") == 0)
        add_op(a, OP_STALL);
    else if (strcmp(word, "cut") == 0)
        add_op(a, OP_CUT);
    else if (strcmp(word, "reset") == 0)
        add_op(a, OP_RESET);
    else
        return false;
    return true;
}

/* Puts the head before the first piece and the chunk frames around the pieces. */
static void finish_answer(answer *a) {
    bytes head = {0};
    char line[64];
    size_t total = 0;
    if (a->raw) return;
    for (size_t i = 0; i < a->nops; i++) total += a->ops[i].data.n;
    snprintf(line, sizeof line, "HTTP/1.1 %d Status\r\n", a->status);
    puts_to(&head, line);
    put(&head, a->headers.p, a->headers.n);
    if (a->sse && !a->typed) puts_to(&head, "Content-Type: text/event-stream\r\n");
    if (a->close) puts_to(&head, "Connection: close\r\n");
    snprintf(line, sizeof line, "Content-Length: %ld\r\n",
             a->length >= 0 ? a->length : (long)total);
    if (a->chunked)
        puts_to(&head, "Transfer-Encoding: chunked\r\n");
    else if (a->length != -2)
        puts_to(&head, line);
    puts_to(&head, "\r\n");
    for (size_t i = 0; a->chunked && i < a->nops; i++) {
        bytes *data = &a->ops[i].data, framed = {0};
        if (data->n == 0) continue;
        snprintf(line, sizeof line, "%zx\r\n", data->n);
        puts_to(&framed, line);
        put(&framed, data->p, data->n);
        puts_to(&framed, "\r\n");
        free(data->p);
        *data = framed;
    }
    if (a->chunked) puts_to(&add_op(a, OP_SEND)->data, "0\r\n\r\n");
    add_op(a, OP_SEND);
    memmove(a->ops + 1, a->ops, (a->nops - 1) * sizeof *a->ops);
    a->ops[0] = (op){.kind = OP_SEND, .data = head};
}

static void read_script(const char *path) {
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    answer *a = NULL;
    FILE *f = fopen(path, "re");
    if (!f) die(path, strerror(errno));
    while ((n = getline(&line, &cap, f)) > 0) {
        if (line[n - 1] == '\n') line[n - 1] = '\0';
        char *arg = strchr(line, ' ');
        arg = arg ? (*arg = '\0', arg + 1) : line + strlen(line);
        if (line[0] == '\0' || line[0] == '#') continue;
        if (strcmp(line, "answer") == 0) {
            answers = realloc(answers, (nanswers + 1) * sizeof *answers);
            if (!answers) die("memory", "none left");
            a = &answers[nanswers++];
            *a = (answer){.status = 200, .length = -1};
        } else if (strcmp(line, "log") == 0) {
            if (!(log_file = fopen(arg, "ae"))) die(arg, strerror(errno));
        } else if (strcmp(line, "models") == 0) {
            add_models(arg);
        } else if (!a || !answer_line(a, line, arg)) {
            die("unknown line", line);
        }
    }
    free(line);
    fclose(f);
    for (size_t i = 0; i < nanswers; i++) finish_answer(&answers[i]);
}

/* ---- answering -------------------------------------------------------------------------- */

static answer *plain_answer(int status, const char *text, size_t n) {
    answer *a = calloc(1, sizeof *a);
    if (!a) die("memory", "none left");
    a->status = status;
    a->length = -1;
    put(&add_op(a, OP_SEND)->data, text, n);
    finish_answer(a);
    return a;
}

static bool fits(const answer *a, const char *request, size_t n, bool with_match) {
    if (a->used && !a->repeat) return false;
    if (!with_match) return !a->match.p;
    return a->match.p && memmem(request, n, a->match.p, a->match.n);
}

static const answer *choose(const char *request, size_t n) {
    const char *space = memmem(request, n, " HTTP/1", 7);
    bool asks_models = models.p && n > 4 && memcmp(request, "GET ", 4) == 0 && space &&
                       space - request > 7 && memcmp(space - 7, "/models", 7) == 0;
    for (int with_match = 1; with_match >= 0; with_match--) {
        for (size_t i = 0; i < nanswers; i++)
            if (fits(&answers[i], request, n, with_match)) {
                answers[i].used = true;
                return &answers[i];
            }
        if (asks_models) return plain_answer(200, models.p, models.n);
    }
    return plain_answer(500, "mockd: no answer left", 21);
}

/* The length of the first whole request in the buffer; 0: not all here yet. */
static size_t whole_request(const bytes *in) {
    const char *end = in->n ? memmem(in->p, in->n, "\r\n\r\n", 4) : NULL;
    if (!end) return 0;
    size_t head = (size_t)(end - in->p) + 4;
    size_t body = 0;
    for (const char *p = in->p; p < end; p = strstr(p, "\r\n") + 2)
        if (strncasecmp(p, "content-length:", 15) == 0) body = strtoul(p + 15, NULL, 10);
    return in->n >= head + body ? head + body : 0;
}

static void start_answer(conn *c) {
    size_t n = whole_request(&c->in);
    if (n == 0) return;
    c->number = ++requests;
    if (log_file) {
        fprintf(log_file, "==== %u %zu\n", c->number, n);
        fwrite(c->in.p, 1, n, log_file);
        fputc('\n', log_file);
        fflush(log_file);
    }
    c->answer = choose(c->in.p, n);
    c->op = c->sent = 0;
    c->in.n -= n;
    memmove(c->in.p, c->in.p + n, c->in.n + 1);
}

static void drop(conn *c, bool reset) {
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    if (reset) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close(c->fd);
    free(c->in.p);
    *c = (conn){.fd = -1};
}

/* Does what can be done now.  The connection may be gone afterwards. */
static void advance(conn *c) {
    while (c->fd >= 0) {
        if (!c->answer) start_answer(c);
        if (!c->answer) return;
        if (c->op == c->answer->nops) {
            bool last = c->answer->close || c->answer->length == -2;
            c->answer = NULL;
            if (last) drop(c, false);
            continue;
        }
        const op *o = &c->answer->ops[c->op];
        if (o->kind == OP_STALL) return;
        if (o->kind == OP_CUT || o->kind == OP_RESET) {
            drop(c, o->kind == OP_RESET);
            return;
        }
        if (o->kind == OP_DELAY) {
            if (!c->due) c->due = now_ms() + o->ms;
            if (now_ms() < c->due) return;
            c->due = 0;
        } else if (c->sent < o->data.n) {
            ssize_t k = send(c->fd, o->data.p + c->sent, o->data.n - c->sent, MSG_NOSIGNAL);
            if (k < 0 && errno == EAGAIN) return;
            if (k < 0)
                drop(c, false);
            else
                c->sent += (size_t)k;
            continue;
        }
        c->op++;
        c->sent = 0;
    }
}

static void receive(conn *c) {
    char buffer[65536];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0 && errno == EAGAIN) return;
    if (n > 0) {
        put(&c->in, buffer, (size_t)n);
        return;
    }
    if (c->answer && log_file) {
        fprintf(log_file, "==== %u closed\n", c->number);
        fflush(log_file);
    }
    drop(c, false);
}

static void take_connection(int listener) {
    int one = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (size_t i = 0; i < MAX_CONNS; i++)
        if (conns[i].fd < 0) {
            conns[i] = (conn){.fd = fd};
            return;
        }
    close(fd);
}

static bool wants_to_send(const conn *c) {
    return c->answer && !c->due && c->op < c->answer->nops && c->answer->ops[c->op].kind == OP_SEND;
}

static void serve(int listener) {
    static struct pollfd fds[MAX_CONNS + 2];
    for (;;) {
        long wait = -1, now = now_ms();
        fds[0] = (struct pollfd){.fd = 0, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = listener, .events = POLLIN};
        for (size_t i = 0; i < MAX_CONNS; i++) {
            const conn *c = &conns[i];
            fds[i + 2] = (struct pollfd){.fd = c->fd, .events = POLLIN};
            if (c->fd < 0) continue;
            if (wants_to_send(c)) fds[i + 2].events |= POLLOUT;
            long left = c->due > now ? c->due - now : 0;
            if (c->due && (wait < 0 || left < wait)) wait = left;
        }
        poll(fds, MAX_CONNS + 2, (int)wait);
        char byte[64];
        if (fds[0].revents && read(0, byte, sizeof byte) <= 0) return;
        if (fds[1].revents) take_connection(listener);
        for (size_t i = 0; i < MAX_CONNS; i++) {
            conn *c = &conns[i];
            if (c->fd < 0) continue;
            if (fds[i + 2].fd == c->fd && (fds[i + 2].revents & ~POLLOUT)) receive(c);
            if (c->fd >= 0) advance(c);
        }
    }
}

int main(int argc, char **argv) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    if (argc != 2) die("usage", "mockd SCRIPT");
    read_script(argv[1]);
    for (size_t i = 0; i < MAX_CONNS; i++) conns[i].fd = -1;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 128) ||
        getsockname(listener, (struct sockaddr *)&at, &size))
        die("listen", strerror(errno));
    printf("port %d\n", ntohs(at.sin_port));
    fflush(stdout);
    serve(listener);
    _exit(0); /* memory is not given back one by one */
}

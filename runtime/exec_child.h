/* runtime/exec_child.h - the part of exec.c that turns a plan into a running child; included
 * only there.
 *
 * vfork, then raw system calls only, since the child runs in our memory.  posix_spawn can
 * neither tie the child's life to ours (PR_SET_PDEATHSIG) nor set limits nor leave the session
 * keyring.  Whatever needs memory or a decision (argv, environment, limits) is in the plan
 * before.  All signals are blocked around vfork, and the child resets the handlers before it
 * lifts the block: else a handler of ours could run there, on our memory.  Systems other than
 * Linux get fork, and a pipe that brings back why execve failed.  What confines a command is in
 * exec_contain.h. */
#ifndef TERRET_EXEC_CHILD_H
#define TERRET_EXEC_CHILD_H

#include "terret.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* -DEXEC_PORTABLE builds on Linux what other systems get, so that it can be tested there. */
#if defined(__linux__) && !defined(EXEC_PORTABLE)
#define EXEC_LINUX 1
#include <linux/keyctl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#else
#define EXEC_LINUX 0
#endif

#define FD_LIMIT 64        /* the child's descriptors are below, ours move above */
#define EXEC_MAIN_PID 2    /* the command's number in a PID namespace of its own */
#define EXEC_INIT_REPORT 0 /* where process 1 writes the command's status */

#ifdef __GLIBC__
typedef __rlimit_resource_t exec_resource;
#else
typedef int exec_resource;
#endif

typedef struct exec_refusal {
    const char *step, *subject; /* "cwd", "/nope"; step is NULL when all went well */
    int err;
} exec_refusal;

/* The namespaces of a process, in the order in which a command joins them. */
enum { NS_OWNER, NS_MNT, NS_NET, NS_IPC, NS_UTS, NS_CGROUP, NS_USER, NS_COUNT };
static const char *const exec_ns_names[NS_COUNT] = {"owner", "mnt",    "net", "ipc",
                                                    "uts",   "cgroup", "user"};

typedef struct exec_ns {
    int fd[NS_COUNT]; /* -1: the same as ours */
    int init;         /* the program of process 1 */
} exec_ns;

typedef struct exec_mount {
    enum exec_mount_kind {
        MOUNT_BIND,
        MOUNT_RO_BIND,
        MOUNT_TMPFS,
        MOUNT_READONLY,
        MOUNT_LINK
    } kind;
    bool optional;
    const char *from, *path; /* from of MOUNT_TMPFS: its options */
} exec_mount;

typedef struct exec_plan {
    char path[PATH_MAX]; /* where execve looks for the program */
    char **argv, **env;
    const char *cwd;   /* NULL: as we */
    const char *input; /* stdin's bytes; NULL: /dev/null */
    size_t input_len;
    int fd[FD_LIMIT]; /* child's number -> ours; -1: closed */
    struct {
        exec_resource resource;
        struct rlimit value;
    } limits[8];
    size_t nlimits;
    char **cgroups;      /* files that move whoever writes to them; NULL: none */
    const exec_ns *join; /* NULL: ours, and no process 1 */
    exec_mount *mounts;
    size_t nmounts;
    bool drop;          /* all capabilities, and new privileges; join drops them too */
    int landlock;       /* a ruleset; -1: none */
    const void *filter; /* of seccomp: filter_len instructions; NULL: none */
    unsigned short filter_len;
    int status, status_end; /* pipe for the command's status: write end, read end */
    char *stacks;           /* of the processes that the joiner starts */
    pid_t inside;           /* process 1 */
    const char *search;     /* PATH */
    pid_t parent;
    int report; /* write end of the pipe for the refusal; -1: the memory is shared */
    exec_refusal refusal;
} exec_plan;

static bool refuse(exec_plan *p, const char *step, const char *subject) {
    p->refusal = (exec_refusal){step, subject, errno};
    return false;
}

/* ---- in the child: async-signal-safe calls only ------------------------------------------- */

static void child_signals(void) {
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = SIG_DFL;
    for (int i = 1; i < NSIG; i++) sigaction(i, &sa, NULL);
#if EXEC_LINUX
    /* Two signals that the C library keeps for itself and hides from sigaction: a parent may have
     * passed them on ignored (GNU make does).  All zeros is SIG_DFL in the kernel's own struct. */
    static const char zeros[64];
    for (int i = 32; i <= 33; i++) syscall(SYS_rt_sigaction, i, zeros, NULL, 8);
#endif
}

/* After this only what is below `first`, or is moved there later, survives execve. */
static void child_cloexec(int first) {
#if EXEC_LINUX
    unsigned flag = 1U << 2; /* CLOSE_RANGE_CLOEXEC */
    if (syscall(SYS_close_range, (unsigned)first, ~0U, flag) == 0) return;
#endif
    /* All of terret's own are close-on-exec anyway; the bound is for limits like 2^30. */
    struct rlimit rl;
    int end = 65536;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < (rlim_t)end) end = (int)rl.rlim_cur;
    for (int fd = first; fd < end; fd++) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* All sources move up first, since a target may have the number of another's source.  In a copy:
 * the plan is the parent's memory, and the numbers there are the parent's. */
static bool child_fds(exec_plan *p) {
    int fd[FD_LIMIT];
    for (int i = 0; i < FD_LIMIT; i++) {
        fd[i] = p->fd[i] < 0 ? -1 : fcntl(p->fd[i], F_DUPFD_CLOEXEC, FD_LIMIT);
        if (fd[i] < 0 && p->fd[i] >= 0) return refuse(p, "fds", NULL);
    }
    if (p->report >= 0 && (p->report = fcntl(p->report, F_DUPFD_CLOEXEC, FD_LIMIT)) < 0)
        return refuse(p, "fds", NULL);
    child_cloexec(3);
    for (int i = 0; i < FD_LIMIT; i++)
        if (fd[i] >= 0 && dup2(fd[i], i) < 0) return refuse(p, "fds", NULL);
    return true;
}

/* It dies with us.  Its own children get no such signal: should they, process 1 of a PID
 * namespace sees to it. */
static void child_bonds(exec_plan *p) {
#if EXEC_LINUX
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != p->parent) _exit(127); /* we were killed before that call */
#else
    (void)p;
#endif
}

/* Before the namespaces are entered, where these files can't be seen. */
static bool child_cgroups(exec_plan *p) {
    for (char **path = p->cgroups; path && *path; path++) {
        int fd = open(*path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1) return refuse(p, "cgroup", *path);
        close(fd);
    }
    return true;
}

/* A session of its own, for the terminal and for keys.  Where there are no keys, or a filter
 * around us forbids them, nobody inside has them either. */
static bool child_session(exec_plan *p) {
    setsid();
#if EXEC_LINUX
    if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS &&
        errno != EPERM && errno != EACCES)
        return refuse(p, "keyring", NULL);
#else
    (void)p;
#endif
    return true;
}

/* Tries the directories of PATH; returns only if none has the program, with errno.  Relative
 * entries are passed by: they would let the directory that is worked on choose the program. */
static void child_search(exec_plan *p, const char *name) {
    size_t len = strlen(name);
    const char *dir = p->search;
    int err = ENOENT;
    for (size_t n; len && *dir; dir += n + (dir[n] == ':')) {
        n = strcspn(dir, ":");
        if (*dir != '/' || n + 1 + len >= sizeof p->path) continue;
        memcpy(p->path, dir, n);
        p->path[n] = '/';
        memcpy(p->path + n + 1, name, len + 1);
        execve(p->path, p->argv, p->env);
        if (errno == EACCES)
            err = EACCES;
        else if (errno != ENOENT && errno != ENOTDIR)
            return;
    }
    errno = err;
}

#if EXEC_LINUX
static _Noreturn void child_run(exec_plan *p);
#include "exec_contain.h"
#else
static bool child_confine(exec_plan *p) {
    (void)p;
    return true;
}
static bool child_filter(exec_plan *p) {
    (void)p;
    return true;
}
#endif

/* cwd comes after the rights are gone: they could lead into a directory that is hidden. */
static bool child_prepare(exec_plan *p) {
    child_signals();
    if (!child_session(p) || !child_confine(p)) return false;
    if (p->cwd && chdir(p->cwd)) return refuse(p, "cwd", p->cwd);
    if (!child_fds(p)) return false;
    for (size_t i = 0; i < p->nlimits; i++)
        if (setrlimit(p->limits[i].resource, &p->limits[i].value))
            return refuse(p, "rlimits", NULL);
    return child_filter(p);
}

static _Noreturn void child_run(exec_plan *p) {
    if (child_prepare(p)) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (strchr(p->argv[0], '/'))
            execve(p->argv[0], p->argv, p->env);
        else
            child_search(p, p->argv[0]);
        refuse(p, "exec", p->argv[0]);
    }
    if (p->report >= 0 && write(p->report, &p->refusal, sizeof p->refusal) < 0) _exit(126);
    _exit(127);
}

static _Noreturn void child_main(exec_plan *p) {
    child_bonds(p);
    if (!child_cgroups(p)) _exit(127);
#if EXEC_LINUX
    if (p->join) child_contain(p);
#endif
    child_run(p);
}

/* ---- in the parent: no call of Lua in here, so nothing can raise ----------------------------- */

#if EXEC_LINUX
static pid_t child_start(exec_plan *p) {
    pid_t pid = vfork();
    if (pid == 0) child_main(p);
    return pid; /* the child has executed, or left its refusal in the plan */
}
#else
/* The refusal's pointers are as good here as in the child: it is the same program. */
static pid_t child_start(exec_plan *p) {
    int fd[2];
    if (tr_pipe(fd)) return -1;
    fcntl(fd[0], F_SETFL, 0); /* blocking: execve or _exit closes the other end */
    p->report = fd[1];
    pid_t pid = fork();
    if (pid == 0) child_main(p);
    int err = errno;
    tr_close(&fd[1]);
    exec_refusal refusal;
    if (pid > 0 && tr_retry(read(fd[0], &refusal, sizeof refusal)) == (long)sizeof refusal)
        p->refusal = refusal;
    tr_close(&fd[0]);
    errno = err;
    return pid;
}
#endif

/* The child's pid, or -1 and the plan's refusal says why. */
static pid_t child_launch(exec_plan *p) {
    sigset_t all, old;
    sigfillset(&all);
    p->parent = getpid();
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pid_t pid = child_start(p);
    if (pid < 0) refuse(p, "fork", NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (pid > 0 && p->join) { /* that was the joiner */
        tr_retry(waitpid(pid, NULL, 0));
        pid = p->inside;
    }
    if (!p->refusal.step) return pid;
    if (pid > 0) tr_retry(waitpid(pid, NULL, 0)); /* it is exiting */
    return -1;
}

/* A file without a name for stdin's bytes: nobody has to write while the child reads. */
static int input_file(void) {
#if EXEC_LINUX
    return memfd_create("stdin", MFD_CLOEXEC);
#else
    const char *dir = getenv("TMPDIR");
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/terret-XXXXXX", dir ? dir : "/tmp") >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
#endif
}

/* Leaves it in the plan's fd[0], which the caller closes. */
static bool child_stdin(exec_plan *p) {
    int fd = p->input ? input_file() : (int)tr_retry(open("/dev/null", O_RDONLY | O_CLOEXEC));
    p->fd[0] = fd;
    if (fd < 0) return refuse(p, "stdin", NULL);
    if (p->input && (tr_write_all(fd, p->input, p->input_len) || lseek(fd, 0, SEEK_SET)))
        return refuse(p, "stdin", NULL);
    return true;
}

#endif

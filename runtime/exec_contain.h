/* runtime/exec_contain.h - the part of exec.c that runs in the child to confine it (Linux):
 * namespaces, mounts, capabilities, Landlock, seccomp; included only by exec_child.h.
 *
 * A command that joins namespaces takes three processes, all in our memory, each waiting for
 * the next to execute, as vfork does:
 *
 *   the joiner   enters the namespaces, takes a copy of the mounts and a new PID namespace
 *   process 1    made by it as *our* child (CLONE_PARENT).  Mounts /proc and what the caller
 *                asks for, starts the command, becomes the program of exec_namespaces.h
 *   the command  leaves its rights behind and executes
 *
 * When process 1 dies the kernel kills all that the namespace holds: it is what a time-out or
 * our own death kills.  The joiner ends as soon as process 1 has executed.
 *
 * The command runs before process 1 has left our memory.  It can't look into it: process 1 has
 * more capabilities than it, or is in an outer user namespace; and until then our memory is
 * marked as not to be looked at (PR_SET_DUMPABLE). */
#ifndef TERRET_EXEC_CONTAIN_H
#define TERRET_EXEC_CONTAIN_H

#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statfs.h>

#ifndef SYS_open_tree
#define SYS_open_tree 428
#define SYS_move_mount 429
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif
#define ALL_BELOW 0x8000 /* AT_RECURSIVE */
#define CHILD_STACK 32768

/* ---- process 1 ------------------------------------------------------------------------------ */

/* Read-only, it and what is mounted below.  Kernels before 5.12: it alone, and flags that an
 * outer namespace has locked must be named again. */
static bool make_readonly(const char *path) {
    struct {
        uint64_t set, clear, propagation, userns;
    } attr = {.set = MS_RDONLY};
    if (syscall(SYS_mount_setattr, AT_FDCWD, path, ALL_BELOW, &attr, sizeof attr) == 0) return true;
    struct statfs st;
    if (errno != ENOSYS || statfs(path, &st)) return false;
    unsigned long kept =
        (unsigned long)st.f_flags & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_NOATIME);
    return mount(NULL, path, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | kept, NULL) == 0;
}

/* A symbolic link itself, which mount() would follow. */
static bool mount_link(const exec_mount *m) {
    unsigned flags = 1U | O_CLOEXEC | AT_SYMLINK_NOFOLLOW; /* 1: OPEN_TREE_CLONE */
    int fd = (int)syscall(SYS_open_tree, AT_FDCWD, m->from, flags);
    if (fd < 0) return false;
    long failed = syscall(SYS_move_mount, fd, "", AT_FDCWD, m->path, 4U); /* F_EMPTY_PATH */
    int err = errno;
    close(fd);
    errno = err;
    return !failed;
}

static bool mount_one(const exec_mount *m) {
    unsigned long bind = MS_BIND | MS_REC;
    switch (m->kind) {
    case MOUNT_BIND: return mount(m->from, m->path, NULL, bind, NULL) == 0;
    case MOUNT_RO_BIND:
        return mount(m->from, m->path, NULL, bind, NULL) == 0 && make_readonly(m->path);
    case MOUNT_LINK: return mount_link(m);
    case MOUNT_TMPFS: return mount("tmpfs", m->path, "tmpfs", MS_NOSUID | MS_NODEV, m->from) == 0;
    default: return make_readonly(m->path);
    }
}

static bool init_mounts(exec_plan *p) {
    if (mount(NULL, "/", NULL, MS_SLAVE | MS_REC, NULL)) return refuse(p, "mount", "/");
    if (mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
        return refuse(p, "mount", "/proc");
    for (size_t i = 0; i < p->nmounts; i++) {
        const exec_mount *m = &p->mounts[i];
        if (mount_one(m)) continue;
        if (!m->optional || (errno != ENOENT && errno != ENOTDIR))
            return refuse(p, "mount", m->path);
    }
    return true;
}

/* It dies with us.  If we were killed before that call, nobody has the pipe's other end. */
static void init_bonds(const exec_plan *p) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    struct pollfd pipe = {.fd = p->status};
    if (poll(&pipe, 1, 0) != 0) _exit(127);
}

static int command_main(void *arg) {
    child_run(arg);
}

/* vfork with a stack of its own.  A vfork inside another one would do, but for sanitizers: they
 * keep where it returns to in one place for each thread, which is ours. */
static pid_t start(int (*body)(void *), char *stack, int flags, exec_plan *p) {
    return clone(body, stack + CHILD_STACK, flags | CLONE_VM | CLONE_VFORK | SIGCHLD, p);
}

static int init_main(void *arg) {
    static char *const argv[] = {"terret-init", NULL}, *const env[] = {NULL};
    exec_plan *p = arg;
    init_bonds(p);
    setsid();
    if (!init_mounts(p)) _exit(127);
    pid_t pid = start(command_main, p->stacks + CHILD_STACK, 0, p);
    if (pid < 0) refuse(p, "clone", NULL);
    if (p->refusal.step) _exit(127);
    /* Whatever goes wrong from here: the end of process 1 ends the command. */
    errno = EINVAL;
    if (pid == EXEC_MAIN_PID) {
        int program = fcntl(p->join->init, F_DUPFD_CLOEXEC, EXEC_INIT_REPORT + 1);
        if (program >= 0 && dup2(p->status, EXEC_INIT_REPORT) == EXEC_INIT_REPORT) {
            fcntl(EXEC_INIT_REPORT, F_SETFD, 0); /* it may have been that number before */
            child_cloexec(EXEC_INIT_REPORT + 1);
            syscall(SYS_execveat, program, "", argv, env, AT_EMPTY_PATH);
        }
    }
    refuse(p, "init", NULL);
    _exit(127);
}

/* ---- the joiner ------------------------------------------------------------------------------ */

static bool join(exec_plan *p) {
    static const int flags[NS_USER] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWNET,
                                       CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};
    for (int i = 0; i < NS_USER; i++) { /* NS_USER: the command itself, at the end */
        int fd = p->join->fd[i];
        if (fd >= 0 && setns(fd, flags[i])) return refuse(p, "join", exec_ns_names[i]);
    }
    if (unshare(CLONE_NEWPID | CLONE_NEWNS)) return refuse(p, "unshare", NULL);
    return true;
}

static _Noreturn void child_contain(exec_plan *p) {
    _Alignas(16) char stacks[2 * CHILD_STACK]; /* of process 1 and the command */
    close(p->status_end);
    bool dumpable = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1;
    if (dumpable) prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (join(p)) {
        p->stacks = stacks;
        p->inside = start(init_main, stacks, CLONE_PARENT, p);
        if (p->inside < 0) refuse(p, "clone", NULL);
    }
    if (dumpable) prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    _exit(0);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Without CAP_SETPCAP the bounding set stays: then there is nothing in it that could come back,
 * since no program gains anything by execve after no_new_privs. */
static bool child_drop(exec_plan *p) {
    errno = EINVAL;
    for (unsigned long cap = 0; cap < 64; cap++)
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0)) break; /* EINVAL: no more of them */
    if (errno != EINVAL && errno != EPERM) return refuse(p, "drop", NULL);
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3];
    memset(none, 0, sizeof none);
    if (syscall(SYS_capset, &head, none) || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        return refuse(p, "drop", NULL);
    return true;
}

/* What takes rights away and needs none of those that go with it. */
static bool child_confine(exec_plan *p) {
    int user = p->join ? p->join->fd[NS_USER] : -1;
    if (user >= 0 && setns(user, CLONE_NEWUSER)) return refuse(p, "join", "user");
    if ((p->drop || p->join) && !child_drop(p)) return false;
    if (p->landlock >= 0 && syscall(SYS_landlock_restrict_self, p->landlock, 0U))
        return refuse(p, "landlock", NULL);
    return true;
}

/* The last thing before execve, since it may forbid what the rest needs. */
static bool child_filter(exec_plan *p) {
    if (!p->filter) return true;
    struct sock_fprog program = {.len = p->filter_len,
                                 .filter = (struct sock_filter *)(uintptr_t)p->filter};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0U, &program))
        return refuse(p, "seccomp", NULL);
    return true;
}

#endif

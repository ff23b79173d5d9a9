/* runtime/exec_namespaces.h - the part of exec.c that holds the namespaces of another process
 * for commands to join, and the program that is process 1 of each command; included only there.
 *
 * Owners.  bubblewrap nests two user namespaces: it mounts in the outer one, where an ordinary
 * user is root, and runs the command in the inner one, under the user's own number.  A joining
 * command needs the outer one's capabilities for its mounts, so that is asked from the mount
 * namespace (NS_GET_USERNS), and takes the inner one, the process's own, last.
 *
 * Process 1 of a PID namespace ignores signals that have no handler, so the command can't be it:
 * `kill -TERM $$` would do nothing.  A copy of terret could, but would cost a copied page table
 * for each command and hold terret's secrets beside it.  So it is a program of one function,
 * 20 lines, whose code is put behind an ELF header into a file in memory when namespaces are
 * opened. */
#ifndef TERRET_EXEC_NAMESPACES_H
#define TERRET_EXEC_NAMESPACES_H

#include "exec_child.h"
#include "terret.h"

#define NAMESPACES "terret.exec.namespaces"

#if EXEC_LINUX
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef NS_GET_USERNS
#define NS_GET_USERNS _IO(0xb7, 0x1)
#endif
#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* ---- process 1 ---------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define INIT_MACHINE EM_X86_64
#define INIT_ENTRY __attribute__((force_align_arg_pointer)) /* no caller has aligned the stack */
static inline __attribute__((always_inline)) long init_call(long n, long a, long b, long c,
                                                            long d) {
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
#define INIT_MACHINE EM_AARCH64
#define INIT_ENTRY
static inline __attribute__((always_inline)) long init_call(long n, long a, long b, long c,
                                                            long d) {
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3) : "memory");
    return x0;
}
#else
#error "process 1 needs the system call of this machine"
#endif

#ifdef __has_attribute
#if __has_attribute(no_stack_protector)
#define INIT_PLAIN __attribute__((no_stack_protector))
#endif
#endif
#ifndef INIT_PLAIN
#define INIT_PLAIN
#endif

/* All of the program: it may call nothing, and use no constant that is not in an instruction.
 * All signals are blocked, so they wait until they are asked for.  Orphans are reaped, TERM and
 * INT passed on to the command's group.  The command's end is the end: its status goes to
 * terret, and the kernel kills whatever else is in the namespace. */
INIT_ENTRY INIT_PLAIN __attribute__((section("terret_init"), used, noinline,
                                     no_sanitize("address", "undefined"))) static _Noreturn void
init_start(void) {
    for (;;) {
        int status = 0;
        uint64_t all = ~0ULL;
        long pid;
        while ((pid = init_call(SYS_wait4, -1, (long)&status, WNOHANG, 0)) > 0)
            if (pid == EXEC_MAIN_PID) {
                init_call(SYS_write, EXEC_INIT_REPORT, (long)&status, sizeof status, 0);
                for (;;) init_call(SYS_exit_group, 0, 0, 0, 0);
            }
        long signo = init_call(SYS_rt_sigtimedwait, (long)&all, 0, 0, sizeof all);
        if (signo == SIGTERM || signo == SIGINT) init_call(SYS_kill, -EXEC_MAIN_PID, signo, 0, 0);
    }
}

/* Of the linker: where that section begins and ends. */
extern const char init_code[] __asm__("__start_terret_init") __attribute__((visibility("hidden")));
extern const char init_end[] __asm__("__stop_terret_init") __attribute__((visibility("hidden")));

/* One segment: the headers and the code. */
static int init_program(void) {
    const Elf64_Addr base = 0x400000;
    size_t size = (size_t)(init_end - init_code);
    struct {
        Elf64_Ehdr elf;
        Elf64_Phdr load, stack;
    } head;
    memset(&head, 0, sizeof head);
    memcpy(head.elf.e_ident, ELFMAG, SELFMAG);
    head.elf.e_ident[EI_CLASS] = ELFCLASS64;
    head.elf.e_ident[EI_DATA] = ELFDATA2LSB;
    head.elf.e_ident[EI_VERSION] = EV_CURRENT;
    head.elf.e_type = ET_EXEC;
    head.elf.e_machine = INIT_MACHINE;
    head.elf.e_version = EV_CURRENT;
    head.elf.e_entry =
        base + sizeof head + (size_t)((const char *)(uintptr_t)init_start - init_code);
    head.elf.e_phoff = offsetof(__typeof__(head), load);
    head.elf.e_ehsize = sizeof head.elf;
    head.elf.e_phentsize = sizeof head.load;
    head.elf.e_phnum = 2;
    head.load = (Elf64_Phdr){.p_type = PT_LOAD,
                             .p_flags = PF_R | PF_X,
                             .p_vaddr = base,
                             .p_paddr = base,
                             .p_filesz = sizeof head + size,
                             .p_memsz = sizeof head + size,
                             .p_align = 0x10000};
    head.stack = (Elf64_Phdr){.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W};
    int fd = memfd_create("init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) fd = memfd_create("init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return -1;
    if (tr_write_all(fd, (const char *)&head, sizeof head) || tr_write_all(fd, init_code, size) ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
        tr_close(&fd);
    return fd;
}

/* ---- the namespaces ------------------------------------------------------------------------ */

static bool same_file(int fd, const char *path) {
    struct stat a, b;
    return fstat(fd, &a) == 0 && stat(path, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* One that is ours too stays -1: nothing to join there, and often no right to. */
static bool open_namespace(exec_ns *ns, int i, pid_t pid) {
    char path[64], own[64];
    snprintf(path, sizeof path, "/proc/%d/ns/%s", (int)pid, exec_ns_names[i]);
    snprintf(own, sizeof own, "/proc/self/ns/%s", exec_ns_names[i]);
    ns->fd[i] = (int)tr_retry(open(path, O_RDONLY | O_CLOEXEC));
    if (ns->fd[i] < 0) return errno == ENOENT && access(own, F_OK) != 0; /* not in this kernel */
    if (same_file(ns->fd[i], own)) tr_close(&ns->fd[i]);
    return true;
}

static bool open_owner(exec_ns *ns) {
    int owner = ioctl(ns->fd[NS_MNT], NS_GET_USERNS);
    if (owner < 0) return false;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", ns->fd[NS_USER]);
    ns->fd[NS_OWNER] = owner;
    if (same_file(owner, "/proc/self/ns/user"))
        tr_close(&ns->fd[NS_OWNER]);
    else if (ns->fd[NS_USER] >= 0 && same_file(owner, path))
        tr_close(&ns->fd[NS_USER]); /* joined with the first */
    return true;
}

/* NULL, or what failed (errno). */
static const char *open_namespaces(exec_ns *ns, pid_t pid) {
    for (int i = NS_MNT; i < NS_COUNT; i++)
        if (!open_namespace(ns, i, pid)) return exec_ns_names[i];
    errno = EINVAL;
    if (ns->fd[NS_MNT] < 0) return "it has no mount namespace of its own";
    if (!open_owner(ns)) return "owner";
    ns->init = init_program();
    return ns->init < 0 ? "init" : NULL;
}
#else
static const char *open_namespaces(exec_ns *ns, pid_t pid) {
    (void)ns;
    (void)pid;
    errno = ENOSYS;
    return "not on this system";
}
#endif

/* ---- for Lua ------------------------------------------------------------------------------- */

static int namespaces_gc(lua_State *L) {
    exec_ns *ns = luaL_checkudata(L, 1, NAMESPACES);
    for (int i = 0; i < NS_COUNT; i++) tr_close(&ns->fd[i]);
    tr_close(&ns->init);
    return 0;
}

static int namespaces_names(lua_State *L) {
    exec_ns *ns = luaL_checkudata(L, 1, NAMESPACES);
    lua_createtable(L, NS_COUNT, 0);
    for (int i = 0, n = 0; i < NS_COUNT; i++) {
        if (ns->fd[i] < 0) continue;
        lua_pushstring(L, exec_ns_names[i]);
        lua_rawseti(L, -2, ++n);
    }
    return 1;
}

static int exec_namespaces(lua_State *L) {
    lua_Integer pid = luaL_checkinteger(L, 1);
    luaL_argcheck(L, pid > 0 && pid <= INT_MAX, 1, "a process expected");
    exec_ns *ns = lua_newuserdatauv(L, sizeof *ns, 0);
    for (int i = 0; i < NS_COUNT; i++) ns->fd[i] = -1;
    ns->init = -1;
    luaL_setmetatable(L, NAMESPACES);
    const char *failed = open_namespaces(ns, (pid_t)pid);
    if (!failed) return 1;
    int err = errno;
    if (err == ENOSYS) return tr_fail(L, "unsupported", "namespaces: not on this system");
    return tr_fail(L, tr_errcode(err), "namespaces of %d: %s: %s", (int)pid, failed, strerror(err));
}

static const luaL_Reg namespaces_meta[] = {
    {"__gc", namespaces_gc}, {"__close", namespaces_gc}, {NULL, NULL}};
static const luaL_Reg namespaces_methods[] = {
    {"names", namespaces_names}, {"close", namespaces_gc}, {NULL, NULL}};

#endif

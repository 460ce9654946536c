/* Strikes at the n-th system call of a process that changes files below a folder.

   A seccomp filter sends every such call to a handler of SIGSYS, whoever makes it: Python, C, C++
   or Rust, in any thread. The handler counts the calls that concern the folder; at the n-th it ends
   the process, cuts a write short and ends it, or refuses this and all later calls. Otherwise it
   makes the call itself, from an address that the filter lets pass. Linux on x86-64 only. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum mode { COUNT, KILL, TORN, FULL, READ_ONLY };

static struct {
    volatile int64_t *n_calls; /* shared with the parent */
    int64_t at;
    enum mode mode;
    char folder[4096];
    size_t length;
} plan;

/* Where a call has its path, its folder's descriptor or its file's descriptor. */
struct shape {
    int number, folder, path, file;
};
#define CALL(name, folder, path, file) {SYS_##name, folder, path, file}
static const struct shape shapes[] = {
    CALL(write, -1, -1, 0),     CALL(pwrite64, -1, -1, 0),   CALL(writev, -1, -1, 0),
    CALL(pwritev, -1, -1, 0),   CALL(pwritev2, -1, -1, 0),   CALL(sendfile, -1, -1, 0),
    CALL(fsync, -1, -1, 0),     CALL(fdatasync, -1, -1, 0),  CALL(ftruncate, -1, -1, 0),
    CALL(fallocate, -1, -1, 0), CALL(fchmod, -1, -1, 0),     CALL(copy_file_range, -1, -1, 2),
    CALL(open, -1, 0, -1),      CALL(openat, 0, 1, -1),      CALL(creat, -1, 0, -1),
    CALL(mkdir, -1, 0, -1),     CALL(mkdirat, 0, 1, -1),     CALL(rmdir, -1, 0, -1),
    CALL(unlink, -1, 0, -1),    CALL(unlinkat, 0, 1, -1),    CALL(rename, -1, 1, -1),
    CALL(renameat, 2, 3, -1),   CALL(renameat2, 2, 3, -1),   CALL(link, -1, 1, -1),
    CALL(linkat, 2, 3, -1),     CALL(symlink, -1, 1, -1),    CALL(symlinkat, 1, 2, -1),
    CALL(truncate, -1, 0, -1),  CALL(chmod, -1, 0, -1),      CALL(fchmodat, 0, 1, -1),
};
#define N_SHAPES (sizeof shapes / sizeof shapes[0])
#define WRITES (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)

/* The only place from which the calls pass the filter: the instruction after `syscall`. */
long pass(long number, const long *a);
extern char passed[];
__asm__(".text\n.globl pass\npass:\n"
        "mov %rdi, %rax\n mov %rsi, %r11\n mov 0(%r11), %rdi\n mov 8(%r11), %rsi\n"
        "mov 16(%r11), %rdx\n mov 24(%r11), %r10\n mov 32(%r11), %r8\n mov 40(%r11), %r9\n"
        "syscall\n.globl passed\npassed:\n ret\n");

static int is_below(const char *path) {
    return strncmp(path, plan.folder, plan.length) == 0;
}

static int descriptor_is_below(long descriptor) {
    char name[64], path[4096];
    snprintf(name, sizeof name, "/proc/self/fd/%ld", descriptor);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n <= 0) return 0;
    path[n] = 0;
    return is_below(path);
}

static int concerns_us(const struct shape *shape, const long *a) {
    if (shape->file >= 0) return descriptor_is_below(a[shape->file]);
    const char *path = (const char *)a[shape->path];
    if (path[0] == '/') return is_below(path);
    int from = shape->folder < 0 ? AT_FDCWD : (int)a[shape->folder];
    return from == AT_FDCWD || descriptor_is_below(from); /* the folder is the current one */
}

/* A full disk takes no more bytes and no new names; all else goes on. */
static int needs_space(int number, const long *a) {
    switch (number) {
        case SYS_write: case SYS_pwrite64: case SYS_writev: case SYS_pwritev: case SYS_pwritev2:
        case SYS_sendfile: case SYS_copy_file_range: case SYS_fallocate: case SYS_mkdir:
        case SYS_mkdirat: case SYS_creat: case SYS_link: case SYS_linkat: case SYS_symlink:
        case SYS_symlinkat: return 1;
        case SYS_open: return (a[1] & O_CREAT) && access((const char *)a[0], F_OK) != 0;
        case SYS_openat:
            return (a[2] & O_CREAT) && faccessat((int)a[0], (const char *)a[1], F_OK, 0) != 0;
        default: return 0;
    }
}

static long strike(int number, long *a, int64_t place) {
    if (plan.mode == FULL) return needs_space(number, a) ? -ENOSPC : pass(number, a);
    if (plan.mode == READ_ONLY) return -EROFS;
    if (place != plan.at) return pass(number, a);
    if (plan.mode == TORN && (number == SYS_write || number == SYS_pwrite64)) {
        a[2] /= 2;
        pass(number, a);
    }
    syscall(SYS_kill, getpid(), SIGKILL);
    return -EINTR;
}

static void on_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    long a[6] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                 registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
    int number = info->si_syscall, before = errno;
    const struct shape *shape = shapes;
    while (shape->number != number) shape++;
    if (!concerns_us(shape, a)) {
        registers[REG_RAX] = pass(number, a);
    } else {
        int64_t place = __atomic_add_fetch(plan.n_calls, 1, __ATOMIC_SEQ_CST);
        int is_time = plan.mode != COUNT && place >= plan.at;
        registers[REG_RAX] = is_time ? strike(number, a, place) : pass(number, a);
    }
    errno = before;
}

/* From now on this process and its threads are watched; 0, or an error's number. */
int watch(int64_t *n_calls, int64_t at, int mode, const char *folder) {
    plan.n_calls = n_calls;
    plan.at = at;
    plan.mode = mode;
    plan.length = strlen(folder);
    if (plan.length >= sizeof plan.folder) return ENAMETOOLONG;
    strcpy(plan.folder, folder);
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER};
    if (sigaction(SIGSYS, &action, NULL)) return errno;

    struct sock_filter filter[16 + 6 * N_SHAPES];
    size_t n = 0;
    uint64_t place = (uint64_t)passed;
#define ADD(...) filter[n++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field) ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field)))
    LOAD(arch);
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    LOAD(instruction_pointer);
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)place, 0, 3));
    ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4));
    ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(place >> 32), 0, 1));
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    LOAD(nr);
    for (size_t i = 0; i < N_SHAPES; i++) {
        int number = shapes[i].number, is_open = number == SYS_open || number == SYS_openat;
        ADD(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, is_open ? 4 : 1));
        if (is_open) { /* only those that may change something */
            size_t flags = offsetof(struct seccomp_data, args) + (number == SYS_open ? 8 : 16);
            ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags));
            ADD(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, WRITES, 1, 0));
            ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        }
        ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP));
    }
    ADD(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    struct sock_fprog program = {.len = (unsigned short)n, .filter = filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) {
        return errno;
    }
    return 0;
}

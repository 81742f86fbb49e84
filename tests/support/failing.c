/* The n-th change of the disk below a folder fails: preloaded into a process, which arms it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

static long *count, fails_at; /* NULL before it is armed. */
static int error, stays;
static char folder[PATH_MAX];

/* From now on changes below the folder are counted; the n-th fails with this error and, if it stays, those that need
 * room after it too. With the error -1 the power is cut there: what was not flushed is lost. What it is stands after the counter. */
void failing_arm(const char *below, long n, int number, int for_good, long *counter) {
    strncpy(folder, below, PATH_MAX - 1);
    fails_at = n, error = number, stays = for_good, count = counter;
}

/* Files written to: what of them would outlive a power cut. */
static struct { ino_t inode; int file; off_t safe; } written[1 << 14];
static int files;

static void cut_power(void) {
    for (int i = 0; i < files; i++) {
        struct stat now;
        if (!fstat(written[i].file, &now) && now.st_size > written[i].safe && ftruncate(written[i].file, written[i].safe))
            abort();
    }
    kill(getpid(), SIGKILL);
}

static void note(int file, int is_safe) {
    struct stat now;
    if (!count || fstat(file, &now) || !S_ISREG(now.st_mode))
        return;
    int i = 0;
    while (i < files && written[i].inode != now.st_ino)
        i++;
    if (i == files) {
        written[i].inode = now.st_ino, written[i].file = dup(file), written[i].safe = now.st_size;
        files++;
    }
    if (is_safe)
        written[i].safe = now.st_size;
}

static int fails(const char *what, const char *path, int needs_room) {
    if (!count || strncmp(path, folder, strlen(folder)) || strstr(path, "/out.txt") || strstr(path, "/err.txt"))
        return 0;
    long n = __atomic_add_fetch(count, 1, __ATOMIC_SEQ_CST);
    if (!(n == fails_at || (stays && needs_room && n > fails_at && fails_at)))
        return 0;
    if (n == fails_at)
        snprintf((char *)(count + 1), PATH_MAX, "%s %s", what, path);
    if (error == -1)
        cut_power();
    /* Only these are ever interrupted. */
    if (error == EINTR && !needs_room)
        return 0;
    errno = error;
    return 1;
}

static int fails_at_path(const char *what, int dir, const char *path, int needs_room) {
    char full[PATH_MAX * 2], base[PATH_MAX] = "", link[64];
    if (path[0] == '/')
        return fails(what, path, needs_room);
    if (dir == AT_FDCWD) {
        if (!getcwd(base, sizeof base))
            return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
        ssize_t length = readlink(link, base, sizeof base - 1);
        if (length < 0)
            return 0;
        base[length] = 0;
    }
    snprintf(full, sizeof full, "%s/%s", base, path);
    return fails(what, full, needs_room);
}

static int fails_at_file(const char *what, int file) { return fails_at_path(what, file, "", 1); }

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPEN(name)                                                                                                     \
    int name(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = va_arg(rest, mode_t);                                                                            \
        va_end(rest);                                                                                                  \
        if (flags & (O_WRONLY | O_RDWR | O_CREAT) && fails_at_path("open", AT_FDCWD, path, 1))                         \
            return -1;                                                                                                 \
        return NEXT(name)(path, flags, mode);                                                                          \
    }
OPEN(open)
OPEN(open64)
int openat(int dir, const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    mode_t mode = va_arg(rest, mode_t);
    va_end(rest);
    if (flags & (O_WRONLY | O_RDWR | O_CREAT) && fails_at_path("open", dir, path, 1))
        return -1;
    return NEXT(openat)(dir, path, flags, mode);
}
ssize_t write(int file, const void *data, size_t size) {
    if (fails_at_file("write", file))
        return -1;
    note(file, 0);
    return NEXT(write)(file, data, size);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) {
    if (fails_at_file("write", file))
        return -1;
    note(file, 0);
    return NEXT(pwrite64)(file, data, size, at);
}
ssize_t sendfile(int out, int in, off_t *at, size_t size) {
    note(out, 0);
    return fails_at_file("write", out) ? -1 : NEXT(sendfile)(out, in, at, size);
}
int fsync(int file) {
    if (fails_at_file("fsync", file))
        return -1;
    note(file, 1);
    return NEXT(fsync)(file);
}
int ftruncate64(int file, off64_t size) { return fails_at_file("truncate", file) ? -1 : NEXT(ftruncate64)(file, size); }
int rename(const char *from, const char *to) {
    return fails_at_path("rename", AT_FDCWD, from, 0) ? -1 : NEXT(rename)(from, to);
}
int unlink(const char *path) { return fails_at_path("unlink", AT_FDCWD, path, 0) ? -1 : NEXT(unlink)(path); }
int unlinkat(int dir, const char *path, int flags) {
    return fails_at_path("unlink", dir, path, 0) ? -1 : NEXT(unlinkat)(dir, path, flags);
}
int mkdir(const char *path, mode_t mode) {
    return fails_at_path("mkdir", AT_FDCWD, path, 0) ? -1 : NEXT(mkdir)(path, mode);
}
int rmdir(const char *path) { return fails_at_path("rmdir", AT_FDCWD, path, 0) ? -1 : NEXT(rmdir)(path); }

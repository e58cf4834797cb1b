/* Disks that are full, slow to forget or without locks: loaded before the C library (LD_PRELOAD), it makes system calls
   on files below one folder fail. The program and its engine count together, in a file that both map.

   SAFELIGHT_DISK_FAULT=KIND:K:COUNTER:FOLDER. KIND is one of
     full    from the K-th write or new file on, there is no space
     short   the K-th write writes half, and behind it there is no space
     once    the K-th write fails, and no other
     rename  the K-th rename fails
     sync    the K-th fsync fails
     nolock  no lock is ever given (a network share); unlock: such a file system knows no locks
     nolink  no file gets a second name (FAT, many a network share)
     readonly  from the K-th new file on, the file system is read-only
   K = 0 only counts. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char kind[16], folder[4096];
static long wanted;
static _Atomic long *counter;

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("SAFELIGHT_DISK_FAULT");
  char path[4096];
  if (!text || sscanf(text, "%15[^:]:%ld:%4095[^:]:%4095[^\n]", kind, &wanted, path, folder) != 4) return;
  int file = open(path, O_RDWR);
  if (file < 0) return;
  void *shared = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (shared != MAP_FAILED) counter = shared;
}

static int is(const char *name) { return strcmp(kind, name) == 0; }

static int is_ours(const char *path) {
  return counter && strncmp(path, folder, strlen(folder)) == 0;
}

static int is_our_file(int file) {
  char link[64], path[4096];
  if (!counter) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return is_ours(path);
}

/* Counts one call: 0 before the wanted one, 1 at it, 2 behind it. */
static int strikes(void) {
  long now = atomic_fetch_add(counter, 1) + 1;
  if (wanted == 0 || now < wanted) return 0;
  return now == wanted ? 1 : 2;
}

/* What becomes of a write of so many bytes: so many, or -1 with errno. */
static ssize_t allowed(size_t bytes) {
  int counts = is("full") || is("short") || is("once");
  int when = counts ? strikes() : 0;
  if (when == 0 || (when == 2 && is("once"))) return bytes;
  if (when == 1 && is("short") && bytes > 1) return bytes / 2;
  errno = ENOSPC;
  return -1;
}

#define REAL(name) \
  static typeof(name) *real; \
  if (!real) real = (typeof(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int file, const void *bytes, size_t length) {
  REAL(write);
  if (length && is_our_file(file)) {
    ssize_t may = allowed(length);
    if (may < 0) return -1;
    length = may;
  }
  return real(file, bytes, length);
}

ssize_t pwrite64(int file, const void *bytes, size_t length, off64_t at) {
  REAL(pwrite64);
  if (length && is_our_file(file)) {
    ssize_t may = allowed(length);
    if (may < 0) return -1;
    length = may;
  }
  return real(file, bytes, length, at);
}

ssize_t writev(int file, const struct iovec *parts, int count) {
  REAL(writev);
  if (is_our_file(file) && allowed(1) < 0) return -1;
  return real(file, parts, count);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t length, unsigned flags) {
  REAL(copy_file_range);
  if (is_our_file(to) && allowed(1) < 0) return -1;
  return real(from, at, to, to_at, length, flags);
}

/* Whether a file that is not there yet may be made. */
static int may_make(const char *path) {
  if (!is_ours(path) || access(path, F_OK) == 0) return 1;
  if (is("readonly") && strikes()) {
    errno = EROFS;
    return 0;
  }
  return !(is("full") || is("short")) || allowed(0) == 0;
}

#define OPENS(name) \
  int name(const char *path, int flags, ...) { \
    REAL(name); \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    if (flags & O_CREAT && !may_make(path)) return -1; \
    return real(path, flags, mode); \
  }

OPENS(open64)
OPENS(open)

int mkdir(const char *path, mode_t mode) {
  REAL(mkdir);
  return may_make(path) ? real(path, mode) : -1;
}

static int fails(const char *name, int error) {
  if (!is(name) || strikes() != 1) return 0;
  errno = error;
  return 1;
}

int rename(const char *from, const char *to) {
  REAL(rename);
  return is_ours(to) && fails("rename", EIO) ? -1 : real(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  REAL(linkat);
  if (is_ours(to) && is("nolink")) {
    strikes();
    errno = EPERM;
    return -1;
  }
  return real(from_folder, from, to_folder, to, flags);
}

int fsync(int file) {
  REAL(fsync);
  return is_our_file(file) && fails("sync", EIO) ? -1 : real(file);
}

int fdatasync(int file) {
  REAL(fdatasync);
  return is_our_file(file) && fails("sync", EIO) ? -1 : real(file);
}

int flock(int file, int how) {
  REAL(flock);
  if (is_our_file(file) && (is("nolock") || is("unlock"))) {
    strikes();
    errno = is("nolock") ? ENOLCK : EOPNOTSUPP;
    return -1;
  }
  return real(file, how);
}

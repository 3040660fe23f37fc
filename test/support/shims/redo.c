// Preloaded into a database server: remembers what of its log would survive a power cut.
//
// A log of MySQL or PostgreSQL is not appended to but written over in place, so its size tells nothing (power.c). Here the
// first write to a log file keeps a copy of it, HOLDFAST_REDO/INODE-BIRTH.synced, and every successful fsync or fdatasync
// brings that copy up to what the file held before the call. The test's power cut is kill -9 plus the copies in place of the
// files. What is left out: data files, which hold nothing that the synced log does not, because databases sync the log first;
// and the names of files, which are as they were last.
//
// A log file is one whose path contains a word of HOLDFAST_REDO_FILES (between colons). Writes and syncs of all processes
// of the server take turns, so that a copy never goes back.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;

struct turn {
  int lock;
  char copy[4096];
  char dirty[4200];
};

static int is_log(int fd) {
  const char *words = getenv("HOLDFAST_REDO_FILES");
  char link[64], path[4096], word[256];
  ssize_t length;
  if (!words || !getenv("HOLDFAST_REDO")) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  length = readlink(link, path, sizeof path - 1);
  if (length <= 0) return 0;
  path[length] = 0;
  while (*words) {
    size_t n = strcspn(words, ":");
    if (n > 0 && n < sizeof word) {
      memcpy(word, words, n);
      word[n] = 0;
      if (strstr(path, word)) return 1;
    }
    words += n + (words[n] == ':');
  }
  return 0;
}

static int take(struct turn *turn, int fd) {
  const char *folder = getenv("HOLDFAST_REDO");
  struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
  struct statx file;
  char path[4096];
  if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &file) != 0) return 0;
  if (!S_ISREG(file.stx_mode)) return 0;
  snprintf(turn->copy, sizeof turn->copy, "%s/%llu-%llu.synced", folder, (unsigned long long)file.stx_ino,
           (unsigned long long)file.stx_btime.tv_sec * 1000000000 + file.stx_btime.tv_nsec);
  snprintf(turn->dirty, sizeof turn->dirty, "%s.dirty", turn->copy);
  snprintf(path, sizeof path, "%s/lock", folder);
  pthread_mutex_lock(&threads);
  turn->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (turn->lock < 0 || fcntl(turn->lock, F_SETLKW, &all) != 0) abort(); // a silent hole here would make a test lie
  return 1;
}

static void give(struct turn *turn) {
  int error = errno;
  close(turn->lock);
  pthread_mutex_unlock(&threads);
  errno = error;
}

// From `from` in the file of `fd`, as the page cache has it, to the same place in `to`.
static void copy_range(int fd, const char *to, int64_t from, int64_t until) {
  static char block[65536];
  char link[64];
  int in, out;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  in = open(link, O_RDONLY | O_CLOEXEC);
  out = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (in < 0 || out < 0) abort();
  while (from < until) {
    size_t wanted = until - from < (int64_t)sizeof block ? (size_t)(until - from) : sizeof block;
    ssize_t got = syscall(SYS_pread64, in, block, wanted, from);
    if (got <= 0) break;
    if (syscall(SYS_pwrite64, out, block, (size_t)got, from) != got) abort();
    from += got;
  }
  close(in);
  close(out);
}

static void dirty_range(const char *path, int64_t range[2]) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  range[0] = range[1] = 0;
  if (fd < 0) return;
  if (syscall(SYS_pread64, fd, range, 2 * sizeof *range, (off_t)0) != 2 * sizeof *range) range[0] = range[1] = 0;
  close(fd);
}

static void set_dirty(const char *path, int64_t from, int64_t until) {
  int64_t range[2] = {from, until};
  int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || syscall(SYS_pwrite64, fd, range, sizeof range, (off_t)0) != sizeof range) abort();
  close(fd);
}

static ssize_t write_and_note(int fd, const void *bytes, size_t count, off_t at) {
  struct turn turn;
  int64_t range[2];
  ssize_t written;
  if (!is_log(fd) || !take(&turn, fd)) return syscall(SYS_pwrite64, fd, bytes, count, at);
  if (access(turn.copy, F_OK) != 0) copy_range(fd, turn.copy, 0, INT64_MAX);
  written = syscall(SYS_pwrite64, fd, bytes, count, at);
  if (written > 0) {
    int error = errno;
    dirty_range(turn.dirty, range);
    if (range[0] == range[1]) range[0] = at, range[1] = at + written;
    if (at < range[0]) range[0] = at;
    if (at + written > range[1]) range[1] = at + written;
    set_dirty(turn.dirty, range[0], range[1]);
    errno = error;
  }
  give(&turn);
  return written;
}

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) { return write_and_note(fd, bytes, count, at); }

ssize_t pwrite64(int fd, const void *bytes, size_t count, off_t at) { return write_and_note(fd, bytes, count, at); }

// Nobody writes meanwhile, so what the file holds after the call is what it held before.
static int sync_and_copy(long call, int fd) {
  struct turn turn;
  int64_t range[2];
  int result, error;
  if (!is_log(fd) || !take(&turn, fd)) return syscall(call, fd);
  dirty_range(turn.dirty, range);
  result = syscall(call, fd);
  error = errno;
  if (result == 0 && range[0] < range[1]) {
    copy_range(fd, turn.copy, range[0], range[1]);
    set_dirty(turn.dirty, 0, 0);
  }
  give(&turn);
  errno = error;
  return result;
}

int fsync(int fd) { return sync_and_copy(SYS_fsync, fd); }

int fdatasync(int fd) { return sync_and_copy(SYS_fdatasync, fd); }

// Preloaded into a server: remembers how much of each file would survive a power cut.
//
// kill -9 is not a power cut: what was written is in the kernel's page cache and outlives the process. So after every
// successful fsync or fdatasync this records the size the file had before the call, and the test's power cut is kill -9
// plus cutting each append-only file back to that size. True for files that are only appended to.
//
// The record is HOLDFAST_POWER/INODE-BIRTH: the inode, because servers sync a temporary file and rename it; the birth
// time (ns), because an inode number is used again once its file is deleted. It is one 8-byte write that never truncates,
// so a kill at any moment leaves the old size or the new one. The size is taken before the call: bytes that arrive while
// the disk works may or may not be covered, and the careful answer is that they are not.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void record(const struct statx *file) {
  const char *folder = getenv("HOLDFAST_POWER");
  char path[4096];
  int64_t size = file->stx_size;
  int fd;
  if (!folder || !S_ISREG(file->stx_mode)) return;
  snprintf(path, sizeof path, "%s/%llu-%llu", folder, (unsigned long long)file->stx_ino,
           (unsigned long long)file->stx_btime.tv_sec * 1000000000 + file->stx_btime.tv_nsec);
  fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  if (pwrite(fd, &size, sizeof size, 0) != sizeof size) abort(); // a silent hole here would make a test lie
  close(fd);
}

static int sync_and_record(long call, int fd) {
  struct statx before;
  int known = statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &before) == 0;
  int result = syscall(call, fd);
  int error = errno;
  if (result == 0 && known) record(&before);
  errno = error;
  return result;
}

int fsync(int fd) { return sync_and_record(SYS_fsync, fd); }

int fdatasync(int fd) { return sync_and_record(SYS_fdatasync, fd); }

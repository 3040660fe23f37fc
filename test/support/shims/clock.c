// Preloaded into a server: moves its wall clock, and only its, while it runs.
//
// HOLDFAST_CLOCK names an 8-byte file holding an offset in milliseconds. The file is mapped once, so a test moves the clock
// by overwriting it. CLOCK_MONOTONIC is left alone, as a real clock step leaves it alone.
//
// The real time comes from raw system calls: asking the C library would lead back into these functions. Nothing here
// allocates, because the first caller may be the allocator itself on its way up.
//
// Limits: programs that read the vDSO themselves (Go) see the true time; waits with an absolute wall-clock deadline
// (pthread_cond_timedwait) are timed by the kernel, which knows nothing of the offset.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t no_offset;
static volatile int64_t *offset_ms;

static int64_t offset(void) {
  if (!offset_ms) {
    const char *path = getenv("HOLDFAST_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = fd < 0 ? MAP_FAILED : mmap(0, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0) close(fd);
    offset_ms = page == MAP_FAILED ? &no_offset : page;
  }
  return *offset_ms;
}

static void shift(struct timespec *time) {
  int64_t ms = offset();
  time->tv_sec += ms / 1000;
  time->tv_nsec += (ms % 1000) * 1000000;
  if (time->tv_nsec < 0) {
    time->tv_nsec += 1000000000;
    time->tv_sec -= 1;
  } else if (time->tv_nsec >= 1000000000) {
    time->tv_nsec -= 1000000000;
    time->tv_sec += 1;
  }
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int result = syscall(SYS_clock_gettime, clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) shift(time);
  return result;
}

int gettimeofday(struct timeval *time, void *zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds) *seconds = now.tv_sec;
  return now.tv_sec;
}

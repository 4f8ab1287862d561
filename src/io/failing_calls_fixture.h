#pragma once

// System calls of a test program that fail on request. They stand in front of the system's, which
// they call otherwise.

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace penstock::io {

inline int failing_reads = 0;   // next calls of pread that fail
inline int failing_writes = 0;  // next calls of pwrite that fail
inline int call_error = 0;
inline bool has_statx = true;

template <class... Arguments>
ssize_t fail_or_call(int& failing, const char* name, Arguments... arguments) {
  if (failing > 0) {
    --failing;
    errno = call_error;
    return -1;
  }
  return reinterpret_cast<ssize_t (*)(Arguments...)>(::dlsym(RTLD_NEXT, name))(arguments...);
}

}  // namespace penstock::io

extern "C" {

__attribute__((visibility("default"))) ssize_t pread(int fd, void* to, size_t bytes, off_t at) {
  return penstock::io::fail_or_call(penstock::io::failing_reads, "pread", fd, to, bytes, at);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void* from, size_t bytes,
                                                      off_t at) {
  return penstock::io::fail_or_call(penstock::io::failing_writes, "pwrite", fd, from, bytes, at);
}

__attribute__((visibility("default"))) int statx(int folder, const char* path, int flags,
                                                 unsigned wanted, struct statx* status) noexcept {
  using Call = int (*)(int, const char*, int, unsigned, struct statx*);
  if (penstock::io::has_statx)
    return reinterpret_cast<Call>(::dlsym(RTLD_NEXT, "statx"))(folder, path, flags, wanted, status);
  errno = ENOSYS;
  return -1;
}
}

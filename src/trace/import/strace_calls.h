#pragma once

// The calls of strace's lines that say something about files, descriptors or processes. Names that
// differ by the size of a type only (64) are one.

#include <string_view>

namespace penstock::trace {

enum class Sys {
  none,
  open,
  openat,
  openat2,
  creat,
  close,
  close_range,
  dup,
  dup2,  // and dup3
  fcntl,
  read,
  pread,
  readv,
  preadv,
  preadv2,
  write,
  pwrite,
  writev,
  pwritev,
  pwritev2,
  lseek,
  llseek,
  sendfile,
  copy_file_range,
  splice,
  truncate,
  ftruncate,
  fallocate,
  fsync,
  fdatasync,
  rename,
  renameat,
  link,
  linkat,
  unlink,
  unlinkat,
  mmap,
  fork,
  clone,
  exec,
  chdir,
  fchdir,
  fstat,
  stat,
  statat,
  statx,
  makes_descriptor,   // that stands for no file: socket, eventfd, ...
  makes_descriptors,  // in an array: pipe, socketpair
  io_uring_enter,
  io_submit,
};

// By its name in the log; none: a call that does not matter here.
Sys sys_of(std::string_view name);

inline bool moves_bytes(Sys sys) {
  return (sys >= Sys::read && sys <= Sys::pwritev2) || sys == Sys::sendfile ||
         sys == Sys::copy_file_range || sys == Sys::splice;
}

inline bool makes_process(Sys sys) {
  return sys == Sys::fork || sys == Sys::clone;
}

}  // namespace penstock::trace

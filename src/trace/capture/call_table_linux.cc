#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace/capture/call_table.h"
#include "trace/capture/proc_files.h"

namespace penstock::trace {
namespace {

// Calls that the newer architectures no longer have are named where they exist.
constexpr uint32_t numbers[] = {
#ifdef SYS_open
    SYS_open,
#endif
#ifdef SYS_creat
    SYS_creat,
#endif
#ifdef SYS_dup2
    SYS_dup2,
#endif
#ifdef SYS_rename
    SYS_rename,
#endif
#ifdef SYS_unlink
    SYS_unlink,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
    SYS_openat,
    SYS_openat2,
    SYS_close,
    SYS_close_range,
    SYS_dup,
    SYS_dup3,
    SYS_fcntl,
    SYS_ioctl,
    SYS_read,
    SYS_readv,
    SYS_pread64,
    SYS_preadv,
    SYS_preadv2,
    SYS_write,
    SYS_writev,
    SYS_pwrite64,
    SYS_pwritev,
    SYS_pwritev2,
    SYS_lseek,
    SYS_sendfile,
    SYS_splice,
    SYS_copy_file_range,
    SYS_fallocate,
    SYS_ftruncate,
    SYS_truncate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_renameat2,
    SYS_unlinkat,
    SYS_mmap,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_io_submit};

uint32_t write_flags(uint64_t system_flags) {
  uint32_t flags = 0;
  if (system_flags & RWF_APPEND) flags |= flag::append;
  if (system_flags & (RWF_SYNC | RWF_DSYNC)) flags |= flag::synchronous;
  return flags;
}

AskedCall decode_fcntl(int32_t descriptor, uint64_t command, uint64_t argument) {
  AskedCall asked{.what = Asked::set_flags, .descriptor = descriptor};
  switch (command) {
    case F_DUPFD:
      asked.what = Asked::duplicate;
      break;
    case F_DUPFD_CLOEXEC:
      asked.what = Asked::duplicate;
      asked.flags = flag::close_on_exec;
      break;
    case F_SETFD:
      asked.flags = flag::descriptor_flags | (argument & FD_CLOEXEC ? flag::close_on_exec : 0);
      break;
    case F_SETFL:
      asked.flags = flag::status_flags | (open_flags(argument) & (flag::append | flag::direct));
      break;
    default:
      asked.what = Asked::nothing;
  }
  return asked;
}

}  // namespace

const int32_t current_directory = AT_FDCWD;

std::span<const uint32_t> watched_numbers() {
  return numbers;
}

AskedCall decode(const SystemCall& call) {
  const auto& a = call.arguments;
  const auto descriptor = static_cast<int32_t>(a[0]);
  switch (call.number) {
#ifdef SYS_open
    case SYS_open:
      return {.what = Asked::open, .directory = AT_FDCWD, .flags = open_flags(a[1])};
#endif
#ifdef SYS_creat
    case SYS_creat:
      return {.what = Asked::open,
              .directory = AT_FDCWD,
              .flags = open_flags(O_WRONLY | O_CREAT | O_TRUNC)};
#endif
    case SYS_openat:
      return {.what = Asked::open, .flags = open_flags(a[2])};
    case SYS_openat2:
      return {.what = Asked::open, .structure_at = a[2]};
    case SYS_close:
      return {.what = Asked::close, .descriptor = descriptor};
    case SYS_close_range:
      return {.what = Asked::close_range,
              .descriptor = static_cast<int32_t>(a[0] > INT32_MAX ? INT32_MAX : a[0]),
              .descriptor2 = static_cast<int32_t>(a[1] > INT32_MAX ? INT32_MAX : a[1]),
              // CLOSE_RANGE_CLOEXEC. (CLOSE_RANGE_UNSHARE, 2, also leaves a shared table.)
              .flags = a[2] & 4 ? flag::close_on_exec : 0};
    case SYS_dup:
      return {.what = Asked::duplicate, .descriptor = descriptor};
#ifdef SYS_dup2
    case SYS_dup2:
      return {.what = Asked::duplicate, .descriptor = descriptor};
#endif
    case SYS_dup3:
      return {.what = Asked::duplicate,
              .descriptor = descriptor,
              .flags = a[2] & O_CLOEXEC ? flag::close_on_exec : 0};
    case SYS_fcntl:
      return decode_fcntl(descriptor, a[1], a[2]);
    case SYS_ioctl:
      if (static_cast<uint32_t>(a[1]) != FIOCLEX && static_cast<uint32_t>(a[1]) != FIONCLEX) {
        return {};
      }
      return {.what = Asked::set_flags,
              .descriptor = descriptor,
              .flags = flag::descriptor_flags |
                       (static_cast<uint32_t>(a[1]) == FIOCLEX ? flag::close_on_exec : 0)};
    case SYS_read:
      return {.what = Asked::read, .descriptor = descriptor, .bytes = a[2]};
    case SYS_readv:
      return {.what = Asked::read, .descriptor = descriptor, .flags = flag::vector};
    case SYS_pread64:
      return {.what = Asked::read, .descriptor = descriptor, .offset = a[3], .bytes = a[2]};
    case SYS_preadv:
    case SYS_preadv2:  // an offset of -1 is no_offset
      return {.what = Asked::read, .descriptor = descriptor, .flags = flag::vector, .offset = a[3]};
    case SYS_write:
      return {.what = Asked::write, .descriptor = descriptor, .bytes = a[2]};
    case SYS_writev:
      return {.what = Asked::write, .descriptor = descriptor, .flags = flag::vector};
    case SYS_pwrite64:
      return {.what = Asked::write, .descriptor = descriptor, .offset = a[3], .bytes = a[2]};
    case SYS_pwritev:
      return {
          .what = Asked::write, .descriptor = descriptor, .flags = flag::vector, .offset = a[3]};
    case SYS_pwritev2:
      return {.what = Asked::write,
              .descriptor = descriptor,
              .flags = flag::vector | write_flags(a[5]),
              .offset = a[3]};
    case SYS_lseek:
      return {.what = Asked::seek, .descriptor = descriptor};
    case SYS_sendfile:
      return {.what = Asked::copy,
              .descriptor = static_cast<int32_t>(a[1]),
              .descriptor2 = descriptor,
              .bytes = a[3],
              .offset_at = a[2]};
    case SYS_splice:
    case SYS_copy_file_range:
      return {.what = Asked::copy,
              .descriptor = descriptor,
              .descriptor2 = static_cast<int32_t>(a[2]),
              .flags = call.number == SYS_splice ? flag::splice : 0,
              .bytes = a[4],
              .offset_at = a[1],
              .offset2_at = a[3]};
    case SYS_fallocate: {
      uint32_t flags = 0;
      if (a[1] & FALLOC_FL_KEEP_SIZE) flags |= flag::keep_size;
      if (a[1] & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE)) flags |= flag::punch;
      return {.what = Asked::allocate,
              .descriptor = descriptor,
              .flags = flags,
              .offset = a[2],
              .bytes = a[3]};
    }
    case SYS_ftruncate:
      return {.what = Asked::truncate, .descriptor = descriptor, .bytes = a[1]};
    case SYS_truncate:
      return {.what = Asked::truncate_path, .directory = AT_FDCWD, .bytes = a[1], .path_at = a[0]};
    case SYS_fsync:
      return {.what = Asked::sync, .descriptor = descriptor};
    case SYS_fdatasync:
      return {.what = Asked::sync, .descriptor = descriptor, .flags = flag::data_only};
#ifdef SYS_rename
    case SYS_rename:
      return {.what = Asked::rename, .directory = AT_FDCWD, .path_at = a[1]};
#endif
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
      return {.what = Asked::rename, .directory = static_cast<int32_t>(a[2]), .path_at = a[3]};
#ifdef SYS_unlink
    case SYS_unlink:
      return {.what = Asked::unlink, .directory = AT_FDCWD, .path_at = a[0]};
#endif
    case SYS_unlinkat:
      if (a[2] & AT_REMOVEDIR) return {};
      return {.what = Asked::unlink, .directory = descriptor, .path_at = a[1]};
    case SYS_mmap:
      if (static_cast<int32_t>(a[4]) < 0 || (a[3] & MAP_ANONYMOUS) != 0) return {};
      return {.what = Asked::map,
              .descriptor = static_cast<int32_t>(a[4]),
              .flags = (a[2] & PROT_WRITE && (a[3] & MAP_SHARED) ? flag::write : 0) | flag::read,
              .offset = a[5],
              .bytes = a[1]};
    case SYS_io_uring_setup:
      return {.what = Asked::ring_setup, .bytes = a[0], .structure_at = a[1]};
    case SYS_io_uring_enter:
      return {.what = Asked::ring_enter,
              .descriptor = descriptor,
              .operation = static_cast<uint32_t>(a[3]),
              .bytes = static_cast<uint32_t>(a[1])};
    case SYS_io_uring_register:
      return {.what = Asked::ring_register,
              .descriptor = descriptor,
              .operation = static_cast<uint32_t>(a[1]),
              .bytes = static_cast<uint32_t>(a[3]),
              .structure_at = a[2]};
    case SYS_io_submit:
      return {
          .what = Asked::aio_submit, .bytes = a[1] <= INT32_MAX ? a[1] : 0, .structure_at = a[2]};
    default:
      return {};
  }
}

}  // namespace penstock::trace

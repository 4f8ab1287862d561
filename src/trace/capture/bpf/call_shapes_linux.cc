#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <algorithm>

#include "base/check.h"
#include "trace/capture/bpf/call_shapes.h"
#include "trace/capture/call_table.h"
#include "trace/capture/proc_files.h"

namespace penstock::trace {

using kernel::CallShape;

namespace {

constexpr int8_t none = -1;
constexpr CallShape shape(int what, int8_t descriptor = none) {
  return {.what = static_cast<uint8_t>(kernel::call_watched | what),
          .descriptor = descriptor,
          .descriptor2 = none,
          .folder = {none, none},
          .path = {none, none},
          .points = {none, none},
          .chosen_by = none};
}
constexpr CallShape with_paths(CallShape made, int8_t folder, int8_t path, int8_t folder2 = none,
                               int8_t path2 = none) {
  made.folder[0] = folder;
  made.path[0] = path;
  made.folder[1] = folder2;
  made.path[1] = path2;
  return made;
}
constexpr CallShape with_pointed(CallShape made, int8_t first, int8_t second = none,
                                 uint8_t ahead = 0) {
  made.points[0] = first;
  made.points[1] = second;
  made.points_ahead = ahead;
  return made;
}

// What to look at for a call that decode() knows.
CallShape shape_of(uint32_t number, bool rings_are_seen) {
  using namespace kernel;
  CallShape copies = shape(call_either | call_streams, 0);
  switch (number) {
#ifdef SYS_open
    case SYS_open:
#endif
#ifdef SYS_creat
    case SYS_creat:
#endif
    case SYS_openat:
      return shape(call_makes_file);
    case SYS_openat2:
      return with_pointed(shape(call_makes_file), 2);  // open_how begins with the flags
    case SYS_close:
      return shape(call_at_entry | call_storage_only, 0);
    case SYS_close_range:
      return shape(call_at_entry);
#ifdef SYS_dup2
    case SYS_dup2:
#endif
    case SYS_dup:
    case SYS_dup3:
      return shape(call_makes_file, 0);
    case SYS_fcntl: {
      CallShape made = shape(0, 0);
      made.chosen_by = 1;
      const uint32_t commands[] = {F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, F_SETFL};
      std::ranges::copy(commands, made.choices);
      return made;
    }
    case SYS_ioctl: {
      CallShape made = shape(0, 0);
      made.chosen_by = 1;
      const uint32_t commands[] = {FIOCLEX, FIONCLEX, FIOCLEX, FIONCLEX};
      std::ranges::copy(commands, made.choices);
      return made;
    }
    case SYS_read:
    case SYS_readv:
    case SYS_pread64:
    case SYS_preadv:
    case SYS_preadv2:
    case SYS_write:
    case SYS_writev:
    case SYS_pwrite64:
    case SYS_pwritev:
    case SYS_pwritev2:
      return shape(call_storage_only | call_streams, 0);
    case SYS_lseek:
    case SYS_fsync:
    case SYS_fdatasync:
      return shape(call_storage_only, 0);
    case SYS_fallocate:
    case SYS_ftruncate:
      return shape(call_storage_only | call_sizes, 0);
    case SYS_mmap:
      return shape(call_storage_only | call_maps, 4);
    case SYS_sendfile:
      copies.descriptor = 1;
      copies.descriptor2 = 0;
      return with_pointed(copies, 2);
    case SYS_splice:
    case SYS_copy_file_range:
      copies.descriptor2 = 2;
      return with_pointed(copies, 1, 3);
    case SYS_truncate:
      return with_paths(shape(0), none, 0);
#ifdef SYS_rename
    case SYS_rename:
      return with_paths(shape(0), none, 0, none, 1);
#endif
#ifdef SYS_renameat
    case SYS_renameat:
#endif
    case SYS_renameat2:
      return with_paths(shape(0), 0, 1, 2, 3);
#ifdef SYS_unlink
    case SYS_unlink:
      return with_paths(shape(0), none, 0);
#endif
    case SYS_unlinkat:
      return with_paths(shape(0), 0, 1);
    case SYS_io_uring_setup:
      return with_pointed(shape(0), 1, none, 8);  // the flags, and what follows them
    case SYS_io_uring_enter:
      // Its requests are seen one by one; where they are not, they are counted here.
      return rings_are_seen ? CallShape{} : shape(call_at_entry);
    case SYS_io_submit:
      return shape(call_at_entry);  // counted, not seen
    default:
      return {};
  }
}

}  // namespace

void fill_settings(kernel::Settings& settings, bool rings_are_seen) {
  for (const uint32_t number : watched_numbers()) {
    PENSTOCK_CHECK(number < kernel::calls_max, "a call has a larger number");
    settings.calls[number] = shape_of(number, rings_are_seen);
  }
  const std::span<const uint64_t> pseudo = pseudo_file_systems();
  PENSTOCK_CHECK(pseudo.size() <= kernel::pseudo_systems_max, "more pseudo file systems");
  std::ranges::copy(pseudo, settings.pseudo_systems);
}

}  // namespace penstock::trace

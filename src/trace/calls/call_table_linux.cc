#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include <algorithm>
#include <unordered_map>

#include "trace/calls/call_table.h"

namespace penstock::trace {
namespace {

// Returns the number of a call, from the text that its macro expands to. Newer machines lack some
// calls (no open(), only openat()): the macro is not defined then, and the text is its own name.
consteval int32_t number_in(std::string_view text) {
  int32_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return CallRow::no_number;
    number = number * 10 + (c - '0');
  }
  return number;
}
#define PENSTOCK_TEXT(expanded) #expanded
#define PENSTOCK_EXPANDED(macro) PENSTOCK_TEXT(macro)
static_assert(number_in(PENSTOCK_EXPANDED(SYS_openat)) == SYS_openat, "numbers are no numerals");
#define CALL(its_name, its_effect, letters)                                  \
  .name = #its_name, .number = number_in(PENSTOCK_EXPANDED(SYS_##its_name)), \
  .effect = Effect::its_effect, .at = letters
#define LOGGED(its_name, its_effect, letters, reason) \
  .name = #its_name, .effect = Effect::its_effect, .at = letters, .not_captured = reason

// Reasons why a reader of calls does not need a row.
constexpr std::string_view narrow = "a call of 32-bit programs, which are not captured";
constexpr std::string_view reported = "the kernel reports processes to a capture by itself";
constexpr std::string_view looked_up = "a capture asks the kernel which file it is, and how large";
constexpr std::string_view at_use = "a capture looks what a descriptor is when it is used";
constexpr std::string_view one_by_one = "the kernel's programs see the ring's requests themselves";
constexpr std::string_view in_memory = "the requests are in memory, which a log does not show";
constexpr std::string_view mostly_other = "nearly all ioctls are of terminals and devices";

constexpr CallRow rows[] = {
    // Descriptors.
    {CALL(open, open, "pf")},
    {CALL(creat, open, "p")},
    {CALL(openat, open, "wpf")},
    {CALL(openat2, open, "wps")},
    {CALL(close, close, "d")},
    {CALL(close_range, close_range, "dDf")},
    {CALL(dup, duplicate, "d")},
    {CALL(dup2, duplicate, "d")},
    {CALL(dup3, duplicate, "d-f")},
    {CALL(fcntl, set_flags, "dcf"), .other_names = "fcntl64",
     .commands = {F_DUPFD, F_DUPFD_CLOEXEC, F_SETFD, F_SETFL}},
    {CALL(ioctl, set_flags, "dc"), .commands = {FIOCLEX, FIONCLEX, FIOCLEX, FIONCLEX},
     .not_in_logs = mostly_other},

    // Bytes. An offset of -1 is no_offset.
    {CALL(read, read, "d-n")},
    {CALL(readv, read, "d"), .event_flags = flag::vector},
    {CALL(pread64, read, "d-no"), .other_names = "pread"},
    {CALL(preadv, read, "d--o"), .event_flags = flag::vector},
    {CALL(preadv2, read, "d--o"), .event_flags = flag::vector},
    {CALL(write, write, "d-n")},
    {CALL(writev, write, "d"), .event_flags = flag::vector},
    {CALL(pwrite64, write, "d-no"), .other_names = "pwrite"},
    {CALL(pwritev, write, "d--o"), .event_flags = flag::vector},
    {CALL(pwritev2, write, "d--o-f"), .event_flags = flag::vector},
    {CALL(lseek, seek, "doc")},
    {LOGGED(_llseek, seek, "dosc", narrow)},
    {CALL(sendfile, copy, "Ddan"), .other_names = "sendfile64"},
    {CALL(splice, copy, "daDAn"), .event_flags = flag::splice},
    {CALL(copy_file_range, copy, "daDAn")},

    // Files and their names.
    {CALL(fallocate, allocate, "dfon")},
    {CALL(ftruncate, truncate, "dn"), .other_names = "ftruncate64"},
    {CALL(truncate, truncate_path, "pn"), .other_names = "truncate64"},
    {CALL(fsync, sync, "d")},
    {CALL(fdatasync, sync, "d"), .event_flags = flag::data_only},
    {CALL(sync, sync, "")},
    {CALL(syncfs, sync, "")},
    {CALL(msync, sync, "")},
    {CALL(rename, rename, "pP")},
    {CALL(renameat, rename, "wpWP")},
    {CALL(renameat2, rename, "wpWPf")},
    {LOGGED(link, link, "pP", looked_up)},
    {LOGGED(linkat, link, "wpWP", looked_up)},
    {CALL(unlink, unlink, "p")},
    {CALL(unlinkat, unlink, "wpf")},
    {CALL(mmap, map, "-ncfdo")},
    {LOGGED(mmap2, map, "-ncfdo", narrow)},  // the offset is in pages
    {LOGGED(chdir, change_folder, "p", looked_up)},
    {LOGGED(fchdir, change_folder, "w", looked_up)},
    {CALL(fstat, read_size, "ds"), .other_names = "fstat64"},
    {CALL(stat, read_size, "ps"), .other_names = "stat64"},
    {CALL(lstat, read_size, "ps"), .other_names = "lstat64"},
    {CALL(newfstatat, read_size, "wps"), .other_names = "fstatat64"},
    {CALL(statx, read_size, "wp--s")},
    {CALL(access, stat, "p")},
    {CALL(faccessat, stat, "wp")},
    {CALL(faccessat2, stat, "wp")},

    // Requests in shared memory.
    {CALL(io_uring_setup, ring_setup, "ns")},
    {CALL(io_uring_enter, ring_enter, "dn-c")},
    {CALL(io_uring_register, ring_register, "dcsn"), .not_by_bpf = one_by_one,
     .not_in_logs = in_memory},
    {CALL(io_submit, aio_submit, "-ns")},

    // Processes, and descriptors of no file.
    {LOGGED(fork, fork, "", reported), .other_names = "vfork clone clone3"},
    {LOGGED(execve, exec, "p", reported)},
    {LOGGED(execveat, exec, "wp", reported)},
    {LOGGED(socket, make_descriptor, "", at_use),
     .other_names = "accept accept4 epoll_create epoll_create1 eventfd eventfd2 timerfd_create "
                    "signalfd signalfd4 inotify_init inotify_init1 memfd_create userfaultfd "
                    "perf_event_open pidfd_open"},
    {LOGGED(pipe, make_descriptors, "", at_use), .other_names = "pipe2 socketpair"},
};
#undef CALL
#undef LOGGED

// Calls `visit` with each name of a row.
template <class Visit>
void each_name(const CallRow& row, const Visit& visit) {
  visit(row.name);
  std::string_view names = row.other_names;
  while (!names.empty()) {
    const size_t end = std::min(names.find(' '), names.size());
    visit(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
}

}  // namespace

std::span<const CallRow> call_table() {
  return rows;
}

const CallRow* captured_call(uint64_t number) {
  constexpr size_t numbers_max = 512;
  static constexpr auto by_number = [] {
    std::array<const CallRow*, numbers_max> found{};
    for (const CallRow& row : rows) {
      if (row.number != CallRow::no_number) found.at(static_cast<size_t>(row.number)) = &row;
    }
    return found;
  }();
  return number < numbers_max ? by_number[number] : nullptr;
}

const CallRow* logged_call(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const CallRow*> found;
    for (const CallRow& row : rows) {
      if (row.not_in_logs.empty()) each_name(row, [&](std::string_view its) { found[its] = &row; });
    }
    return found;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace penstock::trace

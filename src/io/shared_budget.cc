#include "io/shared_budget.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/misuse.h"

namespace penstock::io {
namespace {

// Bytes of the file whose locks stand for MiB of the budget, for drawn numbers, and for the right
// to change the header.
constexpr off_t numbers_at = off_t{1} << 50;
constexpr off_t change_at = off_t{1} << 60;

struct BudgetHeader {
  uint64_t budget_mib = 0;
  uint64_t next_number = 0;
};

struct Range {
  off_t at, bytes;
};

struct flock lock_of(short type, Range range) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.at;
  lock.l_len = range.bytes;
  return lock;
}

// Returns 0 or an errno.
int set_lock(int fd, short type, Range range) {
  struct flock lock = lock_of(type, range);
  return ::fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : errno;
}

// Returns a range within `range` that others have locked, or nullopt.
std::optional<Range> locked_within(int fd, Range range) {
  if (range.bytes == 0) return std::nullopt;
  struct flock lock = lock_of(F_WRLCK, range);
  if (::fcntl(fd, F_OFD_GETLK, &lock) != 0) return range;
  if (lock.l_type == F_UNLCK) return std::nullopt;
  return Range{lock.l_start, lock.l_len};
}

void collect_free(int fd, Range range, std::vector<Range>& free) {
  if (range.bytes <= 0) return;
  const auto taken = locked_within(fd, range);
  if (!taken) {
    free.push_back(range);
    return;
  }
  collect_free(fd, {range.at, taken->at - range.at}, free);
  const off_t behind = taken->at + taken->bytes;
  collect_free(fd, {behind, range.at + range.bytes - behind}, free);
}

bool take_mib(int fd, off_t wanted, off_t budget) {
  std::vector<Range> free, taken;
  collect_free(fd, {0, budget}, free);
  for (Range range : free) {
    range.bytes = std::min(range.bytes, wanted);
    if (range.bytes == 0) break;
    if (set_lock(fd, F_WRLCK, range) != 0) break;
    taken.push_back(range);
    wanted -= range.bytes;
  }
  if (wanted == 0) return true;
  for (const Range& range : taken) (void)set_lock(fd, F_UNLCK, range);
  return false;
}

// Reads the header that the running processes have written.
Result<BudgetHeader> read_header(int fd, const std::string& path) {
  BudgetHeader header;
  const ssize_t bytes = os::retried([&] { return ::pread(fd, &header, sizeof header, 0); });
  if (bytes < 0) return system_error(errno, "read", path);
  if (bytes != sizeof header)
    return failure(ErrorCode::corrupt, "read the size of the pool: the file was cut off", path,
                   "another name, or this one when no process uses it");
  return header;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 64 && name[0] != '.' &&
         std::ranges::all_of(name, [](unsigned char c) {
           return std::isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

}  // namespace

Result<SharedBudget> SharedBudget::acquire(const Options& options) {
  const std::string shared = "memory pool " + options.name;
  if (!is_name(options.name))
    return misuse("share memory by this name", options.name, "letters, digits, . _ and -");
  const std::string path = fmt::format("/dev/shm/penstock-{}-{}", ::geteuid(), options.name);
  constexpr int flags = O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  os::Fd fd(::open(path.c_str(), flags, 0600));
  struct stat status;
  if (!fd || ::fstat(fd.get(), &status) != 0) return system_error(errno, "open", path);
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0 ||
      status.st_nlink != 1)
    return failure(ErrorCode::permission, "share memory by a file that is not this user's alone",
                   path, "another name");

  const off_t wanted = static_cast<off_t>((options.bytes + MiB - 1) / MiB);
  bool told = false;
  const auto start = std::chrono::steady_clock::now();
  const auto wait_until = [&](auto&& done) -> Status {
    while (!done()) {
      if (options.cancel != nullptr && *options.cancel)
        return failure(ErrorCode::interrupted, "wait for memory", shared);
      if (!told && options.notice &&
          std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) {
        told = true;
        options.notice(fmt::format("waits for {} MiB of the {}", wanted, shared));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return {};
  };

  int error = 0;
  const auto lock = [&](off_t at) {
    return [&, at] {
      error = set_lock(fd.get(), F_WRLCK, {at, 1});
      return error != EAGAIN && error != EACCES;
    };
  };
  if (Status got = wait_until(lock(change_at)); !got) return std::unexpected(got.error());
  if (error != 0) return system_error(error, "lock", path);
  BudgetHeader header = {.budget_mib = options.budget_bytes / MiB};
  if (locked_within(fd.get(), {0, change_at})) {
    const auto known = read_header(fd.get(), path);
    if (!known) return std::unexpected(known.error());
    header = *known;
  }
  if (header.budget_mib == 0)
    return misuse("find the size of this pool: no other process uses it", shared,
                  "--memory-pool " + options.name + ":8G");
  if (options.budget_bytes != 0 && options.budget_bytes / MiB != header.budget_mib)
    return misuse(fmt::format("share {} MiB: the running processes share {} MiB",
                              options.budget_bytes / MiB, header.budget_mib),
                  shared, "the same size");
  const off_t budget = static_cast<off_t>(header.budget_mib);
  if (wanted > budget)
    return misuse(fmt::format("take {} MiB of {} MiB", wanted, budget), shared, "a smaller -S");
  const off_t number = static_cast<off_t>(header.next_number++);
  if (::pwrite(fd.get(), &header, sizeof header, 0) != sizeof header)
    return system_error(errno, "write", path);
  if (Status got = wait_until(lock(numbers_at + number)); !got) return std::unexpected(got.error());
  if (error != 0) return system_error(error, "lock", path);
  (void)set_lock(fd.get(), F_UNLCK, {change_at, 1});

  if (Status got = wait_until([&] {
        return !locked_within(fd.get(), {numbers_at, number}) && take_mib(fd.get(), wanted, budget);
      });
      !got)
    return std::unexpected(got.error());
  (void)set_lock(fd.get(), F_UNLCK, {numbers_at + number, 1});
  return SharedBudget(std::move(fd));
}

}  // namespace penstock::io

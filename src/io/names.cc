#include "io/names.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string_view>

#include "base/random.h"
#include "io/file.h"
#include "os/fd.h"

namespace penstock::io {

namespace {

constexpr std::string_view temporary_prefix = ".penstock-";
constexpr std::string_view temporary_suffix = ".tmp";

// Returns the descriptor of this process that a name such as "/dev/fd/63" means; it may be closed.
std::optional<int> named_descriptor(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  int fd = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
  if (error != std::errc() || end != name.data() + name.size() || fd < 0) return {};
  struct stat here, own;
  if (::stat(directory_of(path).c_str(), &here) != 0 || ::stat("/proc/self/fd", &own) != 0 ||
      !is_same_file(here, own))
    return {};
  return fd;
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(temporary_prefix) || !name.ends_with(temporary_suffix)) return false;
  name.remove_prefix(temporary_prefix.size());
  name.remove_suffix(temporary_suffix.size());
  size_t dash = name.find('-');
  if (dash == 0 || dash == std::string_view::npos || name.size() - dash - 1 != 16) return false;
  return std::all_of(name.begin(), name.begin() + dash,
                     [](unsigned char c) { return std::isdigit(c); }) &&
         std::all_of(name.begin() + dash + 1, name.end(),
                     [](unsigned char c) { return std::isxdigit(c); });
}

}  // namespace

std::string directory_of(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

bool names(const std::string& name, int fd) {
  struct stat named, opened;
  return ::stat(name.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 &&
         is_same_file(named, opened);
}

std::string descriptor_path(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

Result<LinkEnd> follow_links(std::string path) {
  const std::string named = path;
  for (int links = 0; links < 40; ++links) {
    if (const auto descriptor = named_descriptor(path)) return LinkEnd{path, descriptor};
    char target[4096];
    ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return LinkEnd{path};
    std::string_view text(target, static_cast<size_t>(length));
    path =
        text.starts_with('/') ? std::string(text) : fmt::format("{}/{}", directory_of(path), text);
  }
  return system_error(ELOOP, "create", named);
}

namespace {

// Returns whether two names are of one file, existing or not.
bool name_one_file(const std::string& a, const std::string& b) {
  struct stat device;
  const bool is_null =
      ::stat(a.c_str(), &device) == 0 && S_ISCHR(device.st_mode) && device.st_rdev == makedev(1, 3);
  if (is_null) return false;
  const auto place = [](const std::string& name) -> std::filesystem::path {
    const auto end = follow_links(name);
    const std::filesystem::path path = end ? end->name : name;
    std::error_code ignored;
    return std::filesystem::weakly_canonical(directory_of(path), ignored) / path.filename();
  };
  std::error_code ignored;
  return a == b || place(a) == place(b) || std::filesystem::equivalent(a, b, ignored);
}

// Returns whether a file may be one of the parts that `pattern` names.
bool names_a_part(const std::string& pattern, const std::string& name) {
  const size_t place = pattern.find("{}");
  if (place == std::string::npos) return false;
  // The number is among the digits of the name, or of that of the file that a link leads to.
  std::error_code ignored;
  for (const std::string& one : {name, std::filesystem::canonical(name, ignored).string()}) {
    std::string digits = one.substr(one.rfind('/') + 1);
    std::erase_if(digits, [](char c) { return c < '0' || c > '9'; });
    for (size_t begin = 0; begin < digits.size(); ++begin) {
      for (size_t count = 1; begin + count <= digits.size(); ++count) {
        std::string part = pattern;
        part.replace(place, 2, digits.substr(begin, count));
        if (name_one_file(part, name)) return true;
      }
    }
  }
  return false;
}

// Returns the name of the file, also if it is a descriptor's.
std::string name_of(const UsedFile& file) {
  if (file.use == UsedFile::Use::read) return file.name == "-" ? "/dev/stdin" : file.name;
  const auto descriptor = output_descriptor(file.name);
  return descriptor ? descriptor_path(*descriptor) : file.name;
}

}  // namespace

bool share_a_file(const UsedFile& output, const UsedFile& other) {
  const std::string name = name_of(output);
  const std::string other_name = name_of(other);
  if (output.use == UsedFile::Use::parts) return names_a_part(output.name, other_name);
  if (other.use == UsedFile::Use::parts) return names_a_part(other.name, name);
  if (!output_descriptor(output.name)) return names_a_file(name) && name_one_file(name, other_name);
  std::error_code ignored;
  return name == other_name || (std::filesystem::is_regular_file(name, ignored) &&
                                std::filesystem::equivalent(name, other_name, ignored));
}

std::string temporary_name(const std::string& directory) {
  // A taken name is retried, so if the system has no random number, a weaker one will do.
  static std::atomic<uint64_t> names{0};  // relaxed: only makes numbers differ
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    random = mix64(static_cast<uint64_t>(now) + names.fetch_add(1, std::memory_order_relaxed));
  }
  return fmt::format("{}/{}{}-{:016x}{}", directory, temporary_prefix, ::getpid(), random,
                     temporary_suffix);
}

// Creates a file with a temporary name, locked. Between creation and lock another process may
// mistake it for a dead run's and remove it: then we make another one.
NamedFile create_named(const std::string& directory, unsigned mode) {
  for (;;) {
    std::string name = temporary_name(directory);
    int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
      if (errno == EEXIST) continue;
      return {-1, {}};
    }
    ::flock(fd, LOCK_EX);
    if (names(name, fd)) return {fd, std::move(name)};
    ::close(fd);
  }
}

bool can_be_linked(int fd, const std::string& directory) {
  // No link is made, because the name is taken. Without /proc, or if refused, errno differs.
  return ::linkat(AT_FDCWD, descriptor_path(fd).c_str(), AT_FDCWD, (directory + "/.").c_str(),
                  AT_SYMLINK_FOLLOW) != 0 &&
         errno == EEXIST;
}

size_t remove_stale_temporaries(const std::string& directory) {
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), &::closedir);
  if (!entries) return 0;
  size_t removed = 0;
  while (dirent* entry = ::readdir(entries.get())) {
    if (!is_temporary_name(entry->d_name)) continue;
    std::string name = fmt::format("{}/{}", directory, entry->d_name);
    const os::Fd fd(::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status;
    const bool regular = fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode);
    if (regular && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && names(name, fd.get())) {
      if (::unlink(name.c_str()) == 0) ++removed;
    }
  }
  return removed;
}

}  // namespace penstock::io

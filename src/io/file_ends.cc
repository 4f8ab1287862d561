#include "io/file_ends.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace penstock::io {
namespace {

constexpr size_t head_bytes = 4096;
constexpr off_t tail_bytes = 16;

std::string read_at(int fd, off_t at, size_t bytes_max) {
  std::string text(bytes_max, '\0');
  const ssize_t bytes = ::pread(fd, text.data(), text.size(), at);
  text.resize(static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
  return text;
}

}  // namespace

FileEnds file_ends(const std::string& path) {
  const bool is_stdin = path == "-";
  struct stat status;
  if (!is_stdin && (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))) return {};
  const int fd = is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return {};
  FileEnds ends;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    const off_t from = is_stdin ? std::max<off_t>(::lseek(fd, 0, SEEK_CUR), 0) : 0;
    ends.head = read_at(fd, from, head_bytes);
    ends.tail = read_at(fd, std::max<off_t>(from, status.st_size - tail_bytes), tail_bytes);
  }
  if (!is_stdin) ::close(fd);
  return ends;
}

}  // namespace penstock::io

#include "bench/rivals/plain_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {
namespace {

constexpr size_t buffer_bytes = 1 * MiB;
struct alignas(64) Line {  // for the loops' alignment
  std::byte bytes[64];
};

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : fd_(::open(path.c_str(), flags, 0644)) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

std::unexpected<Error> failed(const char* what, const std::string& path) {
  return system_error(errno, what, path);
}

class Mapping {
 public:
  Mapping(int fd, uint64_t bytes, bool write, Advice advice) : bytes_(bytes) {
    const int protection = PROT_READ | (write ? PROT_WRITE : 0);
    address_ = ::mmap(nullptr, bytes, protection, MAP_SHARED, fd, 0);
    if (!valid()) return;
    if (advice == Advice::sequential) ::madvise(address_, bytes, MADV_SEQUENTIAL);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (valid()) ::munmap(address_, bytes_);
  }
  bool valid() const { return address_ != MAP_FAILED; }
  char* data() const { return static_cast<char*>(address_); }

 private:
  void* address_;
  uint64_t bytes_;
};

// Maps the pages of each piece by one call (`populate`), instead of a fault each.
void bring_in(char* piece, size_t bytes, Advice advice, int populate) {
  if (advice == Advice::populate) ::madvise(piece, bytes, populate);
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

}  // namespace

Result<uint64_t> read_by_fstream(const PlainFile& file) {
  std::ifstream in(file.path, std::ios::binary);
  uint64_t total = 0;
  for (uint64_t i = 0; i < file.bytes / sizeof(uint64_t); ++i) {
    uint64_t number;
    in.read(reinterpret_cast<char*>(&number), sizeof number);
    total += number;
  }
  if (!in) return failure(ErrorCode::io, "read by fstream", file.path);
  return total;
}

Status write_by_fstream(const PlainFile& file) {
  std::ofstream out(file.path, std::ios::binary | std::ios::trunc);
  for (uint64_t i = 0; i < file.bytes / sizeof(uint64_t); ++i) {
    out.write(reinterpret_cast<const char*>(&i), sizeof i);
  }
  out.close();
  if (!out) return failure(ErrorCode::io, "write by fstream", file.path);
  Descriptor written(file.path, O_RDONLY);
  if (file.sync && ::fdatasync(written.get()) != 0) return failed("sync", file.path);
  return {};
}

Result<uint64_t> read_by_calls(const PlainFile& file) {
  Descriptor in(file.path, O_RDONLY);
  std::vector<Line> buffer(buffer_bytes / sizeof(Line));
  uint64_t total = 0;
  for (uint64_t at = 0; at < file.bytes; at += buffer_bytes) {
    if (::read(in.get(), buffer.data(), buffer_bytes) != static_cast<ssize_t>(buffer_bytes))
      return failed("read", file.path);
    total += file.loops.sum(buffer.data(), buffer_bytes);
  }
  return total;
}

Status write_by_calls(const PlainFile& file) {
  Descriptor out(file.path, O_WRONLY | O_CREAT | O_TRUNC);
  std::vector<Line> buffer(buffer_bytes / sizeof(Line));
  for (uint64_t at = 0; at < file.bytes; at += buffer_bytes) {
    file.loops.fill(buffer.data(), buffer_bytes, at / sizeof(uint64_t));
    if (::write(out.get(), buffer.data(), buffer_bytes) != static_cast<ssize_t>(buffer_bytes))
      return failed("write", file.path);
  }
  if (file.sync && ::fdatasync(out.get()) != 0) return failed("sync", file.path);
  return {};
}

Result<uint64_t> read_by_mmap(const PlainFile& file, Advice advice) {
  Descriptor in(file.path, O_RDONLY);
  Mapping mapping(in.get(), file.bytes, false, advice);
  if (!mapping.valid()) return failed("map", file.path);
  if (advice != Advice::populate) return file.loops.sum(mapping.data(), file.bytes);
  uint64_t total = 0;
  for (uint64_t at = 0; at < file.bytes; at += buffer_bytes) {
    bring_in(mapping.data() + at, buffer_bytes, advice, MADV_POPULATE_READ);
    total += file.loops.sum(mapping.data() + at, buffer_bytes);
  }
  return total;
}

Status write_by_mmap(const PlainFile& file, Advice advice) {
  Descriptor out(file.path, O_RDWR | O_CREAT | O_TRUNC);
  if (::ftruncate(out.get(), static_cast<off_t>(file.bytes)) != 0)
    return failed("set the size", file.path);
  Mapping mapping(out.get(), file.bytes, true, advice);
  if (!mapping.valid()) return failed("map", file.path);
  for (uint64_t at = 0; at < file.bytes; at += buffer_bytes) {
    bring_in(mapping.data() + at, buffer_bytes, advice, MADV_POPULATE_WRITE);
    file.loops.fill(mapping.data() + at, buffer_bytes, at / sizeof(uint64_t));
  }
  if (file.sync && ::fdatasync(out.get()) != 0) return failed("sync", file.path);
  return {};
}

Status forget_cached(const std::string& path) {
  Descriptor file(path, O_RDONLY);
  if (::fsync(file.get()) != 0) return failed("sync", path);
  ::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return {};
}

Status bring_into_cache(const std::string& path) {
  Descriptor file(path, O_RDONLY);
  std::vector<char> buffer(buffer_bytes);
  ssize_t got;
  while ((got = ::read(file.get(), buffer.data(), buffer_bytes)) > 0) {
  }
  if (got < 0) return failed("read", path);
  return {};
}

}  // namespace penstock::bench

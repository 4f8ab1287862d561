#pragma once

// The file of a trace: bytes in order, through the page cache. A capture writes under the final name
// from the start, so that a killed capture leaves its events. A conversion's output gets its name
// when it is complete, because its input may have that name.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/file.h"
#include "penstock/base.h"
#include "penstock/source.h"

namespace penstock::trace {

// Thread safety: a move-only value.
class TraceFile {
 public:
  // Creates a file; "-" is stdout.
  static Result<TraceFile> create(const std::string& path);
  // Creates a file that gets its name in close().
  static Result<TraceFile> create_whole(const std::string& path);
  // Opens a trace; "-" is stdin. Compressed traces are decompressed, as all inputs are.
  static Result<TraceFile> open(const std::string& path);
  TraceFile(TraceFile&& other) noexcept
      : source_(std::move(other.source_)),
        fd_(std::exchange(other.fd_, -1)),
        owned_(other.owned_),
        whole_(std::move(other.whole_)),
        path_(std::move(other.path_)),
        peeked_(std::move(other.peeked_)) {}
  TraceFile& operator=(TraceFile&& other) noexcept;
  ~TraceFile() { discard(); }

  const std::string& path() const { return path_; }
  Status write(std::span<const std::byte> bytes);
  // Fills `into`; reads fewer bytes only at the end.
  Result<size_t> read(std::span<std::byte> into);
  // Returns the first bytes, to detect the kind of file. read() returns them as well. REQUIRES: the
  // first call, before any read().
  Result<std::span<const std::byte>> peek(size_t bytes);
  // Closes the file. Returns errors that the system reports only now.
  Status close();

 private:
  TraceFile(int fd, bool owned, std::string path)
      : fd_(fd), owned_(owned), path_(std::move(path)) {}

  void discard();

  std::unique_ptr<Source> source_;  // set by open()
  int fd_ = -1;                     // set by create() and create_whole()
  bool owned_ = false;
  io::File whole_;  // set by create_whole(): owner of fd_
  std::string path_;
  std::vector<std::byte> peeked_;  // bytes of peek() that read() has not returned yet
};

// Returns whether a file of that name is our standard output: "-", "/dev/stdout", or the file that
// it goes to.
bool is_standard_output(const std::string& path);

}  // namespace penstock::trace

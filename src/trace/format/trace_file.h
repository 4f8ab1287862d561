#pragma once

// The file that a trace is written to and read from: bytes in order, through the page cache. A
// capture writes under the final name from the start, so that one that is killed leaves what it
// had. A conversion's output has its name when it is whole: it may be made of what had that name
// before.

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
  // "-" is stdout or stdin.
  static Result<TraceFile> create(const std::string& path);
  // Has its name with close(), and none without it.
  static Result<TraceFile> create_whole(const std::string& path);
  // A compressed trace is decompressed, as every input is.
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
  // As many as there are: fewer than asked for only at the end.
  Result<size_t> read(std::span<std::byte> into);
  // The first bytes, which read() gives as well: what kind of file is this? Once, in front of all
  // reading.
  Result<std::span<const std::byte>> peek(size_t bytes);
  // Errors that the system kept until now.
  Status close();

 private:
  TraceFile(int fd, bool owned, std::string path)
      : fd_(fd), owned_(owned), path_(std::move(path)) {}

  void discard();

  std::unique_ptr<Source> source_;  // of open()
  int fd_ = -1;                     // of the others
  bool owned_ = false;
  io::File whole_;  // of create_whole(): whose fd_ it is
  std::string path_;
  std::vector<std::byte> peeked_;  // and not read yet
};

// Whether what is written to a file of that name would stand among what is written to our standard
// output: "-", "/dev/stdout", or the file that it goes to.
bool is_standard_output(const std::string& path);

}  // namespace penstock::trace

#pragma once

// The space for replays: one file without a name in a directory, or a block device whose contents are
// lost.
//
// Three properties decide whether times measured on it mean anything:
//
//   placement       The file is reserved in one call (fallocate), so that a file system can make it
//                   contiguous, and FIEMAP shows the result. If the file system needs several pieces,
//                   their number is reported, since each border is a jump that the program did not
//                   make.
//   content         Reads of reserved space that was never written do not use the disk: the file
//                   system knows that it is zeros. And the first write costs more than the second. So
//                   fill() writes all of it once, before any time is measured. (Not on an emulated
//                   device, whose clock is measured, and which does not use the disk.)
//   written data    Random words, with a number of its own in each sector: it can neither be
//                   compressed nor deduplicated.
//
// The file is removed with the object, or with the process, even by a kill.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::trace {

// Buffers for requests in flight, of equal size, on huge pages. Unused buffers take no memory.
// Thread safety: none.
class ReplayBuffers {
 public:
  static Result<ReplayBuffers> make(unsigned buffers, size_t buffer_bytes);

  std::byte* at(unsigned buffer) { return memory_.begin() + buffer * buffer_bytes_; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  // Makes the first `bytes` of a buffer unique. REQUIRES: the buffer was not used for reads.
  void renew(unsigned buffer, size_t bytes);

 private:
  os::Reservation memory_;
  size_t buffer_bytes_ = 0;
  std::vector<bool> random_;  // [buffer]: contains random words
  uint64_t sectors_ = 0;
};

// A callback with (done bytes, all bytes).
using ReplayProgress = std::function<void(uint64_t, uint64_t)>;

struct ReplayRegionOptions {
  std::string directory;  // set this or `device`
  std::string device;     // its contents are LOST
  uint64_t bytes = 0;     // size in whole sectors
  bool buffered = false;  // use the page cache
};

// Thread safety: a move-only value; for the file, see io::File.
class ReplayRegion {
 public:
  // Opens and reserves the space, and writes nothing. Errors: out_of_space, before anything is
  // reserved; unsupported if the page cache cannot be avoided; for a device also invalid_argument (no
  // block device, or too small) and permission (a part of it is mounted, or otherwise in use).
  static Result<ReplayRegion> open(const ReplayRegionOptions& options);

  // Writes and syncs the whole region, without any emulated device. Errors: those of writing;
  // interrupted.
  Status fill(const std::atomic<bool>* cancel = nullptr, const ReplayProgress& progress = {});

  const io::File& file() const { return file_; }
  const std::string& place() const { return place_; }  // directory or device, as the user named it
  uint64_t bytes() const { return bytes_; }
  bool is_device() const { return file_.kind() == io::Kind::block_device; }
  bool filled() const { return filled_; }
  Status sync() { return file_.sync(); }

  // The contiguous pieces on the disk; nullopt if the file system does not report them. A device has
  // one.
  struct Pieces {
    uint64_t count = 0;
    uint64_t begin = 0;  // offset of the first one on the disk
  };
  const std::optional<Pieces>& pieces() const { return pieces_; }

 private:
  io::File file_;
  std::string place_;
  uint64_t bytes_ = 0;
  bool filled_ = false;
  std::optional<Pieces> pieces_;
};

// Returns why a block device must not be overwritten: it or a partition of it is mounted, swapped to,
// or part of another device, as far as this process can see. Returns an empty text without a reason.
// `root` is for tests.
std::string in_use(const std::string& device, const std::string& root = "");

}  // namespace penstock::trace

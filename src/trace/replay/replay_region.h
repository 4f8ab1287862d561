#pragma once

// The space that traces are replayed in: one file without a name in a directory, or a block device
// whose contents are given up.
//
// Three things decide whether times measured on it mean anything, and each is looked at:
//
//   where it lies   It is asked for in one call (fallocate), which gives a file system the chance
//                   to place it in one piece, and asked after (FIEMAP). A file system that has no
//                   such piece gives several; how many is told, since each border is a jump that
//                   the program did not make.
//   what is in it   Space that was reserved and never written is read without the disk: the file
//                   system knows that it is zeros. And the first write to it costs more than the
//                   second. So fill() writes all of it once, before any time is taken. (Not on an
//                   emulated device, whose clock is what is measured, and which asks no disk.)
//   what is written Random words, a number of its own in each sector: nothing to compress, nothing
//                   to store once.
//
// A file is gone with this object, or with the process, by a kill too.

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

// Buffers for requests in flight, of equal size, on huge pages; memory is used once a buffer is.
// Thread safety: none.
class ReplayBuffers {
 public:
  static Result<ReplayBuffers> make(unsigned buffers, size_t buffer_bytes);

  std::byte* at(unsigned buffer) { return memory_.begin() + buffer * buffer_bytes_; }
  size_t buffer_bytes() const { return buffer_bytes_; }
  // Makes the first `bytes` something that no disk has seen. REQUIRES: nothing was read into it.
  void renew(unsigned buffer, size_t bytes);

 private:
  os::Reservation memory_;
  size_t buffer_bytes_ = 0;
  std::vector<bool> random_;  // by buffer: it holds random words
  uint64_t sectors_ = 0;
};

// (done bytes, all bytes).
using ReplayProgress = std::function<void(uint64_t, uint64_t)>;

struct ReplayRegionOptions {
  std::string directory;  // one of the two
  std::string device;     // its contents are LOST
  uint64_t bytes = 0;     // whole sectors
  bool buffered = false;  // through the page cache
};

// Thread safety: a move-only value; the file as files are.
class ReplayRegion {
 public:
  // Nothing is written. Errors: out_of_space, before anything is reserved; unsupported where the
  // page cache cannot be avoided; of a device also invalid_argument (no block device, or too
  // small) and permission (something of it is mounted, or otherwise in use).
  static Result<ReplayRegion> open(const ReplayRegionOptions& options);

  // Writes all of it and brings it to the disk, as if no device was emulated. Errors: those of
  // writing; interrupted.
  Status fill(const std::atomic<bool>* cancel = nullptr, const ReplayProgress& progress = {});

  const io::File& file() const { return file_; }
  const std::string& place() const { return place_; }  // as the user named it
  uint64_t bytes() const { return bytes_; }
  bool is_device() const { return file_.kind() == io::Kind::block_device; }
  bool filled() const { return filled_; }
  Status sync() { return file_.sync(); }

  // Pieces on the disk; nothing where the file system does not tell. A device has one.
  struct Pieces {
    uint64_t count = 0;
    uint64_t begin = 0;  // of the first one, on the disk
  };
  const std::optional<Pieces>& pieces() const { return pieces_; }

 private:
  io::File file_;
  std::string place_;
  uint64_t bytes_ = 0;
  bool filled_ = false;
  std::optional<Pieces> pieces_;
};

// Why a block device must not be overwritten: mounted, swapped to, or part of something else, it or
// a partition of it, as far as this process sees. Empty: nothing is known against it. `root` is for
// tests.
std::string in_use(const std::string& device, const std::string& root = "");

}  // namespace penstock::trace

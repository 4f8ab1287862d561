#pragma once

// Temporary space for what does not fit in memory: one vanishing file in each temporary directory,
// written front to back in extents that go to the directories in turn, so that every bucket and
// every disk gets its share of each.
//
// place() is lock-free and allocates nothing (it runs on the fault path of the writers).
// Thread safety: all members from any thread, open() and the destructor apart.
// Invariant: an extent belongs to one taker; extents never overlap.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "file/file.h"
#include "os/memory.h"
#include "stream/file_writer.h"

namespace penstock::external {

class Spill {
 public:
  static Result<std::unique_ptr<Spill>> open(const std::vector<std::string>& directories);

  // `bytes` at a place that is a multiple of the sector.
  stream::Extent place(uint32_t bytes) noexcept;
  // Gives the space of extents that have been read back to the file system.
  void discard(const std::vector<stream::Extent>& extents);

  // The directories, for messages.
  const char* name() const noexcept { return name_.c_str(); }
  uint64_t placed_bytes() const { return placed_bytes_.load(std::memory_order_relaxed); }

 private:
  struct Part {
    file::File file;
    std::atomic<uint64_t> end{0};
  };
  std::string name_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::atomic<uint32_t> turn_{0};
  std::atomic<uint64_t> placed_bytes_{0};
};

// The extents of many buckets that grow side by side, in one table that never moves: appending
// allocates nothing. Thread safety: one thread.
class BucketExtents {
 public:
  // Room for `extents_max` extents in all buckets together; memory is touched as they come.
  static Result<std::unique_ptr<BucketExtents>> open(Spill& spill, uint32_t buckets,
                                                     uint64_t extents_max);

  stream::Sink& sink(uint32_t bucket) { return *sinks_[bucket]; }
  std::vector<stream::Extent> extents(uint32_t bucket) const;

 private:
  struct Entry {
    stream::Extent extent;
    uint64_t next_plus_one;
  };
  class BucketSink final : public stream::Sink {
   public:
    explicit BucketSink(BucketExtents& owner) : owner_(owner) {}
    stream::Extent place(uint64_t block, uint32_t bytes) noexcept override;
    const char* name() const noexcept override { return owner_.spill_.name(); }
    uint64_t first_plus_one = 0;
    uint64_t last_plus_one = 0;

   private:
    BucketExtents& owner_;
  };

  explicit BucketExtents(Spill& spill) : spill_(spill) {}
  Entry* entries() const { return reinterpret_cast<Entry*>(table_.begin()); }

  Spill& spill_;
  os::Reservation table_;
  uint64_t used_ = 0;
  uint64_t capacity_ = 0;
  std::vector<std::unique_ptr<BucketSink>> sinks_;
};

}  // namespace penstock::external

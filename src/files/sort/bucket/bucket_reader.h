#pragma once

// What the second phase begins with: buckets are read in order, each into a region of the arena, as
// far ahead as memory allows, while others sort them there and write.

#include <chrono>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "files/sort/context.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/split/split.h"
#include "io/request_ring.h"

namespace penstock::external {

// A bucket, or a piece of one whose keys are all equal.
struct BucketJob {
  using Clock = std::chrono::steady_clock;

  // `make`: its items are its one key, and lie nowhere, so that it needs no region.
  enum class Kind { sort, copy, make } kind = Kind::sort;
  size_t number = 0;                       // among all
  uint32_t bucket = 0;                     // among those that were given
  std::span<const uint32_t> spilled = {};  // blocks to be read; none: it is there, or is made
  std::span<const StoredBlock> stored_blocks = {};  // these, if they may be compressed
  uint64_t read_bytes = 0;                          // of which the first `bytes` go to the output
  uint64_t bytes = 0;
  uint64_t items = 0;   // those of a bucket of several pieces count as its first one's
  uint64_t start = 0;   // in the bucket, of such a piece
  uint64_t offset = 0;  // in the output, where no items are dropped
  uint64_t region_bytes = 0;
  std::byte* region = nullptr;
  Clock::time_point began_at = {}, read_at = {};  // it had room; it was there
  // The taker's: when it took it, and had sorted it; how far behind the region's start it begins;
  // what goes to the output.
  Clock::time_point taken_at = {}, sorted_at = {};
  uint64_t lead_bytes = 0;
  Stored stored = {};
  // For whoever has requests out for it: the reader until it is loaded.
  unsigned requests_left = 0;
  bool submitted = false;  // all of them
  bool loaded = false;     // under the reader's mutex
};

// Blocks of a job that was read and may be compressed, each to what it was, in its place. Of texts, such a block
// is copied to `spare`, where it is in nobody's way, and inflated from there. (To inflate it from its
// end, in place, takes room behind it, where the next block lies.) Numbers need no other place.
Status restore_blocks(const BucketJob& job, const items::Format& format, const SpillSet& spills,
                      std::vector<std::byte>& spare);

// Requests for jobs, many at a time. Thread safety: one thread.
class JobRequests {
 public:
  // Of one request, except for a block that is larger.
  static constexpr size_t bytes_max = 2 * MiB;
  static constexpr unsigned depth = 32;

  // REQUIRED before submit(). `total_bytes`: of all requests together.
  Status open(uint64_t total_bytes) {
    return ring_.open({.depth = depth, .total_bytes = total_bytes});
  }
  bool full() const { return ring_.full(); }
  bool idle() const { return ring_.idle(); }
  void submit(BucketJob& job, io::Request request);
  // Until one has ended. The job of which it was the last; nullptr: it was not.
  Result<BucketJob*> wait();

 private:
  io::RequestRing ring_;
};

struct BucketReaderOptions {
  // The buckets' parts of the spills, as soon as they have been read; otherwise that is the caller's
  // business.
  bool releases = true;
  // Takes turns with those who write: it reads until there is no more room, and goes on when all of
  // that has been released.
  bool in_turns = false;
};

// Thread safety: read() in one thread; take(), wait_for_turn(), release() and wake() in any.
// Invariants: jobs are given regions, and are taken, in order; a job's region is the reader's until
// it is taken, and the taker's until it is released.
class BucketReader {
 public:
  // What was kept is put where the first regions are.
  BucketReader(Context& context, std::span<const SplitBucket> buckets, BlockArena& arena,
               SpillSet& spills, const Target& target, const BucketReaderOptions& options);

  const std::vector<BucketJob>& jobs() const { return jobs_; }

  Status open();
  // All of them. Who sees an error, here or elsewhere, tells the context and calls wake().
  Status read() EXCLUDES_LOCK(mutex_);
  // The next one, when it is there. nullptr: there are no more, or the run has failed.
  BucketJob* take() EXCLUDES_LOCK(mutex_);
  // Until the reader rests, if it takes turns, or the run has failed: now what was read is written.
  void wait_for_turn() EXCLUDES_LOCK(mutex_);
  // Its region is free.
  void release(const BucketJob& job) EXCLUDES_LOCK(mutex_);
  // The run has failed.
  void wake() EXCLUDES_LOCK(mutex_);

  // read(), for a region to be free. To be called when it has ended.
  double wait_room_s() const { return wait_room_s_; }

 private:
  void add_jobs(const SplitBucket& bucket);
  void cut(BucketJob& job, const SplitBucket& bucket, size_t first, size_t blocks) const;
  void add(BucketJob job, const SplitBucket& bucket);
  void submit(BucketJob& job, size_t& block);
  bool allocate(BucketJob& job) EXCLUDES_LOCK(mutex_);
  void wait_for_room(const BucketJob& job) EXCLUDES_LOCK(mutex_);
  void end_turn() EXCLUDES_LOCK(mutex_);
  void loaded(BucketJob& job) EXCLUDES_LOCK(mutex_);

  Context& context_;
  const std::span<const SplitBucket> buckets_;
  BlockArena& arena_;
  SpillSet& spills_;
  const BucketReaderOptions options_;
  std::vector<BucketJob> jobs_;       // never moves when it is built
  std::vector<uint32_t> loads_left_;  // of each bucket
  std::vector<uint32_t> kept_;        // blocks, in the order in which the ring begins
  uint64_t planned_offset_;           // in the output, of what comes next
  double wait_room_s_ = 0;
  JobRequests requests_;

  Mutex mutex_;
  Condition changed_;
  RegionRing ring_ GUARDED_BY(mutex_);
  bool reads_ GUARDED_BY(mutex_);       // it is the reader's turn
  size_t next_ GUARDED_BY(mutex_) = 0;  // to be taken
};

}  // namespace penstock::external

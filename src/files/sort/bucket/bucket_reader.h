#pragma once

// Reader of the second phase: reads buckets in order, each into a region of the arena, as far ahead
// as memory allows, while other threads sort and write them.

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

  // `make`: the items are the bucket's one key; they are not stored and need no region.
  enum class Kind { sort, copy, make } kind = Kind::sort;
  size_t number = 0;                       // index among all jobs
  uint32_t bucket = 0;                     // index among the reader's buckets
  std::span<const uint32_t> spilled = {};  // blocks to read; empty: the bucket was kept, or is made
  std::span<const StoredBlock> stored_blocks = {};  // their sizes, if they may be compressed
  uint64_t read_bytes = 0;                          // the first `bytes` go to the output
  uint64_t bytes = 0;
  uint64_t items = 0;   // the first piece of a bucket counts all of its items
  uint64_t start = 0;   // the piece's offset in the bucket
  uint64_t offset = 0;  // in the output, if no items are dropped
  uint64_t region_bytes = 0;
  std::byte* region = nullptr;
  Clock::time_point began_at = {}, read_at = {};  // when it got its region; when it was read
  // Set by the thread that takes the job: when it took it and had sorted it, the offset of the
  // items in the region, and the items for the output.
  Clock::time_point taken_at = {}, sorted_at = {};
  uint64_t lead_bytes = 0;
  Stored stored = {};
  // State of the requests for the job, owned by the reader until it is loaded, then by the writer.
  unsigned requests_left = 0;
  bool submitted = false;  // all of them
  bool loaded = false;     // guarded by the reader's mutex
};

// Checks and decompresses a job's blocks in place. A block of text is copied to `spare` and
// inflated from there. (Inflating it in place, from its end, would need room behind it, where the
// next block lies.) Numbers are unpacked in place.
Status restore_blocks(const BucketJob& job, const items::Format& format, const SpillSet& spills,
                      std::vector<std::byte>& spare);

// Queue of requests for jobs. Thread safety: one thread.
class JobRequests {
 public:
  // Most bytes of a request, unless a block is larger.
  static constexpr size_t bytes_max = 2 * MiB;
  static constexpr unsigned depth = 32;

  // REQUIRED before submit(). `total_bytes`: sum of all requests.
  Status open(uint64_t total_bytes) {
    return ring_.open({.depth = depth, .total_bytes = total_bytes});
  }
  bool full() const { return ring_.full(); }
  bool idle() const { return ring_.idle(); }
  void submit(BucketJob& job, io::Request request);
  // Waits for a request to end. Returns its job if it was the job's last one, else nullptr.
  Result<BucketJob*> wait();

 private:
  io::RequestRing ring_;
};

struct BucketReaderOptions {
  // Release the buckets' parts of the spills when these are read; otherwise the caller does.
  bool releases = true;
  // Alternate with the writers: read until there is no room, and again when all jobs are released.
  bool in_turns = false;
};

// Thread safety: read() in one thread; take(), wait_for_turn(), release() and wake() in any.
// Invariants: jobs get regions, and are taken, in order; a job's region belongs to the reader until
// the job is taken, and then to the taker until it is released.
class BucketReader {
 public:
  // Moves the kept buckets to the first regions.
  BucketReader(Context& context, std::span<const SplitBucket> buckets, BlockArena& arena,
               SpillSet& spills, const Target& target, const BucketReaderOptions& options);

  const std::vector<BucketJob>& jobs() const { return jobs_; }

  Status open();
  // Reads all buckets. After an error anywhere, fail the context and call wake().
  Status read() EXCLUDES_LOCK(mutex_);
  // Waits for the next job to be loaded. Returns nullptr if none is left, or if the run has failed.
  BucketJob* take() EXCLUDES_LOCK(mutex_);
  // Waits until the reader rests, if it takes turns, or the run has failed.
  void wait_for_turn() EXCLUDES_LOCK(mutex_);
  // Frees the job's region.
  void release(const BucketJob& job) EXCLUDES_LOCK(mutex_);
  // Wakes all waiting threads after the run has failed.
  void wake() EXCLUDES_LOCK(mutex_);

  // Seconds that read() waited for a free region. REQUIRES: read() has ended.
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
  std::vector<BucketJob> jobs_;       // its elements never move
  std::vector<uint32_t> loads_left_;  // jobs of each bucket that are not loaded
  std::vector<uint32_t> kept_;        // blocks, as they fill the ring from its start
  uint64_t planned_offset_;           // offset of the next job in the output
  double wait_room_s_ = 0;
  JobRequests requests_;

  Mutex mutex_;
  Condition changed_;
  RegionRing ring_ GUARDED_BY(mutex_);
  bool reads_ GUARDED_BY(mutex_);       // it is the reader's turn
  size_t next_ GUARDED_BY(mutex_) = 0;  // the next job to be taken
};

}  // namespace penstock::external

#pragma once

// The second phase of a sort of numbers: buckets are read, sorted where they were read, and written
// from there, all three at the same time.

#include <memory>
#include <span>

#include "external/block_arena.h"
#include "external/bucket_plan.h"
#include "external/context.h"
#include "external/file_io.h"
#include "external/split.h"
#include "stream/file_writer.h"

namespace penstock::external {

// An output that takes items in order only: one stream, for all buckets.
// Thread safety: one thread at a time; it may change.
class OrderedOutput {
 public:
  static Result<std::unique_ptr<OrderedOutput>> open(const SortOptions& options,
                                                     const Target& target, uint64_t bytes_max,
                                                     size_t block_bytes, uint32_t blocks);
  Status append(const std::byte* data, uint64_t bytes);
  // What was appended is written. (Of a file.)
  Status flush();
  Status finish() { return writer_->finish(at_); }

 private:
  Status open_writer();

  FileIo files_;
  Target target_;  // of what comes behind begin() of the writer
  uint64_t bytes_max_ = 0;
  std::unique_ptr<stream::FileWriterCore> writer_;
  std::byte* at_ = nullptr;
};

// How long threads waited, and for what.
struct PipelineTimes {
  double sort_s = 0;       // all sorters together, at work
  double wait_read_s = 0;  // sorters, for a bucket to be there
  double wait_room_s = 0;  // the reader, for a bucket to be written
};

// Sorts buckets, all of which fit, to `target` and on, or to `ordered` if there is one. The kept
// ones lie in the arena; each that was spilled releases its part of `spills` when it has been
// read; with `resume`, when it is written down there that it is done. Runs its own threads.
Result<Stored> sort_number_buckets(Context& context, std::span<const SplitBucket> buckets,
                                   const BucketPlan& plan, BlockArena& arena, SpillSet& spills,
                                   const Target& target, OrderedOutput* ordered, Resume* resume,
                                   PipelineTimes& times);

}  // namespace penstock::external

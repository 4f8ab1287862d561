#pragma once

// What a sorter of the pipeline does with the items of its format, bucket by bucket.

#include <memory>
#include <span>

#include "files/sort/bucket/bucket_pipeline.h"
#include "files/sort/bucket/bucket_reader.h"
#include "files/sort/bucket/output_blocks.h"

namespace penstock::external {

// Thread safety: one thread; each has its own.
class BucketSorter {
 public:
  virtual ~BucketSorter() = default;

  // Puts a job in order in its region. Where it is written from there, `job.stored` says what is.
  virtual Status sort(BucketJob& job) = 0;
  // Its items go to the output, in order, and `job.stored` says what did, but for the bytes.
  virtual Status emit(BucketJob& job, OutputBlocks& output) = 0;
  // Items of a job that are made: as many as one request takes, and a sector more, until the next
  // call.
  virtual std::span<std::byte> make(const BucketJob& job) = 0;
};

// `in_place`: jobs are written from their regions, each with `lead_bytes` in front of it.
std::unique_ptr<BucketSorter> number_sorter(Context& context, const PipelineInput& input,
                                            bool in_place);
std::unique_ptr<BucketSorter> string_sorter(Context& context, const PipelineInput& input);

}  // namespace penstock::external

#pragma once

// Sorter of the pipeline: sorts and writes the items of one format, bucket by bucket.

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

  // Sorts a job in its region. If the job is written from there, sets `job.stored`.
  virtual Status sort(BucketJob& job) = 0;
  // Appends the job's items to the output, in order, and sets `job.stored` except for its bytes.
  virtual Status emit(BucketJob& job, OutputBlocks& output) = 0;
  // Items of a job of kind `make`, for one request and a sector more, valid until the next call.
  virtual std::span<std::byte> make(const BucketJob& job) = 0;
};

// `in_place`: jobs are written from their regions, behind `lead_bytes` in each.
std::unique_ptr<BucketSorter> number_sorter(Context& context, const PipelineInput& input,
                                            bool in_place);
std::unique_ptr<BucketSorter> string_sorter(Context& context, const PipelineInput& input);

}  // namespace penstock::external

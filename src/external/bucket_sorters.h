#pragma once

// The sorter of records and lines, and the files that it has.

#include "external/bucket_sorter.h"
#include "external/file_io.h"

namespace penstock::external {

Result<std::unique_ptr<BucketSorter>> open_gather_sorter(Context& context, const SorterPlan& plan);

// What a reader and a writer of one thread share; and the writer.
class SorterFiles {
 public:
  explicit SorterFiles(const SorterPlan& plan) : plan_(plan) {}

  Status open(const SortOptions& options);
  stream::BlockIo& io() { return files_.io(); }
  uint32_t read_ahead_blocks() const { return plan_.read_ahead_blocks; }

  // Fault-driven output of at most bytes_max to the target.
  Status open_writer(const Target& target, uint64_t bytes_max);
  stream::FileWriterCore& writer() { return *writer_; }
  Status finish(std::byte* end);

 private:
  SorterPlan plan_;
  FileIo files_;
  std::unique_ptr<stream::FileWriterCore> writer_;
};

}  // namespace penstock::external

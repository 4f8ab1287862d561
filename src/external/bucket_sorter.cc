#include "external/bucket_sorter.h"

#include "external/bucket_sorters.h"

namespace penstock::external {

bool in_order(const SortOptions& options, const Target& target) {
  return options.unique || !target.file->seekable();
}

Result<std::unique_ptr<BucketSorter>> BucketSorter::open(Context& context, const SorterPlan& plan) {
  return open_gather_sorter(context, plan);
}

Status SorterFiles::open(const SortOptions& options) {
  auto files = FileIo::open(options, plan_.file_block_bytes, plan_.file_blocks);
  if (!files) return std::unexpected(files.error());
  files_ = std::move(*files);
  return {};
}

Status SorterFiles::open_writer(const Target& target, uint64_t bytes_max) {
  auto writer = stream::FileWriterCore::open(files_.io(), *target.file, target.offset,
                                             {.bytes_max = bytes_max + 1});
  if (!writer) return std::unexpected(writer.error());
  writer_ = std::move(*writer);
  return {};
}

Status SorterFiles::finish(std::byte* end) {
  auto status = writer_->finish(end);
  writer_.reset();
  return status;
}

}  // namespace penstock::external

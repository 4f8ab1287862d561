#include "bowtie/bucket_sorter.h"

#include "bowtie/bucket_sorters.h"

namespace penstock::bowtie {

Result<std::unique_ptr<BucketSorter>> BucketSorter::open(Context& context, const SorterPlan& plan) {
  return context.options.format.numeric() ? open_number_sorter(context, plan)
                                          : open_gather_sorter(context, plan);
}

pool::Mechanism sort_mechanism(const SortOptions& options, size_t block_bytes) {
  if (options.mechanism != pool::Mechanism::automatic) return options.mechanism;
  return pool::preferred(pool::Use::same_thread, block_bytes);
}

Status SorterFiles::open(const SortOptions& options) {
  auto pool = pool::Pool::open({.block_bytes = plan_.file_block_bytes,
                                .blocks_max = plan_.file_blocks,
                                .mechanism = sort_mechanism(options, plan_.file_block_bytes)});
  if (!pool) return std::unexpected(pool.error());
  auto engine = file::Engine::open({.depth = plan_.file_blocks, .kind = options.engine});
  if (!engine) return std::unexpected(engine.error());
  pool_ = std::move(*pool);
  engine_ = std::move(*engine);
  io_ = std::make_unique<stream::BlockIo>(*pool_, *engine_);
  return {};
}

Status SorterFiles::open_writer(const Target& target, uint64_t bytes_max) {
  auto writer =
      stream::FileWriterCore::open(*io_, *target.file, target.offset, {.bytes_max = bytes_max + 1});
  if (!writer) return std::unexpected(writer.error());
  writer_ = std::move(*writer);
  return {};
}

Status SorterFiles::finish(std::byte* end) {
  auto status = writer_->finish(end);
  writer_.reset();
  return status;
}

}  // namespace penstock::bowtie

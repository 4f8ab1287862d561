#include "files/run/file_io.h"

#include <algorithm>

namespace penstock::files {
namespace {

constexpr uint32_t depth_max = 64;  // no disk gets faster with more requests in flight

}  // namespace

pool::Mechanism mechanism_of(const FilesOptions& options, size_t block_bytes,
                             uint64_t total_bytes) {
  if (options.mechanism != pool::Mechanism::automatic) return options.mechanism;
  // Measuring which mechanism is fastest takes longer than moving one block.
  if (total_bytes <= block_bytes) return pool::mremap_or_shared();
  return pool::preferred(pool::Use::same_thread, block_bytes);
}

std::string engine_name(uint64_t total_bytes) {
  const auto engine = io::Engine::open({.depth = 1, .total_bytes = total_bytes});
  return io::name_of(engine ? (*engine)->kind() : io::EngineKind::threads);
}

Result<FileIo> FileIo::open(const FilesOptions& options, size_t block_bytes, uint32_t blocks,
                            uint64_t total_bytes) {
  FileIo files;
  auto pool = pool::Pool::open({.block_bytes = block_bytes,
                                .blocks_max = blocks,
                                .mechanism = mechanism_of(options, block_bytes, total_bytes)});
  if (!pool) return std::unexpected(pool.error());
  auto engine =
      io::Engine::open({.depth = std::min(blocks, depth_max), .total_bytes = total_bytes});
  if (!engine) return std::unexpected(engine.error());
  files.pool_ = std::move(*pool);
  files.engine_ = std::move(*engine);
  files.io_ = std::make_unique<stream::BlockIo>(*files.pool_, *files.engine_);
  return files;
}

}  // namespace penstock::files

#pragma once

// Blocks and requests of one thread: a pool, an engine, and the two together.

#include <memory>
#include <string>

#include "files/run/options.h"
#include "memory/stream/block_io.h"

namespace penstock::files {

// For blocks that move about within one thread; of `total_bytes`, where that is known.
pool::Mechanism mechanism_of(const FilesOptions& options, size_t block_bytes,
                             uint64_t total_bytes = UINT64_MAX);

// The engine that runs requests, for reports; of so many bytes, where that is known.
std::string engine_name(uint64_t total_bytes = UINT64_MAX);

// Thread safety: one thread. Move-only.
class FileIo {
 public:
  // `total_bytes`: of all requests together, where that is known.
  static Result<FileIo> open(const FilesOptions& options, size_t block_bytes, uint32_t blocks,
                             uint64_t total_bytes = UINT64_MAX);

  stream::BlockIo& io() { return *io_; }
  size_t block_bytes() const { return pool_->block_bytes(); }

 private:
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<io::Engine> engine_;
  std::unique_ptr<stream::BlockIo> io_;  // goes first: it waits for what is in flight
};

}  // namespace penstock::files

#pragma once

// The blocks and requests of one thread: a pool, an engine, and a BlockIo over both.

#include <memory>
#include <string>

#include "files/run/options.h"
#include "memory/stream/block_io.h"

namespace penstock::files {

// The mechanism for blocks that move within one thread. `total_bytes`: of all blocks, if known.
pool::Mechanism mechanism_of(const FilesOptions& options, size_t block_bytes,
                             uint64_t total_bytes = UINT64_MAX);

// The name of the engine that runs requests, for reports. `total_bytes`: of all requests, if known.
std::string engine_name(uint64_t total_bytes = UINT64_MAX);

// Thread safety: one thread. Move-only.
class FileIo {
 public:
  // `total_bytes`: of all requests together, if known.
  static Result<FileIo> open(const FilesOptions& options, size_t block_bytes, uint32_t blocks,
                             uint64_t total_bytes = UINT64_MAX);

  stream::BlockIo& io() { return *io_; }
  size_t block_bytes() const { return pool_->block_bytes(); }

 private:
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<io::Engine> engine_;
  std::unique_ptr<stream::BlockIo> io_;  // destroyed first: it waits for requests in flight
};

}  // namespace penstock::files

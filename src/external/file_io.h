#pragma once

// Blocks and requests of one thread: a pool, an engine, and the two together.

#include <memory>
#include <string>

#include "external/external_sort.h"
#include "stream/block_io.h"

namespace penstock::external {

// For blocks that move about within one thread.
pool::Mechanism sort_mechanism(const SortOptions& options, size_t block_bytes);

// The engine that runs requests, for reports.
std::string engine_name(const SortOptions& options);

// Thread safety: one thread. Move-only.
class FileIo {
 public:
  static Result<FileIo> open(const SortOptions& options, size_t block_bytes, uint32_t blocks);

  stream::BlockIo& io() { return *io_; }
  size_t block_bytes() const { return pool_->block_bytes(); }

 private:
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<file::Engine> engine_;
  std::unique_ptr<stream::BlockIo> io_;  // goes first: it waits for what is in flight
};

}  // namespace penstock::external

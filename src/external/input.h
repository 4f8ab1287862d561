#pragma once

// Where items come from: whole files, pipes, or the extents of a bucket, each read as one plain
// pointer.

#include <memory>
#include <vector>

#include "external/spill.h"
#include "stream/file_reader.h"

namespace penstock::external {

class PieceReader;

struct Piece {
  const file::File* file = nullptr;  // a file or a pipe; nullptr: the extents
  uint64_t offset = 0;               // in the file
  uint64_t bytes = 0;                // of a pipe: what was looked at
  std::vector<stream::Extent> extents = {};
  size_t extent_bytes = 0;  // of all extents but the last: the block size to read with
  std::shared_ptr<PieceReader> reader = {};  // of a pipe, which can be opened once only
  bool ended = true;                         // false: a pipe that goes on behind what was looked at
};

// One piece while it is being read.
// Thread safety: one thread.
class PieceReader {
 public:
  // A pipe's piece gives its own reader.
  static Result<std::shared_ptr<PieceReader>> open(stream::BlockIo& io, const Piece& piece,
                                                   uint32_t read_ahead_blocks,
                                                   uint32_t comeback_blocks = 1);
  // The consumer may come back to the first `comeback_blocks` blocks until it has gone on from
  // there.
  static Result<std::shared_ptr<PieceReader>> open_pipe(stream::BlockIo& io, const file::File& pipe,
                                                        uint32_t read_ahead_blocks,
                                                        uint32_t comeback_blocks);

  const std::byte* begin() const { return reader_->begin(); }
  size_t block_bytes() const { return block_bytes_; }
  // How many bytes at `at` can be had now, at most `wanted`; waits for a pipe until there are so
  // many or it ends. 0: the end. REQUIRES: wanted is at most a block.
  size_t available(const std::byte* at, size_t wanted);
  Status status() const { return reader_->status(); }

 private:
  std::unique_ptr<stream::FileReaderCore> reader_;
  size_t block_bytes_ = 0;
};

}  // namespace penstock::external

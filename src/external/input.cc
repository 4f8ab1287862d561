#include "external/input.h"

#include <algorithm>

#include "bowtie/addresses.h"

namespace penstock::external {

Result<std::shared_ptr<PieceReader>> PieceReader::open(stream::BlockIo& io, const Piece& piece,
                                                       uint32_t read_ahead_blocks,
                                                       uint32_t comeback_blocks) {
  if (piece.reader) return piece.reader;
  stream::FileReaderCore::Options options{.read_ahead_blocks = read_ahead_blocks,
                                          .comeback_blocks = comeback_blocks};
  auto core = piece.file != nullptr ? stream::FileReaderCore::open(io, *piece.file, piece.offset,
                                                                   piece.bytes, options)
                                    : stream::FileReaderCore::open(io, piece.extents, options);
  if (!core) return std::unexpected(core.error());
  auto reader = std::make_shared<PieceReader>();
  reader->reader_ = std::move(*core);
  reader->block_bytes_ = io.pool().block_bytes();
  return reader;
}

Result<std::shared_ptr<PieceReader>> PieceReader::open_pipe(stream::BlockIo& io,
                                                            const file::File& pipe,
                                                            uint32_t read_ahead_blocks,
                                                            uint32_t comeback_blocks) {
  auto core = stream::FileReaderCore::open_stream(
      io, pipe, bowtie::stream_address_bytes,
      {.read_ahead_blocks = read_ahead_blocks, .comeback_blocks = comeback_blocks});
  if (!core) return std::unexpected(core.error());
  auto reader = std::make_shared<PieceReader>();
  reader->reader_ = std::move(*core);
  reader->block_bytes_ = io.pool().block_bytes();
  return reader;
}

// The blocks are asked for ahead of the first touch: a loop that met the error in a fault would
// read zeros where keys are, and keys say where items go.
size_t PieceReader::available(const std::byte* at, size_t wanted) {
  size_t bytes = wanted;
  if (reader_->is_end_known() || reader_->at_end(at + wanted - 1)) {
    bytes = std::min(wanted, static_cast<size_t>(reader_->end() - at));
  }
  reader_->prepare(at, bytes);
  return reader_->status() ? bytes : 0;
}

}  // namespace penstock::external

#pragma once

// Where items come from: whole files, what comes in order (files/source/in_order.h), or the extents of a
// bucket, each read as one plain pointer.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/run/file_io.h"
#include "memory/stream/file_reader.h"
#include "penstock/source.h"

namespace penstock::files {

class PieceReader;

struct Piece {
  const io::File* file = nullptr;  // nullptr: the extents
  uint64_t offset = 0;             // in the file
  uint64_t bytes = 0;              // of what comes in order: what was looked at
  std::vector<stream::Extent> extents = {};
  size_t extent_bytes = 0;  // of all extents but the last: the block size to read with
  bool in_order = false;
  // For an input that comes in order and has no reader yet: whether it begins with a head, and the first head and
  // its file, once these are known.
  bool has_header = false;
  std::string header = {};
  std::string header_file = {};
  // Of what comes in order and was looked at: it goes on from there.
  std::shared_ptr<PieceReader> reader = {};
};

// Of what comes in order, what was looked at.
inline uint64_t bytes_of(const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

// One piece while it is being read.
// Thread safety: one thread.
class PieceReader {
 public:
  PieceReader(std::unique_ptr<stream::FileReaderCore> reader, size_t block_bytes, uint64_t offset)
      : reader_(std::move(reader)),
        begin_(reader_->begin()),
        block_bytes_(block_bytes),
        offset_(offset) {}
  explicit PieceReader(SourceStream stream)
      : stream_(std::move(stream)),
        begin_(stream_->begin()),
        block_bytes_(stream_->block_bytes()) {}

  // What comes in order, in at most `bytes_max` of addresses. The consumer may come back to the
  // first `comeback_blocks` blocks until it has gone on from there.
  static Result<std::shared_ptr<PieceReader>> open_in_order(
      const io::File& file, const FilesOptions& options, size_t block_bytes,
      uint32_t read_ahead_blocks, uint32_t comeback_blocks, uint64_t bytes_max);

  const std::byte* begin() const { return begin_; }
  size_t block_bytes() const { return block_bytes_; }
  // How many bytes at `at` can be had now, at most `wanted`; waits until there are so many or the
  // piece ends. 0: the end. REQUIRES: wanted is at most a block.
  size_t available(const std::byte* at, size_t wanted);
  // Nobody comes back to what lies in front of `at`. Thread safety: any thread.
  void passed(const std::byte* at) {
    if (reader_ != nullptr) reader_->passed(at);
  }
  // Takes off the head with which `file` begins: begin() is behind it. Its last line has an end.
  // Errors: corrupt, where it is longer than a block; those of items::head_bytes().
  Result<std::string> take_header(const items::Format& format, const std::string& file);
  // Where begin() is in the file.
  uint64_t offset() const { return offset_; }
  // The lines of the head that was taken off.
  uint64_t head_lines() const { return head_lines_; }
  // Why available() gave less than was wanted, where that was not the end.
  Status status() const {
    if (error_) return std::unexpected(*error_);
    return stream_ ? stream_->status() : reader_->status();
  }

 private:
  size_t fail(const Error& error) {
    if (!error_) error_ = error;
    return 0;
  }

  // One of the two.
  std::unique_ptr<stream::FileReaderCore> reader_;
  std::optional<SourceStream> stream_;
  const std::byte* begin_;
  size_t block_bytes_;
  uint64_t offset_ = 0;
  uint64_t head_lines_ = 0;
  std::optional<Error> error_;  // of the stream's, the first
};

// The error of a header that does not end where a file's may.
std::unexpected<Error> endless_header(const std::string& file);

// The head with which an input begins: all of the input, where that has no more lines.
struct TakenHeader {
  bool is_of_nothing = false;  // the input is empty
  std::string text;            // its last line has an end
  size_t bytes = 0;            // as it stands in the input
  std::string rest;            // what was read behind it
};
// `read` stores the next bytes of the input and says how many; 0: the end. Errors: those of `read` and of
// items::head_bytes(); corrupt, where the header is longer than `bytes_max`.
using ReadSome = std::function<Result<size_t>(std::span<std::byte> into)>;
Result<TakenHeader> read_header(const items::Format& format, const std::string& file,
                                const ReadSome& read, size_t bytes_max = items::header_bytes_max);
// The same of a plain file, from its beginning.
Result<TakenHeader> read_header(const items::Format& format, const io::File& file,
                                uint64_t file_bytes, size_t bytes_max = items::header_bytes_max);
// Errors: the header of `file` has other columns than that of the file `first_file`.
Status check_same_header(const items::Format& format, const std::string& header,
                         const std::string& file, const std::string& first,
                         const std::string& first_file);

// Pieces one after the other, in so many blocks of memory. Thread safety: one thread.
class PieceReaders {
 public:
  struct Shape {
    size_t block_bytes = 0;
    uint32_t read_ahead_blocks = 0;
    uint32_t comeback_blocks = 1;
    uint64_t total_bytes = UINT64_MAX;  // of all pieces, where that is known
  };
  PieceReaders(const FilesOptions& options, const Shape& shape)
      : options_(options), shape_(shape) {}

  // REQUIRES: the reader before is gone.
  Result<std::shared_ptr<PieceReader>> open(const Piece& piece);

 private:
  const FilesOptions& options_;
  const Shape shape_;
  std::optional<FileIo> files_;  // nothing while a stream has the memory
};

}  // namespace penstock::files

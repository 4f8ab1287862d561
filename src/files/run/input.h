#pragma once

// Inputs: whole files, in-order inputs (files/source/in_order.h), or the extents of a bucket, each
// read as one plain pointer.

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

// A part of the data that one reader reads.
struct Piece {
  const io::File* file = nullptr;  // nullptr: the extents
  uint64_t offset = 0;             // in the file
  uint64_t bytes = 0;              // length, or the sampled bytes of an in-order input
  std::vector<stream::Extent> extents = {};
  size_t extent_bytes = 0;  // size of all extents but the last, and the block size to read with
  bool in_order = false;
  bool is_given = false;  // a part of the user's input, which was not read before
  // If the piece is an in-order input without a reader: whether it begins with a head; the head of
  // the first input and its file, once these are known.
  bool has_header = false;
  std::string header = {};
  std::string header_file = {};
  // The reader of an in-order input that was sampled; it continues behind the sample.
  std::shared_ptr<PieceReader> reader = {};
};

// The bytes of all pieces; of an in-order input those that were sampled.
inline uint64_t bytes_of(const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return bytes;
}

// Reads one piece. Thread safety: one thread.
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

  // Opens an in-order input with at most `bytes_max` of addresses. The consumer may return to the
  // first `comeback_blocks` blocks until it has moved past them.
  static Result<std::shared_ptr<PieceReader>> open_in_order(
      const io::File& file, const FilesOptions& options, size_t block_bytes,
      uint32_t read_ahead_blocks, uint32_t comeback_blocks, uint64_t bytes_max);

  const std::byte* begin() const { return begin_; }
  size_t block_bytes() const { return block_bytes_; }
  // Waits until `wanted` bytes at `at` are readable or the piece ends, and returns how many are, 0
  // at the end. REQUIRES: wanted is at most a block, or as many as the comeback if that is more.
  size_t available(const std::byte* at, size_t wanted);
  // Releases the bytes before `at`. Thread safety: any thread.
  void passed(const std::byte* at) {
    if (reader_ != nullptr) reader_->passed(at);
  }
  // Removes the head from the front of `file`: begin() moves behind it. The head that is returned
  // ends with a line end. Errors: corrupt if it is longer than a block; those of
  // items::head_bytes().
  Result<std::string> take_header(const items::Format& format, const std::string& file);
  // The file offset of begin().
  uint64_t offset() const { return offset_; }
  // The number of lines of the removed head.
  uint64_t head_lines() const { return head_lines_; }
  // The error that made available() return less than was wanted.
  Status status() const {
    if (error_) return std::unexpected(*error_);
    return stream_ ? stream_->status() : reader_->status();
  }

 private:
  size_t fail(const Error& error) {
    if (!error_) error_ = error;
    return 0;
  }

  // Exactly one of the two is set.
  std::unique_ptr<stream::FileReaderCore> reader_;
  std::optional<SourceStream> stream_;
  const std::byte* begin_;
  size_t block_bytes_;
  uint64_t offset_ = 0;
  uint64_t head_lines_ = 0;
  std::optional<Error> error_;  // first error of the stream
};

// The error of a header that exceeds the length that a header may have.
std::unexpected<Error> endless_header(const std::string& file);

// The head of an input: all of it if it has no more lines.
struct TakenHeader {
  bool is_of_nothing = false;  // the input is empty
  std::string text;            // the head, with the end of its last line
  size_t bytes = 0;            // length of the head in the input
  std::string rest;            // bytes that were read behind the head
};
// Reads the head. `read` stores the next bytes of the input and returns how many, 0 at the end.
// Errors: those of `read` and of items::head_bytes(); corrupt if the head is longer than
// `bytes_max`.
using ReadSome = std::function<Result<size_t>(std::span<std::byte> into)>;
Result<TakenHeader> read_header(const items::Format& format, const std::string& file,
                                const ReadSome& read, size_t bytes_max = items::header_bytes_max);
// Reads the head of a plain file.
Result<TakenHeader> read_header(const items::Format& format, const io::File& file,
                                uint64_t file_bytes, size_t bytes_max = items::header_bytes_max);
// Fails if the header of `file` has other columns than `first`, the header of `first_file`.
Status check_same_header(const items::Format& format, const std::string& header,
                         const std::string& file, const std::string& first,
                         const std::string& first_file);

// Opens pieces one after the other, all in the same blocks of memory. Thread safety: one thread.
class PieceReaders {
 public:
  struct Shape {
    size_t block_bytes = 0;
    uint32_t read_ahead_blocks = 0;
    uint32_t comeback_blocks = 1;
    uint64_t total_bytes = UINT64_MAX;  // bytes of all pieces, if known
  };
  PieceReaders(const FilesOptions& options, const Shape& shape)
      : options_(options), shape_(shape) {}

  // REQUIRES: the previous reader is destroyed.
  Result<std::shared_ptr<PieceReader>> open(const Piece& piece);

 private:
  const FilesOptions& options_;
  const Shape shape_;
  std::optional<FileIo> files_;  // empty while a stream has the memory
};

}  // namespace penstock::files

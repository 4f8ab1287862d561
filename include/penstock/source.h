#pragma once

// Sources that fill a stream and sinks that drain it: files, pipes, sockets, callbacks, and data
// compressed by gzip, zstd, lz4, xz, lzip and bzip2.
//
//   auto log = penstock::SourceStream::open("access.log.gz");   // or "-", or a plain file
//   if (!log) return report(log.error());
//   uint64_t lines = 0;
//   for (const char* at = log->begin<char>(); !log->at_end(at); ++at) lines += *at == '\n';
//
// A Source or a Sink can be called directly, or be given to a SourceStream or SinkStream, which
// calls it in a thread of its own and shows the data as one plain pointer: so decompression runs at
// the same time as the code that reads the pointer.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock {

// Bytes in order, to be read. Thread safety: one reader; cancel() from any thread.
class Source {
 public:
  virtual ~Source() = default;
  // Stores at least one byte at the start of `into` and returns the number of bytes; 0 at the end.
  // It may wait. An error is returned after all data before it, and again by every later call.
  // REQUIRES: `into` is not empty.
  virtual Result<size_t> read(std::span<std::byte> into) = 0;
  // Makes a waiting read(), and all later ones, end soon with ErrorCode::cancelled.
  virtual void cancel() {}
};

// A receiver of bytes in order. Thread safety: one writer; cancel() from any thread.
class Sink {
 public:
  virtual ~Sink() = default;
  // Takes all of `from`, or fails. It may wait.
  virtual Status write(std::span<const std::byte> from) = 0;
  // Marks the end of the data. Without it, a file does not appear under its name.
  virtual Status close() { return {}; }
  // Makes a waiting write(), and all later ones, end soon with ErrorCode::cancelled.
  virtual void cancel() {}
};

// Leaves out parts of the text of an input, after decompression.
class SourceFilter {
 public:
  virtual ~SourceFilter() = default;
  // Returns the rest of the text. `name` is that of the input. Thread safety: any thread.
  virtual std::unique_ptr<Source> filtered(std::unique_ptr<Source> text, std::string name) = 0;
  // Returns the most memory that the filter takes for an input, beside that of the text.
  virtual uint64_t memory_bytes() const { return MiB; }
};

struct SourceOptions {
  // Decompresses gzip, zstd, lz4, xz, lzip and bzip2, which are recognized by their first bytes (a
  // magic number and a plausible header), not by the file's name; other data stay as they are.
  // Consecutive frames (gzip and lzip: members, xz and bzip2: streams), even of different formats,
  // make one text. Zeros behind the last gzip member or xz stream are padding; anything else there
  // is an error, after the text.
  bool decompress = true;
  // Limit of zstd, xz and lzip: a frame with a larger window is refused (out_of_memory).
  // Decompression uses what the frame's window and the data need; gzip 64 KiB, bzip2 4 MiB, lz4 8
  // MiB.
  uint64_t window_bytes_max = 2 * GiB;
  // Encoding of text, which becomes UTF-8 without a byte order mark: UTF-16 (as its mark says),
  // UTF-16LE, UTF-16BE, latin1, windows-1252 or UTF-8, in any case; empty: bytes stay as they are.
  // Bytes that are no characters are an error (corrupt), with their place. Such inputs are read in
  // order.
  std::string encoding = {};
  std::shared_ptr<SourceFilter> filter = {};  // its inputs are read in order, like pipes
};

// Opens a file, pipe or device by its path; "-" is stdin from its current position. Bad compressed
// data cause ErrorCode::corrupt with the path and the offset in them.
Result<std::unique_ptr<Source>> open_source(const std::string& path,
                                            const SourceOptions& options = {});
// Reads a pipe, socket or file from its current position. The descriptor is duplicated; the caller
// keeps the original, and closes it so that the other end notices when the source closes its copy.
// `name` is for messages.
Result<std::unique_ptr<Source>> descriptor_source(int fd, std::string name);
// Makes a source whose read() calls `read` in the reader's thread. `cancel`, which may be empty,
// should end a waiting call.
std::unique_ptr<Source> callback_source(
    std::function<Result<size_t>(std::span<std::byte> into)> read,
    std::function<void()> cancel = {});
// Bytes [offset, offset + bytes) of a file.
struct Stretch {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// Makes a source of `head` and the stretches behind it, read directly and ahead, with 4 MiB of
// memory from the first read() until the end was read. A file is open while it is read. Errors:
// not_found; corrupt for a file that ends before its stretch.
std::unique_ptr<Source> stretches_source(std::vector<Stretch> stretches, std::string head = {});
// Decompresses `compressed` by SourceOptions.
std::unique_ptr<Source> decompress(std::unique_ptr<Source> compressed, std::string name,
                                   const SourceOptions& options = {});

// Rules for every output.
struct OutputRules {
  // Allows overwriting a block device, which destroys its contents.
  bool overwrite_device = false;
  // Completes the output only when it is on the disk. Without that the system may lose it for half
  // a minute, or find out later that it cannot write it.
  bool sync = true;
};

// The compressed formats that a sink can write.
enum class CompressedFormat { gzip, zstd, lz4 };
// Returns the format for the suffix .gz, .zst or .lz4; nullopt for others.
std::optional<CompressedFormat> compressed_format_of_name(std::string_view name);

struct SinkOptions {
  bool sync = true;               // close() waits until the file and its name are on the disk
  bool overwrite_device = false;  // otherwise a block device is refused
  // Paths that are read meanwhile: an output that would change one of them is refused, and a file
  // among them is only replaced if nobody else has changed one.
  std::vector<std::string> inputs = {};
  // Compresses the output.
  std::optional<CompressedFormat> compressed = {};
};

// Opens a file that appears under its name, complete, at close(); "-" is stdout; a pipe or device
// is written directly.
Result<std::unique_ptr<Sink>> open_sink(const std::string& path, const SinkOptions& options = {});
// Writes to a descriptor, which is duplicated as by descriptor_source(). A pipe without a reader
// raises SIGPIPE; if that is ignored, and for a socket always, it is the error EPIPE.
Result<std::unique_ptr<Sink>> descriptor_sink(int fd, std::string name);
std::unique_ptr<Sink> callback_sink(std::function<Status(std::span<const std::byte> from)> write,
                                    std::function<void()> cancel = {});

// Makes a sink that compresses in the writer's thread and writes to `to`. close() ends the frame
// (gzip: the member) and closes `to`; no data make an empty frame. Memory: 1 MiB (zstd: 2).
Result<std::unique_ptr<Sink>> compress(std::unique_ptr<Sink> to, CompressedFormat format);

struct SourceStreamOptions {
  size_t block_bytes = 2 * MiB;    // a power of two, 4 KiB to 1 GiB
  uint32_t read_ahead_blocks = 2;  // full blocks that may wait for the consumer; at least 1
  uint32_t comeback_blocks = 1;    // distance that the consumer may go back
  // The longest source: address space, not memory. If ulimit -v leaves less, a quarter of the rest.
  uint64_t bytes_max = TiB;
  // Reaction to a touch of data that will never come. (A touch beyond the end, and one block of
  // zeros behind it, is an error too, to which ErrorPolicy::zeros does not apply.)
  ErrorPolicy policy = ErrorPolicy::stop;
  // Delivers the bytes that came in a block before the source failed in its middle. They come with
  // zeros behind them to the end of the block, so a consumer must call wait_ready() or at_end(),
  // and status() at the end: the policy does not apply in that block. ErrorPolicy::zeros implies
  // it.
  bool deliver_tail = false;
  // Makes every step too far back an error. false is for consumers whose order was checked: such a
  // load may go unnoticed (faster by up to a move per block).
  bool strict = true;
  SourceOptions source;
};

namespace source {
class StreamBody;
class SinkStreamBody;
}  // namespace source

// A source as one plain pointer. For a plain file of at least one block, the pointer leads into
// direct reads of the file (FileReader): its length is known and the consumer may go back any
// distance. All else is read by a thread of the stream's own through a RemapStream: the length is
// known at the end, and comeback_blocks applies.
//
// Memory: (read_ahead_blocks + comeback_blocks + 1) blocks, and memory for decompression. Thread
// safety: one consumer thread; cancel() and status() from any.
class SourceStream {
 public:
  using Options = SourceStreamOptions;

  static Result<SourceStream> open(const std::string& path, const Options& options = {});
  static Result<SourceStream> open(std::unique_ptr<Source> source, std::string name,
                                   const Options& options = {});
  SourceStream(SourceStream&&) noexcept;
  SourceStream& operator=(SourceStream&&) noexcept;
  // Cancels, and waits only until the source has answered cancel(). REQUIRES: nobody uses the
  // pointer any more.
  ~SourceStream();

  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(data());
  }
  // Returns whether the data end at or before `position`. Waits until that is known, and counts as
  // touching the block. If the source failed before `position`: false, and the access meets the
  // error; with deliver_tail or ErrorPolicy::zeros: true.
  bool at_end(const void* position);
  // Waits until more than `offset` bytes are there or the end is known; returns how many are there
  // now (if not more than `offset`, that is the length). Counts as touching the block of `offset`.
  // Returns the source's error if it failed before.
  Result<uint64_t> wait_ready(uint64_t offset);
  // Makes [address, address + bytes) ready for a system call. REQUIRES: it spans at most
  // comeback_blocks + 1 blocks. With ErrorPolicy::stop an error of a file stops the program here.
  Status prepare_read(const void* address, size_t bytes);
  // Returns the length as soon as it is known; never if the source failed.
  std::optional<uint64_t> bytes() const;
  // Returns whether the consumer may go back any distance (at the cost of reading again).
  bool rereads() const;
  size_t block_bytes() const;
  uint32_t comeback_blocks() const;

  // Returns the source's first error, or ok.
  Status status() const;
  // Ends the source with ErrorCode::cancelled; data read before stay. A plain file can still be
  // read, because it makes nobody wait.
  void cancel();

 private:
  explicit SourceStream(std::unique_ptr<source::StreamBody> body);
  const std::byte* data() const;
  std::unique_ptr<source::StreamBody> body_;
};

// Copies all data of the stream, from its start. Returns the number of bytes. An error is the
// sink's if status() is ok afterwards.
Result<uint64_t> copy(SourceStream& from, Sink& to);

struct SinkStreamOptions {
  size_t block_bytes = 2 * MiB;      // a power of two, 4 KiB to 1 GiB
  uint32_t write_behind_blocks = 2;  // full blocks that may wait for the sink; at least 1
  uint32_t comeback_blocks = 1;      // distance that the producer may go back
  // The longest output: address space, not memory. If ulimit -v leaves less, a quarter of the rest.
  uint64_t bytes_max = TiB;
  // Reaction to a store that the sink will never take: the sink failed, or the store comes back too
  // far, or lies beyond bytes_max. With zeros the store is dropped, and finish() returns the error.
  ErrorPolicy policy = ErrorPolicy::zeros;
  // Makes every step too far back an error. false is for producers whose order was checked: such a
  // store may go unnoticed (faster by up to a move per block).
  bool strict = true;
};

// A sink behind a plain pointer: a thread of the stream's own hands full blocks to it. Large copies
// to the pointer need copy() of penstock/stream.h.
//
// Memory: (write_behind_blocks + comeback_blocks + 1) blocks. Thread safety: one producer thread;
// cancel() and status() from any.
class SinkStream {
 public:
  using Options = SinkStreamOptions;

  static Result<SinkStream> open(std::unique_ptr<Sink> sink, std::string name,
                                 const Options& options = {});
  SinkStream(SinkStream&&) noexcept;
  SinkStream& operator=(SinkStream&&) noexcept;
  ~SinkStream();  // without finish(): cancels the sink instead of closing it

  // Returns the address of the first byte to store. A block that is left out becomes zeros; bytes
  // that are left out within a block are undefined.
  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(data());
  }
  // Makes [address, address + bytes) ready for a system call. REQUIRES: it spans at most
  // comeback_blocks + 1 blocks.
  Status prepare_write(void* address, size_t bytes);
  // Ends the data at `bytes` bytes. Waits until the sink has all of them and is closed.
  Status finish(uint64_t bytes);
  // Returns the sink's first error, or ok.
  Status status() const;
  // Ends the sink with ErrorCode::cancelled.
  void cancel();

 private:
  explicit SinkStream(std::unique_ptr<source::SinkStreamBody> body);
  std::byte* data() const;
  std::unique_ptr<source::SinkStreamBody> body_;
};

}  // namespace penstock

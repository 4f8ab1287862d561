#pragma once

// What fills a stream and what drains it: files, pipes, sockets, callbacks, and compressed data of
// gzip, zstd, lz4, xz, lzip and bzip2.
//
//   auto log = penstock::SourceStream::open("access.log.gz");   // or "-", or a plain file
//   if (!log) return report(log.error());
//   uint64_t lines = 0;
//   for (const char* at = log->begin<char>(); !log->at_end(at); ++at) lines += *at == '\n';
//
// A Source or a Sink can be used by itself, call by call, or be given a SourceStream or SinkStream,
// which does the calling in a thread of its own and shows the data as one plain pointer: so
// decompression and the code that reads the pointer run at the same time.

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

// Bytes that come in order. Thread safety: one reader; cancel() from any thread.
class Source {
 public:
  virtual ~Source() = default;
  // Stores some bytes at the start of `into`, at least one, and says how many; 0: the end. It may
  // wait. An error is told after all that came before it, and again at every later call.
  // REQUIRES: `into` is not empty.
  virtual Result<size_t> read(std::span<std::byte> into) = 0;
  // A read() that waits, and all later ones, end soon with ErrorCode::cancelled.
  virtual void cancel() {}
};

// Where bytes go in order. Thread safety: one writer; cancel() from any thread.
class Sink {
 public:
  virtual ~Sink() = default;
  // All of it, or an error. It may wait.
  virtual Status write(std::span<const std::byte> from) = 0;
  // Nothing more comes. Without it, a file does not appear under its name.
  virtual Status close() { return {}; }
  // A write() that waits, and all later ones, end soon with ErrorCode::cancelled.
  virtual void cancel() {}
};

struct SourceOptions {
  // gzip, zstd, lz4, xz, lzip and bzip2 are known by their first bytes (a magic number and a header
  // that fits), not by their name; anything else comes as it is. Frames (gzip and lzip: members, xz
  // and bzip2: streams) that follow each other make one text, of different formats too. Zeros behind the last
  // gzip member or xz stream are padding; anything else there is an error, after the text.
  bool decompress = true;
  // zstd, xz, lzip: a frame that wants a larger window is refused (out_of_memory). Decompression uses as
  // much as the frame's window and the data need; of gzip 64 KiB, of bzip2 4 MiB, of lz4 8 MiB.
  uint64_t window_bytes_max = 2 * GiB;
};

// A file, pipe or device by its path; "-": stdin, from where it stands. Corrupt or truncated
// compressed data is ErrorCode::corrupt with the path and the offset in the compressed data.
Result<std::unique_ptr<Source>> open_source(const std::string& path,
                                            const SourceOptions& options = {});
// A pipe, socket or file from where it stands. The descriptor is duplicated and stays the caller's
// (who closes his, so that the other end sees when ours is closed). `name` is for messages.
Result<std::unique_ptr<Source>> descriptor_source(int fd, std::string name);
// Each read() calls `read`, in the reader's thread. `cancel`, which may be empty, is to end a call
// that waits.
std::unique_ptr<Source> callback_source(
    std::function<Result<size_t>(std::span<std::byte> into)> read,
    std::function<void()> cancel = {});
// Bytes [offset, offset + bytes) of a file.
struct Stretch {
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};
// `head`, and behind it the stretches, one after the other: read directly and ahead, in 4 MiB of memory, which
// the source has from the first read() on until the end was read. A file is open while it is read. Errors: not_found; corrupt, for a file that
// ends before its stretch does.
std::unique_ptr<Source> stretches_source(std::vector<Stretch> stretches, std::string head = {});
// What `compressed` gives, decompressed as SourceOptions says.
std::unique_ptr<Source> decompress(std::unique_ptr<Source> compressed, std::string name,
                                   const SourceOptions& options = {});

// What is said of an output, whatever writes it.
struct OutputRules {
  // A block device may be written over: all that is on it is lost.
  bool overwrite_device = false;
  // It is complete when it is on the disk. Without that the system may lose it for half a minute, or
  // find out later that it cannot write it.
  bool sync = true;
};

// What a sink can compress to.
enum class CompressedFormat { gzip, zstd, lz4 };
// By the end of a name: .gz, .zst, .lz4. Nothing: it has no such end.
std::optional<CompressedFormat> compressed_format_of_name(std::string_view name);

struct SinkOptions {
  bool sync = true;               // close() returns when the file and its name are on the disk
  bool overwrite_device = false;  // or a block device is refused
  // Paths that are read meanwhile: what would change one of them is refused, and a file among them
  // is only replaced if nobody else has changed one.
  std::vector<std::string> inputs = {};
  // What is written arrives compressed.
  std::optional<CompressedFormat> compressed = {};
};

// A file that appears under its name, complete, at close(); "-": stdout; a pipe or device as it is.
Result<std::unique_ptr<Sink>> open_sink(const std::string& path, const SinkOptions& options = {});
// As descriptor_source(). A pipe that nobody reads raises SIGPIPE; where that is ignored it is the
// error EPIPE, as it always is of a socket.
Result<std::unique_ptr<Sink>> descriptor_sink(int fd, std::string name);
std::unique_ptr<Sink> callback_sink(std::function<Status(std::span<const std::byte> from)> write,
                                    std::function<void()> cancel = {});

// Compresses what it is given, in the writer's thread, and hands it on to `to`. close() ends the frame
// (gzip: the member) and closes `to`; nothing written is an empty frame. Memory: 1 MiB (gzip, lz4), or 2.
Result<std::unique_ptr<Sink>> compress(std::unique_ptr<Sink> to, CompressedFormat format);

struct SourceStreamOptions {
  size_t block_bytes = 2 * MiB;    // a power of two, 4 KiB to 1 GiB
  uint32_t read_ahead_blocks = 2;  // full blocks that may wait for the consumer; at least 1
  uint32_t comeback_blocks = 1;    // how far the consumer may go back
  // The most that the source may give: address space, not memory. Where a limit (ulimit -v) leaves less,
  // a quarter of what it leaves.
  uint64_t bytes_max = TiB;
  // What a consumer meets that touches data which will never come. (Beyond the end, and one block
  // of zeros behind it, is an error too; ErrorPolicy::zeros knows none.)
  ErrorPolicy policy = ErrorPolicy::stop;
  // When the source fails in the middle of a block: whether the consumer gets the bytes of that
  // block that came before. They can only come with zeros behind them to the end of the block, so
  // a consumer must then ask wait_ready() or at_end(), and status() at the end: the policy does not
  // speak up inside that block. With ErrorPolicy::zeros it is always so.
  bool deliver_tail = false;
  // Every comeback that is too far is an error. false, for consumers whose order was checked: such a load may go
  // unnoticed (faster by up to a move per block).
  bool strict = true;
  SourceOptions source;
};

namespace source {
class StreamBody;
class SinkStreamBody;
}  // namespace source

// A source as one plain pointer. Of a plain file that is at least a block long, the pointer leads
// into direct reads of the file (FileReader): its length is known and the consumer may go back any
// distance. All else is read by a thread of the stream's own through a RemapStream: length known at
// the end, comeback_blocks counts.
//
// Memory: (read_ahead_blocks + comeback_blocks + 1) blocks, and what decompression needs.
// Thread safety: one consumer thread; cancel() and status() from any.
class SourceStream {
 public:
  using Options = SourceStreamOptions;

  static Result<SourceStream> open(const std::string& path, const Options& options = {});
  static Result<SourceStream> open(std::unique_ptr<Source> source, std::string name,
                                   const Options& options = {});
  SourceStream(SourceStream&&) noexcept;
  SourceStream& operator=(SourceStream&&) noexcept;
  // Cancels; waits for no more than a source that can be cancelled. REQUIRES: nobody uses the
  // pointer any more.
  ~SourceStream();

  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(data());
  }
  // Whether the data end at or before `position`. Waits until that is known, and counts as touching
  // the block. Where the source failed in front of `position`: false, and the access meets the
  // error; with deliver_tail or ErrorPolicy::zeros: true.
  bool at_end(const void* position);
  // Waits until more than `offset` bytes are there or the end is known; how many are there now (not
  // more than `offset`: that is the length). Counts as touching the block of `offset`. The source's
  // error, when it failed in front.
  Result<uint64_t> wait_ready(uint64_t offset);
  // [address, address + bytes) can be given to a system call. REQUIRES: it spans at most
  // comeback_blocks + 1 blocks. With ErrorPolicy::stop an error of a file stops the program here.
  Status prepare_read(const void* address, size_t bytes);
  // The length, as soon as it is known; never of a source that failed.
  std::optional<uint64_t> bytes() const;
  // Whether the consumer may go back any distance (at the cost of reading again).
  bool rereads() const;
  size_t block_bytes() const;
  uint32_t comeback_blocks() const;

  // The first error of the source, or ok.
  Status status() const;
  // The source ends with ErrorCode::cancelled; what was read before stays. A plain file is read on:
  // it makes nobody wait.
  void cancel();

 private:
  explicit SourceStream(std::unique_ptr<source::StreamBody> body);
  const std::byte* data() const;
  std::unique_ptr<source::StreamBody> body_;
};

// All of what the stream still gives, from its start. Where status() is ok afterwards, an error is
// the sink's. Returns the number of bytes.
Result<uint64_t> copy(SourceStream& from, Sink& to);

struct SinkStreamOptions {
  size_t block_bytes = 2 * MiB;      // a power of two, 4 KiB to 1 GiB
  uint32_t write_behind_blocks = 2;  // full blocks that may wait for the sink; at least 1
  uint32_t comeback_blocks = 1;      // how far the producer may go back
  // The most that can be written: address space, not memory. Where a limit (ulimit -v) leaves less, a
  // quarter of what it leaves.
  uint64_t bytes_max = TiB;
  // The answer to a store that the sink will never take: the sink failed, or the store comes back too
  // far, or lies beyond bytes_max. zeros: it goes nowhere, and finish() returns the error.
  ErrorPolicy policy = ErrorPolicy::zeros;
  // Every comeback that is too far is found. false, for producers whose order was checked: such a store
  // may go unnoticed (faster by up to a move per block).
  bool strict = true;
};

// A sink behind a plain pointer: a thread of the stream's own hands full blocks to it. Large copies to the
// pointer go by copy() of penstock/stream.h.
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
  ~SinkStream();  // without finish(): the sink is cancelled and not closed

  // The bytes are stored here, from the first one on. A block that is left out becomes zeros;
  // bytes that are left out within a block are undefined.
  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(data());
  }
  // [address, address + bytes) can be given to a system call. REQUIRES: it spans at most
  // comeback_blocks + 1 blocks.
  Status prepare_write(void* address, size_t bytes);
  // The data are `bytes` long. Waits until the sink has all of them and is closed.
  Status finish(uint64_t bytes);
  // The sink's first error, or ok.
  Status status() const;
  // The sink ends with ErrorCode::cancelled.
  void cancel();

 private:
  explicit SinkStream(std::unique_ptr<source::SinkStreamBody> body);
  std::byte* data() const;
  std::unique_ptr<source::SinkStreamBody> body_;
};

}  // namespace penstock

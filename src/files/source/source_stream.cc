// A source behind a plain pointer.
//
// Plain files need no thread: their requests are in flight while the consumer works (FileReader).
// Every other source is called, and may wait or compute; so a thread calls it, and stores its bytes
// straight into the writer's side of a RemapStream, whose block it has prepared (a system call
// would get EFAULT, and a decoder that stops in a fault could not be cancelled).
//
// Ending. Only the pump thread ends the stream, because a block that is being filled must not be
// taken away. It may wait for the source, which cancel() ends, or for room; in that case the
// consumer is not waiting, and the destructor gives up the consumer's side, which ends that wait,
// too. So the destructor waits only for the source's answer to cancel().
//
// Blocks move by mremap: that is faster than any source here, and no page is mapped twice, so that
// the resident size reported by the system is true.
//
// The last block. Blocks reach the consumer whole. If a source fails inside a block, the stream may
// fail(), which loses the bytes in front within the block; or finish() there, after which status()
// and wait_ready() report the error (SourceStreamOptions::deliver_tail chooses).

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <new>
#include <thread>
#include <utility>

#include "base/access.h"
#include "base/bits.h"
#include "base/mutex.h"
#include "base/out_of_memory.h"
#include "base/thread.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"
#include "io/engine.h"
#include "io/file.h"
#include "memory/pool/pool.h"
#include "os/generation.h"
#include "os/limits.h"
#include "penstock/file_stream.h"
#include "penstock/source.h"
#include "penstock/stream.h"

namespace penstock {

namespace source {

// Thread safety and errors: those of SourceStream.
class StreamBody {
 public:
  explicit StreamBody(const SourceStreamOptions& options) : options_(options) {}
  virtual ~StreamBody() = default;
  virtual const std::byte* begin() const = 0;
  virtual bool at_end(uint64_t offset) = 0;
  virtual Result<uint64_t> wait_ready(uint64_t offset) = 0;
  virtual Status prepare_read(const void* address, size_t bytes) = 0;
  virtual std::optional<uint64_t> bytes() const = 0;
  virtual bool rereads() const = 0;
  virtual Status status() const = 0;
  virtual void cancel() = 0;

  const SourceStreamOptions options_;
};

namespace {

class FileBody final : public StreamBody {
 public:
  static Result<std::unique_ptr<StreamBody>> open(io::File&& file,
                                                  const SourceStreamOptions& options) {
    file.read_directly();
    auto reader = internal::Access::open<FileReader>(
        std::move(file), FileReader::Options{.block_bytes = options.block_bytes,
                                             .read_ahead_blocks = options.read_ahead_blocks,
                                             .comeback_blocks = options.comeback_blocks,
                                             .policy = options.policy});
    if (!reader) return std::unexpected(reader.error());
    return std::make_unique<FileBody>(std::move(*reader), options);
  }
  FileBody(FileReader reader, const SourceStreamOptions& options)
      : StreamBody(options), reader_(std::move(reader)) {}

  const std::byte* begin() const override { return reader_.begin(); }
  bool at_end(uint64_t offset) override { return offset >= reader_.bytes(); }
  Result<uint64_t> wait_ready(uint64_t) override { return reader_.bytes(); }
  std::optional<uint64_t> bytes() const override { return reader_.bytes(); }
  bool rereads() const override { return true; }
  Status status() const override { return reader_.status(); }
  void cancel() override {}

  // A load from each block maps it.
  Status prepare_read(const void* address, size_t bytes) override {
    const uint64_t first = static_cast<const std::byte*>(address) - begin();
    Status touched = RecoveryPoint::run([&] {
      for (uint64_t at = first; at < first + bytes; at = round_up(at + 1, options_.block_bytes)) {
        touch(begin() + at);
      }
    });
    return touched ? status() : touched;
  }

 private:
  static void touch(const std::byte* address) {
    [[maybe_unused]] const auto seen = *static_cast<const volatile std::byte*>(address);
  }
  FileReader reader_;
};

class ThreadBody final : public StreamBody {
 public:
  // `callers`: the source is the caller's own.
  static Result<std::unique_ptr<StreamBody>> open(std::unique_ptr<Source> source, std::string name,
                                                  SourceStreamOptions options, bool callers) {
    auto stream = os::open_with_addresses(options.bytes_max, [&](uint64_t bytes) {
      options.bytes_max = bytes;
      return RemapStream::open({.bytes = bytes,
                                .block_bytes = options.block_bytes,
                                .read_ahead_blocks = options.read_ahead_blocks,
                                .producer_comeback_blocks = 0,
                                .consumer_comeback_blocks = options.comeback_blocks,
                                .policy = options.policy,
                                .mechanism = pool::mremap_or_shared(),
                                .strict = options.strict,
                                .sparse = true,
                                .name = name});
    });
    if (!stream) return std::unexpected(stream.error());
    auto body = std::make_unique<ThreadBody>(std::move(source), std::move(*stream), std::move(name),
                                             options, callers);
    auto started = start_thread(*body->thread_, [at = body.get()] { at->pump(); });
    if (!started) return std::unexpected(started.error());
    return body;
  }
  ThreadBody(std::unique_ptr<Source> source, RemapStream stream, std::string name,
             const SourceStreamOptions& options, bool callers)
      : StreamBody(options),
        name_(std::move(name)),
        callers_(callers),
        source_(std::move(source)),
        stream_(std::move(stream)) {}

  ~ThreadBody() override {
    if (thread_.is_inherited()) return;
    cancel();
    stream_.cancel(Side::consumer);
    if (thread_->joinable()) thread_->join();
  }

  const std::byte* begin() const override { return stream_.reader<std::byte>(); }
  bool rereads() const override { return false; }

  bool at_end(uint64_t offset) override {
    if (offset < ready_bytes_) return false;
    const Result<uint64_t> ready = stream_.wait_ready(offset);
    if (!ready) return false;
    ready_bytes_ = *ready;
    return *ready <= offset;
  }

  Result<uint64_t> wait_ready(uint64_t offset) override {
    Result<uint64_t> ready = stream_.wait_ready(offset);
    if (ready && *ready <= offset) {
      if (Status whole = status(); !whole) return std::unexpected(whole.error());
    }
    return ready;
  }

  Status prepare_read(const void* address, size_t bytes) override {
    return stream_.prepare_read(address, bytes);
  }

  std::optional<uint64_t> bytes() const override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return bytes_;
  }
  Status status() const override EXCLUDES_LOCK(mutex_) {
    if (thread_.is_inherited()) return stream_.status();
    MutexLock lock(mutex_);
    return status_;
  }
  void cancel() override EXCLUDES_LOCK(source_mutex_) {
    if (thread_.is_inherited()) return;
    // Relaxed: the flag publishes nothing; a wait of the pump is ended below.
    cancelled_.store(true, std::memory_order_relaxed);
    MutexLock lock(source_mutex_);
    if (source_ != nullptr) source_->cancel();
  }

 private:
  void pump() EXCLUDES_LOCK(mutex_) {
    uint64_t bytes = 0;
    Result<size_t> got = 0;
    while ((got = or_out_of_memory([&] { return read_at(bytes); })) && *got != 0) bytes += *got;
    close_source();
    try {
      end(bytes, got ? Status{} : std::unexpected(std::move(got.error())));
    } catch (const std::bad_alloc&) {
      end_out_of_memory();
    }
  }

  // Frees the source's memory, such as a decoder's window, without waiting for the consumer.
  void close_source() EXCLUDES_LOCK(source_mutex_) {
    MutexLock lock(source_mutex_);
    source_.reset();
  }

  // Reads once: at most what the block has room for.
  Result<size_t> read_at(uint64_t offset) {
    if (cancelled_.load(std::memory_order_relaxed)) {
      return failure(ErrorCode::cancelled, fmt::format("read on at offset {}", offset), name_);
    }
    if (offset == options_.bytes_max) return expect_end();
    std::byte* const at = stream_.writer<std::byte>() + offset;
    const uint64_t room = std::min<uint64_t>(options_.block_bytes - offset % options_.block_bytes,
                                             options_.bytes_max - offset);
    if (Status ready = stream_.prepare_write(at, room); !ready) {
      return std::unexpected(ready.error());
    }
    return read({at, room});
  }

  Result<size_t> read(std::span<std::byte> into) {
    std::optional<CallersSignals> signals;
    if (callers_) signals.emplace();
    return source::checked_read(*source_, into);
  }

  Result<size_t> expect_end() {
    std::array<std::byte, 1> more;
    Result<size_t> got = read(more);
    if (!got || *got == 0) return got;
    return failure(ErrorCode::out_of_memory,
                   fmt::format("give addresses to more than {} bytes", options_.bytes_max), name_,
                   "a larger bytes_max, or a higher limit (ulimit -v)");
  }

  void end(uint64_t bytes, Status status) EXCLUDES_LOCK(mutex_) {
    const bool whole = status.has_value();
    const bool up_to_here = whole || options_.deliver_tail || options_.policy == ErrorPolicy::zeros;
    {
      MutexLock lock(mutex_);
      if (whole) bytes_ = bytes;
      status_ = std::move(status);
    }
    // Last: a thread that sees the end sees the status. (The consumer may be gone.)
    if (up_to_here) {
      (void)stream_.finish(bytes);
    } else {
      stream_.fail(Side::producer, this->status().error());
    }
  }

  void end_out_of_memory() noexcept EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(mutex_);
      bytes_.reset();
      status_ = out_of_memory();
    }
    stream_.cancel(Side::producer);
  }

  const std::string name_;
  const bool callers_;  // the source is the caller's own
  Mutex source_mutex_;  // guards the end of source_ and calls of its cancel()
  std::unique_ptr<Source> source_;
  RemapStream stream_;
  uint64_t ready_bytes_ = 0;  // the consumer's: at least this much has arrived
  std::atomic<bool> cancelled_ = false;
  mutable Mutex mutex_;
  std::optional<uint64_t> bytes_ GUARDED_BY(mutex_);
  Status status_ GUARDED_BY(mutex_);
  os::LeftToParent<std::thread> thread_{
      std::make_unique<std::thread>()};  // last: it uses all other members
};

// Size of a file whose bytes are read unchanged; 0 for pipes and compressed data.
Result<uint64_t> plain_bytes(const io::File& file, const SourceStreamOptions& options) {
  const auto arrival = arrival_of(file, options.source);
  if (!arrival) return std::unexpected(arrival.error());
  return arrival->in_order ? Result<uint64_t>(0) : file.size();
}

}  // namespace

}  // namespace source

Result<SourceStream> SourceStream::open(const std::string& path,
                                        const SourceStreamOptions& options) {
  return or_out_of_memory([&]() -> Result<SourceStream> {
    auto file = io::File::open_input(path, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    const Result<uint64_t> bytes = source::plain_bytes(*file, options);
    if (!bytes) return std::unexpected(bytes.error());
    // A pointer into direct reads, for a file of at least a block: for smaller ones a thread is no
    // slower.
    if (*bytes >= options.block_bytes && *bytes > 0) {
      auto body = source::FileBody::open(std::move(*file), options);
      if (!body) return std::unexpected(body.error());
      return SourceStream(std::move(*body));
    }
    // A small file needs no large blocks, and getting them costs more than reading it.
    SourceStreamOptions fitting = options;
    if (*bytes > 0)
      fitting.block_bytes =
          std::clamp<size_t>(std::bit_ceil(*bytes + 1), 4 * KiB, options.block_bytes);
    auto source = source::source_of(*file, options.source);
    if (!source) return std::unexpected(source.error());
    auto body = source::ThreadBody::open(std::move(*source), path, fitting, false);
    if (!body) return std::unexpected(body.error());
    return SourceStream(std::move(*body));
  });
}

Result<SourceStream> SourceStream::open(std::unique_ptr<Source> source, std::string name,
                                        const SourceStreamOptions& options) {
  return or_out_of_memory([&]() -> Result<SourceStream> {
    auto body = source::ThreadBody::open(std::move(source), std::move(name), options, true);
    if (!body) return std::unexpected(body.error());
    return SourceStream(std::move(*body));
  });
}

SourceStream::SourceStream(std::unique_ptr<source::StreamBody> body) : body_(std::move(body)) {}
SourceStream::SourceStream(SourceStream&&) noexcept = default;
SourceStream& SourceStream::operator=(SourceStream&&) noexcept = default;
SourceStream::~SourceStream() = default;

const std::byte* SourceStream::data() const {
  return body_->begin();
}
bool SourceStream::at_end(const void* position) {
  const auto offset = static_cast<const std::byte*>(position) - body_->begin();
  return body_->at_end(static_cast<uint64_t>(offset));
}
Result<uint64_t> SourceStream::wait_ready(uint64_t offset) {
  return body_->wait_ready(offset);
}
Status SourceStream::prepare_read(const void* address, size_t bytes) {
  return body_->prepare_read(address, bytes);
}
std::optional<uint64_t> SourceStream::bytes() const {
  return body_->bytes();
}
bool SourceStream::rereads() const {
  return body_->rereads();
}
size_t SourceStream::block_bytes() const {
  return body_->options_.block_bytes;
}
uint32_t SourceStream::comeback_blocks() const {
  return body_->options_.comeback_blocks;
}
Status SourceStream::status() const {
  return body_->status();
}
void SourceStream::cancel() {
  body_->cancel();
}

Result<uint64_t> copy(SourceStream& from, Sink& to) {
  for (uint64_t done = 0;;) {
    const Result<uint64_t> ready = from.wait_ready(done);
    if (!ready || *ready <= done) return ready;
    const uint64_t block_end = round_up(done + 1, from.block_bytes());
    const std::span piece(from.begin() + done, std::min(*ready, block_end) - done);
    if (Status here = from.prepare_read(piece.data(), piece.size()); !here) {
      return std::unexpected(here.error());
    }
    if (Status written = to.write(piece); !written) return std::unexpected(written.error());
    done += piece.size();
  }
}

}  // namespace penstock

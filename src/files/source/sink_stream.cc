// A sink behind a plain pointer: the reverse of source_stream.cc. The drain thread waits for full
// blocks (SinkStream's side of the stream ends that, by finish() or in the destructor) or for the
// sink (which cancel() ends). If the sink fails, the drain gives up its side, and the policy
// applies to the producer.

#include <algorithm>
#include <atomic>
#include <new>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/mutex.h"
#include "base/out_of_memory.h"
#include "base/thread.h"
#include "memory/pool/pool.h"
#include "os/generation.h"
#include "os/limits.h"
#include "penstock/source.h"
#include "penstock/stream.h"

namespace penstock {

namespace source {

// Thread safety and errors: those of SinkStream.
class SinkStreamBody {
 public:
  SinkStreamBody(std::unique_ptr<Sink> sink, RemapStream stream, size_t block_bytes)
      : block_bytes_(block_bytes), sink_(std::move(sink)), stream_(std::move(stream)) {}

  Status start() {
    return start_thread(*thread_, [this] { drain(); });
  }

  ~SinkStreamBody() {
    if (thread_.is_inherited() || !thread_->joinable()) return;
    cancel();
    stream_.cancel(Side::producer);
    thread_->join();
  }

  RemapStream& stream() { return stream_; }

  Status finish(uint64_t bytes) EXCLUDES_LOCK(mutex_) {
    if (thread_.is_inherited()) return stream_.finish(bytes);
    if (!thread_->joinable()) return failure(ErrorCode::invalid_argument, "finish twice", "sink");
    const Status finished = stream_.finish(bytes);
    // Neither side gave up: the length is wrong, and the stream goes on.
    if (!finished && stream_.status() && status()) return finished;
    thread_->join();
    if (Status drained = status(); !drained) return drained;
    if (!finished) return finished;
    Status closed = or_out_of_memory([&] { return sink_->close(); });
    MutexLock lock(mutex_);
    return status_ = std::move(closed);
  }

  Status status() const EXCLUDES_LOCK(mutex_) {
    if (thread_.is_inherited()) return stream_.status();
    MutexLock lock(mutex_);
    return status_;
  }

  void cancel() {
    if (thread_.is_inherited()) return;
    // Relaxed: the flag publishes nothing; a wait of the drain is ended below or by the producer.
    cancelled_.store(true, std::memory_order_relaxed);
    sink_->cancel();
  }

 private:
  void drain() EXCLUDES_LOCK(mutex_) {
    uint64_t done = 0;
    Result<size_t> put = 0;
    while ((put = or_out_of_memory([&] { return write_from(done); })) && *put != 0) done += *put;
    if (put) return;
    try {
      end(put.error());
    } catch (const std::bad_alloc&) {
      end_out_of_memory();
    }
  }

  void end(const Error& error) EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(mutex_);
      status_ = std::unexpected(error);
    }
    stream_.fail(Side::consumer, error);
  }

  void end_out_of_memory() noexcept EXCLUDES_LOCK(mutex_) {
    {
      MutexLock lock(mutex_);
      status_ = out_of_memory();
    }
    stream_.cancel(Side::consumer);
  }

  // Writes the available part of a block, and returns its bytes; 0: all is written.
  Result<size_t> write_from(uint64_t offset) {
    const Result<uint64_t> ready = stream_.wait_ready(offset);
    if (!ready) return std::unexpected(ready.error());
    if (*ready <= offset) return 0;
    if (cancelled_.load(std::memory_order_relaxed)) {
      return failure(ErrorCode::cancelled, "write on", "sink");
    }
    const std::span piece(stream_.reader<std::byte>() + offset,
                          std::min(*ready, round_up(offset + 1, block_bytes_)) - offset);
    if (Status here = stream_.prepare_read(piece.data(), piece.size()); !here) {
      return std::unexpected(here.error());
    }
    const CallersSignals callers;
    if (Status written = sink_->write(piece); !written) return std::unexpected(written.error());
    return piece.size();
  }

  const size_t block_bytes_;
  const std::unique_ptr<Sink> sink_;
  RemapStream stream_;
  std::atomic<bool> cancelled_ = false;
  mutable Mutex mutex_;
  Status status_ GUARDED_BY(mutex_);
  os::LeftToParent<std::thread> thread_{
      std::make_unique<std::thread>()};  // last: it uses all other members
};

}  // namespace source

Result<SinkStream> SinkStream::open(std::unique_ptr<Sink> sink, std::string name,
                                    const SinkStreamOptions& options) {
  return or_out_of_memory([&]() -> Result<SinkStream> {
    auto stream = os::open_with_addresses(options.bytes_max, [&](uint64_t bytes) {
      return RemapStream::open({.bytes = bytes,
                                .block_bytes = options.block_bytes,
                                .read_ahead_blocks = options.write_behind_blocks,
                                .producer_comeback_blocks = options.comeback_blocks,
                                .consumer_comeback_blocks = 0,
                                .policy = options.policy,
                                .mechanism = pool::mremap_or_shared(),
                                .strict = options.strict,
                                .name = name});
    });
    if (!stream) return std::unexpected(stream.error());
    auto body = std::make_unique<source::SinkStreamBody>(std::move(sink), std::move(*stream),
                                                         options.block_bytes);
    if (auto started = body->start(); !started) return std::unexpected(started.error());
    return SinkStream(std::move(body));
  });
}

SinkStream::SinkStream(std::unique_ptr<source::SinkStreamBody> body) : body_(std::move(body)) {}
SinkStream::SinkStream(SinkStream&&) noexcept = default;
SinkStream& SinkStream::operator=(SinkStream&&) noexcept = default;
SinkStream::~SinkStream() = default;

std::byte* SinkStream::data() const {
  return body_->stream().writer<std::byte>();
}
Status SinkStream::prepare_write(void* address, size_t bytes) {
  return body_->stream().prepare_write(address, bytes);
}
Status SinkStream::finish(uint64_t bytes) {
  return or_out_of_memory([&] { return body_->finish(bytes); });
}
Status SinkStream::status() const {
  return body_->status();
}
void SinkStream::cancel() {
  body_->cancel();
}

}  // namespace penstock

#include "api/pipes.h"

#include <chrono>
#include <string>
#include <utility>

#include "base/misuse.h"
#include "base/run_scope.h"
#include "base/thread.h"

namespace penstock::api {
namespace {

constexpr size_t piece_bytes = 256 * KiB;
// A piece, and what the system keeps of a pipe (file::make_pipe()).
constexpr uint64_t pipe_memory_bytes = piece_bytes + MiB;
constexpr std::chrono::milliseconds look_every{20};

Result<size_t> read(Source& source, std::span<std::byte> into) {
  const NoRunScope callers;
  return source.read(into);
}

std::string path_of(const os::Fd& fd) {
  return "/dev/fd/" + std::to_string(fd.get());
}

}  // namespace

Result<std::unique_ptr<Pipes>> Pipes::open(FilesOptions& options) {
  std::unique_ptr<Pipes> pipes(new Pipes(options));
  if (Status status = pipes->start(options); !status) return std::unexpected(status.error());
  return pipes;
}

// Before anything is planned: what compresses takes its memory now.
Status Pipes::open_sink(FilesOptions& options) {
  sink_ = std::exchange(options.sink, nullptr);
  if (!options.compressed) return {};
  if (sink_ != nullptr)
    return misuse("compress for a sink", "compressed", "a sink that compresses");
  auto sink = penstock::open_sink(options.output,
                                  {.sync = options.output_rules.sync,
                                   .overwrite_device = options.output_rules.overwrite_device,
                                   .inputs = options.inputs,
                                   .compressed = options.compressed});
  if (!sink) return std::unexpected(sink.error());
  sink_ = std::move(*sink);
  return {};
}

Status Pipes::start(FilesOptions& options) {
  if (Status opened = open_sink(options); !opened) return opened;
  const size_t pipes = options.sources.size() + (sink_ != nullptr ? 1 : 0);
  memory_ = MemoryCharge(pipes * pipe_memory_bytes);
  for (std::shared_ptr<Source>& source : options.sources) {
    auto pipe = file::make_pipe();
    if (!pipe) return std::unexpected(pipe.error());
    auto made = std::make_unique<Feed>();
    made->source = std::move(source);
    made->readable = std::move(pipe->readable);
    options.inputs.push_back(path_of(made->readable));
    auto to = file::Descriptor::duplicate(pipe->writable.get(), "source");
    if (!to) return std::unexpected(to.error());
    made->to = std::move(*to);
    pipe->writable.reset();
    Feed& feed = *feeds_.emplace_back(std::move(made));
    Status started = start_thread(feed.thread, [this, &feed] { this->feed(feed); });
    if (!started) return started;
  }
  options.sources.clear();
  if (sink_ != nullptr) {
    auto pipe = file::make_pipe();
    if (!pipe) return std::unexpected(pipe.error());
    auto from = file::Descriptor::duplicate(pipe->readable.get(), "sink");
    if (!from) return std::unexpected(from.error());
    from_ = std::move(*from);
    sink_writable_ = std::move(pipe->writable);
    options.output = path_of(sink_writable_);
    if (Status started = start_thread(drainer_, [this] { drain(); }); !started) return started;
  }
  options.cancel = &stop_;
  (void)is_to_stop();  // before a short run has ended
  return start_thread(watcher_, [this] { watch(); });
}

Pipes::~Pipes() {
  end(false);
}

void Pipes::feed(Feed& feed) {
  std::vector<std::byte> piece(piece_bytes);
  for (;;) {
    const auto bytes = read(*feed.source, piece);
    // What a run that has ended did not want is nobody's error.
    if (!bytes && !ended_) stop(bytes.error());
    if (is_to_stop() || !bytes || *bytes == 0) break;
    if (!feed.to->write(std::span(piece).first(*bytes))) break;  // nobody reads it any more
  }
  MutexLock lock(mutex_);
  feed.to.reset();
}

// All that comes is taken, so that the run is never left waiting; what the sink should not have is
// dropped.
void Pipes::drain() {
  std::vector<std::byte> piece(piece_bytes);
  for (;;) {
    const auto bytes = from_->read(piece);
    if (!bytes || *bytes == 0) return;
    if (is_to_stop()) continue;
    const NoRunScope callers;
    if (Status written = sink_->write(std::span(piece).first(*bytes)); !written)
      stop(written.error());
  }
}

void Pipes::watch() {
  while (!is_to_stop()) {
    MutexLock lock(mutex_);
    if (drained_) return;
    if (!stop_) changed_.wait_for(mutex_, look_every);
  }
  for (const auto& feed : feeds_) feed->source->cancel();
  if (sink_ != nullptr) sink_->cancel();
}

bool Pipes::is_to_stop() {
  if (!stop_ && cancel_ != nullptr && cancel_->load()) stop(interrupted());
  return stop_;
}

void Pipes::stop(Error error) {
  MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  stop_ = true;
  changed_.notify_all();
}

void Pipes::end(bool succeeded) {
  if (ended_.exchange(true)) return;
  for (const auto& feed : feeds_) {
    if (!feed->thread.joinable()) continue;
    feed->source->cancel();
    {
      MutexLock lock(mutex_);
      if (feed->to) feed->to->interrupt();
    }
    feed->thread.join();
  }
  if (drainer_.joinable()) {
    if (!succeeded) {
      stop_ = true;
      sink_->cancel();
    }
    sink_writable_.reset();
    drainer_.join();
  }
  {
    MutexLock lock(mutex_);
    drained_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
  if (sink_ == nullptr || !succeeded || !status()) return;
  if (Status closed = sink_->close(); !closed) stop(closed.error());
}

Status Pipes::status() {
  MutexLock lock(mutex_);
  return error_ ? Status(std::unexpected(*error_)) : Status{};
}

}  // namespace penstock::api

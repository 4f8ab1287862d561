#include "api/pipes.h"

#include <string>
#include <utility>

#include "base/thread.h"

namespace penstock::api {
namespace {

constexpr size_t piece_bytes = 256 * KiB;

std::string path_of(const os::Fd& fd) {
  return "/dev/fd/" + std::to_string(fd.get());
}

}  // namespace

Result<std::unique_ptr<Pipes>> Pipes::open(FilesOptions& options) {
  std::unique_ptr<Pipes> pipes(new Pipes(options));
  if (Status status = pipes->start(options); !status) return std::unexpected(status.error());
  return pipes;
}

Status Pipes::start(FilesOptions& options) {
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
    options.sink.reset();
    if (Status started = start_thread(drainer_, [this] { drain(); }); !started) return started;
  }
  options.cancel = &stop_;
  // Called a few times a second: so the caller's wish comes through while nothing else is heard.
  options.progress = [this](const FilesProgress& now) {
    if (is_cancelled()) stop_ = true;
    if (progress_) progress_(now);
  };
  return {};
}

Pipes::~Pipes() {
  end(false);
}

void Pipes::feed(Feed& feed) {
  std::vector<std::byte> piece(piece_bytes);
  for (;;) {
    if (is_cancelled()) stop_ = true;
    const auto bytes = feed.source->read(piece);
    // What a run that has ended did not want is nobody's error.
    if (!bytes && !ended_) stop(bytes.error());
    if (!bytes || *bytes == 0) break;
    if (!feed.to->write(std::span(piece).first(*bytes))) break;  // nobody reads it any more
  }
  MutexLock lock(mutex_);
  feed.to.reset();
}

// All that comes is taken, so that the run is never left waiting.
void Pipes::drain() {
  std::vector<std::byte> piece(piece_bytes);
  for (bool failed = false;;) {
    const auto bytes = from_->read(piece);
    if (!bytes || *bytes == 0) return;
    if (failed) continue;
    if (Status written = sink_->write(std::span(piece).first(*bytes)); !written) {
      failed = true;
      stop(written.error());
    }
  }
}

void Pipes::stop(Error error) {
  MutexLock lock(mutex_);
  if (!error_) error_ = std::move(error);
  stop_ = true;
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
  if (sink_ == nullptr || !drainer_.joinable()) return;
  sink_writable_.reset();
  drainer_.join();
  if (!succeeded || !status()) return;
  if (Status closed = sink_->close(); !closed) stop(closed.error());
}

Status Pipes::status() {
  MutexLock lock(mutex_);
  return error_ ? Status(std::unexpected(*error_)) : Status{};
}

}  // namespace penstock::api

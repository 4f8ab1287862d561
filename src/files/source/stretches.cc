// Stretches of files as a source, read directly: the next buffer is filled while one is consumed.
//
// Invariants: files_ contains each file from that of the oldest unconsumed bytes to that of the
// next request. An error comes after the bytes in front of it; it or the end closes the ring.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "base/bits.h"
#include "io/file.h"
#include "io/request_ring.h"
#include "penstock/source.h"

namespace penstock {
namespace {

// A disk reaches its full speed with requests of this size (`bench file-io`).
constexpr size_t buffer_bytes = 2 * MiB;
constexpr unsigned buffers = 2;

std::unexpected<Error> shorter(const std::string& path) {
  return failure(ErrorCode::corrupt, "read on: it has become shorter", path);
}

class StretchesSource final : public Source {
 public:
  StretchesSource(std::string head, std::vector<Stretch> stretches)
      : head_(std::move(head)),
        stretches_(std::move(stretches)),
        chunk_(std::as_bytes(std::span(head_))) {}

  Result<size_t> read(std::span<std::byte> into) override;
  // Relaxed: the flag publishes nothing.
  void cancel() override { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  bool more() const { return status_ && next_ < stretches_.size(); }
  Status begin();
  Status submit_next();
  Status take_chunk();
  Result<size_t> end();

  const std::string head_;
  std::vector<Stretch> stretches_;  // without the bytes that were submitted
  size_t next_ = 0;
  std::span<const std::byte> chunk_;              // bytes that the next read() returns
  std::deque<std::span<const std::byte>> asked_;  // bytes of each request in flight
  std::deque<io::File> files_;
  Status status_;
  std::atomic<bool> cancelled_ = false;
  std::optional<io::RequestRing> ring_;  // destroyed first: it waits for requests in flight
};

Result<size_t> StretchesSource::read(std::span<std::byte> into) {
  if (cancelled_.load(std::memory_order_relaxed))
    return failure(ErrorCode::cancelled, "read on", "stretches of files");
  while (chunk_.empty()) {
    if (!ring_ && more()) status_ = begin();
    while (more() && !ring_->full()) status_ = submit_next();
    if (!ring_ || ring_->idle()) return end();
    if (Status taken = take_chunk(); !taken) {
      status_ = taken;
      return end();
    }
  }
  const size_t bytes = std::min(into.size(), chunk_.size());
  std::memcpy(into.data(), chunk_.data(), bytes);
  chunk_ = chunk_.subspan(bytes);
  return bytes;
}

Status StretchesSource::begin() {
  uint64_t bytes = 0;
  for (const Stretch& stretch : stretches_) bytes += stretch.bytes;
  return ring_.emplace().open({.depth = buffers,
                               .buffer_bytes = buffer_bytes,
                               .total_bytes = bytes,
                               .subject = "stretches of files"});
}

// Submits the next request, for whole sectors, so that all of it is direct.
Status StretchesSource::submit_next() {
  Stretch& stretch = stretches_[next_];
  if (files_.empty() || files_.back().path() != stretch.path) {
    auto opened = io::File::open_read(stretch.path);
    if (!opened) return std::unexpected(opened.error());
    files_.push_back(std::move(*opened));
  }
  const auto file_bytes = files_.back().size();
  if (!file_bytes) return std::unexpected(file_bytes.error());
  if (stretch.bytes > *file_bytes || stretch.offset > *file_bytes - stretch.bytes)
    return shorter(stretch.path);
  const uint64_t end = stretch.offset + stretch.bytes;
  const uint64_t from = round_down(stretch.offset, io::sector_bytes);
  const uint64_t to = std::min({from + buffer_bytes, round_up(end, io::sector_bytes), *file_bytes});
  const uint64_t bytes = std::min(to, end) - stretch.offset;
  if (bytes > 0) {
    asked_.emplace_back(ring_->next_buffer() + (stretch.offset - from), bytes);
    ring_->submit(
        {.file = &files_.back(), .offset = from, .data = ring_->next_buffer(), .bytes = to - from});
  }
  stretch.offset += bytes;
  stretch.bytes -= bytes;
  if (stretch.bytes == 0) ++next_;
  return {};
}

// Waits for the oldest request. REQUIRES: a request is in flight.
Status StretchesSource::take_chunk() {
  const io::Request& read = ring_->wait_oldest();
  if (Status status = ring_->status(); !status) return status;
  while (&files_.front() != read.file) files_.pop_front();
  if (read.done_bytes < read.bytes) return shorter(read.file->path());
  chunk_ = asked_.front();
  asked_.pop_front();
  return {};
}

// Closes files and ring, because many read sources may live to the end of a run.
Result<size_t> StretchesSource::end() {
  ring_.reset();
  files_.clear();
  if (!status_) return std::unexpected(status_.error());
  return 0;
}

}  // namespace

std::unique_ptr<Source> stretches_source(std::vector<Stretch> stretches, std::string head) {
  return std::make_unique<StretchesSource>(std::move(head), std::move(stretches));
}

}  // namespace penstock

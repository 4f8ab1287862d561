// Stretches of files as a source: a thread reads them directly, as far ahead as it has buffers.
//
// Invariants: a chunk in full_ is the consumer's; all other buffers are the thread's, which has one chunk
// at most that is in neither.

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/mutex.h"
#include "base/thread.h"
#include "file/engine.h"
#include "file/file.h"
#include "os/memory.h"
#include "penstock/source.h"

namespace penstock {
namespace {

// A disk takes requests of this size at its full speed (`bench file-io`).
constexpr size_t buffer_bytes = 2 * MiB;
constexpr size_t buffers = 2;

class StretchesSource final : public Source {
 public:
  StretchesSource(std::string head, std::vector<Stretch> stretches)
      : head_(std::move(head)), stretches_(std::move(stretches)) {}
  ~StretchesSource() override { cancel(); }

  Result<size_t> read(std::span<std::byte> into) override EXCLUDES_LOCK(mutex_);
  void cancel() override EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

 private:
  struct Chunk {
    const std::byte* at = nullptr;
    size_t bytes = 0;
  };

  Status begin();
  Result<size_t> end() EXCLUDES_LOCK(mutex_);
  void read_ahead() EXCLUDES_LOCK(mutex_);
  Status read_all() EXCLUDES_LOCK(mutex_);
  Status read_one(const file::File& file, const Stretch& stretch) EXCLUDES_LOCK(mutex_);
  // False: nobody wants it.
  bool wait_for_room() EXCLUDES_LOCK(mutex_);

  const std::string head_;
  size_t head_done_bytes_ = 0;
  const std::vector<Stretch> stretches_;
  os::Reservation memory_;
  size_t next_ = 0;  // buffer that the thread fills
  bool begun_ = false;

  Mutex mutex_;
  Condition changed_;
  std::deque<Chunk> full_ GUARDED_BY(mutex_);
  bool ended_ GUARDED_BY(mutex_) = false;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GUARDED_BY(mutex_);
  std::jthread reader_;  // goes first
};

Result<size_t> StretchesSource::read(std::span<std::byte> into) {
  if (head_done_bytes_ < head_.size()) {
    const size_t bytes = std::min(into.size(), head_.size() - head_done_bytes_);
    std::memcpy(into.data(), head_.data() + head_done_bytes_, bytes);
    head_done_bytes_ += bytes;
    return bytes;
  }
  if (!begun_) {
    if (Status begun = begin(); !begun) return std::unexpected(begun.error());
    begun_ = true;
  }
  std::optional<Chunk> chunk;
  {
    MutexLock lock(mutex_);
    while (full_.empty() && !ended_ && !cancelled_) changed_.wait(mutex_);
    if (cancelled_) return failure(ErrorCode::cancelled, "read on", "stretches of files");
    if (!full_.empty()) chunk = full_.front();
  }
  if (!chunk) return end();
  const size_t bytes = std::min(into.size(), chunk->bytes);
  std::memcpy(into.data(), chunk->at, bytes);
  MutexLock lock(mutex_);
  full_.front() = {chunk->at + bytes, chunk->bytes - bytes};
  if (bytes == chunk->bytes) {
    full_.pop_front();
    changed_.notify_all();
  }
  return bytes;
}

Status StretchesSource::begin() {
  auto memory = os::Reservation::reserve(buffers * buffer_bytes);
  if (!memory) return std::unexpected(memory.error());
  if (const int error = os::commit(memory->begin(), memory->bytes()); error != 0)
    return system_error(error, "get memory to read ahead in", "stretches of files");
  (void)os::advise_huge(memory->begin(), memory->bytes(), true);
  memory_ = std::move(*memory);
  return start_thread(reader_, [this] { read_ahead(); });
}

// One source of many is read at a time, and all of them may live to the end of a run.
Result<size_t> StretchesSource::end() {
  if (reader_.joinable()) reader_.join();
  memory_ = {};
  MutexLock lock(mutex_);
  return error_ ? Result<size_t>(std::unexpected(*error_)) : 0;
}

void StretchesSource::read_ahead() {
  const Status done = read_all();
  MutexLock lock(mutex_);
  if (!done) error_ = done.error();
  ended_ = true;
  changed_.notify_all();
}

Status StretchesSource::read_all() {
  std::optional<file::File> file;
  for (const Stretch& stretch : stretches_) {
    if (!file || file->path() != stretch.path) {
      auto opened = file::File::open_read(stretch.path);
      if (!opened) return std::unexpected(opened.error());
      file.emplace(std::move(*opened));
    }
    if (Status done = read_one(*file, stretch); !done) return done;
  }
  return {};
}

// In whole sectors, so that all of it goes direct.
Status StretchesSource::read_one(const file::File& file, const Stretch& stretch) {
  const auto file_bytes = file.size();
  if (!file_bytes) return std::unexpected(file_bytes.error());
  if (stretch.bytes > *file_bytes || stretch.offset > *file_bytes - stretch.bytes)
    return failure(ErrorCode::corrupt, "read on: it has become shorter", stretch.path);
  const uint64_t end = stretch.offset + stretch.bytes;
  for (uint64_t at = stretch.offset; at < end;) {
    if (!wait_for_room()) return {};
    const uint64_t from = round_down(at, file::sector_bytes);
    const uint64_t to =
        std::min({from + buffer_bytes, round_up(end, file::sector_bytes), *file_bytes});
    std::byte* const buffer = memory_.begin() + next_ * buffer_bytes;
    if (Status done = file::read_exactly(file, from, buffer, to - from); !done) return done;
    next_ = (next_ + 1) % buffers;
    const uint64_t bytes = std::min(to, end) - at;
    MutexLock lock(mutex_);
    full_.push_back({buffer + (at - from), bytes});
    changed_.notify_all();
    at += bytes;
  }
  return {};
}

bool StretchesSource::wait_for_room() {
  MutexLock lock(mutex_);
  while (full_.size() == buffers && !cancelled_) changed_.wait(mutex_);
  return !cancelled_;
}

}  // namespace

std::unique_ptr<Source> stretches_source(std::vector<Stretch> stretches, std::string head) {
  return std::make_unique<StretchesSource>(std::move(head), std::move(stretches));
}

}  // namespace penstock

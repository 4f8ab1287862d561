#include "memory/pool/late_unmaps.h"

#include <algorithm>

#include "os/memory.h"

namespace penstock::pool {

LateUnmaps::LateUnmaps(size_t block_bytes, uint32_t batch_blocks)
    : block_bytes_(block_bytes),
      batch_blocks_(std::max(batch_blocks, 1u)),
      views_(std::make_unique<std::byte*[]>(batch_blocks_)) {}

int LateUnmaps::add(std::byte* view) noexcept {
  const os::SemaphoreLock lock(mutex_);
  // A full batch that could not be flushed gets another try; if it fails, the caller keeps the
  // view.
  if (count_ == batch_blocks_) {
    if (const int error = flush_locked()) return error;
  }
  views_[count_++] = view;
  if (count_ < batch_blocks_) return 0;
  const int error = flush_locked();
  if (error == 0 || batch_blocks_ > 1) return 0;
  count_ = 0;
  return error;
}

// Removes a view from the pending ones; returns whether it was pending.
bool LateUnmaps::take_back(std::byte* view) noexcept {
  const os::SemaphoreLock lock(mutex_);
  const uint32_t before = count_;
  forget_locked(view, view + block_bytes_);
  return count_ != before;
}

int LateUnmaps::flush() noexcept {
  const os::SemaphoreLock lock(mutex_);
  return flush_locked();
}

int LateUnmaps::flush_locked() noexcept {
  std::sort(views_.get(), views_.get() + count_);
  uint32_t done = 0;
  int error = 0;
  while (done < count_ && error == 0) {
    uint32_t end = done + 1;
    while (end < count_ && views_[end] == views_[end - 1] + block_bytes_) ++end;
    error = os::decommit(views_[done], (end - done) * block_bytes_);
    if (error == 0) done = end;
  }
  std::copy(views_.get() + done, views_.get() + count_, views_.get());
  count_ -= done;
  return error;
}

void LateUnmaps::forget(std::byte* begin, std::byte* end) noexcept {
  const os::SemaphoreLock lock(mutex_);
  forget_locked(begin, end);
}

void LateUnmaps::forget_locked(std::byte* begin, std::byte* end) noexcept {
  std::byte** const kept =
      std::remove_if(views_.get(), views_.get() + count_,
                     [=](const std::byte* view) { return view >= begin && view < end; });
  count_ = static_cast<uint32_t>(kept - views_.get());
}

}  // namespace penstock::pool

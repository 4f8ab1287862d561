#pragma once

// Pieces of work that begin in order and end in any order, and the prefix of them that has ended.

#include <cstdint>
#include <deque>

#include "base/mutex.h"

namespace penstock::external {

// Thread safety: any thread. Invariant: open_ is empty or begins with an unended fill.
class Fills {
 public:
  // Returns the number of the new fill, counted from 0.
  uint64_t begin() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    open_.push_back(true);
    return ended_ + open_.size() - 1;
  }
  void end(uint64_t number) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    open_[number - ended_] = false;
    if (open_.front()) return;
    for (; !open_.empty() && !open_.front(); ++ended_) open_.pop_front();
    changed_.notify_all();
  }

  // Number of fills that have begun, and of those that have ended with all before them.
  uint64_t begun() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return ended_ + open_.size();
  }
  uint64_t ended() const EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return ended_;
  }
  // Waits until the first `count` fills have ended.
  void wait_for(uint64_t count) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    while (ended_ < count) changed_.wait(mutex_);
  }

 private:
  mutable Mutex mutex_;
  Condition changed_;
  uint64_t ended_ GUARDED_BY(mutex_) = 0;
  std::deque<bool> open_ GUARDED_BY(mutex_);
};

}  // namespace penstock::external

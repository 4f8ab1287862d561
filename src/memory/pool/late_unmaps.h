#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "os/semaphore.h"

namespace penstock::pool {

// Views of blocks that nobody may use any more, kept until a batch is full and then unmapped in as
// few calls as possible: one for neighbouring views. Each unmapping interrupts every core that runs
// the process, whatever its size.
//
// Thread safety: all members, from any thread, and on the fault path. The lock is the pool's own;
// it is held while views are unmapped, never across anything that can fault or wait for user code,
// nor while a view is mapped: two sides of a stream map theirs at the same time. Invariants: each
// pending view is mapped, a block long, and owned by nobody else. place() takes back the pending
// view that it replaces, so that no flush unmaps the view that took its place.
class LateUnmaps {
 public:
  LateUnmaps(size_t block_bytes, uint32_t batch_blocks);

  // Adds a view, and flushes a full batch. Returns 0, or an errno: then the caller keeps the view.
  // A batch of one is unmapped when this returns 0; a larger one may be retried later.
  int add(std::byte* view) noexcept;
  int flush() noexcept;
  // Forgets all views in a range that is about to be unmapped as a whole.
  void forget(std::byte* begin, std::byte* end) noexcept;

  // Calls map_it(), which returns an errno or 0 and maps a new view at `at`, in place of an old one
  // that may be pending. REQUIRES: nobody else does anything at `at` meanwhile.
  template <class Map>
  int place(std::byte* at, Map map_it) noexcept {
    const bool replaces = take_back(at);
    const int error = map_it();
    if (error != 0 && replaces) (void)add(at);
    return error;
  }

 private:
  bool take_back(std::byte* view) noexcept;
  int flush_locked() noexcept;
  void forget_locked(std::byte* begin, std::byte* end) noexcept;

  const size_t block_bytes_;
  const uint32_t batch_blocks_;
  os::Semaphore mutex_{1};  // a lock that may stand on the fault path; guards the members below
  std::unique_ptr<std::byte*[]> views_;
  uint32_t count_ = 0;
};

}  // namespace penstock::pool

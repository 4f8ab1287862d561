#pragma once

// The seam for tests: a library that only tests and benches link (test/support) disturbs what the
// system answers to this layer. In the product nobody takes its place.
//
// Thread safety: set while no engine is open; called from any thread.

#include <cstddef>

#include "io/engine.h"

namespace penstock::io {

struct Step;

// Its calls may stand on the fault path: none allocates or takes a lock.
class TestSeam {
 public:
  // Cuts a step short, delays it or lets it fail. `buffered`: it goes through the page cache.
  virtual void disturb(Step& step, bool buffered) noexcept = 0;
  // The errno that the next call of this operation ends with instead of being made; 0: it is made.
  virtual int error_of(Operation operation) noexcept = 0;
  // May change what was read of a file that keeps checks, or is going to be held against another.
  virtual void damage_checked(std::byte* data, size_t bytes) noexcept = 0;
  // May change what memory holds of a bucket between two phases of a sort.
  virtual void damage_bucket(std::byte* data, size_t bytes) noexcept = 0;

 protected:
  ~TestSeam() = default;
};

inline constinit TestSeam* test_seam = nullptr;

}  // namespace penstock::io

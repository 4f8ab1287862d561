#pragma once

// The seam for tests: a library that only tests and benches link (test/support) changes the
// system's answers to this layer. The product leaves it empty.
//
// Thread safety: set while no engine is open; called from any thread.

#include <cstddef>

#include "io/engine.h"

namespace penstock::io {

struct Step;

// The interface of the seam. Its calls may stand on the fault path: none allocates or takes a lock.
class TestSeam {
 public:
  // Cuts a step short, delays it or makes it fail. `buffered`: it goes through the page cache.
  virtual void disturb(Step& step, bool buffered) noexcept = 0;
  // Returns an errno for the next call of this operation, which is not made; 0: it is made.
  virtual int error_of(Operation operation) noexcept = 0;
  // May change bytes that were read from a file with checks, or that are going to be compared.
  virtual void damage_checked(std::byte* data, size_t bytes) noexcept = 0;
  // May change a bucket in memory between two phases of a sort.
  virtual void damage_bucket(std::byte* data, size_t bytes) noexcept = 0;

 protected:
  ~TestSeam() = default;
};

inline constinit TestSeam* test_seam = nullptr;

}  // namespace penstock::io

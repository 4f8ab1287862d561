#pragma once

// The memory of a RewiredVector (penstock/containers.h) of any type.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "penstock/base.h"

namespace penstock {
class PagePool;
struct RewiredVectorOptions;
struct Spliced;
}  // namespace penstock

namespace penstock::rewire {

class VectorCore;

// A vector without its type: bytes of which the first ones are mapped. `size` is always the
// vector's, in bytes. A default-constructed or moved-from object has no pool, no bytes and no
// addresses, and refuses to grow.
class VectorMemory {
 public:
  static Result<VectorMemory> open(const PagePool& pool, const RewiredVectorOptions& options);
  VectorMemory() noexcept;
  explicit VectorMemory(std::unique_ptr<VectorCore> core) noexcept;
  VectorMemory(VectorMemory&&) noexcept;
  VectorMemory& operator=(VectorMemory&&) noexcept;
  ~VectorMemory();

  Result<VectorMemory> open_like_this() const;  // on the same pool, with the same options

  std::byte* begin() const noexcept;
  uint64_t mapped_bytes() const noexcept;  // from begin() on; whole pages
  uint64_t bytes_max() const noexcept;
  size_t page_bytes() const noexcept;
  VectorCore* core() const noexcept { return core_.get(); }

  Status grow(uint64_t bytes);     // maps at least `bytes`, by the growth's rule
  Status reserve(uint64_t bytes);  // maps exactly the pages that `bytes` need
  void shrink(uint64_t bytes) noexcept;
  // Moves [at, size) up by `bytes`, which leaves a gap of undefined contents.
  Status open_gap(uint64_t at, uint64_t bytes, uint64_t size);
  // Moves [at + bytes, size) down to `at`.
  void close_gap(uint64_t at, uint64_t bytes, uint64_t size) noexcept;
  Result<Spliced> splice(uint64_t at, uint64_t size, VectorMemory& other, uint64_t first,
                         uint64_t bytes, uint64_t other_size);
  Status open_window();
  Status close_window(uint64_t size);

 private:
  std::unique_ptr<VectorCore> core_;
};

}  // namespace penstock::rewire

#pragma once

// The body of penstock::RewiredVector (see include/penstock/containers.h for use,
// vector_core.cc for how it works).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "memory/fault/registry.h"
#include "memory/rewire/range.h"
#include "memory/stream/stream_handler.h"
#include "os/semaphore.h"
#include "penstock/containers.h"

namespace penstock::rewire {

// Thread safety: one thread at a time, except for faults in the window, of which any number of
// threads may have one at once; for them mutex_ guards the growing. Invariants: the slots [0,
// mapped_) show a page each, readable and writable, that no other slot of any vector shows; the
// slots behind show nothing, and the last of all never does. `size` and all other places are in
// bytes.
class VectorCore final : public stream::StreamHandler {
 public:
  using Options = RewiredVectorOptions;

  static Result<std::unique_ptr<VectorCore>> open(std::shared_ptr<pool::PageStore> store,
                                                  const Options& options);
  ~VectorCore() { stop_watching(); }

  const std::shared_ptr<pool::PageStore>& store() const { return range_->shared_store(); }
  const Range& range() const { return *range_; }
  const Options& options() const { return options_; }
  std::byte* begin() const { return range_->begin(); }
  uint64_t mapped_slots() const { return mapped_.load(std::memory_order_relaxed); }
  uint64_t mapped_bytes() const { return mapped_slots() * page_bytes_; }
  uint64_t bytes_max() const { return slots_ * page_bytes_; }
  size_t page_bytes() const { return page_bytes_; }
  uint64_t mappings() const { return range_->mappings(); }

  Status grow(uint64_t bytes);
  Status reserve(uint64_t bytes);
  void shrink(uint64_t bytes) noexcept;
  // Both return the number of bytes copied.
  Result<uint64_t> open_gap(uint64_t at, uint64_t bytes, uint64_t size);
  uint64_t close_gap(uint64_t at, uint64_t bytes, uint64_t size) noexcept;
  Result<Spliced> splice(uint64_t at, uint64_t size, VectorCore& other, uint64_t first,
                         uint64_t bytes, uint64_t other_size);
  Status open_window();
  Status close_window(uint64_t size);

  // Appends these pages. The caller keeps its references.
  Status append_pages(std::span<const PageId> pages);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override;

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  class Holding;
  class UndoMappings;
  enum class Missing : uint8_t { nothing, addresses, pages, mappings, parent };

  VectorCore(const Options& options, std::unique_ptr<Range> range);

  // No lock in a forked child: it grows nothing, and lacks a thread that held it at the fork.
  os::SemaphoreLock locked() noexcept {
    return os::SemaphoreLock(range_->store().is_inherited() ? nullptr : &mutex_);
  }

  uint64_t slots_for(uint64_t bytes) const;
  Missing extend(uint64_t slots_min, uint64_t slots_wanted) noexcept;
  Missing serve(uint64_t slot) noexcept;
  Missing too_long() const noexcept;
  Missing missing_of(int error) const noexcept;
  stream::WrittenFailure refusal_of(Missing missing, uint64_t bytes) const noexcept;
  Status status_of(Missing missing, uint64_t bytes) const;

  bool pays(uint64_t first, uint64_t last, uint64_t bytes) const noexcept;
  std::vector<PageId> pages_in(uint64_t first, uint64_t last) const;
  bool rotate(uint64_t first, uint64_t middle, uint64_t last) noexcept;
  int show(uint64_t slot, std::span<const PageId> pages) noexcept;
  void show_again(uint64_t slot, std::span<const PageId> pages) noexcept;
  Result<bool> transplant(uint64_t at, uint64_t size, VectorCore& other, uint64_t first,
                          uint64_t bytes, uint64_t other_size);
  bool exchange(uint64_t slot, VectorCore& other, uint64_t other_slot, uint64_t count) noexcept;

  const Options options_;
  const std::unique_ptr<Range> range_;
  const size_t page_bytes_;
  const uint64_t slots_;  // slots that may show a page
  os::Semaphore mutex_{1};
  std::atomic<uint64_t> mapped_{0};
  bool is_window_open_ = false;  // guarded by mutex_, like the next member
  uint64_t window_slots_ = 0;    // slots that the next fault maps
};

}  // namespace penstock::rewire

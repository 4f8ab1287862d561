#pragma once

// Chosen pages of a range, a vector or a snapshot, in any order, with repeats, as one array that
// can only be read. Nothing is copied.
//
//   std::vector<uint64_t> hits;  // the pages that can have rows of the year 2016, by a zone map
//   auto view = penstock::PageView::open(table, hits);
//   sum = total(view->begin<Row>(), view->bytes() / sizeof(Row));  // code that knows of no pages
//
// When it pays. Made and scanned once, a view of pages of 2 MiB takes about half the time of
// copying them and scanning the copy; at 64 KiB the two are even, or the view somewhat ahead; of
// single pages of 4 KiB a view takes twice as long as the copy. It is ahead in every case where the
// same pages are scanned often and must stay live, or do not fit into memory twice. A loop of one's
// own over the list of pages is as fast as one over the view and needs none: a view is for code
// that wants an array. (`bench rewire-view`.) Each piece of neighbouring pages takes a mapping (see
// penstock/virtual_range.h).
//
// Source: the paper named in penstock/page_pool.h, section 6 (multiple views on the same memory).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/page_pool.h"

namespace penstock {

namespace rewire {
class Range;
class VectorMemory;
class ViewCore;
}  // namespace rewire
template <class T>
class RewiredVector;
class Snapshot;
class VirtualRange;

// Thread safety: a move-only value; the pointer may be used by any number of threads.
class PageView {
 public:
  struct Options {
    // What a write through the pointer is: stop or recover. No zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "page view";  // for messages
  };

  // The pages that the slots show now, side by side. They stay the same ones, and taken, whatever
  // becomes of the source: of a range or a vector (whose pages are counted from data() on), what is
  // stored to these pages later is seen; of a snapshot nothing ever changes. No slots make an empty
  // view. Errors: invalid_argument, when a slot shows nothing or does not exist; out_of_mappings;
  // out_of_memory: address space.
  static Result<PageView> open(const VirtualRange& source, std::span<const uint64_t> slots,
                               const Options& options);
  static Result<PageView> open(const VirtualRange& source, std::span<const uint64_t> slots) {
    return open(source, slots, Options());
  }
  template <class T>
  static Result<PageView> open(const RewiredVector<T>& source, std::span<const uint64_t> pages,
                               const Options& options) {
    return open(source.internal(), pages, options);
  }
  template <class T>
  static Result<PageView> open(const RewiredVector<T>& source, std::span<const uint64_t> pages) {
    return open(source, pages, Options());
  }
  static Result<PageView> open(const Snapshot& source, std::span<const uint64_t> pages,
                               const Options& options);
  static Result<PageView> open(const Snapshot& source, std::span<const uint64_t> pages) {
    return open(source, pages, Options());
  }
  // For the library itself.
  static Result<PageView> open(const rewire::Range& source, std::span<const uint64_t> slots,
                               const Options& options);
  static Result<PageView> open(const rewire::VectorMemory& source, std::span<const uint64_t> pages,
                               const Options& options);

  PageView(PageView&&) noexcept;
  PageView& operator=(PageView&&) noexcept;
  // REQUIRES: nobody uses the pointer any more.
  ~PageView();

  template <class T = std::byte>
  const T* begin() const {
    return reinterpret_cast<const T*>(address());
  }
  uint64_t bytes() const { return pages() * page_bytes(); }
  uint64_t pages() const;
  size_t page_bytes() const;
  PageId page(uint64_t index) const;  // REQUIRES: index < pages()
  uint64_t mappings() const;

 private:
  explicit PageView(std::unique_ptr<rewire::ViewCore> core);
  const std::byte* address() const;

  std::unique_ptr<rewire::ViewCore> core_;
};

}  // namespace penstock

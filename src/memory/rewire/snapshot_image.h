#pragma once

// The image of a table with asynchronous detection: see snapshot_image.cc.

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/rewire/range.h"
#include "os/write_watch.h"
#include "penstock/base.h"

namespace penstock::rewire {

// A second set of pages, with the table's contents at the last update(). Thread safety: one thread
// at a time, except for pages_copied(). Invariants: it has one reference on each of its pages; it
// stores only to pages on which nobody else has one. A slot whose contents may differ is marked, or
// the kernel will still report it as written.
class TableImage {
 public:
  // `live` must outlive the image, and keep showing the same pages. All of it counts as written.
  static Result<std::unique_ptr<TableImage>> open(const Range& live, std::string name);
  ~TableImage();

  // Copies what was written since the last call. Concurrent stores may be in it or not, page by
  // page and byte by byte, and the next call will copy them again. Errors: out_of_memory; the next
  // call will copy what this one did not.
  Status update();
  // REQUIRES: update() has succeeded once.
  std::span<const PageId> pages() const { return pages_; }
  uint64_t pages_copied() const { return pages_copied_.load(std::memory_order_relaxed); }

 private:
  TableImage(const Range& live, std::string name);
  Status note_written();
  void note(std::byte* begin, std::byte* end);

  const Range& live_;
  pool::PageStore& store_;
  const std::string name_;
  os::WriteWatch watch_;
  std::vector<PageId> pages_;
  std::vector<bool> marked_;
  std::atomic<uint64_t> pages_copied_{0};
};

}  // namespace penstock::rewire

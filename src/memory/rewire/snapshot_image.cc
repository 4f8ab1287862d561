// Snapshots without a signal per page: the kernel notes which pages are written, and each snapshot
// copies those.
//
// In the signal mode the first write of each page pays for the copy and a signal of 4 us; pages of
// 4 KiB pay more for the signal than for the copy. Here a first write costs 0.9 us, in the kernel,
// and the thread that takes the snapshot makes the copies, all in a row.
//
// The pages of the table never change. Beside them there is an image: pages with the table's
// contents at the last update(). A snapshot shows the image's pages, and holds references on them.
// The next update() looks at what was written: if nobody else holds the image's page any more, the
// written pieces are copied into it; if a snapshot still shows it, the table's page is copied whole
// to another one, which takes its place. So snapshots share the pages that were not written between
// them, as with signals.
//
// A failure half-way loses nothing: the kernel forgets what it has reported, so a slot is marked
// here before it is copied, and the mark is removed afterwards.
//
// Kernels (Linux 6.18, memory files): a huge page is noted as one, stays huge, and costs 1.7 us;
// anonymous huge pages would be split at their first write. A scan of 1 GiB takes 0.1 ms on huge
// pages, 0.4 to 5 ms on small ones.
//
// Costs: twice the table's memory, permanently. A snapshot takes as long as copying what was
// written (and stops writers for copying what was written during most of that).

#include "memory/rewire/snapshot_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "memory/rewire/copy_page.h"

namespace penstock::rewire {

TableImage::TableImage(const Range& live, std::string name)
    : live_(live),
      store_(live.store()),
      name_(std::move(name)),
      pages_(live.slots(), no_page),
      marked_(live.slots(), true) {}

Result<std::unique_ptr<TableImage>> TableImage::open(const Range& live, std::string name) {
  auto watch = os::WriteWatch::open();
  if (!watch) return std::unexpected(std::move(watch.error()));
  if (const int error = watch->watch(live.begin(), live.bytes()))
    return failure(
        ErrorCode::unsupported,
        fmt::format("have the kernel note what is written to a table ({})", strerrordesc_np(error)),
        name, "WriteDetection::signal");
  std::unique_ptr<TableImage> image(new TableImage(live, std::move(name)));
  image->watch_ = std::move(*watch);
  return image;
}

TableImage::~TableImage() {
  for (const PageId page : pages_) {
    if (page != no_page) store_.release({page, 1});
  }
}

Status TableImage::update() {
  if (Status status = note_written(); !status) return status;
  for (uint64_t slot = 0; slot < pages_.size(); ++slot) {
    if (!marked_[slot]) continue;
    PageId& here = pages_[slot];
    if (here == no_page || store_.references(here) != 1) {
      const PageRun fresh = store_.take_run(1, slot > 0 ? pages_[slot - 1] : no_page);
      if (fresh.count == 0)
        return failure(ErrorCode::out_of_memory,
                       fmt::format("copy page {}, which was written since the last snapshot: none "
                                   "of the pool's {} pages is free",
                                   slot, store_.pages_max()),
                       name_, "fewer snapshots at a time, or a larger pool");
      if (here != no_page) store_.release({here, 1});
      here = fresh.first;
    }
    copy_page(store_.home(here), store_.home(live_.page(slot)), live_.page_bytes(), 0);
    marked_[slot] = false;
    pages_copied_.fetch_add(1, std::memory_order_relaxed);
  }
  return {};
}

Status TableImage::note_written() {
  constexpr size_t stretches_max = 256;
  os::WriteWatch::Written written[stretches_max];
  for (std::byte* at = live_.begin(); at < live_.end();) {
    size_t count = 0;
    const int error = watch_.take(at, live_.end(), written, count);
    for (size_t i = 0; i < count; ++i) note(written[i].begin, written[i].end);
    if (error != 0) {
      // The scan's unreported findings are lost.
      std::fill(marked_.begin(), marked_.end(), true);
      return system_error(error, "ask the kernel what was written to a table", name_);
    }
  }
  return {};
}

// Copies a written piece at once if the image's page may be changed, so that of a large page made
// of small ones only the written part is copied; otherwise marks it.
void TableImage::note(std::byte* begin, std::byte* end) {
  const size_t page_bytes = live_.page_bytes();
  while (begin < end) {
    const uint64_t slot = live_.slot_of(begin);
    const auto offset = static_cast<size_t>(begin - live_.address(slot));
    const size_t bytes = std::min(page_bytes - offset, static_cast<size_t>(end - begin));
    begin += bytes;
    if (marked_[slot]) continue;
    const PageId here = pages_[slot];
    if (bytes == page_bytes || store_.references(here) != 1)
      marked_[slot] = true;
    else
      std::memcpy(store_.home(here) + offset, store_.home(live_.page(slot)) + offset, bytes);
  }
}

}  // namespace penstock::rewire

#include "pool/fork_mark.h"

#include <new>
#include <utility>

namespace penstock::pool {

Result<ForkMark> ForkMark::make() {
  auto page = os::Reservation::reserve(os::page_bytes, os::page_bytes);
  if (!page) return std::unexpected(std::move(page.error()));
  int error = os::commit(page->begin(), page->bytes());
  if (error == 0) error = os::wipe_on_fork(page->begin(), page->bytes());
  if (error != 0) return system_error(error, "make a page that is wiped on fork", "pool");
  new (page->begin()) std::atomic<uint32_t>(1);
  ForkMark mark;
  mark.page_ = std::move(*page);
  return mark;
}

}  // namespace penstock::pool

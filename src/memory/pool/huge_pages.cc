#include "memory/pool/huge_pages.h"

#include "os/memfd.h"
#include "os/memory.h"

namespace penstock::pool {

bool file_pages_collapse() {
  static const bool works = [] {
    auto range = os::Reservation::reserve(os::huge_page_bytes);
    auto file = os::MemoryFile::create(os::huge_page_bytes);
    return range && file && file->map(range->begin(), range->bytes(), 0, false) == 0 &&
           os::populate(range->begin(), os::page_bytes) == 0 &&
           os::collapse(range->begin(), range->bytes()) == 0;
  }();
  return works;
}

}  // namespace penstock::pool

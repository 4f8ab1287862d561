#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bits.h"
#include "penstock/base.h"

namespace penstock::pool {

// Pieces of a stream's address space whose page tables can be freed.
//
// An unmapped block leaves its page tables: 4 KiB for each GiB of addresses (for each 2 MiB, if
// blocks are smaller than that), which over a long stream is all the memory that it takes. One call
// must unmap the whole piece to free them. So a stream that moves along a range reports its
// position here, and frees whole GiBs, with Pool::free_page_tables() or os::decommit().
// Thread safety: none; its owner's lock guards it.
class PassedPageTables {
 public:
  static constexpr uint64_t piece_bytes = GiB;  // the addresses of a page of the last level but one

  // Returns the whole pieces below `limit` that were not returned yet; often none. Nothing may be
  // mapped below `limit`. REQUIRES: `begin` is always the same, the range's begin.
  std::span<std::byte> pass(std::byte* begin, std::byte* limit) noexcept {
    if (!reaches(begin, limit)) return {};
    const auto end = round_down(reinterpret_cast<uintptr_t>(limit), piece_bytes);
    const uint64_t passed = next_;
    next_ = end;
    return {reinterpret_cast<std::byte*>(passed), end - passed};
  }
  // Returns whether pass() would return something.
  bool reaches(std::byte* begin, std::byte* limit) noexcept {
    if (next_ == 0) next_ = round_up(reinterpret_cast<uintptr_t>(begin), piece_bytes);
    return reinterpret_cast<uintptr_t>(limit) >= next_ + piece_bytes;
  }

 private:
  uint64_t next_ = 0;  // first address whose tables were not freed
};

}  // namespace penstock::pool

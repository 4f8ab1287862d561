#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bits.h"
#include "penstock/base.h"

namespace penstock::pool {

// What a stream has left behind, in pieces whose page tables can be freed.
//
// A block that is unmapped leaves its page tables behind: 4 KiB for each GiB of addresses (for each
// 2 MiB, when blocks are smaller than that), which over a long stream is all the memory that it
// takes. They go only when one call unmaps all that they stand for; so whoever walks along a range
// tells this how far it has come, and frees whole GiBs, with Pool::free_page_tables() or
// os::decommit().
//
// Thread safety: none; its owner's lock guards it.
class PassedPageTables {
 public:
  static constexpr uint64_t piece_bytes = GiB;  // what a page of the last but one level stands for

  // Nothing below `limit` is mapped any more: the whole pieces below it that were not returned yet;
  // often none. REQUIRES: `begin` is always the same, the range's begin.
  std::span<std::byte> pass(std::byte* begin, std::byte* limit) noexcept {
    if (!reaches(begin, limit)) return {};
    const auto end = round_down(reinterpret_cast<uintptr_t>(limit), piece_bytes);
    const uint64_t passed = next_;
    next_ = end;
    return {reinterpret_cast<std::byte*>(passed), end - passed};
  }
  // Whether pass() would return something.
  bool reaches(std::byte* begin, std::byte* limit) noexcept {
    if (next_ == 0) next_ = round_up(reinterpret_cast<uintptr_t>(begin), piece_bytes);
    return reinterpret_cast<uintptr_t>(limit) >= next_ + piece_bytes;
  }

 private:
  uint64_t next_ = 0;  // the first address whose tables were not freed
};

}  // namespace penstock::pool

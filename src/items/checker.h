#pragma once

// A check reads data once: whether they are sorted, how many items and duplicates they hold, and a
// checksum that does not depend on the order.
//
// A checker takes consecutive bytes in pieces that may end inside an item. Several checkers can
// read parts of one file side by side; joined in order they know what one checker of the whole file
// would know.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "items/items.h"
#include "penstock/base.h"

namespace penstock::items {

struct CheckResult {
  uint64_t count = 0;  // items; a last line without its end is one too
  // Items whose whole key equals that of the item before them. The number means nothing if the data
  // are not sorted.
  uint64_t duplicates = 0;
  // Index of the first item that belongs before its predecessor.
  std::optional<uint64_t> first_unsorted;
  // The sum, modulo 2^128, of one number per item: the CRC-32 of a record of 100 bytes, so that the
  // sum is the Sort Benchmark's, and the 64-bit hash of hash.h of other items without their line
  // end.
  __uint128_t checksum = 0;
  std::string first, last;  // printable_key() of these items; empty while count is 0

  bool sorted() const { return !first_unsorted; }
  std::string checksum_hex() const;  // without leading zeros, like the Sort Benchmark
};

struct CheckOptions {
  Format format;
  bool descending = false;
  uint64_t header_bytes = 0;  // bytes of the header in front of the data, for messages
  // Receives each item that is not even (fault_of()), and its index.
  std::function<void(const Format& format, uint64_t number, std::string_view item)> uneven = {};
};

// Thread safety: none; one thread per checker.
//
// Invariants: the bytes taken so far are head_, then whole items (all counted in result_, the first
// and last of them kept), then partial_. Until the first boundary between items, all bytes are in
// head_.
class Checker {
 public:
  // This part begins at `offset` of the input. An item begins at offset 0; a part elsewhere may
  // begin inside an item.
  explicit Checker(const CheckOptions& options, uint64_t offset = 0);

  void add(std::span<const std::byte> data);
  // Appends the checker of the part that follows this one. REQUIRES: the same options.
  void append(const Checker& next);
  // Returns the result for all bytes. Errors: corrupt, if an item breaks the rules or the last one
  // is cut short. REQUIRES: this part began at offset 0.
  Result<CheckResult> finish();

 private:
  size_t take_head(std::span<const std::byte> data);
  size_t complete_partial(std::span<const std::byte> data);
  size_t bytes_to_boundary(std::span<const std::byte> data) const;
  size_t scan(std::span<const std::byte> data);
  template <class Codec>
  void scan_numbers(const std::byte* data, size_t count);
  size_t scan_items(const std::byte* data, size_t bytes);
  void keep_fault(const std::optional<ItemFault>& fault, uint64_t row_offset);
  void append_to_partial(std::span<const std::byte> data);
  void look_at_partial();

  ItemOrder order_;
  size_t item_bytes_;          // 0 if items vary in length
  size_t head_missing_bytes_;  // bytes that the head of a fixed-size format still lacks
  bool in_head_;               // true until the first boundary between items
  std::string head_;           // rest of an item that began in the part before
  CheckResult result_;
  std::string first_, last_;  // whole items without their line end; empty while count is 0
  // Fault of the first item that breaks the rules. Nothing behind it is checked.
  std::optional<Error> fault_;
  uint64_t header_bytes_;
  decltype(CheckOptions::uneven) uneven_;
  uint64_t scanned_bytes_ = 0;      // bytes of whole items
  bool partial_in_quotes_ = false;  // partial_ ends between two of Format::counted_quote()
  size_t partial_bytes_seen_ = 0;   // size of partial_ when its rules were last checked
  std::string partial_;             // item whose end has not come
};

}  // namespace penstock::items

#pragma once

// Reads data once and says whether they are sorted, how many items and duplicates they hold, and
// what their content sums up to, whatever its order.
//
// A checker takes consecutive bytes in pieces that end anywhere, also inside an item. Several
// checkers can take parts of one file side by side, parts that begin anywhere as well; joined in
// order they know what one checker of the whole file would know.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "items/items.h"
#include "penstock/base.h"

namespace penstock::items {

struct CheckResult {
  uint64_t count = 0;  // items; a last line without a newline is one too
  // Items whose whole key equals that of the item before them. Where the data are not sorted these
  // are not all duplicates, and their number means nothing.
  uint64_t duplicates = 0;
  std::optional<uint64_t>
      first_unsorted;  // index of the first item that belongs before the one before it
  // The sum, modulo 2^128, of one number per item. Records of 100 bytes: their CRC-32, so that the
  // sum is the Sort Benchmark's. Other items: the 64-bit hash of hash.h of all their bytes, of a
  // line without its newline.
  __uint128_t checksum = 0;
  std::string first, last;  // keys for people (printable_key()); empty while count is 0

  bool sorted() const { return !first_unsorted; }
  std::string checksum_hex() const;  // as the Sort Benchmark prints it: no leading zeros
};

struct CheckOptions {
  Format format;
  bool descending = false;
  uint64_t header_bytes = 0;  // in front of the data, of the format's header lines: for messages
};

// Thread safety: none; one thread per checker.
//
// Invariants: the bytes taken so far are head_, then whole items (all accounted in result_, the
// first and last of them kept), then partial_. While the first boundary between items has not been
// seen, all bytes are in head_.
class Checker {
 public:
  // `offset` is where in the whole input this part begins: at 0 begins an item, elsewhere perhaps
  // the rest of one.
  explicit Checker(const CheckOptions& options, uint64_t offset = 0);

  void add(std::span<const std::byte> data);
  // Takes over what came right after the bytes of this one. REQUIRES: the same options.
  void append(const Checker& next);
  // What is known once all bytes are in. Fails when the last item is cut short (code corrupt).
  // REQUIRES: this part began at offset 0.
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
  size_t item_bytes_;          // 0 for lines
  size_t head_missing_bytes_;  // fixed formats: what the head still lacks
  bool in_head_;               // the first boundary between items has not been seen
  std::string head_;           // the rest of an item that began in the part before
  CheckResult result_;
  std::string first_, last_;  // whole items (lines without their newline); empty while count is 0
  // The first row that breaks the rules. Nothing behind it is looked at.
  std::optional<Error> fault_;
  uint64_t header_bytes_;
  uint64_t scanned_bytes_ = 0;      // of whole items
  bool partial_in_quotes_ = false;  // partial_ ends within them (Framing::quote)
  size_t partial_bytes_seen_ = 0;   // of partial_, when its rules were last looked at
  std::string partial_;             // an item whose end has not come
};

}  // namespace penstock::items

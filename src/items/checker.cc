#include "items/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "items/crc32.h"
#include "items/hash.h"
#include "items/items.h"
#include "items/keys/codec.h"
#include "penstock/base.h"

// A checker sees three kinds of bytes: the head (the rest of an item that began before this part),
// whole items, and the partial item at the end. The loops read whole items alone, straight from the
// caller's memory; an item that two pieces share is put together in partial_ first. append() works
// the same way: the head of the next part is more bytes for this one.

namespace penstock::items {
namespace {

constexpr uint64_t none = ~uint64_t{0};

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

void append_to(std::string& text, std::span<const std::byte> data) {
  text.append(reinterpret_cast<const char*>(data.data()), data.size());
}

}  // namespace

std::string CheckResult::checksum_hex() const {
  const auto high = static_cast<uint64_t>(checksum >> 64);
  const auto low = static_cast<uint64_t>(checksum);
  return high == 0 ? fmt::format("{:x}", low) : fmt::format("{:x}{:016x}", high, low);
}

Checker::Checker(const CheckOptions& options, uint64_t offset)
    : order_(options.format, options.descending),
      item_bytes_(options.format.fixed() ? options.format.record_bytes : 0),
      head_missing_bytes_(item_bytes_ == 0 ? 0
                                           : (item_bytes_ - offset % item_bytes_) % item_bytes_),
      in_head_(item_bytes_ == 0 ? offset != 0 : head_missing_bytes_ != 0),
      header_bytes_(options.header_bytes),
      uneven_(options.uneven) {}

void Checker::add(std::span<const std::byte> data) {
  if (fault_) return;
  if (in_head_) {
    const size_t head_bytes = take_head(data);
    append_to(head_, data.first(head_bytes));
    data = data.subspan(head_bytes);
    if (in_head_) return;
  }
  if (!partial_.empty()) data = data.subspan(complete_partial(data));
  data = data.subspan(scan(data));
  append_to_partial(data);
  if (order_.format().framing().spans_lines) look_at_partial();
}

void Checker::append_to_partial(std::span<const std::byte> data) {
  append_to(partial_, data);
  const auto quote = order_.format().counted_quote();
  if (quote && std::ranges::count(data, std::byte(*quote)) % 2 != 0)
    partial_in_quotes_ = !partial_in_quotes_;
}

// No row ends behind a stray quote. A long row is checked before its end, each time that it has
// doubled, so that the rest of the file is not kept for one quote.
void Checker::look_at_partial() {
  constexpr size_t long_row_bytes = 64 * KiB;
  if (partial_.size() < std::max(long_row_bytes, 2 * partial_bytes_seen_)) return;
  partial_bytes_seen_ = partial_.size();
  const auto fault = fault_of(order_.format(), partial_);
  // The quote may still be closed.
  if (!fault || fault->is_open) return;
  keep_fault(fault, 0);
  partial_ = {};
}

// Returns how many bytes of `data` belong to the head, and leaves the head if it is complete.
size_t Checker::take_head(std::span<const std::byte> data) {
  const size_t wanted = item_bytes_ != 0 ? head_missing_bytes_ : bytes_to_boundary(data);
  const size_t bytes = std::min(wanted, data.size());
  head_missing_bytes_ -= item_bytes_ != 0 ? bytes : 0;
  in_head_ = wanted > data.size();
  return bytes;
}

// Adds to the partial item the bytes that it lacks, and scans it if it is whole. Returns the bytes
// taken.
size_t Checker::complete_partial(std::span<const std::byte> data) {
  const size_t wanted = bytes_to_boundary(data);
  const size_t bytes = std::min(wanted, data.size());
  append_to_partial(data.first(bytes));
  if (wanted <= data.size()) {
    scan(bytes_of(partial_));
    partial_.clear();
    partial_bytes_seen_ = 0;
    partial_in_quotes_ = false;
  }
  return bytes;
}

// Returns how many bytes the item in partial_ lacks; more than data.size() if it does not end
// there.
size_t Checker::bytes_to_boundary(std::span<const std::byte> data) const {
  const Format& format = order_.format();
  const size_t bytes = format.framing().item_bytes(format, data.data(), data.data() + data.size(),
                                                   partial_, partial_in_quotes_);
  return bytes == 0 ? data.size() + 1 : bytes;
}

// Checks the whole items at the beginning of `data`, and returns their bytes.
size_t Checker::scan(std::span<const std::byte> data) {
  const Format& format = order_.format();
  if (!format.numeric()) {
    const size_t bytes = scan_items(data.data(), data.size());
    scanned_bytes_ += bytes;
    return bytes;
  }
  const size_t count = data.size() / item_bytes_;
  if (count > 0) {
    with_codec(format.type, [&]<class Codec>(Codec) { scan_numbers<Codec>(data.data(), count); });
  }
  return count * item_bytes_;
}

template <class Codec>
void Checker::scan_numbers(const std::byte* data, size_t count) {
  using Bits = typename Codec::Bits;
  const Bits flip = order_.descending() ? ~Bits{0} : Bits{0};
  const bool pairs = order_.format().type == Type::kv64;
  const auto key_of_number = [&](const void* item) -> Bits {
    return Codec::encode(load<Bits>(item)) ^ flip;
  };
  const bool at_start = result_.count == 0;
  if (at_start) first_.assign(text_at(data, item_bytes_));
  // The very first item is compared with itself, which adds a duplicate to be taken back.
  Bits previous = key_of_number(at_start ? data : bytes_of(last_).data());
  uint64_t duplicates = 0;
  uint64_t first_unsorted = none;
  __uint128_t checksum = 0;
  const std::byte* item = data;
  for (size_t i = 0; i < count; ++i, item += item_bytes_) {
    const Bits key = key_of_number(item);
    duplicates += key == previous;
    first_unsorted = std::min(first_unsorted, key < previous ? i : none);
    const uint64_t number = mix64(load<Bits>(item));
    checksum += pairs ? mix64(number ^ load<uint64_t>(item + 8)) : number;
    previous = key;
  }
  if (first_unsorted != none && result_.sorted())
    result_.first_unsorted = result_.count + first_unsorted;
  result_.duplicates += duplicates - (at_start ? 1 : 0);
  result_.count += count;
  result_.checksum += checksum;
  last_.assign(text_at(item - item_bytes_, item_bytes_));
}

// Checks items whose keys are bytes.
size_t Checker::scan_items(const std::byte* data, size_t bytes) {
  const Format& format = order_.format();
  const bool benchmark = format.fixed() && item_bytes_ == benchmark_record_bytes;
  const std::byte* begin = data;
  const std::byte* const end = data + bytes;
  std::string_view last = last_;
  // A key is a part of its item, or made in one of two rooms.
  std::string rooms[2];
  unsigned room = 0;
  std::string_view last_key = result_.count == 0 ? last : order_.key(last, rooms[1]);
  while (const size_t item_bytes = item_bytes_at(format, begin, end)) {
    const std::string_view item = without_line_end(format, text_at(begin, item_bytes));
    bool is_even = true;
    keep_fault(fault_of(format, item, is_even), static_cast<uint64_t>(begin - data));
    if (!is_even && uneven_) uneven_(format, result_.count, item);
    const std::string_view key = order_.key(item, rooms[room]);
    if (result_.count == 0) {
      first_ = item;
    } else {
      const int order = order_.compare_keys(key, last_key);
      result_.duplicates += order == 0;
      if (order < 0 && result_.sorted()) result_.first_unsorted = result_.count;
    }
    ++result_.count;
    result_.checksum +=
        benchmark ? crc32(begin, benchmark_record_bytes) : hash_bytes(begin, item.size());
    last = item;
    last_key = key;
    room ^= 1;
    begin += item_bytes;
  }
  if (begin != data) last_ = last;
  return static_cast<size_t>(begin - data);
}

void Checker::append(const Checker& next) {
  add(bytes_of(next.head_));
  if (next.in_head_) return;
  PENSTOCK_CHECK(!in_head_ && partial_.empty(), "parts of a check were not joined in order");
  if (next.result_.count == 0) {
    append_to_partial(bytes_of(next.partial_));
    return;
  }
  if (result_.count == 0) {
    result_ = next.result_;
    first_ = next.first_;
  } else {
    const int order = order_.compare(next.first_, last_);
    if (result_.sorted()) {
      if (order < 0) {
        result_.first_unsorted = result_.count;
      } else if (!next.result_.sorted()) {
        result_.first_unsorted = result_.count + *next.result_.first_unsorted;
      }
    }
    result_.duplicates += next.result_.duplicates + (order == 0 ? 1 : 0);
    result_.count += next.result_.count;
    result_.checksum += next.result_.checksum;
  }
  last_ = next.last_;
  partial_ = next.partial_;
  partial_in_quotes_ = next.partial_in_quotes_;
}

// Keeps the first fault. The row begins `row_offset` bytes behind the scanned items.
void Checker::keep_fault(const std::optional<ItemFault>& fault, uint64_t row_offset) {
  if (!fault || fault_) return;
  const Format& format = order_.format();
  const uint64_t number = format.header_lines + result_.count + 1;
  fault_ = bad_item(format, Place{number, number}.text(format), *fault,
                    header_bytes_ + scanned_bytes_ + row_offset)
               .error();
}

Result<CheckResult> Checker::finish() {
  PENSTOCK_CHECK(!in_head_ && head_.empty(), "a check was finished without its first part");
  if (item_bytes_ == 0 && !partial_.empty()) {
    const std::byte line_end[] = {std::byte(order_.format().line_end)};
    if (order_.format().has_line_ends()) complete_partial(line_end);
    keep_fault(fault_of(order_.format(), partial_), 0);
  }
  if (fault_) return std::unexpected(*fault_);
  if (!partial_.empty()) {
    return fault_at(ErrorCode::corrupt, fmt::format("item {}", result_.count),
                    fmt::format("only {} of its {} bytes are there", partial_.size(), item_bytes_),
                    "", "another --format or --record");
  }
  if (result_.count > 0) {
    result_.first = printable_key(order_.format(), first_);
    result_.last = printable_key(order_.format(), last_);
  }
  return result_;
}

}  // namespace penstock::items

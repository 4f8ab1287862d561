#pragma once

// Items are what a sort puts in order. This header finds them, compares them and shows them to
// people; codec.h has the loops over many numbers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "items/format.h"

namespace penstock::items {

// Returns the bytes of the line at `at` with its end, or 0 if it does not end before `end`.
inline size_t line_bytes_at(const Format& format, const std::byte* at, const std::byte* end,
                            std::string_view = {}, bool = false) {
  const auto bytes = static_cast<size_t>(end - at);
  const void* const found = bytes == 0 ? nullptr : std::memchr(at, format.line_end, bytes);
  return found == nullptr ? 0 : static_cast<size_t>(static_cast<const std::byte*>(found) - at) + 1;
}

// Returns the bytes of the item at `at` with its line end, or 0 if it does not end before `end`.
inline size_t item_bytes_at(const Format& format, const std::byte* at, const std::byte* end) {
  const auto bytes = static_cast<size_t>(end - at);
  if (format.fixed()) return bytes < format.record_bytes ? 0 : format.record_bytes;
  if (format.is_plain()) return line_bytes_at(format, at, end);
  const size_t item_bytes = format.framing().item_bytes(format, at, end, {}, false);
  return item_bytes > bytes ? 0 : item_bytes;
}

inline std::string_view text_at(const std::byte* at, size_t bytes) {
  return {reinterpret_cast<const char*>(at), bytes};
}

// Returns the item at `at`. REQUIRES: it ends before `end`.
inline std::string_view item_at(const Format& format, const std::byte* at, const std::byte* end) {
  return text_at(at, item_bytes_at(format, at, end));
}

// Stores where each item in [begin, end) ends, counted from `begin` and in order, of at most
// `ends_max` items. Returns how many.
size_t find_item_ends(const Format& format, const std::byte* begin, const std::byte* end,
                      size_t* ends, size_t ends_max);

// Finds what is wrong with an item: a row of CSV may break the rules, a row may have wrong lengths.
// `is_even` becomes false for a row of CSV with more or fewer fields than its header, and true for all
// other items.
inline std::optional<ItemFault> fault_of(const Format& format, std::string_view item,
                                         bool& is_even) {
  is_even = true;
  if (!format.has_rules()) return {};
  return format.framing().fault(format, item, is_even);
}
inline std::optional<ItemFault> fault_of(const Format& format, std::string_view item) {
  bool is_even = true;
  return fault_of(format, item, is_even);
}

// Returns the error of an item for which fault_of() finds something: "row 4: a quote that nothing
// closes, at byte 61". `begin`: byte at which the item begins; if that is not known, the byte is one
// of the item.
std::unexpected<Error> bad_item(const Format& format, std::string_view place,
                                const ItemFault& fault, std::optional<uint64_t> begin,
                                std::string subject = {});

// Returns the error of an item of more than `bytes_max` bytes, the longest that the memory holds.
// `item`: its name, "row 3", if that is known.
std::unexpected<Error> too_long(const Format& format, uint64_t bytes_max, std::string subject,
                                std::string item = {});

// The place where an item begins in its file, for people. Both numbers are 1-based and count the
// header.
struct Place {
  uint64_t line = 1;  // number of the line in an editor
  uint64_t row = 1;   // number of the item
  // "row 4 (line 5)" if items before it have several lines; otherwise "row 4", "line 5" or "item 5".
  std::string text(const Format& format) const;
};
// Returns how many lines an item has.
inline uint64_t lines_of_item(const Format& format, std::string_view item) {
  if (format.is_plain() || !format.framing().spans_lines || item.empty() ||
      std::memchr(item.data(), format.line_end, item.size() - 1) == nullptr)
    return 1;
  const auto ends = static_cast<uint64_t>(std::count(item.begin(), item.end(), format.line_end));
  return std::max<uint64_t>(1, ends);
}

// Returns iconv's name for the encoding of text in which every character takes several bytes, or
// nullptr for other text.
const char* wide_encoding(std::string_view data);
std::string hint_of_encoding(const char* encoding);

// Returns the length of the byte order mark at the beginning of a file, or 0.
inline size_t mark_bytes(const Format& format, std::string_view data) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  const bool may_begin = format.framing().check_text != nullptr;
  return may_begin && data.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
}

// Returns whether the line end at the end of an item is escaped, and text.
bool ends_with_text(const Format& format, std::string_view item);
// Returns whether the last byte of an item is its line end, which the last line of a file may lack.
// REQUIRES: items have line ends.
inline bool has_line_end(const Format& format, std::string_view item) {
  if (!item.ends_with(format.line_end)) return false;
  return !format.csv || !format.csv->escape || !ends_with_text(format, item);
}
// Returns the item without its line end.
inline std::string_view without_line_end(const Format& format, std::string_view line) {
  if (format.has_line_ends() && has_line_end(format, line)) line.remove_suffix(1);
  return line;
}

// Returns whether the item is a last line without an end. It gets one wherever it is written.
inline bool lacks_line_end(const Format& format, std::string_view item) {
  return format.has_line_ends() && !has_line_end(format, item);
}

// Returns the key of an item if Format::keys makes none: all of a line but its end.
inline std::string_view key_of(const Format& format, std::string_view item) {
  if (format.fixed()) return item.substr(format.key_offset, format.key_bytes);
  if (format.has_line_ends()) return without_line_end(format, item);
  return format.framing().key(format, item);
}

inline uint64_t prefix_of(std::string_view bytes) {
  return prefix_of(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
}

// A key without its item. The prefix alone is the key of a number.
struct ItemKey {
  uint64_t prefix = 0;
  std::string bytes = {};
};

// The order of items: by key, ascending or descending.
class ItemOrder {
 public:
  explicit ItemOrder(const Format& format, bool descending = false)
      : format_(format), descending_(descending) {}

  // Order of these numbers is order of items, up to ties that compare_ties() decides. The prefix of
  // a number is its encoded key (a key of 32 bits fills the lower half), and there are no ties.
  uint64_t prefix(std::string_view item) const {
    if (format_.numeric()) return number(item);
    return prefix_of_bytes(format_.keys == nullptr ? key_of(format_, item) : made_key(item));
  }
  // Returns the prefix, and whether the item may have an odd value.
  uint64_t prefix(std::string_view item, bool& is_read) const;
  // Returns the prefix of a key, or of the part of a key behind a common prefix.
  uint64_t prefix_of_bytes(std::string_view bytes) const {
    const uint64_t prefix = prefix_of(bytes);
    return descending_ ? ~prefix : prefix;
  }

  // Compares two items with equal prefixes: < 0, 0 or > 0.
  int compare_ties(std::string_view a, std::string_view b) const {
    return format_.numeric() ? 0 : compare_ties_of_bytes(a, b);
  }
  // Compares two keys. REQUIRES: keys are bytes.
  int compare_keys(std::string_view a, std::string_view b) const {
    const int order = a.compare(b);
    return descending_ ? -order : order;
  }
  int compare(std::string_view a, std::string_view b) const;

  // Returns the item's key: a part of the item, or made in `room`.
  std::string_view key(std::string_view item, std::string& room) const {
    return format_.keys == nullptr ? key_of(format_, item) : make_key(item, room);
  }
  ItemKey key_of_bytes(std::string bytes) const {
    const uint64_t prefix = prefix_of_bytes(bytes);
    return {prefix, std::move(bytes)};
  }
  ItemKey item_key(std::string_view item) const;
  // Returns < 0 if the key belongs before the item, whose prefix is `prefix`.
  int compare(const ItemKey& key, uint64_t prefix, std::string_view item, std::string& room) const {
    if (key.prefix != prefix) return key.prefix < prefix ? -1 : 1;
    return format_.numeric() ? 0 : compare_keys(key.bytes, this->key(item, room));
  }
  // Appends the item's key. Returns false if it may have an odd value (KeyOrder::append()).
  bool append_key(std::string_view item, std::string& to) const;
  // Returns the item's key, and whether it may have an odd value.
  std::string_view key(std::string_view item, std::string& room, bool& is_read) const {
    is_read = true;
    if (format_.keys == nullptr) return key_of(format_, item);
    room.clear();
    is_read = append_key(item, room);
    return room;
  }
  // Returns the same, or sets the item's first fault, and `is_even` as fault_of() does. An item is
  // gone over once, if its order can.
  std::string_view checked_key(std::string_view item, std::string& room, bool& is_read,
                               bool& is_even, std::optional<ItemFault>& fault) const;
  // Returns a name of the order and its items, which is the same in all versions: a resumed sort
  // compares it.
  std::string name() const;
  const Format& format() const { return format_; }
  bool descending() const { return descending_; }

 private:
  uint64_t number(std::string_view item) const;
  int compare_ties_of_bytes(std::string_view a, std::string_view b) const;
  std::string_view make_key(std::string_view item, std::string& room) const;
  std::string_view made_key(std::string_view item) const;  // valid until the thread's next call

  Format format_;
  bool descending_ = false;
};

// The item that a walk has passed last, to compare the next one with. Its bytes may be gone.
class LastItem {
 public:
  bool any() const { return any_; }
  // `prefix` is the item's prefix in this order.
  void set(const ItemOrder& order, uint64_t prefix, std::string_view item) {
    key_.prefix = prefix;
    any_ = true;
    if (order.format().numeric()) return;
    const std::string_view key = order.key(item, key_.bytes);
    if (key.data() != key_.bytes.data()) key_.bytes.assign(key);
  }
  // Returns > 0 if the item belongs before this one. REQUIRES: any().
  int compare(const ItemOrder& order, uint64_t prefix, std::string_view item) {
    return order.compare(key_, prefix, item, room_);
  }

 private:
  ItemKey key_;
  std::string room_;
  bool any_ = false;
};

// Returns the key for people: a number, or the first bytes, with \xHH for those that cannot be
// printed.
std::string printable_key(const Format& format, std::string_view item);
std::string printable_key(const Format& format, const ItemKey& key);

}  // namespace penstock::items

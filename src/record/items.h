#pragma once

// Items: what a sort puts in order. Where one ends, what its key is, how two compare, and how one is
// shown to people. The loops that go over many numbers at once are in codec.h.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "record/format.h"

namespace penstock::record {

// The bytes of the item that begins at `at`, a line's newline included; 0 if it does not end before
// `end`.
inline size_t item_bytes_at(const Format& format, const std::byte* at, const std::byte* end) {
  const auto bytes = static_cast<size_t>(end - at);
  if (format.fixed()) return bytes < format.record_bytes ? 0 : format.record_bytes;
  const void* newline = bytes == 0 ? nullptr : std::memchr(at, '\n', bytes);
  return newline == nullptr ? 0
                            : static_cast<size_t>(static_cast<const std::byte*>(newline) - at) + 1;
}

inline std::string_view text_at(const std::byte* at, size_t bytes) {
  return {reinterpret_cast<const char*>(at), bytes};
}

// The item that begins at `at`. REQUIRES: it ends before `end`.
inline std::string_view item_at(const Format& format, const std::byte* at, const std::byte* end) {
  return text_at(at, item_bytes_at(format, at, end));
}

inline std::string_view without_newline(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  return line;
}

// Of the last line of a file, which then gets a newline wherever it is written.
inline bool lacks_newline(const Format& format, std::string_view item) {
  return !format.fixed() && !item.ends_with('\n');
}

// The key's bytes. Of a line all but its newline.
inline std::string_view key_of(const Format& format, std::string_view item) {
  if (format.fixed()) return item.substr(format.key_offset, format.key_bytes);
  return without_newline(item);
}

inline uint64_t prefix_of(std::string_view bytes) {
  return prefix_of(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
}

// The order of items: by key, ascending or descending.
class ItemOrder {
 public:
  explicit ItemOrder(const Format& format, bool descending = false)
      : format_(format), descending_(descending) {}

  // Order of these numbers is order of items, up to ties that compare_ties() decides. Of a number it
  // is its encoded key (of 32 bits: in the lower half), and there are no ties.
  uint64_t prefix(std::string_view item) const {
    return format_.numeric() ? number(item) : prefix_of_bytes(key(item));
  }
  // The same for bytes that are a key, or the part of one behind what several have in common.
  uint64_t prefix_of_bytes(std::string_view bytes) const {
    const uint64_t prefix = prefix_of(bytes);
    return descending_ ? ~prefix : prefix;
  }

  // Of two items with equal prefixes. < 0, 0, > 0.
  int compare_ties(std::string_view a, std::string_view b) const {
    return format_.numeric() ? 0 : compare_keys(key(a), key(b));
  }
  // Of keys that are bytes.
  int compare_keys(std::string_view a, std::string_view b) const {
    const int order = a.compare(b);
    return descending_ ? -order : order;
  }
  int compare(std::string_view a, std::string_view b) const;

  std::string_view key(std::string_view item) const { return key_of(format_, item); }
  const Format& format() const { return format_; }
  bool descending() const { return descending_; }

 private:
  uint64_t number(std::string_view item) const;

  Format format_;
  bool descending_ = false;
};

// An item that a walk has passed and whose bytes may be gone, to hold the next one against: is it in
// order, is it a repeat?
class LastItem {
 public:
  bool any() const { return any_; }
  // `prefix` as the order has it.
  void set(const ItemOrder& order, uint64_t prefix, std::string_view item) {
    prefix_ = prefix;
    // Numbers are all in their prefix.
    if (!order.format().numeric()) key_.assign(order.key(item));
    any_ = true;
  }
  // Above 0: the item belongs before this one. REQUIRES: any().
  int compare(const ItemOrder& order, uint64_t prefix, std::string_view item) const {
    if (prefix != prefix_) return prefix_ < prefix ? -1 : 1;
    return order.format().numeric() ? 0 : order.compare_keys(key_, order.key(item));
  }

 private:
  uint64_t prefix_ = 0;
  std::string key_;
  bool any_ = false;
};

// The key for people: a number, or the first bytes, those that cannot be printed as \xHH.
std::string printable_key(const Format& format, std::string_view item);

}  // namespace penstock::record

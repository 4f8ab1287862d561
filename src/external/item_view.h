#pragma once

// Records and lines in memory: where an item ends, and how its key begins.

#include <cstring>
#include <string_view>

#include "record/format.h"

namespace penstock::external {

// The item that begins at `at`, with its newline if it is a line. REQUIRES: a line's newline is
// below `end`.
inline std::string_view item_at(const record::Format& format, const std::byte* at,
                                const std::byte* end) {
  const auto* text = reinterpret_cast<const char*>(at);
  if (format.fixed()) return {text, format.record_bytes};
  const void* newline = std::memchr(at, '\n', static_cast<size_t>(end - at));
  return {text, static_cast<size_t>(static_cast<const char*>(newline) - text) + 1};
}

// Keys of different prefixes order as the prefixes do.
inline uint64_t prefix_of(std::string_view key) {
  return record::prefix_of(reinterpret_cast<const std::byte*>(key.data()), key.size());
}

}  // namespace penstock::external

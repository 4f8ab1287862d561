// Items of one length: numbers and records.

#include <algorithm>

#include "items/format.h"

namespace penstock::items {
namespace {

size_t fixed_item_bytes(const Format& format, const std::byte*, const std::byte*,
                        std::string_view begun, bool) {
  return format.record_bytes - begun.size();
}

const std::byte* first_fixed_item(const Format& format, const std::byte* at, const std::byte* end,
                                  uint64_t offset) {
  const uint64_t bytes = format.record_bytes;
  const uint64_t skipped = (bytes - offset % bytes) % bytes;
  return at + std::min(skipped, static_cast<uint64_t>(end - at));
}

}  // namespace

constexpr Framing fixed_framing = {.item_bytes = fixed_item_bytes, .first_item = first_fixed_item};

}  // namespace penstock::items

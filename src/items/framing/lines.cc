// Lines: each ends with a byte (a newline or NUL) that the last one of a file may lack.

#include <algorithm>
#include <cstring>

#include "items/format.h"
#include "items/text/text_order.h"

namespace penstock::items {

size_t line_bytes(const Format& format, const std::byte* at, const std::byte* end, std::string_view,
                  bool) {
  const auto bytes = static_cast<size_t>(end - at);
  const void* const found = bytes == 0 ? nullptr : std::memchr(at, format.line_end, bytes);
  return found == nullptr ? 0 : static_cast<size_t>(static_cast<const std::byte*>(found) - at) + 1;
}

const std::byte* first_line(const Format& format, const std::byte* at, const std::byte* end,
                            uint64_t) {
  const std::byte* const line_end = std::find(at, end, std::byte(format.line_end));
  return line_end == end ? end : line_end + 1;
}

Result<std::shared_ptr<const KeyOrder>> order_of_fields(const TextOptions& options) {
  return TextOrder::make(options);
}

constexpr Framing line_framing = {.noun = "line",
                                  .has_line_ends = true,
                                  .short_item_bytes = 2,
                                  .item_bytes = line_bytes,
                                  .first_item = first_line,
                                  .order = order_of_fields};

}  // namespace penstock::items

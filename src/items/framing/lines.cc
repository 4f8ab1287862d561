// Lines: each ends with a byte (a newline or NUL) that the last one of a file may lack.

#include "items/items.h"
#include "items/keys/text/text_order.h"

namespace penstock::items {

const std::byte* first_line(const Format& format, const std::byte* at, const std::byte* end,
                            uint64_t) {
  const size_t bytes = line_bytes_at(format, at, end);
  return bytes == 0 ? end : at + bytes;
}

Result<std::shared_ptr<const KeyOrder>> order_of_fields(const TextOptions& options) {
  return TextOrder::make(options);
}

constexpr Framing line_framing = {.noun = "line",
                                  .has_line_ends = true,
                                  .short_item_bytes = 2,
                                  .item_bytes = line_bytes_at,
                                  .first_item = first_line,
                                  .order = order_of_fields};

}  // namespace penstock::items

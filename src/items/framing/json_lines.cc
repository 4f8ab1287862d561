// JSON lines: each is one object of JSON (json.h), or blank. Its bytes stay as they are, with the
// blanks around it and a carriage return in front of its end.

#include "items/items.h"
#include "items/json.h"
#include "items/keys/json_order.h"

namespace penstock::items {
namespace {

std::optional<ItemFault> fault_of_json(const Format& format, std::string_view item, bool&) {
  const std::string_view line = without_line_end(format, item);
  if (format.keys != nullptr) return static_cast<const JsonOrder&>(*format.keys).fault_of(line);
  std::vector<JsonValue> none;
  return find_members(line, {}, none);
}

std::string hint_of_json(const Format&, const ItemFault&) {
  return "one object in each line: jq -c . FILE makes them, and jq -c '.[]' FILE of one array";
}

Status check_json(const Format& format, std::string_view data) {
  const char* const wide = format.line_end == '\0' ? nullptr : wide_encoding(data);
  if (wide == nullptr) return {};
  return failure(ErrorCode::unsupported, std::string("read JSON lines of ") + wide, "",
                 hint_of_encoding(wide));
}

Result<std::shared_ptr<const KeyOrder>> order_of_members(const TextOptions& options) {
  return JsonOrder::make(options);
}

}  // namespace

constexpr Framing json_framing = {.noun = "line",
                                  .has_line_ends = true,
                                  .short_item_bytes = 3,
                                  .item_bytes = line_bytes_at,
                                  .first_item = first_line,
                                  .fault = fault_of_json,
                                  .has_members = true,
                                  .hint_of_fault = hint_of_json,
                                  .check_text = check_json,
                                  .order = order_of_members};

}  // namespace penstock::items

#include "arrow.h"

#include <cstdlib>
#include <string_view>

namespace penstock::python {
namespace {

std::unexpected<Error> no_layout(const ArrowSchema& schema) {
  return std::unexpected(
      Error{.code = ErrorCode::unsupported,
            .attempted = std::string("take values of Arrow's type ") + schema.format,
            .subject = schema.name != nullptr ? schema.name : "",
            .hint = "another type, or the table without this column"});
}

Column fixed(size_t width, Order order) {
  return {.layout = Layout::fixed, .order = order, .width = width};
}

// "19,10" or "19,10,256": the bits come last.
size_t decimal_bytes(std::string_view format) {
  const size_t comma = format.find(',');
  const size_t second = format.find(',', comma + 1);
  return second == std::string_view::npos
             ? 16
             : std::strtoul(format.data() + second + 1, nullptr, 10) / 8;
}

Result<Column> primitive(const ArrowSchema& schema) {
  const std::string_view format = schema.format;
  switch (format[0]) {
    case 'n':
      return Column{.order = Order::bytes};
    case 'b':
      return Column{.layout = Layout::boolean, .order = Order::unsigned_number, .width = 1};
    case 'c':
      return fixed(1, Order::signed_number);
    case 'C':
      return fixed(1, Order::unsigned_number);
    case 's':
      return fixed(2, Order::signed_number);
    case 'S':
      return fixed(2, Order::unsigned_number);
    case 'i':
      return fixed(4, Order::signed_number);
    case 'I':
      return fixed(4, Order::unsigned_number);
    case 'l':
      return fixed(8, Order::signed_number);
    case 'L':
      return fixed(8, Order::unsigned_number);
    case 'e':
      return fixed(2, Order::floating);
    case 'f':
      return fixed(4, Order::floating);
    case 'g':
      return fixed(8, Order::floating);
    case 'z':
    case 'u':
      return Column{.layout = Layout::text32, .order = Order::bytes};
    case 'Z':
    case 'U':
      return Column{.layout = Layout::text64, .order = Order::bytes};
    case 'w':
      return fixed(std::strtoul(format.data() + 2, nullptr, 10), Order::bytes);
    case 'd':
      return fixed(decimal_bytes(format), Order::signed_number);
    default:
      return no_layout(schema);
  }
}

Result<Column> temporal(const ArrowSchema& schema) {
  const std::string_view format = schema.format;
  if (format == "tdD" || format == "tts" || format == "ttm") return fixed(4, Order::signed_number);
  if (format == "tiM") return fixed(4, Order::none);
  if (format == "tiD") return fixed(8, Order::none);
  if (format == "tin") return fixed(16, Order::none);
  if (format == "tdm" || format == "ttu" || format == "ttn" || format.starts_with("ts") ||
      format.starts_with("tD"))
    return fixed(8, Order::signed_number);
  return no_layout(schema);
}

Result<Column> nested(const ArrowSchema& schema) {
  const std::string_view format = schema.format;
  if (format == "+l" || format == "+m") return Column{.layout = Layout::list32};
  if (format == "+L") return Column{.layout = Layout::list64};
  if (format == "+vl") return Column{.layout = Layout::view32};
  if (format == "+vL") return Column{.layout = Layout::view64};
  if (format == "+s") return Column{.layout = Layout::structure};
  if (format.starts_with("+w:")) {
    return Column{.layout = Layout::fixed_list,
                  .width = std::strtoul(format.data() + 3, nullptr, 10)};
  }
  return no_layout(schema);
}

}  // namespace

Result<Column> column_of(const ArrowSchema& schema) {
  if (schema.dictionary != nullptr || schema.format == nullptr || schema.format[0] == '\0')
    return no_layout(schema);
  auto column = schema.format[0] == '+'   ? nested(schema)
                : schema.format[0] == 't' ? temporal(schema)
                                          : primitive(schema);
  if (!column) return column;
  if (schema.name != nullptr) column->name = schema.name;
  for (int64_t i = 0; i < schema.n_children; ++i) {
    auto child = column_of(*schema.children[i]);
    if (!child) return child;
    column->children.push_back(std::move(*child));
  }
  return column;
}

}  // namespace penstock::python

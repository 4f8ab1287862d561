#include "arrow.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
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

constexpr auto is_signed = Order::signed_number;
constexpr auto is_unsigned = Order::unsigned_number;

// Formats of Arrow's specification. A format that ends with a colon is a prefix.
struct Format {
  std::string_view format;
  Layout layout = Layout::fixed;
  Order order = Order::none;
  size_t width = 0;
};
constexpr Format formats[] = {
    {"n", Layout::nothing, Order::bytes},
    {"b", Layout::boolean, is_unsigned, 1},
    {"c", Layout::fixed, is_signed, 1},
    {"C", Layout::fixed, is_unsigned, 1},
    {"s", Layout::fixed, is_signed, 2},
    {"S", Layout::fixed, is_unsigned, 2},
    {"i", Layout::fixed, is_signed, 4},
    {"I", Layout::fixed, is_unsigned, 4},
    {"l", Layout::fixed, is_signed, 8},
    {"L", Layout::fixed, is_unsigned, 8},
    {"e", Layout::fixed, Order::floating, 2},
    {"f", Layout::fixed, Order::floating, 4},
    {"g", Layout::fixed, Order::floating, 8},
    {"z", Layout::text32, Order::bytes},
    {"u", Layout::text32, Order::bytes},
    {"Z", Layout::text64, Order::bytes},
    {"U", Layout::text64, Order::bytes},
    {"w:", Layout::fixed, Order::bytes},
    {"d:", Layout::fixed, is_signed},
    // Dates, times, timestamps, durations, intervals.
    {"tdD", Layout::fixed, is_signed, 4},
    {"tdm", Layout::fixed, is_signed, 8},
    {"tts", Layout::fixed, is_signed, 4},
    {"ttm", Layout::fixed, is_signed, 4},
    {"ttu", Layout::fixed, is_signed, 8},
    {"ttn", Layout::fixed, is_signed, 8},
    {"tss:", Layout::fixed, is_signed, 8},
    {"tsm:", Layout::fixed, is_signed, 8},
    {"tsu:", Layout::fixed, is_signed, 8},
    {"tsn:", Layout::fixed, is_signed, 8},
    {"tDs", Layout::fixed, is_signed, 8},
    {"tDm", Layout::fixed, is_signed, 8},
    {"tDu", Layout::fixed, is_signed, 8},
    {"tDn", Layout::fixed, is_signed, 8},
    {"tiM", Layout::fixed, Order::none, 4},
    {"tiD", Layout::fixed, Order::none, 8},
    {"tin", Layout::fixed, Order::none, 16},
    {"+l", Layout::list32},
    {"+m", Layout::list32},
    {"+L", Layout::list64},
    {"+vl", Layout::view32},
    {"+vL", Layout::view64},
    {"+s", Layout::structure},
    {"+w:", Layout::fixed_list},
};

// The number at the end of a format: the bytes of "w:16", the items of "+w:3", and the bytes of a
// decimal of "d:19,10" or "d:19,10,256".
size_t width_of(std::string_view format) {
  if (!format.starts_with("d:"))
    return std::strtoul(format.data() + format.find(':') + 1, nullptr, 10);
  const size_t bits = format.find(',', format.find(',') + 1);
  return bits == format.npos ? 16 : std::strtoul(format.data() + bits + 1, nullptr, 10) / 8;
}

}  // namespace

Result<Column> column_of(const ArrowSchema& schema) {
  if (schema.dictionary != nullptr || schema.format == nullptr) return no_layout(schema);
  const std::string_view text = schema.format;
  const auto* const found = std::ranges::find_if(formats, [&](const Format& one) {
    return one.format.ends_with(':') ? text.starts_with(one.format) : text == one.format;
  });
  if (found == std::end(formats)) return no_layout(schema);
  Column column{.layout = found->layout, .order = found->order, .width = found->width};
  if (found->format.ends_with(':') && found->width == 0) column.width = width_of(text);
  if (schema.name != nullptr) column.name = schema.name;
  for (int64_t i = 0; i < schema.n_children; ++i) {
    auto child = column_of(*schema.children[i]);
    if (!child) return child;
    column.children.push_back(std::move(*child));
  }
  return column;
}

}  // namespace penstock::python

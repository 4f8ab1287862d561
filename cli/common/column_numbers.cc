#include "cli/common/column_numbers.h"

#include <fmt/format.h>

#include <ranges>
#include <string_view>

#include "base/misuse.h"
#include "interfaces/api/item_format.h"
#include "io/names.h"
#include "items/items.h"
#include "items/keys/text/key_words.h"
#include "items/rows.h"

namespace penstock::cli {
namespace {

// Returns the number of columns of an input's first row; 0 if that is not known.
size_t columns_of_first_row(ItemFormat items, const Beginning& beginning) {
  items.keys.clear();
  const auto format = api::format_of(items);
  if (!format) return 0;
  const std::string rows = beginning.rows(format->line_end);
  std::string_view text = rows;
  text.remove_prefix(items::mark_bytes(*format, text));
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  const std::string_view row = items::item_at(*format, begin, begin + text.size());
  if (row.empty() || items::fault_of(*format, row)) return 0;
  return items::fields_of_row(items::without_line_end(*format, row), *format->csv).size();
}

}  // namespace

Status check_column_numbers(const ItemFormat& items, const SourceOptions& source,
                            Beginnings& beginnings, const std::vector<std::string>& inputs,
                            const std::string& option, const std::vector<std::string>& columns) {
  if (!items.csv || items.header_lines > 0 || columns.empty()) return {};
  const io::Wait wait = inputs.size() == 1 ? io::Wait::byte : io::Wait::none;
  for (const std::string& input : inputs | std::views::take(seen_inputs_max)) {
    const size_t there = columns_of_first_row(items, beginnings.of(input, source, wait));
    for (const std::string& key : columns) {
      const auto written = items::read_columns(key, {});
      if (!written) return {};  // the run says what is wrong with it
      for (const items::Written& column : *written) {
        const size_t number = column.key.start_field + 1;
        if (there == 0 || number <= there) continue;
        return misuse(fmt::format("find column {}: the first row of {} has {}", number,
                                  io::shown_input(input), there),
                      option + " " + key,
                      fmt::format("1 to {}, or -t for another separator", there));
      }
    }
  }
  return {};
}

}  // namespace penstock::cli

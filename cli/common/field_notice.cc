#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "cli/common/input_notices.h"
#include "cli/common/table_guess.h"
#include "io/names.h"
#include "items/keys/text/key_words.h"

namespace penstock::cli {
namespace {

size_t count_of_blank_fields(std::string_view line) {
  constexpr std::string_view blanks = " \t";
  size_t count = 0;
  for (size_t at = 0; (at = line.find_first_not_of(blanks, at)) != line.npos; ++count)
    at = std::min(line.find_first_of(blanks, at), line.size());
  return count;
}

}  // namespace

std::string field_notice(const FilesOptions& files, Beginnings& beginnings,
                         const std::string& input, const std::vector<std::string>& keys,
                         bool single, const std::function<std::string()>& hint) {
  const ItemFormat& items = files.items;
  if (items.name != "lines" || items.csv || items.separator || items.zero_terminated) return {};
  size_t field = 0;  // the last one that a key needs
  bool is_alone = single;
  bool splits = single;  // a key is not the whole line
  for (const std::string& key : keys) {
    const auto written = items::read_key(key);
    if (!written) return {};
    field = std::max(field, written->key.start_field + 1);
    is_alone |= written->key.end_field == written->key.start_field;
    splits |= written->key.start_field > 0 || written->key.end_field != items::TextKey::line_end;
  }
  if (field == 0) return {};
  const std::string& text = beginnings.of(input, files.source).text;
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  const size_t there = count_of_blank_fields(line);
  const bool lacks_field = there < field || (there == 1 && is_alone);
  if (!lacks_field && !(splits && has_name_of_table(input, ".csv"))) return {};
  for (const char separator : {',', ';', '|'}) {
    const auto columns = static_cast<size_t>(std::ranges::count(line, separator)) + 1;
    if (columns < std::max<size_t>(field, 2)) continue;
    std::string advice = hint ? hint() : std::string();
    if (advice.empty())
      advice = fmt::format("-t '{}', or --key COLUMN for a table with a header", separator);
    const std::string what =
        !lacks_field ? fmt::format("blanks separate its fields, and '{}' does not", separator)
                     : fmt::format("its first line has {}, because blanks separate fields",
                                   there < field ? fmt::format("no field {}", field) : "one field");
    return fmt::format("{}: {} (try: {})", io::shown_input(input), what, advice);
  }
  return {};
}

std::string open_key_notice(const FilesOptions& files, Beginnings& beginnings) {
  const ItemFormat& items = files.items;
  if (items.name != "lines" || items.csv || items.zero_terminated) return {};
  const std::string& input = files.inputs.front();
  const std::string& text = beginnings.of(input, files.source).text;
  const std::string_view line = std::string_view(text).substr(0, text.find('\n'));
  if (line.contains('\0')) return {};
  const size_t there = items.separator
                           ? static_cast<size_t>(std::ranges::count(line, *items.separator)) + 1
                           : count_of_blank_fields(line);
  for (const std::string& key : items.keys) {
    const auto written = items::read_key(key);
    if (!written || written->key.end_field != items::TextKey::line_end) continue;
    const size_t field = written->key.start_field + 1;
    if (field >= there) continue;
    const size_t letters = std::min(key.find_first_not_of("0123456789."), key.size());
    return fmt::format("-k {} goes on to the end of the line (try: -k {},{}{})", key,
                       key.substr(0, letters), field, key.substr(letters));
  }
  return {};
}

}  // namespace penstock::cli

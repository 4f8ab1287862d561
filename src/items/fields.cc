#include "items/fields.h"

#include <algorithm>

#include "items/keys/text/key_place.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

size_t skip(std::string_view line, size_t at, bool blanks) {
  while (at < line.size() && is_blank(line[at]) == blanks) ++at;
  return at;
}

}  // namespace

FieldStyle style_of(const Format& format, std::optional<char> separator) {
  return {.separator = format.csv ? format.csv->separator : separator, .csv = format.csv};
}

void split_fields(std::string_view line, const FieldStyle& style,
                  std::vector<std::string_view>& fields) {
  fields.clear();
  if (line.empty() && !style.csv) return;
  if (!style.separator) {
    // An empty field follows blanks at the end, like in join(1).
    size_t at = skip(line, 0, true);
    if (at == line.size()) return;
    for (;;) {
      const size_t end = skip(line, at, false);
      fields.push_back(line.substr(at, end - at));
      if (end == line.size()) return;
      at = skip(line, end, true);
    }
  }
  for (size_t at = 0; at <= line.size();) {
    const size_t end = style.csv ? end_of_field(line, *style.csv, at)
                                 : std::min(line.find(*style.separator, at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
}

std::string row_field(std::string_view text, const Dialect& dialect) {
  std::string special = {dialect.separator, '\n', '\r'};
  for (const std::optional<char> c : {dialect.quote, dialect.escape}) {
    if (c) special += *c;
  }
  if (text.find_first_of(special) == text.npos) return std::string(text);
  std::string field;
  if (!dialect.quote) {
    for (const char c : text) {
      if (dialect.escape && special.contains(c)) field += *dialect.escape;
      field += c;
    }
    return field;
  }
  field += *dialect.quote;
  for (const char c : text) {
    if (c == dialect.quote) field += c;
    if (c == dialect.escape) field += c;
    field += c;
  }
  return field += *dialect.quote;
}

bool is_empty_field(std::string_view field, const Dialect& dialect) {
  return field.empty() || (field.size() == 2 && field[0] == dialect.quote && field[1] == field[0]);
}

}  // namespace penstock::items

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check.h"
#include "items/format.h"
#include "items/keys/field_order.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

// Fuzzing keys: their parsing, and the order of lines that they define.
//
//   first line   words separated by blanks: "kSPEC" is a key, "tC" the separator of fields, "lLETTERS" orders of all
//                keys, "s" stable, "u" unique, "c" rows of CSV; "dTYPE" a NumPy dtype, "fSPEC" a key of its records
//   rest         lines
//
// An order is compared with a plain one, which compares two lines byte by byte as the manual of sort(1) says. Versions,
// random orders and numbers of -g only have to be orders.

namespace penstock::items {
namespace {

bool blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}

struct Extent {
  size_t begin = 0;
  size_t end = 0;
};

std::vector<Extent> fields_of(std::string_view line, std::optional<char> separator) {
  std::vector<Extent> fields;
  size_t at = 0;
  if (separator) {
    for (size_t i = 0; i <= line.size(); ++i) {
      if (i < line.size() && line[i] != *separator) continue;
      fields.push_back({at, i});
      at = i + 1;
    }
    return fields;
  }
  while (at < line.size()) {
    const size_t begin = at;
    while (at < line.size() && blank(line[at])) ++at;
    while (at < line.size() && !blank(line[at])) ++at;
    fields.push_back({begin, at});
  }
  return fields;
}

std::string text_of(const TextKey& key, std::string_view line, std::optional<char> separator) {
  const std::vector<Extent> fields = fields_of(line, separator);
  auto begin_of = [&](size_t field) {
    return field < fields.size() ? fields[field].begin : line.size();
  };
  auto behind = [&](size_t at, bool skips_blanks, size_t characters) {
    while (skips_blanks && at < line.size() && blank(line[at])) ++at;
    return characters > line.size() - at ? line.size() : at + characters;
  };
  const size_t begin =
      behind(begin_of(key.start_field), key.skips_blanks_at_start, key.start_character);
  size_t end = line.size();
  if (key.end_field != TextKey::line_end) {
    if (key.end_characters > 0) {
      end = behind(begin_of(key.end_field), key.skips_blanks_at_end, key.end_characters);
    } else if (key.end_field < fields.size()) {
      end = fields[key.end_field].end;
    }
  }
  return begin < end ? std::string(line.substr(begin, end - begin)) : std::string();
}

std::string what_counts(const TextKey& key, std::string_view text) {
  std::string counts;
  for (const char c : text) {
    const int byte = static_cast<unsigned char>(c);
    if (key.only_letters && !blank(c) && (byte > 127 || std::isalnum(byte) == 0)) continue;
    if (key.only_printable && (byte < 32 || byte > 126)) continue;
    counts += key.ignores_case && byte < 128 ? static_cast<char>(std::toupper(byte)) : c;
  }
  return counts;
}

struct Decimal {
  bool negative = false;
  std::string whole;     // without leading zeros
  std::string fraction;  // without trailing zeros
  int power = 0;         // exponent of 1024

  bool zero() const { return whole.empty() && fraction.empty(); }
};

Decimal decimal_in(std::string_view text) {
  Decimal number;
  size_t at = 0;
  while (at < text.size() && blank(text[at])) ++at;
  if (at < text.size() && text[at] == '-') {
    number.negative = true;
    ++at;
  }
  auto digits = [&] {
    std::string found;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') found += text[at++];
    return found;
  };
  const std::string whole = digits();
  std::string fraction;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = digits();
  }
  if (at < text.size() && (!whole.empty() || !fraction.empty())) {
    const size_t suffix = std::string_view("KMGTPEZY").find(text[at] == 'k' ? 'K' : text[at]);
    if (suffix != std::string_view::npos) number.power = static_cast<int>(suffix) + 1;
  }
  number.whole = whole.substr(std::min(whole.find_first_not_of('0'), whole.size()));
  number.fraction = fraction.substr(0, fraction.find_last_not_of('0') + 1);
  if (number.zero()) number = {};
  return number;
}

int order_of(const Decimal& a, const Decimal& b, bool with_power) {
  auto sign_of = [](const Decimal& number) { return number.zero() ? 0 : number.negative ? -1 : 1; };
  if (sign_of(a) != sign_of(b)) return sign_of(a) < sign_of(b) ? -1 : 1;
  const int toward = a.negative ? -1 : 1;
  if (with_power && a.power != b.power) return a.power < b.power ? -toward : toward;
  if (a.whole.size() != b.whole.size()) return a.whole.size() < b.whole.size() ? -toward : toward;
  const int whole = a.whole.compare(b.whole);
  return toward * (whole != 0 ? whole : a.fraction.compare(b.fraction));
}

int month_of(std::string_view text) {
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  std::string name;
  for (const char c : text.substr(0, 3))
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const size_t at = std::string_view("JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC").find(name);
  const bool found = name.size() == 3 && at != std::string_view::npos && at % 3 == 0;
  return found ? static_cast<int>(at / 3) + 1 : 0;
}

// Returns a number below, at or above 0; nullopt if the plain order does not support the key.
std::optional<int> plain_order(const TextKey& key, const std::string& left,
                               const std::string& right) {
  const std::string a = what_counts(key, left);
  const std::string b = what_counts(key, right);
  int order = 0;
  switch (key.compare) {
    case TextCompare::bytes:
      order = a.compare(b);
      break;
    case TextCompare::numeric:
      order = order_of(decimal_in(a), decimal_in(b), false);
      break;
    case TextCompare::human:
      order = order_of(decimal_in(a), decimal_in(b), true);
      break;
    case TextCompare::month:
      order = month_of(a) - month_of(b);
      break;
    default:
      if (a == b) return 0;
      return {};
  }
  return key.reverse ? -order : order;
}

std::optional<int> plain_order(const TextOrder& order, const TextOptions& options,
                               std::string_view left, std::string_view right) {
  auto key_of = [&](const TextKey& key, std::string_view line) {
    if (!options.csv) return text_of(key, line, order.separator());
    const std::vector<std::string> fields = fields_of_row(line, *options.csv);
    return key.start_field < fields.size() ? fields[key.start_field] : std::string();
  };
  for (const TextKey& key : order.keys()) {
    const auto found = plain_order(key, key_of(key, left), key_of(key, right));
    if (!found || *found != 0) return found;
  }
  if (!order.keys().empty() && !order.has_last_resort()) return 0;
  const int whole = left.compare(right);
  return options.letters.find('r') != std::string::npos ? -whole : whole;
}

int sign(int order) {
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

void try_lines(const TextOptions& options, const std::vector<std::string_view>& lines) {
  const auto made = TextOrder::make(options);
  if (!made) return;
  const TextOrder& order = **made;
  std::vector<std::string> keys(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    order.append(lines[i], keys[i]);
    require(order.texts(lines[i]).size() == std::max<size_t>(order.keys().size(), 1), "texts");
    if (order.is_total()) {
      for (size_t j = 0; j < i; ++j)
        require((keys[i] == keys[j]) == (lines[i] == lines[j]), "a total order");
    }
    for (size_t j = 0; j < i; ++j) {
      const auto plain = plain_order(order, options, lines[i], lines[j]);
      if (plain) require(sign(*plain) == sign(keys[i].compare(keys[j])), "the order of two lines");
    }
  }
}

void try_records(const std::string& dtype, const std::vector<std::string>& keys,
                 const std::vector<std::string_view>& lines) {
  auto type = parse_dtype(dtype);
  if (!type) return;
  for (const Field& field : type->fields)
    require(field.offset + field.bytes <= type->bytes, "where a field lies");
  constexpr uint32_t bytes_max = 1 << 16;
  if (type->bytes == 0 || type->bytes > bytes_max) return;
  const auto order = field_order(keys, type->bytes, *type);
  if (!order || *order == nullptr) return;
  std::string room;
  std::string item;
  size_t key_bytes = 0;
  for (const std::string_view line : lines) {
    item.assign(line.substr(0, type->bytes));
    item.resize(type->bytes);
    room.clear();
    (*order)->append(item, room);
    require(key_bytes == 0 || room.size() == key_bytes, "keys of records are equally long");
    key_bytes = room.size();
  }
}

}  // namespace
}  // namespace penstock::items

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::items;
  constexpr size_t lines_max = 8;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t head = std::min(text.find('\n'), text.size());
  TextOptions options;
  std::vector<std::string> fields;
  std::string dtype;
  for (size_t at = 0; at < head;) {
    const size_t end = std::min(text.find(' ', at), head);
    const std::string word(text.substr(at, end - at));
    at = end + 1;
    if (word.empty()) continue;
    const std::string rest = word.substr(1);
    switch (word.front()) {
      case 'k':
        options.keys.push_back(rest);
        break;
      case 't':
        if (!rest.empty()) options.separator = rest.front();
        break;
      case 'l':
        options.letters = rest;
        break;
      case 's':
        options.stable = true;
        break;
      case 'u':
        options.unique = true;
        break;
      case 'c':
        options.csv = Dialect();
        break;
      case 'd':
        dtype = rest;
        break;
      case 'f':
        fields.push_back(rest);
        break;
      default:
        (void)parse_format(rest, static_cast<uint32_t>(word.front()), word);
    }
  }
  if (options.csv) options.csv->separator = options.separator.value_or(',');
  std::vector<std::string_view> lines;
  for (size_t at = head + 1; at <= text.size() && lines.size() < lines_max;) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  try_lines(options, lines);
  if (!dtype.empty()) try_records(dtype, fields, lines);
  return 0;
}

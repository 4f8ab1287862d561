#include "interfaces/api/item_format.h"

#include <algorithm>
#include <random>

#include "base/misuse.h"
#include "items/keys/field_order.h"
#include "items/keys/text/key_words.h"
#include "items/keys/text/text_order.h"
#include "items/rows.h"

namespace penstock::api {
namespace {

// True for "OFFSET:LENGTH" of decimal digits, as in "4:8".
bool is_byte_range(const std::string& key) {
  return key.find(':') != std::string::npos &&
         key.find_first_not_of("0123456789:") == std::string::npos;
}

Result<items::Format> record_format(const ItemFormat& items) {
  items::RecordType type;
  uint32_t bytes = items.record_bytes.value_or(0);
  if (!items.dtype.empty()) {
    auto parsed = items::parse_dtype(items.dtype);
    if (!parsed) return std::unexpected(parsed.error());
    type = std::move(*parsed);
    if (bytes != 0 && bytes != type.bytes)
      return misuse(
          "have both " + std::to_string(type.bytes) + " and " + std::to_string(bytes) + " bytes",
          "--record", "--dtype without --record");
    bytes = type.bytes;
  }
  // A single key of bytes lies in the record: no key has to be computed.
  if (items.keys.size() == 1 && is_byte_range(items.keys.front()))
    return items::parse_format("record", bytes, items.keys.front());
  auto format = items::parse_format("record", bytes);
  if (!format || items.keys.empty()) return format;
  auto order = items::field_order(items.keys, format->record_bytes, type, items.descending);
  if (!order) return std::unexpected(order.error());
  format->keys = *order;
  return format;
}

// The first option that only applies to lines, for messages; empty if there is none.
std::string text_option(const ItemFormat& items) {
  if (items.zero_terminated) return "-z";
  if (items.csv) return "--csv";
  if (items.header_lines > 0) return "--header";
  if (!items.quote.empty()) return "--quote";
  if (!items.escape.empty()) return "--escape";
  if (items.lenient) return "--lenient";
  if (items.locale) return "--locale";
  if (!items.time_format.empty()) return "--time-format";
  if (!items.number_format.empty()) return "--number-format";
  return items::shown_letters(items.letters);
}

// A random seed, if the order may be -R and need not be repeatable.
uint64_t seed_of(const ItemFormat& items, const ItemRules& rules) {
  const bool may_shuffle =
      items.letters.contains('R') ||
      std::ranges::any_of(items.keys, [](const std::string& key) { return key.contains('R'); });
  if (items.random_seed || rules.repeatable || !may_shuffle) return items.random_seed.value_or(0);
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

Status check_dialect_words(const ItemFormat& items) {
  const std::string word = !items.quote.empty()    ? "--quote " + items.quote
                           : !items.escape.empty() ? "--escape " + items.escape
                           : items.lenient         ? "--lenient"
                                                   : "";
  if (items.csv || word.empty()) return {};
  return misuse("read lines that are no rows of CSV in a dialect", word, "--csv or --tsv");
}

Status order_text(const ItemFormat& items, const ItemRules& rules, items::Format& format) {
  if (items.zero_terminated && items.csv)
    return misuse("end rows of CSV with NUL", "-z", "--csv without -z");
  if (items.zero_terminated) format.line_end = '\0';
  if (Status words = check_dialect_words(items); !words) return words;
  if (items.csv) {
    auto dialect = dialect_of(items);
    if (!dialect) return std::unexpected(dialect.error());
    format.csv = *dialect;
  }
  format.header_lines = items.header_lines;
  format.rows_fit_header = items.rows_fit_header && items.csv && items.header_lines > 0;
  auto locale = locale_of(items);
  if (!locale) return std::unexpected(locale.error());
  const bool collates = *locale != nullptr && (*locale)->collates();
  if (items.letters.empty() && items.keys.empty() && !collates) return {};
  items::TextOptions options{.keys = items.keys,
                             .letters = (items.descending ? "r" : "") + items.letters,
                             .separator = format.csv ? format.csv->separator : items.separator,
                             .stable = rules.stable,
                             .unique = rules.unique,
                             .random_seed = seed_of(items, rules),
                             .locale = std::move(*locale),
                             .time_format = items.time_format,
                             .number_format = items.number_format,
                             .csv = format.csv};
  // Names of columns are looked up when the header is known.
  if (items.csv && items.header_lines > 0) {
    format.columns = std::make_shared<const items::TextOptions>(std::move(options));
    return {};
  }
  auto order = format.framing().order(options);
  if (!order) return std::unexpected(order.error());
  format.keys = *order;
  return {};
}

}  // namespace

Result<items::Format> format_of(const ItemFormat& items, const ItemRules& rules) {
  auto needs = [&](const std::string& option, const char* format) {
    return misuse("be used with --format " + items.name, option, std::string("--format ") + format);
  };
  if (items.record_bytes == 0u)
    return misuse("be the bytes of a record", "--record 0", "1 or more");
  const std::string of_text = text_option(items);
  if (items.name == "record") {
    if (!of_text.empty()) return needs(of_text, "lines");
    return record_format(items);
  }
  if (items.record_bytes) return needs("--record", "record");
  if (!items.dtype.empty()) return needs("--dtype", "record");
  auto format = items::parse_format(items.name);
  if (!format) return format;
  if (!format->has_fields()) {
    if (!items.keys.empty()) return needs("--key", "record");
    if (!of_text.empty()) return needs(of_text, "lines");
    return format;
  }
  if (const auto place = std::ranges::find_if(items.keys, is_byte_range);
      place != items.keys.end() && !items.csv)
    return needs("--key " + *place, "record");
  if (!format->is_plain()) {
    if (items.separator) return needs("-t", "lines");
    if (items.csv) return needs("--csv", "lines");
    if (items.header_lines > 0) return needs("--header", "lines");
    if (Status words = check_dialect_words(items); !words) return std::unexpected(words.error());
  }
  if (Status status = order_text(items, rules, *format); !status)
    return std::unexpected(status.error());
  return format;
}

Result<items::Dialect> dialect_of(const ItemFormat& items) {
  items::Dialect dialect(items.separator.value_or(','));
  const bool has_quotes = items.quote != "none";
  if (items.quote.size() > 1 && has_quotes)
    return misuse("quote fields by other than one byte", "--quote '" + items.quote + "'",
                  "one byte, as in --quote '|', or --quote none");
  if (items.escape.size() > 1)
    return misuse("escape by other than one byte", "--escape '" + items.escape + "'",
                  "one byte, as in --escape '\\'");
  if (!has_quotes) dialect.quote = {};
  if (items.quote.size() == 1) dialect.quote = items.quote.front();
  // A doubled quote is a quote in every dialect.
  if (!items.escape.empty() && items.escape.front() != dialect.quote)
    dialect.escape = items.escape.front();
  dialect.is_lenient = items.lenient;
  const auto is_taken = [&](char c) { return c == '\n' || c == '\r' || (c == dialect.separator); };
  if (dialect.separator == '\n' || dialect.separator == dialect.quote)
    return misuse("separate fields by what quotes them or ends rows", "-t", "another character");
  if (dialect.quote && is_taken(*dialect.quote))
    return misuse("quote fields by what ends rows", "--quote", "another character");
  if (dialect.escape && is_taken(*dialect.escape))
    return misuse("escape by what separates fields or ends rows", "--escape", "another character");
  return dialect;
}

Result<std::shared_ptr<const items::Locale>> locale_of(const ItemFormat& items) {
  if (!items.locale) return std::shared_ptr<const items::Locale>();
  auto locale = items::Locale::open(*items.locale);
  if (locale && (*locale)->is_as_c()) locale->reset();
  return locale;
}

bool is_reversed(const ItemFormat& items, const items::Format& format) {
  const bool has_keys = format.keys != nullptr || format.columns != nullptr;
  const bool keys_reverse = has_keys && (format.has_fields() || items.name == "record");
  return items.descending && !keys_reverse;
}

}  // namespace penstock::api

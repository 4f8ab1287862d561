#include "interfaces/api/item_format.h"

#include <algorithm>
#include <random>

#include "base/misuse.h"
#include "items/keys/field_order.h"
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
  auto order = items::field_order(items.keys, format->record_bytes, type);
  if (!order) return std::unexpected(order.error());
  format->keys = *order;
  return format;
}

// The first option that only applies to lines, for messages; nullptr if there is none.
const char* text_option(const ItemFormat& items) {
  if (items.zero_terminated) return "-z";
  if (items.csv) return "--csv";
  if (items.header_lines > 0) return "--header";
  if (items.locale) return "--locale";
  return items.letters.empty() ? nullptr : "an order of text";
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

Status order_text(const ItemFormat& items, const ItemRules& rules, items::Format& format) {
  if (items.zero_terminated && items.csv)
    return misuse("end rows of CSV with NUL", "-z", "--csv without -z");
  if (items.zero_terminated) format.line_end = '\0';
  if (items.csv) format.csv = items.separator.value_or(',');
  if (format.csv == items::quote || format.csv == '\n')
    return misuse("separate fields by what quotes them or ends rows", "-t", "another character");
  format.header_lines = items.header_lines;
  auto locale = locale_of(items);
  if (!locale) return std::unexpected(locale.error());
  const bool collates = *locale != nullptr && (*locale)->collates();
  if (items.letters.empty() && items.keys.empty() && !collates) return {};
  items::TextOptions options{.keys = items.keys,
                             .letters = items.letters + (items.descending ? "r" : ""),
                             .separator = items.csv ? format.csv : items.separator,
                             .stable = rules.stable,
                             .unique = rules.unique,
                             .random_seed = seed_of(items, rules),
                             .locale = std::move(*locale),
                             .csv = items.csv};
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
  const char* const of_text = text_option(items);
  if (items.name == "record") {
    if (of_text != nullptr) return needs(of_text, "lines");
    return record_format(items);
  }
  if (items.record_bytes) return needs("--record", "record");
  if (!items.dtype.empty()) return needs("--dtype", "record");
  auto format = items::parse_format(items.name);
  if (!format) return format;
  if (!format->has_fields()) {
    if (!items.keys.empty()) return needs("--key", "record");
    if (of_text != nullptr) return needs(of_text, "lines");
    return format;
  }
  if (const auto place = std::ranges::find_if(items.keys, is_byte_range);
      place != items.keys.end() && !items.csv)
    return needs("--key " + *place, "record");
  if (Status status = order_text(items, rules, *format); !status)
    return std::unexpected(status.error());
  return format;
}

Result<std::shared_ptr<const items::Locale>> locale_of(const ItemFormat& items) {
  if (!items.locale) return std::shared_ptr<const items::Locale>();
  auto locale = items::Locale::open(*items.locale);
  if (locale && (*locale)->is_as_c()) locale->reset();
  return locale;
}

bool is_reversed(const ItemFormat& items, const items::Format& format) {
  return items.descending &&
         (!format.has_fields() || (format.keys == nullptr && format.columns == nullptr));
}

}  // namespace penstock::api

#include "cli/common/format_options.h"

#include <algorithm>

#include "base/misuse.h"
#include "record/field_order.h"

namespace penstock::cli {
namespace {

// "4:8"
bool is_place(const std::string& key) {
  return key.find(':') != std::string::npos &&
         key.find_first_not_of("0123456789:") == std::string::npos;
}

Result<record::Format> record_format(const FormatOptions& options) {
  record::RecordType type;
  uint32_t bytes = options.record_bytes.value_or(0);
  if (!options.dtype.empty()) {
    auto parsed = record::parse_dtype(options.dtype);
    if (!parsed) return std::unexpected(parsed.error());
    type = std::move(*parsed);
    if (bytes != 0 && bytes != type.bytes)
      return misuse(
          "have both " + std::to_string(type.bytes) + " and " + std::to_string(bytes) + " bytes",
          "--record", "--dtype without --record");
    bytes = type.bytes;
  }
  // One key of bytes lies in the record: nothing is made.
  if (options.keys.size() == 1 && is_place(options.keys.front()))
    return record::parse_format("record", bytes, options.keys.front());
  auto format = record::parse_format("record", bytes);
  if (!format || options.keys.empty()) return format;
  auto order = record::field_order(options.keys, format->record_bytes, type);
  if (!order) return std::unexpected(order.error());
  format->keys = *order;
  return format;
}

// One of those that were given, for messages.
const char* text_option(const TextWords& text) {
  if (text.zero) return "-z";
  if (text.rows()) return "--csv";
  return text.header.empty() ? "an order of text" : "--header";
}

}  // namespace

bool FormatOptions::orders_text() const {
  const auto letters = text.letters();
  return text.zero || text.rows() || !text.header.empty() || !letters || !letters->empty();
}

Result<record::Format> FormatOptions::format(const OrderRules& rules) const {
  auto needs = [&](const std::string& option, const char* format) {
    return misuse("be used with --format " + name, option, std::string("--format ") + format);
  };
  if (record_bytes == 0u) return misuse("be the bytes of a record", "--record 0", "1 or more");
  if (name == "record") {
    if (orders_text()) return needs(text_option(text), "lines");
    return record_format(*this);
  }
  if (record_bytes) return needs("--record", "record");
  if (!dtype.empty()) return needs("--dtype", "record");
  auto format = record::parse_format(name);
  if (!format) return format;
  if (format->fixed()) {
    if (!keys.empty()) return needs("--key", "record");
    if (orders_text()) return needs(text_option(text), "lines");
    return format;
  }
  if (const auto place = std::ranges::find_if(keys, is_place); place != keys.end() && !text.rows())
    return needs("--key " + *place, "record");
  if (Status status = apply_text_words(text, keys, rules, *format); !status)
    return std::unexpected(status.error());
  return format;
}

Option add_format_options(Parser& parser, FormatOptions& options) {
  parser
      .add_option("-k,--key", options.keys,
                  "records: OFFSET:LENGTH of the key, compared byte by byte (default 0:10), with "
                  ":TYPE a number, "
                  "with :r descending; lines: "
                  "FIELD[.CHARACTER][bdfghiMnRrV][,FIELD[.CHARACTER][...]], as GNU sort's; "
                  "may be given several times")
      .one_word();
  parser.add_option("--record", options.record_bytes,
                    "bytes of a record (of --format record; default 100)");
  parser.add_option("--dtype", options.dtype,
                    "the fields of a record as NumPy describes them, as in '<u8,>f4,S10' or "
                    "\"[('id', '<u8'), ...]\"");
  return parser.add_option("--format", options.name,
                           "u32 u64 i32 i64 f32 f64 kv64 record lines (default lines)");
}

}  // namespace penstock::cli

#pragma once

// --format, --record and --key, the same for every subcommand that reads or writes items.

#include <cstdint>
#include <optional>
#include <string>

#include "cli/common/parser.h"
#include "record/format.h"

namespace penstock::cli {

struct FormatOptions {
  std::string name = "lines";
  std::optional<uint32_t> record_bytes;
  std::optional<std::string> key;

  // The names made a format, or what is wrong with them.
  Result<record::Format> format() const {
    Result<record::Format> format =
        record::parse_format(name, record_bytes.value_or(0), key.value_or(""));
    auto refuse = [](std::string option, std::string attempted, std::string hint) {
      return failure(ErrorCode::invalid_argument, std::move(attempted), std::move(option),
                     std::move(hint));
    };
    if (format && format->type != record::Type::record && (record_bytes || key)) {
      return refuse(record_bytes ? "--record" : "--key", "be used with --format " + name,
                    "--format record");
    }
    if (record_bytes == 0u) return refuse("--record 0", "be the bytes of a record", "1 or more");
    return format;
  }
};

// `options` must outlive the parsing. Returns the --format option, so that a subcommand can make it
// required.
inline Option add_format_options(Parser& parser, FormatOptions& options) {
  parser.add_option("--record", options.record_bytes,
                    "bytes of a record (of --format record; default 100)");
  parser.add_option("--key", options.key,
                    "OFFSET:LENGTH of the key in a record, compared byte by byte (default 0:10)");
  return parser.add_option("--format", options.name,
                           "u32 u64 i32 i64 f32 f64 kv64 record lines (default lines)");
}

}  // namespace penstock::cli

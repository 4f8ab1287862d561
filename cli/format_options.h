#pragma once

// --format, --record and --key, the same for every subcommand that reads or writes items.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "record/format.h"

namespace penstock::cli {

struct FormatOptions {
  std::string name = "lines";
  uint32_t record_bytes = 100;
  std::string key = "0:10";

  // The names made a format, or what is wrong with them.
  Result<record::Format> format() const { return record::parse_format(name, record_bytes, key); }
};

// `options` must outlive the parsing. Returns the --format option, so that a subcommand can make it
// required.
inline CLI::Option* add_format_options(CLI::App& app, FormatOptions& options) {
  app.add_option("--record", options.record_bytes,
                 "bytes of a record (format record; default 100)");
  app.add_option("--key", options.key,
                 "OFFSET:LENGTH of the key in a record, compared bytewise (default 0:10)");
  return app.add_option("--format", options.name,
                        "u32 u64 i32 i64 f32 f64 kv64 record lines (default lines)");
}

}  // namespace penstock::cli

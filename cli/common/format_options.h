#pragma once

// Options for the format of items and their order: --format, --record, --dtype, --key, and GNU
// sort's options for text; the same for all subcommands that read or write items.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "cli/common/text_words.h"
#include "penstock/files.h"

namespace penstock::cli {

struct FormatOptions {
  std::string name = "lines";
  std::optional<uint32_t> record_bytes;
  std::string dtype;
  std::vector<std::string> keys;
  TextWords text;
  bool rows_fit_header = false;  // ItemFormat::rows_fit_header; recognize_table() sets it
  std::optional<Parser> parser;  // the command

  // True if --format was given.
  bool is_named() const { return parser && parser->given("--format"); }
  // Converts the options to the library's struct. Errors: a word is wrong.
  Result<ItemFormat> items(bool descending = false) const;
};

// `options` must outlive the parsing. Returns the --format option, so that a subcommand can make it
// required. Without `takes_keys` there is no --key.
Option add_format_options(Parser& parser, FormatOptions& options, bool takes_keys = true);

}  // namespace penstock::cli

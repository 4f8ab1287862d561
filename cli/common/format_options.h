#pragma once

// What the bytes of the files are and how their items are ordered: --format, --record, --dtype, --key, and GNU sort's
// options for text; the same for every subcommand that reads or writes items.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "cli/common/text_words.h"
#include "record/format.h"

namespace penstock::cli {

struct FormatOptions {
  std::string name = "lines";
  std::optional<uint32_t> record_bytes;
  std::string dtype;
  std::vector<std::string> keys;
  TextWords text;

  // The words made a format, or what is wrong with them. Keys of text have `rules.descending` in them: see below.
  Result<record::Format> format(const OrderRules& rules = {}) const;
  // Whether items are to be in the reverse order of the format's.
  bool descending(const OrderRules& rules, const record::Format& format) const {
    return rules.descending &&
           (format.fixed() || (format.keys == nullptr && format.columns == nullptr));
  }

 private:
  bool orders_text() const;
};

// `options` must outlive the parsing. Returns the --format option, so that a subcommand can make it required.
Option add_format_options(Parser& parser, FormatOptions& options);

}  // namespace penstock::cli

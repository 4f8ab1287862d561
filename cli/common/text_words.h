#pragma once

// The options of GNU sort that say how lines of text are ordered.

#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/base.h"
#include "penstock/files.h"

namespace penstock::cli {

struct TextWords {
  std::optional<std::string> separator;  // -t
  std::string sort;                      // --sort=WORD
  bool zero = false;
  bool csv = false, tsv = false;
  std::string header;  // --header[=LINES]
  std::string locale;  // --locale[=NAME]; "true": the environment's; empty: C
  bool blanks = false, dictionary = false, ignore_case = false, printable = false;
  bool general = false, human = false, month = false, numeric = false, random = false,
       version = false;

  bool rows() const { return csv || tsv; }
};

// What lines are: -t, -z, --csv, --tsv, --header. `words` must outlive the parsing.
void add_line_words(Parser& parser, TextWords& words);
// The same, and how they are ordered. `short_human`: -h is an order, and not the help.
void add_text_words(Parser& parser, TextWords& words, bool short_human);

// Makes items what the words say. Errors: what is wrong with them.
Status apply_text_words(const TextWords& words, ItemFormat& items);

}  // namespace penstock::cli

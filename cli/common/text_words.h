#pragma once

// GNU sort's options for the order of lines of text.

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
  std::string quote, escape;  // a character, or --quote none
  bool lenient = false;
  std::string header;  // --header[=LINES]
  bool no_header = false;
  std::string locale;  // --locale[=NAME]; "true": the environment's; empty: C
  std::string time_format;
  std::string number_format;
  bool blanks = false, dictionary = false, ignore_case = false, printable = false;
  bool general = false, human = false, month = false, numeric = false, random = false,
       version = false;

  bool rows() const { return csv || tsv; }
};

// Declares the options for the form of lines: -t, -z, --csv, --tsv, --header, --no-header. `words`
// must outlive the parsing. `orders`: --locale as well.
void add_line_words(Parser& parser, TextWords& words, bool orders = true);
// Declares those and the options for their order. `short_human`: -h is --human-numeric-sort, not
// the help.
void add_text_words(Parser& parser, TextWords& words, bool short_human);

// Sets the fields of `items` that the words name. Errors: a word is wrong.
Status apply_text_words(const TextWords& words, ItemFormat& items);

}  // namespace penstock::cli

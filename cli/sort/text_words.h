#pragma once

// The options of GNU sort that say how lines of text are ordered.

#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "record/format.h"

namespace penstock::cli {

struct TextWords {
  std::vector<std::string> keys;         // -k
  std::optional<std::string> separator;  // -t
  std::string sort;                      // --sort=WORD
  bool zero = false;
  bool blanks = false, dictionary = false, ignore_case = false, printable = false;
  bool general = false, human = false, month = false, numeric = false, random = false,
       version = false;
};

// `words` must outlive the parsing.
void add_text_words(Parser& parser, TextWords& words);

// Puts the order into the format, or says what is wrong with the words. `descending` is false then:
// the order has it. `repeatable`: another run must find the same order.
Status apply_text_words(const TextWords& words, bool stable, bool unique, bool repeatable,
                        record::Format& format, bool& descending);

}  // namespace penstock::cli

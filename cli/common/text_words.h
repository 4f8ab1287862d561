#pragma once

// The options of GNU sort that say how lines of text are ordered.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/error.h"
#include "record/key_order.h"

namespace penstock::cli {

// Beside the keys themselves.
struct OrderRules {
  bool descending = false;
  bool stable = false;
  bool unique = false;
  bool repeatable = true;  // another run must find the same order
};

struct TextWords {
  std::optional<std::string> separator;  // -t
  std::string sort;                      // --sort=WORD
  bool zero = false;
  bool blanks = false, dictionary = false, ignore_case = false, printable = false;
  bool general = false, human = false, month = false, numeric = false, random = false,
       version = false;

  // As they stand behind a key. Errors: no such --sort.
  Result<std::string> letters() const;
};

// `words` must outlive the parsing. `short_human`: -h is an order, and not the help.
void add_text_words(Parser& parser, TextWords& words, bool short_human);

// Nothing: the words order nothing. Errors: what is wrong with them.
Result<std::shared_ptr<const record::KeyOrder>> text_order(const TextWords& words,
                                                           const std::vector<std::string>& keys,
                                                           const OrderRules& rules);

}  // namespace penstock::cli

#pragma once

// The options of GNU sort that say how lines of text are ordered.

#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/error.h"
#include "record/format.h"

namespace penstock::cli {

// Beside the keys themselves.
struct OrderRules {
  bool descending = false;
  bool stable = false;
  bool unique = false;
  bool repeatable = true;  // another run must find the same order
  std::optional<uint64_t> random_seed =
      {};  // of -R; nothing: by chance, where it need not be repeatable
};

struct TextWords {
  std::optional<std::string> separator;  // -t
  std::string sort;                      // --sort=WORD
  bool zero = false;
  bool csv = false, tsv = false;
  std::string header;  // --header[=LINES]
  bool blanks = false, dictionary = false, ignore_case = false, printable = false;
  bool general = false, human = false, month = false, numeric = false, random = false,
       version = false;

  bool rows() const { return csv || tsv; }
  // As they stand behind a key. Errors: no such --sort.
  Result<std::string> letters() const;
  // What separates fields; nothing: blanks. Errors: more than a byte.
  Result<std::optional<char>> separating() const;
};

// What lines are: -t, -z, --csv, --tsv, --header. `words` must outlive the parsing.
void add_line_words(Parser& parser, TextWords& words);
// The same, and how they are ordered. `short_human`: -h is an order, and not the help.
void add_text_words(Parser& parser, TextWords& words, bool short_human);

// Makes lines what the words say. Errors: what is wrong with them.
Status apply_text_words(const TextWords& words, const std::vector<std::string>& keys,
                        const OrderRules& rules, record::Format& format);

}  // namespace penstock::cli

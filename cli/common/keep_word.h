#pragma once

// The option --keep of sorts and merges.

#include <string>

#include "cli/common/option_words.h"
#include "penstock/files.h"

namespace penstock::cli {

template <class Options>
void add_keep_word(Parser& parser, std::string& word) {
  add_option(parser, api::option<Options>("keep"), word).offers(api::option_words<Keep>);
}

// Sets the options to the word; none leaves them. Errors: an unknown word.
template <class Options>
Status apply_keep_word(const std::string& word, Options& options) {
  if (word.empty()) return {};
  const auto keep = api::value_of_word<Keep>(word, "keep such items", "--keep ");
  if (!keep) return std::unexpected(keep.error());
  options.keep = *keep;
  options.unique = true;
  return {};
}

}  // namespace penstock::cli

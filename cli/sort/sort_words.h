#pragma once

// The options of a sort, shared by penstock sort and penstock plan.

#include <string>

#include "cli/common/parser.h"
#include "cli/common/run_words.h"
#include "cli/sort/gnu_options.h"
#include "penstock/files.h"

namespace penstock::cli {

struct SortWords : RunWords {
  GnuOptions gnu;
  SortFilesOptions sort;  // `threads`: the cores, at most 8
  std::string pool = "automatic";
  std::string compression = "auto";
  std::string keep;

  SortWords();
};

// `words` must outlive the parsing.
void add_sort_words(Parser& parser, SortWords& words);
// A note on the sizes that options take, for CommandNotes.
extern const char* const note_on_sizes;

// Converts the words to the library's options. Errors: a word is wrong.
struct SortRequest {
  FilesOptions files;
  SortFilesOptions sort;
};
Result<SortRequest> sort_request(const SortWords& words);

}  // namespace penstock::cli

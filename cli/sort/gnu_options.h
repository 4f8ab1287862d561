#pragma once

// What GNU sort's command line has beside the options of sort_words.h.

#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/base.h"

namespace penstock::cli {

struct GnuOptions {
  std::string files0_from;       // names of inputs, each with a NUL behind it
  std::string batch_size;        // taken: how many files are merged at once follows from -S
  std::string compress_program;  // taken: temporaries are compressed, with LZ4
  std::string random_source;     // where the order of -R comes from
  // "2,2=+1 -2=2,2": a key that was written in the older way. Made by with_gnu_forms().
  std::vector<std::string> old_keys;
};

// `options` must outlive the parsing.
void add_gnu_options(Parser& sort, GnuOptions& options);
// Errors: what is wrong with them.
Status check_gnu_options(const GnuOptions& options);
// Of --files0-from. Errors: there are none, or one is empty, or cannot be read.
Result<std::vector<std::string>> inputs_from(const std::string& path);
// Of --random-source.
Result<uint64_t> random_seed_from(const std::string& path);

// The words of "sort" as its parser, `sort`, knows them: "+1 -2.3n" are keys, and long options may be cut
// short as far as GNU sort has one alone that begins so. Where POSIXLY_CORRECT is set, what stands behind a file is a file.
std::vector<std::string> with_gnu_forms(std::vector<std::string> words, const Parser& sort);

}  // namespace penstock::cli

#pragma once

// GNU sort's options that are not among those of sort_words.h.

#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "penstock/base.h"

namespace penstock::cli {

struct GnuOptions {
  std::string files0_from;       // file with names of inputs, each followed by a NUL
  std::string batch_size;        // ignored: how many files are merged at once follows from -S
  std::string compress_program;  // only turns on compression of temporaries, with LZ4
  std::string random_source;     // file that determines the order of -R
  // Keys in the older form, as "2,2=+1 -2=2,2" (the key, its older form, the advice). Made by
  // with_gnu_forms().
  std::vector<std::string> old_keys;
};

// `options` must outlive the parsing.
void add_gnu_options(Parser& sort, GnuOptions& options);
// Errors: a bad --batch-size.
Status check_gnu_options(const GnuOptions& options);
// Reads the names of --files0-from. Errors: there are none, one is empty, or the file cannot be
// read.
Result<std::vector<std::string>> inputs_from(const std::string& path);
// Reads the seed of --random-source. Errors: the file has less than 16 bytes, or cannot be read.
Result<uint64_t> random_seed_from(const std::string& path);

// Rewrites the words of "sort" into forms that its parser, `sort`, knows: keys such as "+1 -2.3n",
// and long options cut short, if only one of GNU sort's options begins so. If POSIXLY_CORRECT is
// set, all words after a file are files.
std::vector<std::string> with_gnu_forms(std::vector<std::string> words, const Parser& sort);

}  // namespace penstock::cli

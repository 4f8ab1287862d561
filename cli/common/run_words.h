#pragma once

// The options of all commands that run on files, and the outline of a run: signals, notices, the
// progress line and a share of a memory pool around the work.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/beginnings.h"
#include "cli/common/format_options.h"
#include "cli/common/parser.h"
#include "cli/common/progress_line.h"
#include "penstock/files.h"

namespace penstock::cli {

// Columns or fields that another option than --key names, to be checked against the inputs.
struct NamedColumns {
  std::string option;
  std::vector<std::string> columns;
  std::optional<size_t> input = {};  // the only input whose key they are; nullopt: all have them
};

struct RunWords {
  std::vector<std::string> inputs;
  std::string output = "-";
  FormatOptions format;
  bool descending = false;
  std::string memory;
  std::vector<std::string> temp_directories;
  std::string pool_of_memory;     // --memory-pool NAME[:SIZE]
  bool takes_any_memory = false;  // raises a too small -S to the least that works
  std::string device;
  std::string compressed;
  bool can_compress = true;        // the command has -Z
  bool orders = false;             // the output is in the order of the keys
  bool takes_keys = true;          // the command has --key
  bool groups = false;             // items with equal keys belong together
  bool looks_for_header = true;    // a header that counts as data causes a notice
  bool counts_odd_values = false;  // the run counts values that keys cannot read
  bool recognizes_tables = true;   // a column that is named suffices (table_guess.h)
  OutputRules output_rules;
  SourceOptions source;
  std::string columns = "equal";  // --columns
  std::vector<std::string> select;
  std::string bad_rows;
  TellingWords telling;
  bool json = false;
  std::vector<NamedColumns> named_columns;
  std::function<std::string()> field_hint;                                  // field_notice()'s
  std::shared_ptr<Beginnings> beginnings = std::make_shared<Beginnings>();  // shared by copies
};

// Declares -S and -T.
void add_memory_words(Parser& parser, RunWords& words);
void add_memory_pool_word(Parser& parser, RunWords& words);
// Declares --columns, and --select.
void add_columns_word(Parser& parser, RunWords& words);
void add_select_word(Parser& parser, RunWords& words);
// The bytes of -S; without it those of the environment's PENSTOCK_MEMORY; without that half of the
// memory that is available (with --memory-pool 1 GiB). A word that asks for more than the machine
// has gets nine tenths of the machine's memory.
Result<uint64_t> memory_bytes_of(const RunWords& words);
// Converts the words to the library's options. Errors: a word is wrong.
Result<FilesOptions> files_options(const RunWords& words);

// Figures of a finished run, for its last line on a terminal. Bytes and items are the output's.
struct RunSummary {
  RunStats run;
  uint64_t bytes = 0;
  uint64_t items = 0;
  const char* noun = nullptr;  // "groups"; nullptr: by the format
};
template <class Stats>
RunSummary summary_of(const Stats& stats) {
  if constexpr (requires { stats.parts; }) {
    RunSummary all{.run = stats.stats};
    for (const FilePart& part : stats.parts) {
      all.bytes += part.bytes;
      all.items += part.items;
    }
    return all;
  } else if constexpr (requires { stats.groups; }) {
    return {.run = stats, .bytes = stats.bytes, .items = stats.groups, .noun = "groups"};
  } else {
    return {.run = stats, .bytes = stats.bytes, .items = stats.items};
  }
}
// "288 MiB, 6,000,000 rows in 12.9 s, 110 MiB of memory, no temporaries".
std::string describe(const RunSummary& summary, const ItemFormat& items);

// Returns the notices of a run: about its inputs, columns that other options than --key name, its
// memory and its output. Clears the words' beginnings.
std::vector<std::string> notices_of(const RunWords& words, const FilesOptions& options,
                                    bool counts_odd_values = false);

// Does `work` with the options, after setting their cancel flag, notices and progress and taking
// the share of the pool. A summary follows the progress line if the output is a file. Returns the
// exit code; prints the message of a failure.
int carry_out(const std::string& command, const RunWords& words, FilesOptions& options,
              const std::function<Result<RunSummary>()>& work);

}  // namespace penstock::cli

#pragma once

// The words of a sort on the command line: what penstock sort takes, and penstock plan with it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/format_options.h"
#include "cli/common/parser.h"
#include "cli/sort/gnu_options.h"
#include "file/shared_budget.h"
#include "penstock/files.h"

namespace penstock::cli {

// -S and -T, the same for every subcommand that has them.
struct MemoryWords {
  std::string memory;
  std::vector<std::string> temp_directories;
  std::string pool_of_memory;     // --memory-pool NAME[:SIZE], of commands that run
  bool takes_any_memory = false;  // too little is the least that works
};
void add_memory_words(Parser& parser, MemoryWords& words);
// -S in bytes: of more than there is, what can be had.
Result<uint64_t> memory_bytes_of(const MemoryWords& words);
// Errors: a folder of -T is not there, or cannot be written to. (GNU sort looks when it needs one: under its name nothing does.)
Status check_temp_directories(const MemoryWords& words);
void add_memory_pool_word(Parser& parser, MemoryWords& words);
// Waits for `bytes` of the pool that was named. Nothing: none was.
Result<std::optional<file::SharedBudget>> take_of_memory_pool(
    const MemoryWords& words, uint64_t bytes, const std::atomic<bool>* cancel,
    std::function<void(const std::string&)> notice);
// What is told where -S is more than there is; nothing otherwise.
std::string memory_notice(const MemoryWords& words);

struct SortWords : MemoryWords {
  std::vector<std::string> inputs;
  std::string output = "-";
  FormatOptions format;
  GnuOptions gnu;
  SortFilesOptions sort;  // `threads`: the cores, at most 8
  bool descending = false;
  std::string pool = "automatic";
  std::string device;
  std::string compression = "auto";
  SourceOptions source;

  SortWords();
};

// `words` must outlive the parsing.
void add_sort_words(Parser& parser, SortWords& words);
extern const char* const sort_words_footer;

// The words as the library takes them, or what is wrong with them.
struct SortRequest {
  FilesOptions files;
  SortFilesOptions sort;
};
Result<SortRequest> sort_request(const SortWords& words);

}  // namespace penstock::cli

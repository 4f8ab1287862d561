#pragma once

// Common parts of the benches of text and tables: inputs, and the rows of each contender.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "penstock/base.h"

namespace penstock::bench {

// The vocabulary of all inputs: words of 3 to 9 letters, the same in every run.
const std::vector<std::string>& words();
const std::string& any_word(Random& random);

// Appends an item with its end; `number` counts the items.
using AppendItem = std::function<void(Random&, uint64_t number, std::string& to)>;
// Writes `header`, then items until there are `bytes`. Returns the number of items. The same calls
// write the same bytes.
Result<uint64_t> write_items(const std::string& path, uint64_t bytes, const std::string& header,
                             const AppendItem& append);

struct Contender {
  std::string name;
  std::vector<std::string> words = {};  // the program and its arguments
  std::string problem = {};             // the reason why it cannot run
  std::vector<std::string> environment = {};
};

struct Finish {
  double seconds = 0;           // the median
  uint64_t resident_bytes = 0;  // the largest process's peak, of all runs
};

struct RaceRules {
  unsigned runs = 1;
  double repeated_seconds_max = 20;  // a longer run is not repeated
  unsigned seconds_max = 900;        // limit of one run
  std::function<Status()> prepare;   // before each run
  // Returns what is wrong with the output of a run, or nothing.
  std::function<Result<std::string>()> problem_of_output;
};

// Runs a contender, and adds rows: seconds, processor time and memory, or one row that says why
// there are none. Returns nullopt in that case, an error if a rule failed.
Result<std::optional<Finish>> race(const std::string& kind, const Contender& contender,
                                   const RaceRules& rules, Report& report);

}  // namespace penstock::bench

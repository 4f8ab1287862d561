#pragma once

// Sorts files that may be larger than the memory allowed. README.md tells how a run goes.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "file/engine.h"
#include "penstock/error.h"
#include "penstock/units.h"
#include "pool/pool.h"
#include "record/format.h"

namespace penstock::external {

struct Progress {
  const char* phase;     // "sample", "distribute", "sort", "merge"
  uint64_t done_bytes;   // of all reading and writing of the run
  uint64_t total_bytes;  // 0: not known (a pipe)
};

struct SortOptions {
  std::vector<std::string> inputs;  // "-" is stdin; at least one
  std::string output;               // "-" is stdout; may name an input
  record::Format format;
  uint64_t memory_bytes = 1 * GiB;            // hard: resident memory of the whole process
  std::vector<std::string> temp_directories;  // empty: $TMPDIR, or /tmp
  unsigned threads = 2;
  bool descending = false;
  bool unique = false;      // one item (the first) of each set with equal keys
  bool stable = false;      // items with equal keys keep their order
  bool merge_only = false;  // inputs are sorted already
  pool::Mechanism mechanism = pool::Mechanism::automatic;
  file::EngineKind engine = file::EngineKind::automatic;
  const std::atomic<bool>* cancel =
      nullptr;  // set it, and the sort ends with ErrorCode::interrupted
  std::function<void(const Progress&)> progress =
      {};  // called from worker threads, some ten times a second at most
};

enum class Method {
  empty,       // nothing to do
  in_memory,   // one pass: it fits
  distribute,  // split by key ranges into temporaries, then sort these one by one
  merge,       // merge inputs, or sorted stretches of them, directly
};
const char* name_of(Method method);

// What a run will do, asked for before anything is written.
struct SortPlan {
  Method method = Method::empty;
  uint64_t input_bytes = 0;  // 0 with pipes: not known
  uint32_t buckets = 0;      // of the first split, or fan-in of the first merge
  uint32_t passes = 0;       // times that the data are read
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes =
      0;  // disk space that temporaries take at the peak, all directories together
  uint64_t seeks = 0;
  uint64_t memory_bytes = 0;  // expected peak
  double seconds = 0;  // from disk speeds probed in the temporary directory; 0: not predicted
  std::string why;     // one sentence
};

struct SortStats {
  SortPlan predicted;
  Method method = Method::empty;
  uint64_t items = 0;  // of the output
  uint64_t bytes = 0;  // of the output
  double seconds = 0;
  uint64_t peak_rss_bytes = 0;
  uint64_t budget_bytes = 0;
  uint32_t passes = 0;
  uint64_t seeks = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;
  uint64_t kept_bytes = 0;  // of the input, that did not go to temporaries between the phases
  std::vector<std::pair<std::string, double>> phase_seconds;
  std::string pool;  // the mechanism used
  std::string engine;
};

// The least memory_bytes that sort_files accepts for these options (program included).
uint64_t minimum_memory_bytes(const SortOptions& options);

// Opens and samples the inputs, and probes the disk with a temporary file when it predicts seconds.
// Errors: as sort_files, before it begins.
Result<SortPlan> plan_sort(const SortOptions& options);

// On any error the output's final name is untouched, the inputs are whole and the temporaries are
// gone. Thread safety: runs of different threads share nothing but the memory of the process.
Result<SortStats> sort_files(const SortOptions& options);

// The first place where order (or with `unique`, strictness) is broken, if any. For -c and -C.
struct Disorder {
  std::string path;
  uint64_t item;     // index from 0
  std::string text;  // the item, readable
};
Result<std::optional<Disorder>> find_disorder(const SortOptions& options);

}  // namespace penstock::external

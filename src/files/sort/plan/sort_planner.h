#pragma once

// Decision how to sort, from the facts about the input.

#include <optional>

#include "files/sort/plan/sort_input.h"
#include "files/sort/ways/long_runs.h"

namespace penstock::external {

// Largest number of descents in a sample that may stem from an input of a few sorted stretches.
inline constexpr uint64_t sample_descents_max = 32;

struct SortDecision {
  SortPlan plan;
  std::optional<LongRunsPlan> long_runs;  // set if the plan sorts in long runs
  // Whether the output is written while the order of the input is checked: the sample found no
  // descent, and the output is a file.
  bool copies = false;
  // Whether all items are sorted and the output is cut after the first K, because memory cannot
  // hold these. `kept_share` is the share of the input that may be among the first K and is kept
  // for the sort (1: all of the input is sorted).
  bool cuts = false;
  double kept_share = 1;
  uint64_t output_bytes_max = 0;  // largest size of the output on the disk at any time
  // Temporary bytes that compression saves if all data shrink like the sample. The disk must have
  // room for them all the same, unless the caller vouches for it (Compression::always).
  uint64_t temp_bytes_spared = 0;
};

// Decides how to sort. Probes the disk if `device` is empty and the input is large.
SortDecision decide_sort(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                         const SortInput& input);

// Size of the input in bytes; an estimate for sequential inputs that were not read to their end.
uint64_t expected_bytes(const SortOptions& options, const SortInput& input);
bool fits_in_memory(const SortOptions& options, const SortInput& input);
// Fails if the memory cannot hold the lists of the blocks in temporaries; the message names the
// least -S that suffices.
Status check_memory(const SortOptions& options, const SortInput& input, const SortPlan& plan);

}  // namespace penstock::external

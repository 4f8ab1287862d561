#pragma once

// What a sort decides before it begins, from what is known of its input.

#include <optional>

#include "files/sort/plan/sort_input.h"
#include "files/sort/ways/long_runs.h"

namespace penstock::external {

// A sample with no more descents may be of input that consists of a few sorted stretches.
inline constexpr uint64_t sample_descents_max = 32;

struct SortDecision {
  SortPlan plan;
  std::optional<LongRunsPlan> long_runs;  // where the plan says so
  // The sample found nothing out of order, and the output is a file: it is written while that is
  // looked at.
  bool copies = false;
  // Of the first K items: they are too many for memory, so that all are sorted and the output is
  // cut; and what share of the input is looked for before that (1: all of it is sorted).
  bool cuts = false;
  double kept_share = 1;
  uint64_t output_bytes_max = 0;  // on the disk, at any time
  // By compression, if the data shrink as a few of them did: room that has to be there all the same, unless
  // the caller says that they will (Compression::always).
  uint64_t temp_bytes_spared = 0;
};

// Where nobody said what the disk can do, it is looked at, too, if there is much to sort.
SortDecision decide_sort(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                         const SortInput& input);

// How much there is to sort: of a pipe that goes on, what it is taken for.
uint64_t expected_bytes(const SortOptions& options, const SortInput& input);
bool fits_in_memory(const SortOptions& options, const SortInput& input);
// Fails where the memory does not suffice for the lists of what lies in temporaries; the message
// has the least -S that does.
Status check_memory(const SortOptions& options, const SortInput& input, const SortPlan& plan);

}  // namespace penstock::external

#pragma once

// The first phase of a sort for a disk that seeks slowly: the executor's distribution (D1) to one
// file for each bucket, in as few and as long runs as the memory allows.

#include <memory>
#include <optional>
#include <vector>

#include "bowtie/model.h"
#include "external/context.h"
#include "external/item_sum.h"
#include "file/file.h"
#include "files/sample.h"
#include "scatter/bucket_map.h"

namespace penstock::external {

struct LongRunsPlan {
  uint32_t buckets = 0;
  // Of the distribution, and of reading and writing each bucket whole.
  bowtie::Prediction distribution;
  uint64_t sort_switches = 0;
  double sort_seconds = 0;

  double seconds() const { return distribution.seconds + sort_seconds; }
};

// How it would go; nothing where there are more buckets than streams, or a text key makes a bucket
// that does not fit. `ordered`: the output takes items in order only.
std::optional<LongRunsPlan> plan_long_runs(const SortOptions& options, uint64_t memory_bytes,
                                           uint64_t input_bytes, const Sample& sample, bool ordered,
                                           const bowtie::DeviceProfile& device);

// The items of a range of keys, in the order of the input.
struct LongBucket {
  std::unique_ptr<file::File> file = {};  // gone with the bucket
  uint64_t bytes = 0;
  uint64_t items = 0;
  scatter::KeyRange keys = {};  // of numbers
  Sample sample = {};           // what the sample had of it
};

struct LongBuckets {
  std::vector<LongBucket> buckets;  // in the order of the output; empty ones are left out
  ItemSum read;                     // what was distributed
};

// REQUIRES: the pieces are whole files.
Result<LongBuckets> distribute_in_long_runs(Context& context, const std::vector<Piece>& pieces,
                                            uint64_t memory_bytes, Sample sample,
                                            const LongRunsPlan& plan,
                                            const std::vector<std::string>& temp_directories);

}  // namespace penstock::external

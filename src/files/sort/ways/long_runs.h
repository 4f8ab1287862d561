#pragma once

// The first phase of a sort for a disk that seeks slowly: the executor's distribution (D1) to one
// file for each bucket, in as few and as long runs as the memory allows.

#include <memory>
#include <optional>
#include <vector>

#include "files/bowtie/model.h"
#include "files/run/sample.h"
#include "files/sort/context.h"
#include "files/sort/item_sum.h"
#include "io/file.h"
#include "sorting/scatter/bucket_map.h"

namespace penstock::external {

struct LongRunsPlan {
  uint64_t bytes = 0;  // what is distributed
  uint32_t buckets = 0;
  uint64_t bucket_bytes_max = 0;  // that is sorted in memory
  // How often an item is distributed. Where there would be more buckets than streams, or too many
  // for long runs, there are fewer, which are distributed again, each by a plan of its own.
  uint32_t levels = 1;
  // Of the first distribution; of the others, all of them; and of reading and writing each of the
  // last buckets whole.
  bowtie::Prediction distribution;
  uint64_t again_switches = 0;
  double again_seconds = 0;
  // Of one text, for which a bucket is too large: it goes through the usual distribution.
  uint64_t heavy_bytes = 0;
  uint64_t sort_switches = 0;
  double sort_seconds = 0;

  double seconds() const { return distribution.seconds + again_seconds + sort_seconds; }
  // Whether a bucket of it is distributed again. One that has nearly all of it has one key, or few:
  // to distribute that again would not come to an end.
  bool goes_again(uint64_t bucket_bytes) const {
    return levels > 1 && bucket_bytes > bucket_bytes_max && bucket_bytes <= bytes - bytes / 8;
  }
};

// How it would go; nothing where there are more inputs than streams, or one text is a quarter of
// all. `inputs`: files. `ordered`: the output takes items in order only.
std::optional<LongRunsPlan> plan_long_runs(const SortOptions& options, uint64_t memory_bytes,
                                           uint64_t input_bytes, uint64_t inputs,
                                           const files::Sample& sample, bool ordered,
                                           const bowtie::DeviceProfile& device);

// The items of a range of keys, in the order of the input.
struct LongBucket {
  std::unique_ptr<io::File> file = {};  // gone with the bucket
  uint64_t bytes = 0;
  uint64_t items = 0;
  scatter::KeyRange keys = {};  // of numbers
  files::Sample sample = {};    // what the sample had of it
};

struct LongBuckets {
  std::vector<LongBucket> buckets;  // in the order of the output; empty ones are left out
  ItemSum read;                     // what was distributed
};

// REQUIRES: the pieces are whole files. `keys`: of the numbers in them.
Result<LongBuckets> distribute_in_long_runs(Context& context,
                                            const std::vector<files::Piece>& pieces,
                                            uint64_t memory_bytes, files::Sample sample,
                                            const scatter::KeyRange& keys, const LongRunsPlan& plan,
                                            const std::vector<std::string>& temp_directories);

}  // namespace penstock::external

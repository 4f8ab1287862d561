#pragma once

// First phase of a sort on a disk that seeks slowly: the executor distributes (D1) to one file for
// each bucket, in as few and as long runs as the memory allows.

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
  uint64_t bytes = 0;  // size of the input
  uint32_t buckets = 0;
  uint64_t bucket_bytes_max = 0;  // largest bucket that is sorted in memory
  // Number of times that an item is distributed. If more buckets are needed than there are streams,
  // or than long runs allow, there are fewer, which are distributed again.
  uint32_t levels = 1;
  // Costs of the first distribution, of all further ones, and of the sort of the last buckets.
  bowtie::Prediction distribution;
  uint64_t again_switches = 0;
  double again_seconds = 0;
  // Bytes of a text that is larger than a bucket may be: they go through the usual distribution.
  uint64_t heavy_bytes = 0;
  uint64_t sort_switches = 0;
  double sort_seconds = 0;

  double seconds() const { return distribution.seconds + again_seconds + sort_seconds; }
  // Whether a bucket is distributed again. A bucket that has nearly all of the input has one key,
  // or few: distributing it again would never end.
  bool goes_again(uint64_t bucket_bytes) const {
    return levels > 1 && bucket_bytes > bucket_bytes_max && bucket_bytes <= bytes - bytes / 8;
  }
};

// Plans the sort. Returns nullopt if there are more inputs than streams, or if one text makes up a
// quarter of the input. `inputs`: number of files. `ordered`: the output takes items only in order.
std::optional<LongRunsPlan> plan_long_runs(const SortOptions& options, uint64_t memory_bytes,
                                           uint64_t input_bytes, uint64_t inputs,
                                           const files::Sample& sample, bool ordered,
                                           const bowtie::DeviceProfile& device);

// Items of a range of keys, in the order of the input.
struct LongBucket {
  std::unique_ptr<io::File> file = {};  // removed with the bucket
  uint64_t bytes = 0;
  uint64_t items = 0;
  scatter::KeyRange keys = {};  // range of the keys, of numbers
  files::Sample sample = {};    // the bucket's part of the sample
};

struct LongBuckets {
  std::vector<LongBucket> buckets;  // in the order of the output, without empty ones
  ItemSum read;                     // sum of the distributed items
};

// REQUIRES: the pieces are whole files. `keys`: bounds of the numbers in them.
Result<LongBuckets> distribute_in_long_runs(Context& context,
                                            const std::vector<files::Piece>& pieces,
                                            uint64_t memory_bytes, files::Sample sample,
                                            const scatter::KeyRange& keys, const LongRunsPlan& plan,
                                            const std::vector<std::string>& temp_directories);

}  // namespace penstock::external

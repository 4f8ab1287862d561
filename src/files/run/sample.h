#pragma once

// A look at a part of the input, spread evenly over it, before anything is decided.

#include <cstdint>
#include <string>
#include <vector>

#include "files/run/input.h"
#include "files/run/run_context.h"

namespace penstock::files {

struct Sample {
  std::vector<uint64_t> numbers;     // encoded keys, for numeric formats
  std::vector<std::string> strings;  // keys, for records and lines
  double item_bytes = 0;             // mean size of an item
  size_t bytes_read = 0;
  uint32_t places = 0;  // at which it was read

  // How often a key comes before its predecessor in the order wanted.
  uint64_t descents = 0;
  size_t size() const { return numbers.empty() ? strings.size() : numbers.size(); }
  uint64_t memory_bytes() const;
  // Sorts the keys, and gives those that cut them into parts of equal share, one less than there are parts. One that
  // has several shares comes as often. None: the sample is empty.
  std::vector<items::ItemKey> quantiles(const items::ItemOrder& order, uint32_t parts);
};

// At how many places a sample of so many bytes looks.
uint32_t sample_places(uint64_t bytes);

// Where a look costs a seek of many milliseconds, thousands of them would take longer than reading
// the input: there they are fewer and longer, with as many keys in all.
struct SamplePlan {
  uint32_t places = 1;
  size_t stretch_bytes = io::sector_bytes;
  uint32_t items_per_stretch = 32;

  // What it takes, at most.
  uint64_t bytes() const { return uint64_t{places} * stretch_bytes; }
};
// For a run with so much memory. `device`: nullptr where nothing is known.
SamplePlan plan_sample(uint64_t bytes, uint64_t memory_bytes, const bowtie::DeviceProfile* device);

// Reads up to `places` stretches. Pieces must not be pipes.
Result<Sample> take_sample(RunContext& context, const items::ItemOrder& order,
                           const std::vector<Piece>& pieces, const SamplePlan& plan);
inline Result<Sample> take_sample(RunContext& context, const items::ItemOrder& order,
                                  const std::vector<Piece>& pieces, uint32_t places) {
  return take_sample(context, order, pieces, SamplePlan{.places = places});
}
// Samples what is in memory.
Sample sample_memory(const items::ItemOrder& order, const std::byte* data, size_t bytes,
                     uint32_t places);

}  // namespace penstock::files

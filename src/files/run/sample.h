#pragma once

// A sample of the input, spread evenly over it, for plans.

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
  uint32_t places = 0;  // number of places that were read

  // Keys that come before their predecessors in the wanted order.
  uint64_t descents = 0;
  size_t size() const { return numbers.empty() ? strings.size() : numbers.size(); }
  uint64_t memory_bytes() const;
  // Sorts the keys, and returns those that cut them into `parts` equal parts: one less than there
  // are parts. A key that fills several parts repeats. Returns empty if the sample is empty.
  std::vector<items::ItemKey> quantiles(const items::ItemOrder& order, uint32_t parts);
};

// The number of places of a sample of so many bytes.
uint32_t sample_places(uint64_t bytes);

// The places and their lengths. If a seek takes many milliseconds, thousands of places would take
// longer than reading the input: then there are fewer and longer ones, with the same number of
// keys.
struct SamplePlan {
  uint32_t places = 1;
  size_t stretch_bytes = io::sector_bytes;
  uint32_t items_per_stretch = 32;

  // The most bytes that the sample reads.
  uint64_t bytes() const { return uint64_t{places} * stretch_bytes; }
};
// Plans the sample of a run with so much memory. `device`: nullptr if unknown.
SamplePlan plan_sample(uint64_t bytes, uint64_t memory_bytes, const bowtie::DeviceProfile* device);

// Reads up to `places` stretches. REQUIRES: no piece is a pipe.
Result<Sample> take_sample(RunContext& context, const items::ItemOrder& order,
                           const std::vector<Piece>& pieces, const SamplePlan& plan);
inline Result<Sample> take_sample(RunContext& context, const items::ItemOrder& order,
                                  const std::vector<Piece>& pieces, uint32_t places) {
  return take_sample(context, order, pieces, SamplePlan{.places = places});
}
// Samples data in memory.
Sample sample_memory(const items::ItemOrder& order, const std::byte* data, size_t bytes,
                     uint32_t places);

}  // namespace penstock::files

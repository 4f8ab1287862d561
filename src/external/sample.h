#pragma once

// A look at a part of the input, spread evenly over it, before anything is decided.

#include <cstdint>
#include <string>
#include <vector>

#include "external/context.h"
#include "external/input.h"

namespace penstock::external {

struct Sample {
  std::vector<uint64_t> numbers;     // encoded keys, for numeric formats
  std::vector<std::string> strings;  // keys, for records and lines
  double item_bytes = 0;             // mean size of an item
  size_t bytes_read = 0;

  // How often a key comes before its predecessor in the order wanted.
  uint64_t descents = 0;
  size_t size() const { return numbers.empty() ? strings.size() : numbers.size(); }
};

// At how many places a sample of so many bytes looks.
uint32_t sample_places(uint64_t bytes);
// Reads up to `places` small stretches. Pieces must not be pipes.
Result<Sample> take_sample(Context& context, const std::vector<Piece>& pieces, uint32_t places);
// Samples what is in memory.
Sample sample_memory(const SortOptions& options, const std::byte* data, size_t bytes,
                     uint32_t places);

}  // namespace penstock::external

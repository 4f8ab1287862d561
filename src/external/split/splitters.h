#pragma once

// The keys at which a distribution cuts, and which bucket a key belongs to: the number of splitters
// that are not greater.
//
// A key that takes more than a bucket's share of the sample gets a bucket of its own: it and its
// successor are both splitters, and the bucket between them is `constant`: all of its keys are
// equal, so that it is never sorted and may be of any size.
//
// Keys are strings of bytes; numbers are classified by their encoded keys alone (as 8 bytes
// big-endian, which order alike).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/cuts.h"

namespace penstock::external {

// Numbers: the least keys of all buckets but the first. `sample` need not be sorted. At most
// `buckets_max` buckets.
std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max);

class StringSplitters {
 public:
  StringSplitters(const record::Format& format, std::vector<std::string> sample,
                  uint32_t buckets_max);

  uint32_t buckets() const { return cuts_.parts(); }
  bool constant(uint32_t bucket) const { return constant_[bucket]; }
  uint32_t classify(std::string_view key) const { return cuts_.part_of(key); }

 private:
  std::vector<bool> constant_ = {false};
  record::Cuts cuts_;
};

}  // namespace penstock::external

#pragma once

// Listing 1 with the parts that the library's planner (src/files/bowtie/planner.h) leaves out: merges
// computed like the example of section V.A, one scan of the input in the runs of A3, and p(k), the
// bytes in k files, for data that shrink or grow on their way (duplicates removed, groups summed).

#include <cstdint>
#include <functional>
#include <vector>

#include "files/bowtie/device_profile.h"

namespace penstock::papers {

using namespace bowtie;

struct MergeRequest {
  uint32_t files = 0;                         // n
  std::function<double(double files)> bytes;  // p(k), k from 1 to n
  uint64_t memory_bytes = 0;
  const DeviceProfile* device = nullptr;
};

// Seconds of merges with these fans, one after the other. REQUIRES: they leave one file.
double merge_seconds(const MergeRequest& request, const std::vector<uint32_t>& fans);

// Fans of the cheapest merges from n files to one, by dynamic programming in O(n^2); among merges
// of the same cost, those whose largest fan is smallest.
std::vector<uint32_t> cheapest_merges(const MergeRequest& request);

}  // namespace penstock::papers

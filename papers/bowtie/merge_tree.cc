#include "papers/bowtie/merge_tree.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "files/bowtie/model.h"

namespace penstock::papers {
namespace {

uint32_t divided_up(uint32_t files, uint32_t by) {
  return (files + by - 1) / by;
}

// Time of one pass over `files` files, `fan` of them at a time.
double pass_seconds(const MergeRequest& request, double files, uint32_t fan) {
  const double bytes = request.bytes(files);
  const double run = run_bytes_a3({.inputs = fan, .memory_bytes = request.memory_bytes});
  return seconds_of({.read_bytes = bytes, .switches = std::max(files, bytes / run)},
                    *request.device, fan, 0);
}

}  // namespace

double merge_seconds(const MergeRequest& request, const std::vector<uint32_t>& fans) {
  uint32_t files = request.files;
  double seconds = 0;
  for (uint32_t fan : fans) {
    seconds += pass_seconds(request, files, fan);
    files = divided_up(files, fan);
  }
  PENSTOCK_CHECK(files == 1, "merges leave one file");
  return seconds;
}

std::vector<uint32_t> cheapest_merges(const MergeRequest& request) {
  // time[f]: seconds from n files to n / f.
  struct Step {
    double seconds = 0;
    uint32_t fan = 1;
    uint32_t largest = 1;
  };
  std::vector<Step> time(request.files + 1);
  for (uint32_t f = 2; f <= request.files; ++f) {
    Step& best = time[f];
    best.seconds = std::numeric_limits<double>::infinity();
    for (uint32_t i = 2; i <= f; ++i) {
      const uint32_t k = divided_up(f, i);
      const double seconds =
          time[k].seconds + pass_seconds(request, static_cast<double>(request.files) / k, i);
      const uint32_t largest = std::max(i, time[k].largest);
      if (seconds < best.seconds * (1 - 1e-9) ||
          (seconds <= best.seconds * (1 + 1e-9) && largest < best.largest))
        best = {seconds, i, largest};
    }
  }
  std::vector<uint32_t> fans;
  for (uint32_t f = request.files; f > 1; f = divided_up(f, fans.back()))
    fans.push_back(time[f].fan);
  std::ranges::reverse(fans);
  return fans;
}

}  // namespace penstock::papers

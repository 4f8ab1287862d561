#pragma once

// In how many passes, and how many streams at a time?
//
// Fixed answers are: always two at a time (few switches, many passes), all at once (one pass, many
// switches), or as few passes as blocks of a fixed size allow (Vitter, STXXL). The best answer
// depends on the device: for 8,000 files, 8 GB of memory and the paper's array, two passes of 90
// and 89 streams run six times as fast as 13 passes of two, and four times as fast as one.
//
// A plan is a tree: merges from n files to i, one bowtie of i inputs and j outputs, distributions
// from j files to m. The cost of a pass follows from equation 1: its bytes, and its switches, which
// are its bytes over the run length of the best schedule (model.h), and at least one for each file.
//
// The merges are found by dynamic programming (listing 1). If time[f] is the cost of going from n
// files to n / f,
//
//   time[f] = min over i of  time[k] + cost of merging i at a time from n / k files to n / f,
//   k = ceil(f / i)
//
// (The listing prints floor; with it the paper's own example, 90 then 89, could not be found: 90 *
// 88 = 7920.) Distributions are the same backwards: time[f] is the cost of going from m / f files
// to m. Listing 2 then tries every (i, j) between them; here both tables are looked up by factor,
// time[n / i] and time[m / j]. (Its line 8 prints dT.time[j], which is right for a table indexed by
// the number of files that a distribution begins with, as section V.A words it.) Many i need the
// same factor f = ceil(n / i); of those only the smallest, ceil(n / f), is reached by f, and it is
// never worse. So the pairs to try are about 4 sqrt(n m), not n m, with the same result.
//
// Costs: exact, O(n^2 + m^2) for the tables. Coarse, factors from a geometric grid only, O(log^2 n
// + log^2 m), followed by a search in the neighbourhood of the result: each factor up and down, and
// pairs of factors with their product kept. It comes within a percent (measured in the test) and
// takes microseconds where the exact one takes seconds.

#include <cstdint>
#include <string>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "files/bowtie/model.h"
#include "penstock/base.h"

namespace penstock::bowtie {

struct PlanRequest {
  uint32_t inputs = 0;   // n; 0: the data are in memory
  uint32_t outputs = 0;  // m; 0: the data go to memory
  double bytes = 0;      // bytes of the inputs, and of every pass
  uint64_t memory_bytes = 0;
  const DeviceProfile* device = nullptr;
  // The least memory of a stream; more streams than fit are not merged at once.
  uint64_t stream_bytes_min = 64 * 1024;
};

enum class Search { exact, coarse };

// One pass over all data: `bowties` bowties of the same kind.
struct Pass {
  enum class Kind { merge, bowtie, distribute } kind = Kind::merge;
  uint32_t fan_in = 0;
  uint32_t fan_out = 0;
  uint64_t bowties = 1;
  uint64_t files_in = 0;
  uint64_t files_out = 0;
  double read_bytes = 0;
  double written_bytes = 0;
  double switches = 0;
  double seconds = 0;
  Schedule schedule;  // algorithm, groups, memory of the sides, run length
};
const char* name_of(Pass::Kind kind);

struct Plan {
  std::vector<Pass> passes;
  double seconds = 0;
  double switches = 0;
  double moved_bytes = 0;             // read and written, in all passes
  double throughput_bytes_per_s = 0;  // input and output over the time
  // The most disk space used beside the input: the files that a pass reads and those that it
  // writes. Files are deleted when the pass that reads them has ended.
  double disk_bytes_max = 0;
  uint64_t combinations = 0;  // number of combinations tried
  // A bowtie of the plan has more streams than the memory holds. Never set by plan_bowtie().
  bool exceeds_memory = false;

  // The factors, as in "90 x 89" or "8 x (3 x 5) x 4"; the bowtie is in parentheses if it lies
  // between merges and distributions.
  std::string factors() const;
};

// Finds the cheapest plan. Fails if no plan fits: the memory holds less than two inputs, or than
// two outputs, at a time.
Result<Plan> plan_bowtie(const PlanRequest& request, Search search = Search::exact);

// The plan with given factors: merges in this order, then the bowtie of the remaining files, then
// distributions in this order, the last one to exactly m.
Plan plan_with_factors(const PlanRequest& request, const std::vector<uint32_t>& merge_factors,
                       const std::vector<uint32_t>& distribution_factors);

// A fixed answer, for comparison.
struct Alternative {
  std::string name;
  Plan plan;
  double over_best = 0;  // seconds, relative to the best plan
};
// The alternatives k = 2; k = n; STXXL's rule, k = n^(1 / passes) for the fewest passes that blocks
// of 2 MiB allow; and, for merges and distributions, STXXL's rule with its own schedule.
std::vector<Alternative> alternatives(const PlanRequest& request, const Plan& best);

}  // namespace penstock::bowtie

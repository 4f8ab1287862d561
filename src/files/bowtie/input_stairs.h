#pragma once

// How much to read of which input, so that two inputs never run empty at once.
//
// Buckets of outputs form their staircase by themselves: the one written last is the smallest, and
// the largest is written next (theorems 1 and 3). Buckets of inputs do not (section III.C). Filled
// alike they run empty alike; then the first to be refilled takes all of the memory, and nothing is
// left for the second: deadlock. They need a preload in the shape of the staircase (theorems 6 and
// 8), and the reader has to maintain it, because real inputs drain unevenly: keys cluster, files
// differ in size, a presorted file drains alone.
//
// The paper maintains it by refilling to "M in total, split equally among the group". That is right
// as long as all inputs drain alike. Three changes make it right for all:
//
// 1. *Levels in time, not in bytes.* The rate at which input i drains is learnt: first from the
//    bytes left in the files (a file twice as large drains twice as fast), then from consumption,
//    with a memory of two times M. A bucket's *horizon* is the number of bytes that the computation
//    will consume from all inputs until this one is empty: its bytes over its share. A group is
//    filled to equal horizons, so that its members run empty together. With equal rates that is the
//    paper's equal split.
//
// 2. *One stair above the highest.* Let r be the shares, D the horizon of a bucket just filled. In
//    the steady state the streams (or groups) that will be refilled next have horizons
//
//      D R_1,  D (R_1 + R_2),  ..          grouped,     with M = D (1 + sum R^2) / 2
//      0,  D r_1,  D (r_1 + r_2),  ..      overlapped,  with M = D (1 - sum r^2) / 2
//
//    in any order, because refilling one with R D bytes needs just the time R D in which the others
//    drain. (All alike, this is equations 8 and 10.) "Fill the memory" does not keep them there: of
//    three overlapped inputs, let the next to be waited for hold d too much. Then the one that is
//    filled gets d too little, sinks to 2 d below its stair by the next turn, the one filled then
//    gets 2 d too much: the error doubles with every turn, until one bucket has all. (This is the
//    divergence that section III.C warns of.) So a bucket is filled to one stair above the highest
//    of the others, not further. The distances between the buckets are what matters, and each is
//    set right when its bucket is filled: after a round all are at most a stair, so that the memory
//    always suffices, and after another round they are exactly a stair. From buckets that are all
//    empty, the staircase stands after one round.
// Inputs that will not run empty in this round or the next (horizon above 3/2 D) stand outside: D
// is computed without them and without the memory that they hold.
//
// 3. *A block for everyone.* INVARIANT: the sum over all inputs of max(bytes, block), of an input
//    that has ended of its bytes alone, is at most the memory. (Where less than a block is left of
//    a file, that takes the block's place.) Draining keeps it, since a bucket that falls below a
//    block still counts as one; ending keeps it; and a read of at most `room()` keeps it. So an
//    empty bucket whose input has not ended always finds room for a block, whatever the others did:
//    no drain, however adversarial, can deadlock the reader. It costs next to nothing, since in a
//    staircase hardly any bucket is below a block.
//
// If one input drains alone (sorted runs), the others' bytes stay where they are and it is refilled
// with the bytes that it freed, in runs as long as its bucket: no byte is read twice. The share of
// inputs that do not drain counts as small but not zero.
//
// Cost of random items: they move the stairs against each other, and a stair is 1 / n^2 of the
// memory high. While that is many items (16 GB and 250 inputs), one or two per cent of the run
// length are lost; with 100 MB and 250 inputs, where the noise is as high as a stair, a tenth.
// Filling to more than one stair, however little, makes it worse, by the doubling above.
//
// Groups that do not divide n: ceil(n / c) groups whose sizes differ by one at most. Only those
// that would run empty within half a step are loaded together; without noise these are the groups.
//
// Costs: a load sorts the horizons, O(n log n); a look at the view is O(n).

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/bowtie.h"

namespace penstock::bowtie {

struct View;

// A bucket to read into.
struct Load {
  uint32_t input = 0;
  uint64_t bytes = 0;
};

// Thread safety: none.
class InputStairs {
 public:
  struct Options {
    uint32_t inputs = 0;
    uint32_t group = 1;         // c_r, of a grouped reader
    bool overlapped = false;    // one input is streamed at a time, as in A3
    uint64_t memory_bytes = 0;  // M_r
    uint64_t block_bytes = 1;
  };
  // REQUIRES: the memory holds a block for each input.
  explicit InputStairs(const Options& options);

  // Learns the rates from the consumption since the last call.
  void note(const View& view);

  // The reads before anything is consumed (theorems 6 and 8).
  std::vector<Load> preload(const View& view);
  // The reads for `input`, which is empty, and for the inputs that are due with it.
  std::vector<Load> load_group(const View& view, uint32_t input);
  // The bytes to add to `input`, which was streamed until another one ran empty.
  uint64_t fill(const View& view, uint32_t input);

  // The most that may be read into `input` without breaking the invariant.
  uint64_t room(const View& view, uint32_t input) const;
  // Bytes that will be consumed from all inputs until this one is empty.
  double horizon(const View& view, uint32_t input) const;

 private:
  // The inputs that form the staircase.
  struct Stairs {
    std::vector<uint32_t> order;  // not ended, not outside; lowest horizon first
    double cycle_bytes = 0;       // D
    uint32_t group = 1;           // inputs in a group
    double groups = 1;
  };
  Stairs stairs(const View& view) const;
  void measure(Stairs& stairs, double memory_bytes) const;
  // The horizon up to which `group` may be filled, given the others.
  double horizon_max(const View& view, std::span<const uint32_t> group,
                     std::span<const uint32_t> others, double cycle_bytes) const;
  // The bytes that an input must be able to hold, at least.
  uint64_t reserve(const View& view, uint32_t input) const;
  // The bytes that `group` may hold in all, its reserves included.
  double free_bytes(const View& view, std::span<const uint32_t> group) const;
  std::vector<Load> share_out(const View& view, std::span<const uint32_t> group, double bytes,
                              double horizon_max) const;

  Options options_;
  std::vector<double> rates_;  // shares of the consumption
  std::vector<uint64_t> consumed_;
  bool primed_ = false;
};

}  // namespace penstock::bowtie

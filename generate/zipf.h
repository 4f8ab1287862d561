#pragma once

// Zipf's law: of `ranks` ranks, rank k (1 is the first) has a probability in proportion to 1 /
// k^exponent.
//
// Inverting the cumulated probabilities would need a table of all ranks. Here the first 16,383
// ranks are drawn exactly from an alias table (one random number, one look-up), and all others
// together are one more entry of it. When that is drawn, a second random number inverts the
// integral of x^-exponent over the rest, rounded to whole ranks. That treats the law as a straight
// line inside each unit interval, which at rank 16,384 errs by s(s+1) / (24 k^2), some 1e-10 of a
// probability.
//
// The item is a function of its random number alone (no rejection), so a generator can compute any
// item. Thread safety: const.

#include <cstdint>
#include <vector>

namespace penstock::generate {

class Zipf {
 public:
  // REQUIRES: exponent >= 0, ranks > 0.
  Zipf(double exponent, uint64_t ranks);

  // Returns a rank in [1, ranks], from a number that is uniform over 64 bits.
  uint64_t rank(uint64_t random) const;

 private:
  struct Entry {
    uint64_t threshold;  // below it: this entry; otherwise the alias
    uint32_t alias;
  };

  uint64_t tail_rank(double unit) const;
  double integral(double x) const;  // integral of x^-exponent, up to a constant
  double inverse(double y) const;   // inverse of integral()
  void build(std::vector<double> weights);

  double exponent_;
  uint64_t ranks_;
  uint64_t head_;          // ranks that have their own entry
  double tail_begin_ = 0;  // integral(head_ + 1/2), integral(ranks_ + 1/2)
  double tail_end_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace penstock::generate

#pragma once

// Keys that make up much of the input: counted, not moved. See heavy_keys.cc.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sorting/scatter/key_order.h"
#include "sorting/sort/kernels/kernels.h"

namespace penstock::sorting {

// Returns the heavy keys of a sample, if their share of all items pays; otherwise nullptr.
// REQUIRES: `sample` contains encoded keys, sorted.
template <class T>
std::unique_ptr<HeavyKeys> find_heavy_keys(std::span<const uint64_t> sample, const KeyOrder& order);

// Use: take_out(), sort the others, put_back(). Thread safety: one thread, which starts others.
template <class T>
class HeavyCounts {
 public:
  // Errors: std::bad_alloc.
  HeavyCounts(std::unique_ptr<HeavyKeys> keys, unsigned threads);
  ~HeavyCounts();

  // Copies all other items to the front of `out`, in order (with several threads: almost), and
  // returns their number. REQUIRES: in == out, or the two do not overlap.
  size_t take_out(const T* in, size_t count, T* out);
  // Merges the counted items into the `others` items at the front, whose number take_out()
  // returned. If those are in order, all items are then. Allocates nothing: until then the heavy
  // items exist as counts only.
  void put_back(T* out, size_t others, const KeyOrder& order) noexcept;

 private:
  struct Worker;
  struct Run {
    T key;  // encoded
    size_t count;
  };

  std::unique_ptr<HeavyKeys> keys_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Run> runs_;  // capacity for all keys
};

}  // namespace penstock::sorting

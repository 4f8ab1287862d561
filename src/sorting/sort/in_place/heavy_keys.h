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

// The heavy ones among the keys of a sample, if they are a share of all that pays; otherwise
// nullptr. REQUIRES: `sample` holds encoded keys, sorted.
template <class T>
std::unique_ptr<HeavyKeys> find_heavy_keys(std::span<const uint64_t> sample, const KeyOrder& order);

// Use: take_out(), sort what is left, put_back().
// Thread safety: one thread, which starts others.
template <class T>
class HeavyCounts {
 public:
  // Errors: std::bad_alloc.
  HeavyCounts(std::unique_ptr<HeavyKeys> keys, unsigned threads);
  ~HeavyCounts();

  // Copies all others to the front of `out`, in order (with several threads: almost), and returns
  // how many they are. REQUIRES: in == out, or the two do not overlap.
  size_t take_out(const T* in, size_t count, T* out);
  // `others` items at the front are in order: now all are. Their number is what take_out() got. Where they
  // are in no order, neither are all. Allocates nothing: until then the heavy items are counts alone.
  void put_back(T* out, size_t others, const KeyOrder& order) noexcept;

 private:
  struct Worker;
  struct Run {
    T key;  // encoded
    size_t count;
  };

  std::unique_ptr<HeavyKeys> keys_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Run> runs_;  // with room for all keys
};

}  // namespace penstock::sorting

#pragma once

// Inputs for sorts: every distribution that the sorting literature names, for every format.
//
// Item i is a function of the options and of i alone, so blocks of items can be made in any order
// and by any number of threads, and a run can be resumed: fill(0, n) equals fill(0, k) and fill(k,
// n - k). The README of this folder defines the distributions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "generate/zipf.h"
#include "items/format.h"
#include "penstock/base.h"

namespace penstock::generate {

enum class Distribution {
  uniform,
  sorted,
  reverse,
  all_equal,
  almost_sorted,
  sorted_tail,
  rootdup,
  twodup,
  eightdup,
  zipf,
  exponential,
  bexp,
  low_bits_only,
  high_bit_zero,
  one_bucket,
  nan_mix,        // f32, f64
  common_prefix,  // lines
  empty_heavy     // lines
};

Result<Distribution> parse_distribution(std::string_view name);  // "almost-sorted"
std::string_view name_of(Distribution distribution);
// Distributions of a format, for suites that run them all.
std::span<const Distribution> distributions_of(items::Type type);

struct GeneratorOptions {
  items::Format format;
  Distribution distribution = Distribution::uniform;
  uint64_t count = 0;  // items of the whole input, on which sorted and duplicated items depend
  uint64_t seed = 1;
  double t = 100;            // bexp: a bit is zero with probability 1 / t
  double zipf_exponent = 1;  // zipf
  // Sort Benchmark records (format record) only:
  bool ascii = false;  // the ASCII kind instead of the binary one
  uint64_t start = 0;  // the number of the first record
  std::optional<double>
      skew;  // draws the key's first eight bytes from Zipf's law with this exponent
};

// Thread safety: const members from any thread.
class Generator {
 public:
  // Refuses distributions that the format does not have.
  static Result<Generator> open(const GeneratorOptions& options);

  const GeneratorOptions& options() const { return options_; }
  // Bytes of an item; for lines, of the longest one.
  size_t item_bytes_max() const;
  // Bytes of all items together: exact for fixed formats, for lines an estimate from a sample.
  uint64_t total_bytes() const;
  // Makes items [first, first + count) and returns the bytes written, at most count *
  // item_bytes_max(). REQUIRES: first + count <= options().count.
  size_t fill(uint64_t first, uint64_t count, std::byte* out) const;

 private:
  explicit Generator(const GeneratorOptions& options);

  uint64_t random(uint64_t index) const;
  void fill_words(uint64_t first, std::span<uint64_t> words) const;
  void fill_numbers(uint64_t first, uint64_t count, std::byte* out) const;
  void fill_records(uint64_t first, uint64_t count, std::byte* out) const;
  size_t fill_lines(uint64_t first, uint64_t count, std::byte* out) const;
  size_t write_line(uint64_t index, char* out) const;
  void replace_keys(uint64_t first, uint64_t count, std::byte* records) const;
  uint64_t sorted_key(uint64_t index) const;
  uint64_t swapped(uint64_t index) const;
  uint64_t bits_with_zeros(uint64_t index) const;

  GeneratorOptions options_;
  items::Type number_ =
      items::Type::u64;     // the numeric type whose words are made (u64 for records)
  unsigned width_ = 64;     // bits of a number
  uint64_t key_first_ = 0;  // sorted: keys (as codec.h makes them) lie in [key_first_, key_last_]
  uint64_t key_last_ = ~uint64_t{0};
  uint64_t key_step_ = 0;       // between neighbours of a sorted sequence; 0: more items than keys
  uint64_t keys_per_item_ = 0;  // used if key_step_ is 0: as a fraction of 2^64
  uint64_t root_ = 0;           // floor(sqrt(count))
  uint64_t seed_state_ = 0;
  std::optional<Zipf> zipf_;
};

}  // namespace penstock::generate

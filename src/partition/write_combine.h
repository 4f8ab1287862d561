#pragma once

// The inner loop of every partition: items go to the ends of many arrays by their bucket number.
// See write_combine_kernel.h for how.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

#include "penstock/item.h"
#include "penstock/partition.h"

namespace penstock::partition_internal {

// A bucket function made ready for the kernels. `kind` says which of the fields mean something.
struct BucketFunction {
  enum class Kind : uint8_t { low_bits, top_bits, bit_field, range, hash, splitters };
  Kind kind = Kind::low_bits;
  uint32_t buckets = 1;
  uint64_t mask = 0;    // low_bits, bit_field
  unsigned shift = 0;   // top_bits, bit_field, hash; range: to the right
  unsigned up = 0;      // range: to the left
  uint64_t base = 0;    // bit_field; range: first; hash: seed
  uint64_t last = 0;    // range; splitters: the greatest number
  uint64_t scale = 0;   // range
  unsigned levels = 0;  // splitters: of an implicit tree of 2^levels - 1 nodes, root at 1
  std::shared_ptr<const uint64_t[]> tree64;
  std::shared_ptr<const uint32_t[]> tree32;  // the same for keys of 32 bits
};
// `key_bits`: of the type. Errors: invalid_argument.
Result<BucketFunction> make_bucket_function(const PartitionBy& by, unsigned key_bits,
                                            const std::string& name);

// Where full lines go. The kernel asks whenever a bucket's address is a multiple of unit_bytes;
// otherwise the line goes to the address behind the one before it.
struct Destination {
  // Returns where `line` is to go: a multiple of the line. `at` is the end of the line before it,
  // or nullptr at the first.
  using Place = std::byte* (*)(void* self, uint32_t bucket, std::byte* at, const std::byte* line);
  Place place = nullptr;
  void* self = nullptr;
  uintptr_t unit_bytes = 0;  // a power of two; 0: never ask
};

// What a kernel works on.
struct CombineState {
  uint32_t* at = nullptr;    // per bucket: its next item, as an offset into `lines`
  std::byte** to = nullptr;  // per bucket: where its next line goes
  std::byte* lines = nullptr;
  uintptr_t unit_mask = 0;
  Destination::Place place = nullptr;
  void* self = nullptr;
};

enum class LineBytes : uint16_t { small = 256, large = 1024 };

template <class T>
using Combine = void (*)(const T* items, size_t count, const BucketFunction& function,
                         CombineState& state);
// The best for this processor.
template <class T>
Combine<T> combine_kernel(BucketFunction::Kind kind, LineBytes line_bytes);

// One thread's lines. Thread safety: none.
template <class T>
class WriteCombiner {
 public:
  // REQUIRES: the function outlives it.
  WriteCombiner(const BucketFunction& function, LineBytes line_bytes,
                const Destination& destination)
      : function_(function),
        combine_(combine_kernel<T>(function.kind, line_bytes)),
        line_bytes_(static_cast<size_t>(line_bytes)),
        at_(std::make_unique<uint32_t[]>(function.buckets)),
        to_(std::make_unique<std::byte*[]>(function.buckets)),
        lines_(new(std::align_val_t{4096}) std::byte[function.buckets * line_bytes_]) {
    for (uint32_t j = 0; j < function.buckets; ++j) at_[j] = static_cast<uint32_t>(j * line_bytes_);
    state_ = {.at = at_.get(),
              .to = to_.get(),
              .lines = lines_.get(),
              .unit_mask = destination.unit_bytes - 1,
              .place = destination.place,
              .self = destination.self};
  }

  // Bucket `bucket` begins at `address`, a multiple of the line. Without it the destination is
  // asked.
  void begin(uint32_t bucket, std::byte* address) { to_[bucket] = address; }

  void add(const T* items, size_t count) { combine_(items, count, function_, state_); }

  // What the line still holds, and where it would go: the end of what was written; may be nullptr,
  // or a multiple of unit_bytes, when the destination was not asked yet.
  std::span<const std::byte> rest(uint32_t bucket) const {
    return {lines_.get() + bucket * line_bytes_, at_[bucket] - bucket * line_bytes_};
  }
  std::byte* written(uint32_t bucket) const { return to_[bucket]; }
  size_t line_bytes() const { return line_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* lines) const { operator delete[](lines, std::align_val_t{4096}); }
  };

  const BucketFunction& function_;
  const Combine<T> combine_;
  const size_t line_bytes_;
  std::unique_ptr<uint32_t[]> at_;
  std::unique_ptr<std::byte*[]> to_;
  std::unique_ptr<std::byte[], Free> lines_;
  CombineState state_;
};

// Non-temporal stores of this thread are in memory before anybody hears of them.
void finish_stores();

}  // namespace penstock::partition_internal

#pragma once

// One pass of distribution to growing arrays, by way of a line for each in the cache; how and why
// is told in kernels_impl.h.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/bits.h"
#include "sort/kernels.h"

namespace penstock::sorting {

// Thread safety: one thread.
template <class T>
class LineScatter {
 public:
  static constexpr size_t line_bytes = Lines<T>::line_bytes;
  using Destination = typename Lines<T>::Destination;

  static size_t bytes_needed(uint32_t arrays) {
    return arrays * (line_bytes + sizeof(uint32_t) + sizeof(Destination));
  }

  explicit LineScatter(uint32_t arrays)
      : storage_(new(std::align_val_t{4096}) std::byte[arrays * line_bytes]),
        at_(std::make_unique<uint32_t[]>(arrays)),
        destinations_(std::make_unique<Destination[]>(arrays)) {
    lines_ = {.lines = storage_.get(),
              .at = at_.get(),
              .destinations = destinations_.get(),
              .aligned = true,
              .make_room = nullptr,
              .self = nullptr};
    for (uint32_t j = 0; j < arrays; ++j) at_[j] = static_cast<uint32_t>(j * line_bytes);
  }

  // Arrays without a begin(), and those that have come to their limit, ask for room.
  void ask_for_room(void (*make_room)(void*, uint32_t, Destination&), void* self) {
    lines_.make_room = make_room;
    lines_.self = self;
  }
  // Destinations are not multiples of 64 bytes.
  void expect_unaligned() { lines_.aligned = false; }

  // The array continues at `address`, and has room without limit. Lines are written whole: what
  // stands before `address` in its line is rewritten as it is.
  void begin(uint32_t array, T* address) {
    auto* at = reinterpret_cast<std::byte*>(address);
    std::byte* line = round_down(at, line_bytes);
    auto before = static_cast<size_t>(at - line);
    if (before != 0) std::memcpy(storage_.get() + array * line_bytes, line, before);
    at_[array] = static_cast<uint32_t>(array * line_bytes + before);
    destinations_[array] = {reinterpret_cast<T*>(line), nullptr};
  }

  // `ahead`: what will be added next; it is fetched into the cache.
  void add(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
           const T* ahead) {
    kernels_.scatter_lines(items, count, map, order, lines_, ahead);
  }

  // Where the next item would be, once written.
  T* end(uint32_t array) const { return destinations_[array].next + line_items(array); }
  // Room left behind the full lines.
  size_t room(uint32_t array) const {
    return static_cast<size_t>(destinations_[array].limit - destinations_[array].next);
  }
  // Items that are in the line only.
  size_t line_items(uint32_t array) const { return (at_[array] - array * line_bytes) / sizeof(T); }

  // Writes what the line still holds; end() is then true memory.
  void flush(uint32_t array) {
    size_t bytes = at_[array] - array * line_bytes;
    if (bytes == 0) return;
    Destination& destination = destinations_[array];
    if (destination.next == destination.limit) lines_.make_room(lines_.self, array, destination);
    std::memcpy(destination.next, storage_.get() + array * line_bytes, bytes);
  }

  // After the last flush(): stores that went around the cache are in memory before another thread
  // hears of them.
  static void finish() {
#if defined(__x86_64__)
    _mm_sfence();
#endif
  }

 private:
  struct Free {
    void operator()(std::byte* lines) const { operator delete[](lines, std::align_val_t{4096}); }
  };

  const Kernels<T>& kernels_ = kernels<T>();
  std::unique_ptr<std::byte[], Free> storage_;
  std::unique_ptr<uint32_t[]> at_;
  std::unique_ptr<Destination[]> destinations_;
  Lines<T> lines_;
};

}  // namespace penstock::sorting

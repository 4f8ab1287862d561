#pragma once

// One pass of distribution: items go to up to 2^10 growing arrays by the next bits of their key.
//
// The naive loop stores each item at the end of its array: a cache line read, changed and written
// back for a few items, from as many pages as there are arrays. Here items gather in one line of
// 256 bytes per array, which stays in the cache; a full line goes to memory at once with
// non-temporal stores, which do not read what they replace. The only state of an array is the
// address of its next item: its low bits are the fill of the line, so one counter serves both and
// the branch "line full" is taken once in line_items.
//
// A full line is written to an aligned address. An array may begin in the middle of a line, behind
// items that belong to somebody else: begin() copies these into the line, so that the flush
// rewrites them as they were.
//
// The arrays are plain pointers into a BucketStream: the store into a new block faults and the
// block appears.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/bits.h"
#include "sort/item.h"

namespace penstock::sort {

template <class T>
class Scatter {
 public:
  static constexpr size_t line_bytes = 256;
  static constexpr size_t line_items = line_bytes / sizeof(T);
  static constexpr uint32_t arrays_max = 1024;

  explicit Scatter(uint32_t arrays)
      : next_(std::make_unique<T*[]>(arrays)), lines_(new(std::align_val_t{64}) Line[arrays]) {}

  // Array `array` continues at `address`, whose line is readable down to its aligned start (or
  // starts there).
  void begin(uint32_t array, T* address) {
    next_[array] = address;
    std::byte* line = line_start(address);
    size_t before = static_cast<size_t>(reinterpret_cast<std::byte*>(address) - line);
    if (before != 0) std::memcpy(&lines_[array], line, before);
  }

  // REQUIRES: (key - base) >> shift is below the number of arrays begun, for every item.
  void add(const T* first, const T* last, uint64_t base, unsigned shift) {
    T** next = next_.get();
    Line* lines = lines_.get();
    for (const T* item = first; item < last; ++item) {
      size_t array = static_cast<size_t>((key_of(*item) - base) >> shift);
      T* address = next[array];
      size_t place = (reinterpret_cast<uintptr_t>(address) / sizeof(T)) % line_items;
      lines[array].items[place] = *item;
      next[array] = address + 1;
      if (place == line_items - 1) [[unlikely]]
        flush_line(address + 1 - line_items, lines[array]);
    }
  }

  // Writes what the lines still hold; end(array) is then true memory.
  void flush(uint32_t arrays) {
    for (uint32_t array = 0; array < arrays; ++array) {
      T* end = next_[array];
      std::byte* line = line_start(end);
      size_t bytes = static_cast<size_t>(reinterpret_cast<std::byte*>(end) - line);
      if (bytes != 0) std::memcpy(line, &lines_[array], bytes);
    }
#if defined(__x86_64__)
    _mm_sfence();  // non-temporal stores are in memory before anybody else hears of them
#endif
  }

  T* end(uint32_t array) const { return next_[array]; }

 private:
  struct alignas(64) Line {
    T items[line_items];
  };
  struct FreeLines {
    void operator()(Line* lines) const { operator delete[](lines, std::align_val_t{64}); }
  };

  static std::byte* line_start(T* address) {
    return round_down(reinterpret_cast<std::byte*>(address), line_bytes);
  }

  static void flush_line(T* to, const Line& line) {
#if defined(__x86_64__)
    auto* target = reinterpret_cast<__m128i*>(to);
    const auto* source = reinterpret_cast<const __m128i*>(&line);
    for (size_t i = 0; i < line_bytes / sizeof(__m128i); ++i) {
      _mm_stream_si128(target + i, _mm_load_si128(source + i));
    }
#else
    std::memcpy(to, &line, line_bytes);
#endif
  }

  std::unique_ptr<T*[]> next_;
  std::unique_ptr<Line[], FreeLines> lines_;
};

}  // namespace penstock::sort
